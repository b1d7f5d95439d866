"""Two-level softmax: frequent words, and one class of all others."""

import keras

from tfsoftmax.heads.adaptive import AdaptiveSoftmax


@keras.saving.register_keras_serializable(package="tfsoftmax")
class TwoLevelSoftmax(AdaptiveSoftmax):
    """`AdaptiveSoftmax` of one tail, which by default sees the whole hidden state.

    Args:
        vocab_size: V, the number of words.
        cutoffs: [the number of words in the shortlist], or `"auto"`, which wants `counts`.
        projection_factor: by which the tail has fewer units, or None.
        **kwargs: of `AdaptiveSoftmax`.

    Source: Shmuma 2017, without the sorting of positions by label; Müller 2017, eq. 2.16.
    """

    tails = 1

    def __init__(self, vocab_size, cutoffs="auto", projection_factor=None, **kwargs):
        super().__init__(vocab_size, cutoffs, projection_factor, **kwargs)
        if self.bands is not None and len(self.bands.cutoffs) != 1:
            raise ValueError(f"`cutoffs` must be one rank. Received: cutoffs={cutoffs}")
