"""Self-normalisation on a fraction of the positions: infrequent normalisation."""

from typing import Unpack

import keras
import tensorflow as tf

from tfsoftmax.heads.linear import LinearHead
from tfsoftmax.heads.options import TiedOptions
from tfsoftmax.heads.random_state import RandomState
from tfsoftmax.ops.random import uniform
from tfsoftmax.support.arguments import expect


@keras.saving.register_keras_serializable(package="tfsoftmax")
class SelfNormalisedSoftmax(LinearHead):
    """Raises the labels' scores, and keeps ln Z(h) = ln Σ_v exp(z_v) near a constant.

        loss = -z_w + α (N / n) ln² Z(h)   squared, the default
        loss = -z_w + (N / n) ln Z(h)      not squared: the expected cross-entropy

    where only n = ⌈γ N⌉ of the N positions of a step, chosen at random, have the second term, so
    that the matrix products of a step cost γ of a full softmax's.

    The minimum of the squared loss is the exact softmax with ln Z(h) = 1 / (2 α) in every context,
    which `self_normalised_log_prob` subtracts. For scores that are lower by this constant, the loss
    is the cross-entropy with a penalty of equation 2.45, -z_w + (N / n) (ln Z + α ln² Z), up to a
    constant; `FullSoftmax(z_loss=α)` has that loss at all positions. The loss that is not squared
    does not change when a constant is added to all scores, so it does not keep Z near any value.

    Args:
        vocab_size: V, the number of words.
        fraction: γ, in (0, 1].
        alpha: α, weight of the penalty; 1 if it is not squared: any other loss has no minimum.
        squared: whether the loss is the first of the two. Otherwise the head is not
            `self_normalised`.
        seed: seed of the choice of positions.
        **kwargs: options of the weights and of the layer, `heads.options.TiedOptions`.

    Example:
        hidden, labels = keras.random.normal((8, 64)), keras.random.randint((8,), 0, 1000)
        head = tfsoftmax.SelfNormalisedSoftmax(1000, fraction=0.25)
        nats = head.training_loss(hidden, labels)                 # two positions compute ln Z
        estimate = head.self_normalised_log_prob(hidden, labels)  # takes ln Z to be 1 / 2

    Source: Müller 2017, equations 2.46 and 2.47, whose penalty is printed with the wrong sign
    (Andreas and Klein 2015; Chen et al. 2015).
    """

    saved_options = ("fraction", "alpha", "squared", "seed")

    def __init__(
        self, vocab_size: int, fraction: float = 0.1, alpha: float = 1.0, squared: bool = True,
        seed: int | None = None, **kwargs: Unpack[TiedOptions],
    ):
        super().__init__(vocab_size, **kwargs)
        expect(0 < fraction <= 1, "fraction", "lie in (0, 1]", fraction)
        expect(alpha > 0, "alpha", "be positive", alpha)
        expect(squared or alpha == 1, "alpha", "be 1 with squared=False: with any other, adding a "
               "constant to all scores lowers the loss without end", alpha)
        self.fraction, self.alpha, self.squared, self.seed = fraction, alpha, squared, seed
        self.self_normalised = squared
        self.random_state = RandomState(seed)

    def objective(self):
        seed = self.random_state.next()
        z_loss, log_z = (self.alpha, 0.0) if self.squared else (0.0, self.alpha)
        return self.distribution().penalised(
            z_loss=z_loss, log_z=log_z, subset=lambda count: _subset(self.fraction, count, seed)
        )

    def _self_normalised(self, hidden, labels):
        constant = 0.5 / self.alpha if self.squared else 0.0
        return super()._self_normalised(hidden, labels) - constant


def _subset(fraction, count, seed):
    """A fraction γ of N positions: (n,) int32."""
    wanted = tf.math.ceil(fraction * tf.cast(count, tf.float32))
    wanted = tf.minimum(tf.maximum(tf.cast(wanted, tf.int32), 1), count)
    return tf.argsort(uniform([count], seed))[:wanted]
