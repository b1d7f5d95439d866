"""What every head computes with: a distribution over V words given h, and an objective.

A head builds weights. From them it makes a `Distribution`, which says everything about P(w | h),
and, if it is not trained by the exact cross-entropy, an `Objective`.

Shapes: N positions, D hidden units, V words. All results are float32, all losses are in nats.
"""

from collections.abc import Callable

import tensorflow as tf

from tfsoftmax.ops.custom_gradients import immediate_gradient, recomputed_gradient
from tfsoftmax.ops.logits import map_row_chunks, top_k_of
from tfsoftmax.ops.weighting import weighted_sum


class Objective:
    """What training minimises at each position.

    | method                                   | result                                           |
    |------------------------------------------|--------------------------------------------------|
    | `nats(hidden, labels)`                   | (N,), differentiable                             |
    | `weighted_nats(hidden, labels, weights)` | Σ weights · nats, differentiable; and the exact  |
    |                                          | cross-entropies (N,) without a gradient, or None |

    A subclass writes `nats`, and says whether its losses `are_exact`. `hidden` is (N, D) float,
    labels are (N,) int32 in [0, V), weights are (N,) float32. What else a loss reads at each
    position follows as further tensors (N, ...).

    Example:
        class Hinge(tfsoftmax.distributions.base.Objective):
            def __init__(self, distribution):
                self.distribution = distribution

            def nats(self, hidden, labels):
                return keras.ops.relu(self.distribution.nats(hidden, labels) - 1)
    """

    are_exact = False  # whether the losses are the exact cross-entropies

    def nats(self, hidden: tf.Tensor, labels: tf.Tensor, *more: tf.Tensor) -> tf.Tensor:
        """The loss of each position, (N,)."""
        raise NotImplementedError

    def weighted_nats(
        self, hidden: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor, *more: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor | None]:
        """Σ weights · nats, and the exact cross-entropies (N,) or None."""
        nats = self.nats(hidden, labels, *more)
        return weighted_sum(nats, weights), tf.stop_gradient(nats) if self.are_exact else None


class NatsOf(Objective):
    """An objective that is given as a function.

    Args:
        nats: a function of hidden states (N, D), labels (N,) and what else is read of each
            position, to losses (N,).

    Example:
        from tfsoftmax.distributions.base import NatsOf
        rows = tfsoftmax.distributions.rows.Rows(keras.random.normal((1000, 64)))
        halved = NatsOf(lambda hidden, labels: 0.5 * rows.nats(hidden, labels))
    """

    def __init__(self, nats: Callable[..., tf.Tensor]):
        self.nats = nats


class Distribution(Objective):
    """P(w | h) of V words, whose cross-entropy is an objective.

    | method                        | result                                                      |
    |-------------------------------|-------------------------------------------------------------|
    | `logits(hidden)`              | (N, V), whose softmax is P                                  |
    | `log_probs(hidden)`           | (N, V)                                                      |
    | `log_normaliser(hidden)`      | (N,), ln Σ_v exp(logit)                                     |
    | `top_k(hidden, k, excluded)`  | ids (N, k) int32 and log-probabilities (N, k), likeliest    |
    |                               | first; ties by id. `excluded`: (N, E) int32, words to leave |
    |                               | out, -1 for none; or None. With -inf an id means nothing    |
    | `nats(hidden, labels)`        | (N,), -ln P(label | h), as in `Objective`                   |

    A subclass sets `vocab_size`, V, and writes `logits`, from which all others follow, in chunks
    of positions. It overrides what it can compute with less.

    Example:
        class Uniform(tfsoftmax.distributions.base.Distribution):
            vocab_size = 10

            def logits(self, hidden):
                return keras.ops.zeros((hidden.shape[0], 10))
        ids, log_probs = Uniform().top_k(keras.random.normal((2, 4)), 3)
    """

    vocab_size: int
    are_exact = True

    def logits(self, hidden: tf.Tensor) -> tf.Tensor:
        """(N, V), whose softmax is P."""
        raise NotImplementedError

    def log_probs(self, hidden: tf.Tensor) -> tf.Tensor:
        """ln P of all words, (N, V)."""
        return tf.nn.log_softmax(self.logits(hidden))

    def log_normaliser(self, hidden: tf.Tensor) -> tf.Tensor:
        """ln Σ_v exp(logit), (N,)."""
        return map_row_chunks(
            lambda rows: tf.reduce_logsumexp(self.logits(rows), axis=1), hidden, self.vocab_size
        )

    def top_k(
        self, hidden: tf.Tensor, k: int, excluded: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Ids and log-probabilities (N, k) of the k likeliest words, but for `excluded` (N, E)."""
        return top_k_of(self.logits, hidden, k, self.vocab_size, excluded)

    def nats(self, hidden, labels):
        return map_row_chunks(
            lambda rows, labels: tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels, self.logits(rows)
            ), hidden, self.vocab_size, labels,
        )


class HandWritten(Objective):
    """An objective whose gradient is written by hand, in both forms that a gradient can have.

    The weights of the positions are known to `weighted_nats`, which forms the gradient while the
    logits are at hand, and unknown to `nats`, whose gradient computes the logits again.

    A subclass has `parameters`, a structure of tensors, and writes `forward` and `backward`, both
    of which get them as an argument.

    Example:
        rows = tfsoftmax.distributions.rows.Rows(keras.random.normal((1000, 64)))
        assert isinstance(rows.penalised(z_loss=0.1), tfsoftmax.distributions.base.HandWritten)
    """

    parameters: object

    def forward(self, hidden: tf.Tensor, labels: tf.Tensor, parameters: object) -> tf.Tensor:
        """The losses (N,)."""
        return self.backward(hidden, labels, tf.ones(tf.shape(labels)), parameters)[0][0]

    def backward(
        self, hidden: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor, parameters: object
    ) -> tuple[list[tf.Tensor], list]:
        """[losses (N,), exact cross-entropies (N,) if they are known], and [dh, d parameters].

        The gradients are those of Σ weights · losses.
        """
        raise NotImplementedError

    def nats(self, hidden, labels):
        def losses(hidden, parameters):
            return self.forward(hidden, labels, parameters)

        def gradients(upstream, hidden, parameters):
            return self.backward(hidden, labels, upstream, parameters)[1]

        return recomputed_gradient(losses, gradients, hidden, self.parameters)

    def weighted_nats(self, hidden, labels, weights):
        def function(weights, hidden, parameters):
            (losses, *exact), gradients = self.backward(hidden, labels, weights, parameters)
            return (weighted_sum(losses, weights), *exact), [losses, gradients]

        total, *exact = immediate_gradient(function, weights, hidden, self.parameters)
        return total, exact[0] if exact else None
