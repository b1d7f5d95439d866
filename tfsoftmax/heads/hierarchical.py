"""Heads that factor a word's probability, and get those of all words by one pass over the factors."""

import keras
import tensorflow as tf

from tfsoftmax.heads.base import SoftmaxHead
from tfsoftmax.ops import chunks
from tfsoftmax.ops.computed_if_used import computed_if_used


class HierarchicalHead(SoftmaxHead):
    """Exact log-probabilities in chunks of positions, by the full pass of a subclass.

    All computation is in float32 whatever the policy. XLA compiles none of these heads: the
    positions, and with them the shapes, of each factor differ from batch to batch.

    Args:
        vocab_size: V, the number of words.
        use_bias: whether the factors have biases.
        kernel_initializer: of the kernel, one row a factor.
        bias_initializer: of the biases.
        **kwargs: of `keras.layers.Layer`.
    """

    trains_exactly = True

    def __init__(
        self,
        vocab_size,
        use_bias=True,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        **kwargs,
    ):
        super().__init__(vocab_size, **kwargs)
        self.use_bias = use_bias
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.supports_jit = False

    def _add_kernel_and_bias(self, rows, size):
        """kernel (rows, size) and bias (rows,), which is None without biases."""
        # A copy: one initializer draws the same values again and again.
        self.kernel = self.add_weight(
            name="kernel", shape=(rows, size), autocast=False,
            initializer=self.kernel_initializer.clone(),
        )
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                name="bias", shape=(rows,), autocast=False, initializer=self.bias_initializer
            )

    def _parameters(self):
        return self.kernel.value, None if self.bias is None else self.bias.value

    def _full_pass(self):
        """A function from hidden states (n, D) to log-probabilities (n, V), parameters read."""
        raise NotImplementedError

    def _log_prob(self, hidden, labels):
        return -self._training_loss(hidden, labels)

    def _logits(self, hidden):
        return computed_if_used(self._log_probs, hidden)

    def _log_probs(self, hidden):
        return self._map(lambda log_probs: log_probs, hidden)

    def _top_k(self, hidden, k):
        values, ids = self._map(lambda log_probs: tuple(tf.math.top_k(log_probs, k)), hidden)
        return ids, values

    def _map(self, function, hidden):
        """A function of the log-probabilities (n, V) of some positions, for all positions."""
        full_pass = self._full_pass()
        # About eight tensors of the size of the result are alive at a time.
        most = chunks.chunk_rows(8 * 4 * self.vocab_size)
        return chunks.map_chunks(lambda rows: function(full_pass(rows)), hidden, most)

    def get_config(self):
        return {
            **super().get_config(),
            "use_bias": self.use_bias,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
        }


def tensors(parameters):
    """The parameters as tensors, read once; None stays None."""
    return [None if p is None else tf.convert_to_tensor(p) for p in parameters]
