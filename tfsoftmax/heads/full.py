"""Full softmax: the exact distribution, trained as it is."""

import keras
import tensorflow as tf

from tfsoftmax.heads.base import SoftmaxHead
from tfsoftmax.ops.cross_entropy import (
    Objective,
    cross_entropy,
    full_logits,
    map_row_chunks,
    weighted_cross_entropy,
)


@keras.saving.register_keras_serializable(package="tfsoftmax")
class FullSoftmax(SoftmaxHead):
    """Softmax over all words, P(w | h) = exp(z_w) / Σ_v exp(z_v) with z = h Wᵀ + b.

    Losses and log-probabilities are computed in chunks of positions, and the gradient in the
    same pass: no (N, V) tensor outlives its chunk. Logits are float32 whatever the policy;
    the gradient of the kernel is accumulated in float32.

    Args:
        vocab_size: V, the number of words.
        use_bias: whether there is a bias for each word.
        kernel_initializer: of the kernel (V, D), one row a word.
        bias_initializer: of the bias (V,).
        tied_to: an `Embedding` layer of V words and D units whose embeddings serve as the kernel.
            The tie survives `model.save` and `keras.saving.load_model`, not `clone_model`.
        label_smoothing: mass taken from the label and spread evenly over all words; training only.
        z_loss: coefficient of (ln Σ exp z)² in the training loss.
        soft_cap: caps the logits smoothly, z → soft_cap · tanh(z / soft_cap).
        **kwargs: of `keras.layers.Layer`.

    Source: Müller 2017, section 3.1 (the kernel there is transposed, and the (N, V) logits are
    formed whole); Press and Wolf 2017 (tying); Szegedy et al. 2016 (smoothing); Chowdhery et al.
    2022 (z-loss).
    """

    trains_exactly = True

    def __init__(
        self,
        vocab_size,
        use_bias=True,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        tied_to=None,
        label_smoothing=0.0,
        z_loss=0.0,
        soft_cap=None,
        **kwargs,
    ):
        super().__init__(vocab_size, **kwargs)
        _check(vocab_size, tied_to, label_smoothing, z_loss, soft_cap)
        self.use_bias = use_bias
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.tied_to = tied_to
        self.objective = Objective(soft_cap, label_smoothing, z_loss)

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

    def _parameters(self):
        kernel = self.kernel if self.tied_to is None else self.tied_to.embeddings
        return kernel.value, None if self.bias is None else self.bias.value

    def _logits(self, hidden):
        return full_logits(hidden, *self._parameters(), self.objective.soft_cap)

    def _training_loss(self, hidden, labels):
        return cross_entropy(hidden, *self._parameters(), labels, self.objective)

    def _weighted_loss(self, hidden, labels, weights):
        return weighted_cross_entropy(
            hidden, *self._parameters(), labels, weights, self.objective
        )

    def _log_prob(self, hidden, labels):
        plain = Objective(soft_cap=self.objective.soft_cap)
        return -cross_entropy(hidden, *self._parameters(), labels, plain)

    def _top_k(self, hidden, k):
        def chunk(hidden):
            logits = self._logits(hidden)
            values, ids = tf.math.top_k(logits, k)
            return ids, values - tf.reduce_logsumexp(logits, axis=1, keepdims=True)

        return map_row_chunks(chunk, hidden, self.vocab_size)

    def get_config(self):
        return {
            **super().get_config(),
            "use_bias": self.use_bias,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
            "tied_to": keras.saving.serialize_keras_object(self.tied_to),
            "label_smoothing": self.objective.label_smoothing,
            "z_loss": self.objective.z_loss,
            "soft_cap": self.objective.soft_cap,
        }

    @classmethod
    def from_config(cls, config):
        return cls(**{**config, "tied_to": keras.saving.deserialize_keras_object(config["tied_to"])})


def _check(vocab_size, tied_to, label_smoothing, z_loss, soft_cap):
    if tied_to is not None and tied_to.input_dim != vocab_size:
        raise ValueError(
            f"`tied_to` must be an embedding of {vocab_size} words. "
            f"Received: an embedding of {tied_to.input_dim} words"
        )
    if not 0 <= label_smoothing < 1:
        raise ValueError(
            f"`label_smoothing` must lie in [0, 1). Received: label_smoothing={label_smoothing}"
        )
    if z_loss < 0:
        raise ValueError(f"`z_loss` must not be negative. Received: z_loss={z_loss}")
    if soft_cap is not None and soft_cap <= 0:
        raise ValueError(f"`soft_cap` must be positive. Received: soft_cap={soft_cap}")
