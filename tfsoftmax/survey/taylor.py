"""Taylor softmax: the second-order expansion of the exponential in its place."""

from typing import Unpack

import keras

from tfsoftmax.heads.options import TiedOptions
from tfsoftmax.survey.spherical import Schedule, SphericalSoftmax


@keras.saving.register_keras_serializable(package="tfsoftmax")
class TaylorSoftmax(SphericalSoftmax):
    """P(w | h) = (1 + x_w + x_w²/2) / Σ_v (1 + x_v + x_v²/2), trained by its cross-entropy.

    As 1 + x + x²/2 = ((x + 1)² + 1) / 2, this is `SphericalSoftmax` with ε = 1 and biases that are
    larger by one, and everything said there applies, including `sgd_learning_rate`. The probability
    has its least value at x = -1 and grows to both sides.

    Args:
        vocab_size: V, the number of words.
        sgd_learning_rate: learning rate of the head's own steps, or None, as in
            `SphericalSoftmax`.
        **kwargs: options of the weights and of the layer, `heads.options.TiedOptions`.

    Example:
        hidden, labels = keras.random.normal((8, 64)), keras.random.randint((8,), 0, 1000)
        head = tfsoftmax.TaylorSoftmax(1000)
        nats = head.training_loss(hidden, labels)
        ids, log_probs = head.top_k(hidden, 3)  # by P, which is not monotone in the score

    Source: Müller 2017, equation 2.50 (de Brébisson and Vincent 2016).
    """

    decided_options = ("epsilon",)
    _shift = 1.0

    def __init__(
        self, vocab_size: int, sgd_learning_rate: float | Schedule | dict | None = None,
        **kwargs: Unpack[TiedOptions],
    ):
        super().__init__(vocab_size, 1.0, sgd_learning_rate, **kwargs)
