"""Weights of positions: where a weight is zero nothing is computed, and no NaN has a part.

Shapes: N positions, n of them that count.
"""

import tensorflow as tf

from tfsoftmax.ops.custom_gradients import custom_gradient
from tfsoftmax.ops.replicas import in_replica
from tfsoftmax.ops.subsets import places_where


def weighted(nats, weights):
    """weights · nats, (...) float32 each: zero where the weight is."""
    return tf.math.multiply_no_nan(nats, weights)


def weighted_sum(nats, weights):
    """Σ weights · nats, a scalar."""
    return tf.reduce_sum(weighted(nats, weights))


class Counted:
    """The positions that count, which alone are computed.

    XLA fixes the number of positions, so that all are computed there. A replica of several computes
    one at least, since a collective of nothing ends the process.

    Args:
        mask: (N,) bool, which positions count.

    Example:
        counted = tfsoftmax.ops.weighting.Counted(keras.ops.array([True, False, True]))
        print(counted.taken(keras.ops.array([5.0, 6.0, 7.0])))  # 5 and 7
        print(counted.restored(keras.ops.array([5.0, 7.0]), 0.0))  # 5, 0 and 7
    """

    def __init__(self, mask: tf.Tensor):
        self.mask, self.places = mask, places_where(mask)
        if self.places is None:
            return
        if in_replica():
            first, places = tf.range(tf.minimum(tf.size(mask, tf.int64), 1)), self.places
            self.places = tf.cond(tf.size(places) > 0, lambda: places, lambda: first)
        self._are_all = tf.equal(tf.size(self.places), tf.size(mask))

    @property
    def may_hold_others(self) -> bool:
        """Whether positions that do not count may be computed all the same."""
        return self.places is None or in_replica()

    def taken(self, tensor: tf.Tensor) -> tf.Tensor:
        """The rows (n, ...) of a tensor (N, ...)."""
        return tensor if self.places is None else self._differentiable(self._gather, tensor)

    def taken_hidden(self, hidden: tf.Tensor) -> tf.Tensor:
        """Hidden states (n, D) of (N, D). Those of positions that do not count are finite."""
        hidden = self.taken(hidden)
        if not self.may_hold_others:
            return hidden
        broken = ~self.taken(self.mask) & ~tf.reduce_all(tf.math.is_finite(hidden), axis=-1)
        return tf.where(broken[:, None], tf.zeros_like(hidden), hidden)

    def taken_labels(self, labels: tf.Tensor, none: int) -> tf.Tensor:
        """Labels (n,) of (N,). One whose position does not count is `none`."""
        labels = self.taken(labels)
        return tf.where(self.taken(self.mask), labels, none) if self.may_hold_others else labels

    def restored(self, values: tf.Tensor, fill: float) -> tf.Tensor:
        """Values (N,) of (n,), with `fill` at the positions that do not count."""
        if self.places is not None:
            values = self._differentiable(self._scatter, values)
        return tf.where(self.mask, values, fill)

    def _gather(self, tensor):
        if tensor.shape.rank == 1:  # numbers take less time than a branch
            return tf.gather(tensor, self.places)
        gathered = tf.cond(self._are_all, lambda: tensor, lambda: tf.gather(tensor, self.places))
        gathered.set_shape([None, *tensor.shape[1:]])
        return gathered

    def _scatter(self, tensor):
        def scattered():
            shape = tf.concat([tf.shape(self.mask, tf.int64), tf.shape(tensor, tf.int64)[1:]], 0)
            return tf.scatter_nd(self.places[:, None], tensor, shape)

        if tensor.shape.rank == 1:
            return scattered()
        return tf.cond(self._are_all, lambda: tensor, scattered)

    def _differentiable(self, function, tensor):
        """Of gathering and scattering, each is the gradient of the other."""
        other = self._scatter if function == self._gather else self._gather
        if not tensor.dtype.is_floating:
            return function(tensor)
        return custom_gradient(lambda tensor: (function(tensor), other))(tensor)
