"""Two-level softmax: frequent words, and one class of all others."""

from collections.abc import Sequence
from typing import Unpack

import keras

from tfsoftmax.heads.adaptive import AdaptiveSoftmax
from tfsoftmax.heads.options import CommonOptions
from tfsoftmax.layers.adaptive_embedding import AdaptiveEmbedding
from tfsoftmax.layers.computed_rows import ComputedRows
from tfsoftmax.layers.initializers import Initializer
from tfsoftmax.support.arguments import ArrayLike, expect


@keras.saving.register_keras_serializable(package="tfsoftmax")
class TwoLevelSoftmax(AdaptiveSoftmax):
    """`AdaptiveSoftmax` with one tail, which by default sees the whole hidden state.

    Args:
        vocab_size: V, the number of words.
        cutoffs: [the number of words in the shortlist], or `"auto"`, which needs `counts`.
        projection_factor: the factor by which the tail has fewer units, or None.
        use_bias, counts, permutation, shares: as in `AdaptiveSoftmax`.
        kernel_initializer, projection_initializer, bias_initializer: as in `AdaptiveSoftmax`.
        tied_to, tie_projections, label_smoothing, seed: as in `AdaptiveSoftmax`.
        **kwargs: options of the weights and of the layer, `heads.options.CommonOptions`.

    Example:
        hidden, labels = keras.random.normal((8, 64)), keras.random.randint((8,), 0, 1000)
        head = tfsoftmax.TwoLevelSoftmax(1000, cutoffs=[100])  # by rank, which is the id
        nats = head.training_loss(hidden, labels)
        words, log_probs = head.top_k(hidden, 5)

    Source: Shmuma 2017, without the sorting of positions by label; Müller 2017, eq. 2.16.
    """

    tails = 1

    def __init__(
        self, vocab_size: int, cutoffs: Sequence[int] | str = "auto",
        projection_factor: float | None = None, use_bias: bool = False,
        counts: ArrayLike | None = None, permutation: ArrayLike | str | None = None,
        shares: Sequence[float] | None = None, kernel_initializer: Initializer = "glorot_uniform",
        projection_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        tied_to: AdaptiveEmbedding | ComputedRows | None = None,
        tie_projections: bool = True, label_smoothing: float = 0.0, seed: int | None = None,
        **kwargs: Unpack[CommonOptions],
    ):
        super().__init__(
            vocab_size, cutoffs, projection_factor, use_bias, counts, permutation, shares,
            kernel_initializer, projection_initializer, bias_initializer, tied_to,
            tie_projections, label_smoothing, seed, **kwargs,
        )
        right = self.bands is None or len(self.bands.cutoffs) == 1
        expect(right, "cutoffs", "be one rank", cutoffs)
