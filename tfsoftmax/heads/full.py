"""Full softmax: the exact distribution, trained by its cross-entropy."""

import math
from typing import Unpack

import keras

from tfsoftmax.distributions.drawn_tiles import Draw
from tfsoftmax.heads.inputs import check_objective
from tfsoftmax.heads.options import ShardOptions
from tfsoftmax.heads.random_state import RandomState
from tfsoftmax.heads.shards import Shards
from tfsoftmax.ops.random import uniform
from tfsoftmax.support.arguments import expect


@keras.saving.register_keras_serializable(package="tfsoftmax")
class FullSoftmax(Shards):
    """Softmax over all words, trained by its exact cross-entropy.

    P(w | h) = exp(z_w) / Σ_v exp(z_v) with z = h Wᵀ + b. The gradient is computed in the same pass
    as the loss, in chunks of positions, and accumulated in float32.

    Args:
        vocab_size: V, the number of words.
        label_smoothing: mass that training takes from the label and spreads evenly over all words.
        z_loss: coefficient α of (ln Z)², Z = Σ_v exp(z_v), in the training loss. It keeps Z near
            one (self-normalisation); with a `soft_cap` of at most ln V, Z stays above one.
        soft_cap: caps the logits smoothly, z → soft_cap · tanh(z / soft_cap).
        gradient_share: share of the logits, in (0, 1], from which the two matrix products of the
            gradient are estimated, without bias. Each step draws tiles of up to 512 positions times
            512 words, and always includes the likely ones. The loss stays exact, and the step costs
            1 + 2 gradient_share products instead of 3. Ids should be sorted by descending
            frequency, so that few tiles hold most of the probability. 0.25 suits trained models.
            This works neither with several shards nor with XLA. None computes the exact gradient.
        seed: seed of the tiles.
        **kwargs: options of the weights and of the layer, `heads.options.ShardOptions`.

    Example:
        words = keras.Input((20,), dtype="int32")
        hidden = tfsoftmax.LSTM(64, return_sequences=True)(tfsoftmax.Embedding(1000, 64)(words))
        model = keras.Model(words, tfsoftmax.FullSoftmax(1000, label_smoothing=0.1)(hidden))
        model.compile("adam", tfsoftmax.SoftmaxLoss(), weighted_metrics=[tfsoftmax.Perplexity()])

    Source: Müller 2017, section 3.1 and equation 2.45 (z_loss; Devlin et al. 2014); Szegedy et
    al. 2016 (smoothing). Departure: `gradient_share`; Wijmans et al. 2025 leave out tiles whose
    probabilities are all small, which biases the gradient.
    """

    saved_options = ("label_smoothing", "z_loss", "soft_cap", "gradient_share", "seed")
    trains_exactly = True

    def __init__(
        self, vocab_size: int, label_smoothing: float = 0.0, z_loss: float = 0.0,
        soft_cap: float | None = None, gradient_share: float | None = None,
        seed: int | None = None, **kwargs: Unpack[ShardOptions],
    ):
        super().__init__(vocab_size, **kwargs)
        check_objective(label_smoothing, z_loss, soft_cap)
        expect(not (label_smoothing and self.not_items), "label_smoothing",
               "be zero with `not_items`, which would get a share of the mass", label_smoothing)
        expect(soft_cap is None or not self.not_items, "soft_cap",
               "be None with `not_items`, whose logits it would raise", soft_cap)
        if gradient_share is not None:
            expect(0 < gradient_share <= 1, "gradient_share", "lie in (0, 1]", gradient_share)
            self.supports_jit = False  # the number of tiles in a block of the kernel varies
            self.random_state = RandomState(seed)
        self.gradient_share, self.seed = gradient_share, seed
        self.label_smoothing, self.z_loss, self.soft_cap = label_smoothing, z_loss, soft_cap
        reaches_one = soft_cap is None or soft_cap > math.log(self.vocab_size)
        self.self_normalised = z_loss > 0 and reaches_one

    def build(self, hidden_shape):
        super().build(hidden_shape)
        expect(self.gradient_share is None or not self.in_shards, "gradient_share",
               "be None for a head whose rows several replicas divide", self.gradient_share)

    def objective(self):
        options = {"label_smoothing": self.label_smoothing, "z_loss": self.z_loss}
        if self.gradient_share is not None:
            seed = self.random_state.next()
            options["draw"] = Draw(self.gradient_share, lambda count: uniform([count], seed))
        return self.distribution().penalised(**options)
