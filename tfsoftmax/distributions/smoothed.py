"""Label smoothing by drawn words, for distributions that never compute all words in training.

Smoothed labels give mass 1 - ε to the label y and ε / V to each of V words:

    loss_i = (1 - ε) nats(y_i) + ε / V Σ_w nats(w),    nats(w) = -ln P(w | h_i).

The sum is estimated without bias: n = ⌈ε N⌉ of N positions, drawn without replacement, each have
one uniformly drawn word u_i as a second label, which the loss counts with weight ε N / n:

    estimate of loss_i = (1 - ε) nats(y_i) + ε N / n nats(u_i) if i was drawn, else the first term.

Shapes: N positions, n of them drawn, D hidden units.
"""

import dataclasses
import typing

import tensorflow as tf

from tfsoftmax.distributions.base import Distribution, Objective
from tfsoftmax.ops.random import split_seed, uniform, uniform_words


class _SecondLabels(typing.NamedTuple):
    """The drawn positions (n,) int32, the word (n,) int32 of each, and N / n."""

    positions: tf.Tensor
    words: tf.Tensor
    each: tf.Tensor


@dataclasses.dataclass(frozen=True)
class SmoothedByDraws(Objective):
    """The cross-entropy with smoothed labels, estimated from second labels that are drawn.

    Attributes:
        distribution: a `Distribution`.
        smoothing: ε in (0, 1).
        seed: (2,) integers, a stateless seed.

    Example:
        from tfsoftmax.distributions.smoothed import SmoothedByDraws
        rows = tfsoftmax.distributions.rows.Rows(keras.random.normal((1000, 64)))
        objective = SmoothedByDraws(rows, 0.1, keras.ops.array([1, 2]))
    """

    distribution: Distribution
    smoothing: float
    seed: tf.Tensor

    def nats(self, hidden, labels):
        more = self._second_labels(labels)
        nats = self.distribution.nats(*_joined(hidden, labels, more))
        count = tf.size(labels)
        drawn = self.smoothing * more.each * nats[count:]
        return tf.tensor_scatter_nd_add(
            (1 - self.smoothing) * nats[:count], more.positions[:, None], drawn
        )

    def weighted_nats(self, hidden, labels, weights):
        more = self._second_labels(labels)
        drawn = self.smoothing * more.each * tf.gather(weights, more.positions)
        weights = tf.concat([(1 - self.smoothing) * weights, drawn], 0)
        total, nats = self.distribution.weighted_nats(*_joined(hidden, labels, more), weights)
        return total, nats[: tf.size(labels)]

    def _second_labels(self, labels):
        of_positions, of_words = split_seed(self.seed, 2)
        count = tf.shape(labels)[0]
        drawn = tf.cast(tf.math.ceil(self.smoothing * tf.cast(count, tf.float32)), tf.int32)
        positions = tf.argsort(uniform([count], of_positions))[:drawn]
        words = uniform_words(drawn, self.distribution.vocab_size, of_words)
        each = tf.cast(count / tf.maximum(drawn, 1), tf.float32)
        return _SecondLabels(positions, tf.cast(words, labels.dtype), each)


def _joined(hidden, labels, more):
    """Hidden states (N + n, D) and labels (N + n,): all positions, then the drawn ones."""
    hidden = tf.concat([hidden, tf.gather(hidden, more.positions)], 0)
    return hidden, tf.concat([labels, more.words], 0)
