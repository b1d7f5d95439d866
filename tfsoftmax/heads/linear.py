"""Heads whose logits are an affine map of the hidden state: one kernel row, one bias a word."""

import keras
import tensorflow as tf

from tfsoftmax.heads.base import SoftmaxHead
from tfsoftmax.ops.cross_entropy import Objective, cross_entropy
from tfsoftmax.ops.logits import (
    capped,
    exact_top_k,
    full_logits,
    label_logits,
    map_row_chunks,
)


class LinearHead(SoftmaxHead):
    """P(w | h) = exp(z_w) / Σ_v exp(z_v) with z = h Wᵀ + b, computed exactly outside training.

    What exact log-probabilities need is computed in chunks of positions: no (N, V) tensor
    outlives its chunk. Logits are float32 whatever the policy. A subclass says how to train.

    Args:
        vocab_size: V, the number of words.
        use_bias: whether there is a bias for each word.
        kernel_initializer: of the kernel (V, D), one row a word.
        bias_initializer: of the bias (V,).
        tied_to: an `Embedding` layer of V words and D units whose embeddings serve as the kernel.
            The tie survives `model.save` and `keras.saving.load_model`, not `clone_model`.
        **kwargs: of `keras.layers.Layer`.

    Source: Müller 2017, section 3.1 (the kernel there is transposed, and the (N, V) logits are
    formed whole); Press and Wolf 2017 (tying).
    """

    soft_cap = None  # of the logits; a subclass may offer one

    def __init__(
        self,
        vocab_size,
        use_bias=True,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        tied_to=None,
        **kwargs,
    ):
        super().__init__(vocab_size, **kwargs)
        if tied_to is not None and tied_to.input_dim != vocab_size:
            raise ValueError(
                f"`tied_to` must be an embedding of {vocab_size} words. "
                f"Received: an embedding of {tied_to.input_dim} words"
            )
        self.use_bias = use_bias
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.tied_to = tied_to

    def build(self, hidden_shape):
        size = hidden_shape[-1]
        if self.tied_to is None:
            self.kernel = self.add_weight(
                name="kernel", shape=(self.vocab_size, size), autocast=False,
                initializer=self.kernel_initializer,
            )
        else:
            if self.tied_to.output_dim != size:
                raise ValueError(
                    f"`tied_to` must have as many units as the hidden state, {size}. "
                    f"Received: an embedding of {self.tied_to.output_dim} units"
                )
            if not self.tied_to.built:
                self.tied_to.build()
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                name="bias", shape=(self.vocab_size,), autocast=False,
                initializer=self.bias_initializer,
            )
        self.built = True

    def log_normaliser(self, hidden):
        """ln Z(h) = ln Σ_v exp(z_v), exact: (...) float32 for hidden (..., D), no gradient."""
        return self._by_row(self._log_normaliser, hidden)

    def self_normalised_log_prob(self, hidden, labels):
        """The label's log-probability if Z(h) were the constant that training holds it to.

        (...) float32 for hidden (..., D) and labels (...), at the cost of N D whatever V. Near
        the exact one for heads that are `self_normalised`; no perplexity.

        Source: Müller 2017, section 2.2.3.6.
        """
        return self._by_position(self._self_normalised, hidden, labels)

    def _kernel(self):
        """The variable (V, D), of which training may gather rows."""
        return (self.kernel if self.tied_to is None else self.tied_to.embeddings).value

    def _parameters(self):
        """Kernel (V, D) and bias (V,) or None: of the exact distribution."""
        return self._kernel(), None if self.bias is None else self.bias.value

    def _log_normaliser(self, hidden):
        def chunk(hidden):
            return tf.reduce_logsumexp(self._logits(hidden), axis=1)

        return tf.stop_gradient(map_row_chunks(chunk, hidden, self.vocab_size))

    def _biases(self, ids):
        """Biases (...) float32 of ids (...), as trained; zeros without a bias."""
        return tf.zeros(tf.shape(ids)) if self.bias is None else tf.gather(self.bias.value, ids)

    def _label_scores(self, hidden, labels):
        """Score of each position's label, (N,) float32, at the cost of N D."""
        return label_logits(hidden, self._kernel(), None, labels)[0] + self._biases(labels)

    def _self_normalised(self, hidden, labels):
        """(N,): with Z = 1, the label's score."""
        return capped(self._label_scores(hidden, labels), self.soft_cap)

    def _logits(self, hidden):
        return full_logits(hidden, *self._parameters(), self.soft_cap)

    def _log_prob(self, hidden, labels):
        plain = Objective(soft_cap=self.soft_cap)
        return -cross_entropy(hidden, *self._parameters(), labels, plain)

    def _top_k(self, hidden, k):
        return exact_top_k(hidden, *self._parameters(), k, self.soft_cap)

    def get_config(self):
        return {
            **super().get_config(),
            "use_bias": self.use_bias,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
            "tied_to": keras.saving.serialize_keras_object(self.tied_to),
        }

    @classmethod
    def from_config(cls, config):
        return cls(**{**config, "tied_to": keras.saving.deserialize_keras_object(config["tied_to"])})
