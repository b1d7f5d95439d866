"""Scores f(x) that are no probabilities, and their squared error against one-hot labels.

Shapes: N positions, n of them in a chunk, D hidden units, V words.
"""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from tfsoftmax.distributions.base import Distribution, HandWritten
from tfsoftmax.ops.chunks import sum_over_chunks
from tfsoftmax.ops.logits import full_logits, logits_rows, map_row_chunks
from tfsoftmax.ops.ranking import columns_of_best, given, known, without


@dataclasses.dataclass(frozen=True)
class Scores(Distribution):
    """f(x) with x = h Wᵀ + b, of which `top_k` returns the highest. Nothing else is defined.

    Attributes:
        kernel: (V, D) float32.
        bias: (V,) float32, or None.
        function: f, of tensors.
        refuse: raises the error of whoever asks for probabilities.

    Example:
        head = tfsoftmax.CubicScores(1000)
        head.build((None, 64))
        assert isinstance(head.distribution(), tfsoftmax.survey.squared_error.Scores)
    """

    kernel: tf.Tensor
    bias: tf.Tensor | None
    function: Callable[[tf.Tensor], tf.Tensor]
    refuse: Callable

    @property
    def vocab_size(self) -> int:
        return self.kernel.shape[0]

    def logits(self, hidden):
        return self.function(full_logits(hidden, self.kernel, self.bias))

    def top_k(self, hidden, k, excluded=None):
        def chunk(hidden, excluded=None):
            values, ids = columns_of_best(known(without(self.logits(hidden), excluded)), k)
            return ids, values

        return map_row_chunks(chunk, hidden, self.vocab_size, *given(excluded))

    def _no_probabilities(self, *_):
        self.refuse()

    nats = log_probs = log_normaliser = _no_probabilities


@dataclasses.dataclass(frozen=True)
class SquaredError(HandWritten):
    """Σ_v (f(x_v) - 1[v = y])² with x = h Wᵀ + b.

    Attributes:
        parameters: kernel (V, D) float32 and bias (V,) float32 or None.
        function: f, of tensors.

    Example:
        from tfsoftmax.survey.squared_error import SquaredError
        objective = SquaredError((keras.random.normal((1000, 64)), None), lambda x: x**3)
    """

    parameters: tuple[tf.Tensor, tf.Tensor | None]
    function: Callable[[tf.Tensor], tf.Tensor]

    def forward(self, hidden, labels, parameters):
        def chunk(hidden, labels, _):
            return self._errors(hidden, labels, *parameters), []

        most = logits_rows(parameters[0].shape[0], hidden.shape[1])
        return sum_over_chunks(chunk, most, hidden, labels)[0]

    def backward(self, hidden, labels, weights, parameters):
        given = [p for p in parameters if p is not None]

        def chunk(hidden, labels, weights, totals):
            with tf.GradientTape() as tape:
                tape.watch([hidden, *given])
                errors = self._errors(hidden, labels, *parameters)
            terms = tape.gradient(errors, [hidden, *given], weights)
            d_hidden, *terms = (tf.cast(term, tf.float32) for term in terms)
            totals = terms if totals is None else [a + b for a, b in zip(totals, terms)]
            return [errors, d_hidden], totals

        most = logits_rows(parameters[0].shape[0], hidden.shape[1])
        (errors, d_hidden), totals = sum_over_chunks(chunk, most, hidden, labels, weights)
        return [errors], [d_hidden, totals]

    def _errors(self, hidden, labels, kernel, bias):
        values = self.function(full_logits(hidden, kernel, bias))
        own = tf.gather(values, labels, batch_dims=1)
        return tf.reduce_sum(tf.square(values), axis=1) - 2 * own + 1
