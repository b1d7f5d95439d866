"""Heads that factor a word's probability, and compute all words in one pass over the factors."""

import tensorflow as tf

from tfsoftmax.heads.base import SoftmaxHead
from tfsoftmax.ops import chunks
from tfsoftmax.ops.computed_if_used import computed_if_used
from tfsoftmax.ops.ranking import best


class HierarchicalHead(SoftmaxHead):
    """Exact log-probabilities in chunks of positions, by the full pass of a subclass.

    A subclass writes `build`, `_training_loss` and `_full_pass`. All computation is in float32
    under any dtype policy. Under XLA, which fixes all sizes, gradients and scores are as large as
    any batch may need.

    Args:
        vocab_size: V, the number of words.
        **kwargs: arguments of `SoftmaxHead` (use_bias, kernel_initializer, bias_initializer),
            whose kernel has one row for each factor, and of `keras.layers.Layer`.

    Example:
        hidden = keras.random.normal((8, 64))
        head = tfsoftmax.TreeSoftmax(1000)
        assert isinstance(head, tfsoftmax.heads.hierarchical.HierarchicalHead)
        log_probs = head.log_probs(hidden)  # (8, 1000), one pass over all nodes
    """

    trains_exactly = True

    def _full_pass(self):
        """A function from hidden states (n, D) to log-probabilities (n, V).

        The parameters are read now, once for all chunks of positions.
        """
        raise NotImplementedError

    def _logits(self, hidden):
        return computed_if_used(self._log_probs, hidden)

    def _log_probs(self, hidden):
        return self._map(lambda log_probs: log_probs, hidden)

    def _top_k(self, hidden, k):
        values, ids = self._map(lambda log_probs: tuple(best(log_probs, k)), hidden)
        return ids, values

    def _map(self, function, hidden):
        """Applies a function of log-probabilities (n, V) to all positions, in chunks."""
        full_pass = self._full_pass()
        # About eight tensors of the size of the result are alive at a time.
        most = chunks.chunk_rows(8 * 4 * self.vocab_size)
        return chunks.map_chunks(lambda rows: function(full_pass(rows)), hidden, most)


def tensors(parameters):
    """The parameters as float32 tensors, read once; None stays None.

    A cast alone does not read a float32 variable. The loop over chunks would then read it, and
    TensorFlow runs such a loop in training, too, which has no use for its results.
    """
    read = (None if p is None else tf.convert_to_tensor(p) for p in parameters)
    return [None if p is None else tf.cast(p, tf.float32) for p in read]
