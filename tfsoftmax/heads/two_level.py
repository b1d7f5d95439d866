"""Two-level softmax: frequent words, and one class of all others."""

from collections.abc import Sequence

import keras

from tfsoftmax.heads.adaptive import AdaptiveSoftmax
from tfsoftmax.support.arguments import expect


@keras.saving.register_keras_serializable(package="tfsoftmax")
class TwoLevelSoftmax(AdaptiveSoftmax):
    """`AdaptiveSoftmax` of one tail, which by default sees the whole hidden state.

    Args:
        vocab_size: V, the number of words.
        cutoffs: [the number of words in the shortlist], or `"auto"`, which needs `counts`.
        projection_factor: the factor by which the tail has fewer units, or None.
        **kwargs: arguments of `AdaptiveSoftmax`.

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
        projection_factor: float | None = None, **kwargs,
    ):
        super().__init__(vocab_size, cutoffs, projection_factor, **kwargs)
        right = self.bands is None or len(self.bands.cutoffs) == 1
        expect(right, "cutoffs", "be one rank", cutoffs)
