"""Rows that a head updates itself, by gradient descent whose cost does not depend on V."""

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.distributions.base import Objective
from tfsoftmax.ops.custom_gradients import custom_gradient
from tfsoftmax.ops.logits import with_one
from tfsoftmax.survey.descent import descend, second_moments
from tfsoftmax.survey.spherical_distribution import FactoredSpherical, label_slopes, sums


class FactoredRows(keras.layers.Layer):
    """Kernel and biases Ŵ (V, D + 1) as A U, with their second moments Q.

    An objective makes the step in the backward pass, where the weight of each position is known.
    `rows`, `mixer` and `moments` belong together. Do not assign one of them; call `assign`.
    The optimiser has one weight of this layer, a scalar whose gradient is zero: without a weight,
    a model of fixed hidden states would have no backward pass.

    Args:
        learning_rate: η, a float or a `keras.optimizers.schedules.LearningRateSchedule`.
        biases: whether the last column is trained too.
        start: function of no arguments that returns Ŵ at the start, (V, D + 1).

    Example:
        import tensorflow as tf
        from tfsoftmax.survey.factored_rows import FactoredRows
        rows = FactoredRows(0.1, True, lambda: tf.ones((1000, 17)))
        rows.build()
    """

    def __init__(self, learning_rate, biases, start):
        super().__init__(name="factored_rows")
        self.learning_rate, self.biases, self._start = learning_rate, biases, start

    def build(self):
        with tf.init_scope():  # Keras may build the layer within a graph that it throws away
            start = tf.cast(self._start(), tf.float32)
        size = start.shape[1]
        options = {"dtype": "float32", "trainable": False, "autocast": False}
        self.rows = self.add_weight(
            name="rows", shape=start.shape, initializer=lambda *_, **__: start, **options
        )
        self.mixer = self.add_weight(
            name="mixer", shape=(size, size), initializer="identity", **options
        )
        self.moments = self.add_weight(
            name="moments", shape=(size, size), initializer=lambda *_, **__: _moments(start),
            **options,
        )
        self.steps = self.add_weight(
            name="steps", shape=(), initializer="zeros", dtype="int64", trainable=False,
        )
        self.trigger = self.add_weight(
            name="trigger", shape=(), initializer="zeros", dtype="float32", autocast=False
        )
        self.built = True

    def assign(self, rows):
        """Makes these the rows Ŵ (V, D + 1)."""
        rows = tf.cast(rows, tf.float32)
        self.rows.assign(rows)
        self.mixer.assign(tf.eye(rows.shape[1]))
        self.moments.assign(_moments(rows))

    def stepping(self, distribution: FactoredSpherical) -> Objective:
        """The cross-entropy of the rows, whose gradient makes a step of its weighted sum."""
        return _Stepping(self, distribution)

    def step(
        self, hidden: tf.Tensor, labels: tf.Tensor, upstream: tf.Tensor, epsilon: float
    ) -> None:
        """Makes a step on Σ upstream · nats: (N, D + 1) ĥ, (N,) labels, (N,) and ε."""
        rows, mixer, moments = (v.value for v in (self.rows, self.mixer, self.moments))
        own = tf.matmul(tf.gather(rows, labels), mixer)
        scores = tf.reduce_sum(own * hidden, axis=1)
        totals, _ = sums(hidden, moments, epsilon, rows.shape[0])
        trained = np.ones(hidden.shape[1], np.float32)
        trained[-1] = self.biases
        descend(
            rows, mixer, moments, hidden, labels, 2 * upstream / totals,
            upstream * label_slopes(scores, epsilon), self._rate(), trained,
        )
        self.steps.assign_add(1)

    def _rate(self):
        rate = self.learning_rate
        return tf.cast(rate(self.steps.value) if callable(rate) else rate, tf.float32)


def _moments(rows):
    return second_moments(lambda ids: tf.gather(rows, ids), *rows.shape)


class _Stepping(Objective):
    """What `FactoredRows.stepping` returns."""

    are_exact = True

    def __init__(self, factors, distribution):
        self.factors, self.distribution = factors, distribution

    def nats(self, hidden, labels):
        nats, factors = self.distribution.nats(hidden, labels), self.factors
        if not factors.trainable:
            return nats
        points, epsilon = tf.stop_gradient(with_one(hidden)), self.distribution.epsilon

        @custom_gradient
        def identity(trigger, nats):
            def gradient(upstream):
                factors.step(points, labels, upstream, epsilon)
                return tf.zeros_like(trigger), upstream

            return tf.identity(nats), gradient

        return identity(tf.convert_to_tensor(factors.trigger.value), nats)
