"""Heads whose logits are an affine map of the hidden state: a kernel row and a bias per word."""

import tensorflow as tf
from numpy.typing import ArrayLike

from tfsoftmax.heads.tied import TiedHead
from tfsoftmax.layers.scoring_table import scoring_table
from tfsoftmax.ops.cross_entropy import Objective, cross_entropy
from tfsoftmax.ops.logits import (
    capped,
    exact_top_k,
    full_logits,
    label_logits,
    map_row_chunks,
    rows_of,
)


class LinearHead(TiedHead):
    """P(w | h) = exp(z_w) / Σ_v exp(z_v) with z = h Wᵀ + b, computed exactly outside training.

    Exact log-probabilities are computed in chunks of positions, so that only the logits of one
    chunk are in memory. Logits are float32 under any dtype policy. A subclass says how to train:
    it writes `_training_loss` and `training_products`. One whose scores are not h Wᵀ + b also
    overrides `_parameters`, from which all exact results follow, and `_self_normalised` to match.

    Args:
        vocab_size: V, the number of words.
        **kwargs: arguments of `TiedHead` and `SoftmaxHead` (tied_to, use_bias, kernel_initializer,
            bias_initializer), whose kernel (V, D) has one row for each word, and of
            `keras.layers.Layer`.

    Example:
        hidden = keras.random.normal((8, 64))
        head = tfsoftmax.SampledSoftmax(1000, num_samples=50)
        assert isinstance(head, tfsoftmax.heads.linear.LinearHead)
        log_z = head.log_normaliser(hidden)  # (8,)

    Source: Müller 2017, section 3.1. Departures: the kernel there is transposed, and the (N, V)
    logits are formed whole.
    """

    soft_cap: float | None = None  # a subclass may cap its logits

    def build(self, hidden_shape):
        super().build(hidden_shape)
        size = hidden_shape[-1]
        if self.tied_to is None:
            self.kernel, self.bias = self._kernel_and_bias(self.vocab_size, size)
        else:
            self._require_cap_of_embedding()
            self._build_tied(size)
            self.bias = self._add_bias(self.vocab_size)

    def _require_cap_of_embedding(self):
        cap = getattr(self.tied_to, "logit_soft_cap", None)
        if cap not in (None, self.soft_cap):
            raise ValueError(
                f"`soft_cap`, which FullSoftmax takes, must be the `logit_soft_cap` of `tied_to`, "
                f"{cap}. Received: {type(self).__name__} with soft_cap={self.soft_cap}"
            )

    def log_normaliser(self, hidden: ArrayLike) -> tf.Tensor:
        """ln Z(h) = ln Σ_v exp(z_v), exact: (...) float32 for hidden (..., D), no gradient."""
        return self._by_row(self._log_normaliser, hidden)

    def self_normalised_log_prob(self, hidden: ArrayLike, labels: ArrayLike) -> tf.Tensor:
        """The label's log-probability if Z(h) were the constant that training holds it to.

        (...) float32 for hidden (..., D) and labels (...), at a cost of N D, which does not depend
        on V. It is near the exact one for heads that are `self_normalised`, and gives no
        perplexity.

        Source: Müller 2017, section 2.2.3.6.
        """
        return self._by_position(self._self_normalised, hidden, labels)

    def _kernel(self):
        """The variable (V, D), from which training may gather rows, or what it amounts to."""
        return self.kernel.value if self.tied_to is None else scoring_table(self.tied_to)

    def _parameters(self):
        """Kernel (V, D) and bias (V,), or None, of the exact distribution."""
        return self._kernel(), None if self.bias is None else self.bias.value

    def _log_normaliser(self, hidden):
        def chunk(hidden):
            return tf.reduce_logsumexp(self._logits(hidden), axis=1)

        return tf.stop_gradient(map_row_chunks(chunk, hidden, self.vocab_size))

    def _biases(self, ids):
        """Biases (...) float32 of ids (...), as trained; zeros without a bias."""
        return tf.zeros(tf.shape(ids)) if self.bias is None else rows_of(self.bias.value, ids)

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
