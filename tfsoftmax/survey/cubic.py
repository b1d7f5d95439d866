"""Cubic scores trained by squared error: an output layer that is not a distribution."""

from typing import Unpack

import keras

from tfsoftmax.heads.linear import LinearHead
from tfsoftmax.heads.options import TiedOptions
from tfsoftmax.support.arguments import expect, refusal
from tfsoftmax.survey.squared_error import Scores, SquaredError


@keras.saving.register_keras_serializable(package="tfsoftmax")
class CubicScores(LinearHead):
    """Scores f(x) = α x³ + β with x = h Wᵀ + b, trained by Σ_v (f(x_v) - 1[v = label])².

    The scores rank words and are not probabilities: `log_prob`, `log_probs` and `Perplexity` raise
    an error, `SoftmaxLoss` is the squared error in `evaluate` too, and `top_k` returns scores.
    Measure the head by `tfsoftmax.metrics.Accuracy` and `TopKAccuracy`. For that reason it is not
    in `HEADS`, whose heads `tfsoftmax train` compares by perplexity.

    The gradient vanishes with x², so scores must not start near zero: scale the
    `kernel_initializer` or the hidden states. A loss of x itself does not have this problem; it
    belongs to the family that has the exact update of `SphericalSoftmax`.

    Args:
        vocab_size: V, the number of words.
        alpha: α.
        beta: β.
        **kwargs: options of the weights and of the layer, `heads.options.TiedOptions`.

    Example:
        hidden, labels = keras.random.normal((8, 16)), keras.random.randint((8,), 0, 1000)
        model = keras.Sequential([keras.Input((16,)), tfsoftmax.CubicScores(1000)])
        model.compile("adam", tfsoftmax.SoftmaxLoss(), metrics=[tfsoftmax.metrics.Accuracy()])
        model.fit(hidden, labels)

    Source: Müller 2017, equation 2.51 (Oland et al. 2017). The loss needs the score of each word:
    it is of sixth degree in x, its gradient of fifth, and no matrix of second moments can replace
    them.
    """

    saved_options = ("alpha", "beta")
    is_distribution = False

    def __init__(
        self, vocab_size: int, alpha: float = 1.0, beta: float = 0.0,
        **kwargs: Unpack[TiedOptions],
    ):
        super().__init__(vocab_size, **kwargs)
        expect(alpha > 0, "alpha", "be positive", alpha)
        self.alpha, self.beta = alpha, beta

    def _value(self, scores):
        return self.alpha * scores**3 + self.beta

    def distribution(self):
        return Scores(*self._parameters(), self._value, self._no_probabilities)

    def objective(self):
        return SquaredError(self._parameters(), self._value)

    def _no_probabilities(self, *_):
        raise refusal("head", "be a distribution to have probabilities and a perplexity",
                      received=f"{self.name}, whose scores only rank words "
                      "(tfsoftmax.metrics.Accuracy measures it)")

    _self_normalised = _no_probabilities
