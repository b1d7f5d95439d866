"""Distributions that factor a word's probability, and find those of all words in one pass.

Shapes: N positions, n of them in a chunk, D hidden units, V words.
"""

from collections.abc import Callable

import tensorflow as tf

from tfsoftmax.distributions.base import Distribution
from tfsoftmax.ops import chunks
from tfsoftmax.ops.ranking import columns_of_best, given, known, without


class Factored(Distribution):
    """Log-probabilities in chunks of positions, by the full pass of a subclass.

    A subclass writes `nats` and `full_pass`. All computation is in float32.

    Example:
        head = tfsoftmax.TreeSoftmax(1000)
        head.build((None, 64))
        assert isinstance(head.distribution(), tfsoftmax.distributions.factored.Factored)
    """

    def full_pass(self) -> Callable[[tf.Tensor], tf.Tensor]:
        """A function from hidden states (n, D) to log-probabilities (n, V).

        The parameters are read now, once for all chunks of positions.
        """
        raise NotImplementedError

    def logits(self, hidden):
        return self.log_probs(hidden)

    def log_probs(self, hidden):
        return self._map(lambda log_probs: log_probs, hidden)

    def top_k(self, hidden, k, excluded=None):
        def likeliest(log_probs, excluded=None):
            return columns_of_best(known(without(log_probs, excluded)), k)

        values, ids = self._map(likeliest, hidden, *given(excluded))
        return ids, values

    def _map(self, function, hidden, *more):
        """Applies a function of log-probabilities (n, V), and of more, in chunks of positions."""
        full_pass = self.full_pass()
        # About eight tensors of the size of the result are alive at a time.
        most = chunks.chunk_rows(8 * 4 * self.vocab_size)
        return chunks.map_chunks(
            lambda rows, *more: function(full_pass(rows), *more), hidden, most, *more
        )


def tensors(*parameters: tf.Tensor | tf.Variable | None) -> list[tf.Tensor | None]:
    """The parameters as float32 tensors, read once; None stays None.

    A cast alone does not read a float32 variable. The loop over chunks would then read it, and
    TensorFlow runs such a loop in training, too, which has no use for its results.
    """
    read = (None if p is None else tf.convert_to_tensor(p) for p in parameters)
    return [None if p is None else tf.cast(p, tf.float32) for p in read]
