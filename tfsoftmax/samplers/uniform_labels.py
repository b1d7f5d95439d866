"""Label smoothing by drawn words, for distributions that never compute all words in training.

Smoothed labels give mass 1 - ε to the label y and ε / V to each of V words:

    loss_i = (1 - ε) nats(y_i) + ε / V Σ_w nats(w),    nats(w) = -ln P(w | h_i).

The sum is estimated without bias: n = ⌈ε N⌉ of N positions, drawn without replacement, each have
one uniformly drawn word u_i as a second label, which the loss counts with weight ε N / n:

    estimate of loss_i = (1 - ε) nats(y_i) + ε N / n nats(u_i) if i was drawn, else the first term.

Shapes: N positions, n of them drawn, D hidden units.
"""

import typing

import tensorflow as tf

from tfsoftmax.samplers.random import split_seed, uniform, uniform_words


class UniformLabels(typing.NamedTuple):
    """The second labels of a step.

    Attributes:
        positions: (n,) int32, the drawn positions.
        words: (n,) int32, the drawn word of each.
        each: scalar float32, N / n.

    Example:
        import tensorflow as tf
        from tfsoftmax.samplers.uniform_labels import UniformLabels
        more = UniformLabels.drawn(8, 0.25, vocab_size=1000, seed=tf.constant([1, 2]))
        print(more.positions, more.words, more.each)  # of two positions; 4.0
    """

    positions: tf.Tensor
    words: tf.Tensor
    each: tf.Tensor

    @classmethod
    def drawn(cls, count, smoothing, vocab_size, seed):
        """Second labels for `count` positions, with a stateless seed (2,)."""
        of_positions, of_words = split_seed(seed, 2)
        drawn = tf.cast(tf.math.ceil(smoothing * tf.cast(count, tf.float32)), tf.int32)
        positions = tf.argsort(uniform([count], of_positions))[:drawn]
        words = uniform_words(drawn, vocab_size, of_words)
        return cls(positions, words, tf.cast(count / tf.maximum(drawn, 1), tf.float32))

    def joined(self, hidden, labels):
        """Hidden states (N + n, D) and labels (N + n,): all positions, then the drawn ones."""
        hidden = tf.concat([hidden, tf.gather(hidden, self.positions)], 0)
        return hidden, tf.concat([labels, tf.cast(self.words, labels.dtype)], 0)

    def weights(self, weights, smoothing):
        """The weights (N + n,) with which the loss counts the joined positions."""
        drawn = smoothing * self.each * tf.gather(weights, self.positions)
        return tf.concat([(1 - smoothing) * weights, drawn], 0)

    def smoothed(self, nats, smoothing):
        """The estimate (N,) of the loss of each position from nats (N + n,)."""
        count = tf.shape(nats)[0] - tf.size(self.positions)
        drawn = smoothing * self.each * nats[count:]
        return tf.tensor_scatter_nd_add(
            (1 - smoothing) * nats[:count], self.positions[:, None], drawn
        )
