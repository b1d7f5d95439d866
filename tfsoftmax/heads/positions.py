"""How methods of rows (N, D) become methods of positions (...), of which some need not count."""

import tensorflow as tf

from tfsoftmax.heads.inputs import (
    checked_exclude,
    checked_hidden,
    checked_k,
    checked_labels,
    checked_weights,
    flatten,
    refuse_xla,
    restore,
)
from tfsoftmax.ops.ranking import found, given
from tfsoftmax.ops.weighting import Counted


class Positions:
    """Mixin for `SoftmaxHead`: checks what users pass, and calls methods of rows with it.

    Example:
        head = tfsoftmax.HEADS["full"](1000)
        hidden, labels = keras.random.normal((2, 5, 64)), keras.random.randint((2, 5), 0, 1000)
        assert isinstance(head, tfsoftmax.heads.positions.Positions)
        assert head.log_prob(hidden, labels).shape == (2, 5)
    """

    no_label = 0  # for the training of a replica, where a position does not count

    def _run(self, method, *tensors, wide=False):
        """`method(*tensors)`, which a head in shards has to call in all replicas.

        `wide` says that the result has V columns.
        """
        return method(*tensors)

    def _listed(self, search, hidden, k, exclude):
        """The list `search(rows, k)`, or `search(rows, k, excluded)`, of each position."""
        k, hidden = checked_k(k, self.vocab_size), self._as_hidden(hidden)
        rows, leading = flatten(hidden)
        lists = search(rows, k, *given(self._excluded(exclude, hidden)))
        return tuple(restore(each, leading, k) for each in found(*lists))

    def _excluded(self, exclude, hidden):
        """The words that each position's list leaves out, (N, E), or None."""
        return checked_exclude(exclude, hidden, self.vocab_size)

    def _as_hidden(self, hidden):
        if not self.supports_jit:
            refuse_xla(f"{type(self).__name__} cannot be compiled by XLA as it is configured "
                       "(`supports_jit` is False)")
        hidden = checked_hidden(hidden, self.input_spec and self.input_spec.axes[-1])
        if not self.built:
            self.build(hidden.shape)
        return tf.cast(hidden, self.compute_dtype)

    def _by_row(self, method, hidden):
        rows, leading = flatten(self._as_hidden(hidden))
        return restore(self._run(method, rows), leading)

    def _weighted(self, method, hidden, labels, weights, *more):
        """The sum and the nats of a `weighted_nats`, where nats are NaN if the weight is zero."""
        hidden = self._as_hidden(hidden)
        labels, validity = checked_labels(labels, self.vocab_size, hidden)
        rows, leading = flatten(hidden)
        weights = tf.reshape(checked_weights(weights, validity.shape) * validity, [-1])
        counted = Counted(weights != 0)
        weights = tf.where(counted.mask, weights, 0.0)  # whose gradients are zero under XLA, too
        total, nats = method(
            *_counted_rows(counted, rows, labels, self.no_label), counted.taken(weights),
            *[counted.taken(flatten(each)[0]) for each in more],
        )
        if nats is not None:
            nats = restore(counted.restored(nats, float("nan")), leading) * validity
        return total, nats

    def _trained_by_position(self, hidden, labels, *more, mask):
        return self._by_position(
            self._training_loss, hidden, labels, *more, mask=mask, no_label=self.no_label
        )

    def _by_position(self, method, hidden, labels, *more, mask=None, no_label=0):
        hidden = self._as_hidden(hidden)
        labels, validity = checked_labels(labels, self.vocab_size, hidden)
        rows, leading = flatten(hidden)
        more = [flatten(each)[0] for each in more]
        if mask is None:
            results = self._run(method, rows, tf.reshape(labels, [-1]), *more)
            return restore(results, leading) * validity
        mask = checked_weights(mask, validity.shape, "mask") * tf.ones_like(validity)
        counted = Counted(tf.reshape(mask != 0, [-1]))
        results = self._run(
            method, *_counted_rows(counted, rows, labels, no_label), *map(counted.taken, more)
        )
        return restore(counted.restored(results, 0.0), leading) * validity


def _counted_rows(counted, rows, labels, no_label):
    """Hidden states (n, D) and labels (n,) of the positions that count."""
    return counted.taken_hidden(rows), counted.taken_labels(tf.reshape(labels, [-1]), no_label)
