"""Heads whose logits are an affine map of the hidden state: a kernel row and a bias per word."""

import dataclasses
import functools

import tensorflow as tf

from tfsoftmax.distributions.base import Distribution
from tfsoftmax.distributions.rows import Rows
from tfsoftmax.heads.tied import TiedHead
from tfsoftmax.heads.vectors import check_is_index
from tfsoftmax.layers.scoring_table import scoring_rows, scoring_table
from tfsoftmax.ops.graphs import whole
from tfsoftmax.ops.logits import capped, label_logits, rows_of
from tfsoftmax.ops.ranking import among, best
from tfsoftmax.support.arguments import ArrayLike, expect


class LinearHead(TiedHead):
    """P(w | h) = exp(z_w) / Σ_v exp(z_v) with z = h Wᵀ + b, computed exactly outside training.

    Exact log-probabilities are computed in chunks of positions, so that only the logits of one
    chunk are in memory. Logits are float32 under any dtype policy. A subclass says how to train:
    it writes `objective`. One whose scores are not h Wᵀ + b also overrides `_parameters`, from
    which all exact results follow, and `_self_normalised` to match.

    Args:
        vocab_size: V, the number of words.
        tied_to: as in `TiedHead`.
        **kwargs: options of the weights and of the layer, `heads.options.HeadOptions`. The kernel
            (V, D) has one row for each word.

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
        self._units = size = hidden_shape[-1]
        if self.tied_to is None:
            self.kernel, self.bias = self._kernel_and_bias(self.vocab_size, size)
        else:
            self._require_cap_of_embedding()
            self._build_tied(size)
            self.bias = self._add_bias(self.vocab_size)

    def _require_cap_of_embedding(self):
        cap = getattr(self.tied_to, "logit_soft_cap", None)
        expect(cap in (None, self.soft_cap), "`soft_cap`, which FullSoftmax takes,",
               f"be the `logit_soft_cap` of `tied_to`, {cap}",
               received=f"{type(self).__name__} with soft_cap={self.soft_cap}")

    def log_normaliser(self, hidden: ArrayLike) -> tf.Tensor:
        """ln Z(h) = ln Σ_v exp(z_v), exact: (...) float32 for hidden (..., D), no gradient."""
        return self._by_row(self._log_normaliser, hidden)

    def top_k(
        self, hidden: ArrayLike, k: int, index: object | None = None, *,
        exclude: ArrayLike | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The k likeliest words: ids (..., k) int32 and log-probabilities (..., k) float32.

        Both are exact, unless `index`, a `tfsoftmax.search.WordIndex` of the head, finds the words
        without the scores of all: it may miss some, and log-probabilities are then estimates.
        `exclude` (..., E) are words to leave out, as in `SoftmaxHead.top_k`.
        """
        if index is None:
            return super().top_k(hidden, k, exclude=exclude)
        check_is_index(index)

        def search(rows, k, excluded=None):
            if excluded is None:
                found = index.likeliest(self, rows, k)
                return found.ids, found.estimated_log_probs
            width = excluded.shape[1]
            expect(width is not None, "exclude", "have a known width with `index`, which searches "
                   "for that many more words", received=f"shape {excluded.shape}")
            # Only k of them are needed if it holds nothing but padding.
            found = index.likeliest(self, rows, min(k + width, self.vocab_size), at_least=k)
            out = among(found.ids, excluded)
            scores = tf.where(out, -float("inf"), found.estimated_log_probs)
            return best(k, (scores, found.ids))[::-1]

        return self._listed(search, hidden, k, exclude)

    def self_normalised_log_prob(
        self, hidden: ArrayLike, labels: ArrayLike, mask: ArrayLike | None = None
    ) -> tf.Tensor:
        """The label's log-probability if Z(h) were the constant that training holds it to.

        (...) float32 for hidden (..., D) and labels (...), at a cost of N D, which does not depend
        on V. It is near the exact one for heads that are `self_normalised`, and gives no
        perplexity. `mask` and errors are those of `training_loss`.

        Source: Müller 2017, section 2.2.3.6.
        """
        return self._by_position(self._self_normalised, hidden, labels, mask=mask)

    def _kernel(self):
        """The variable (V, D), or the table by which the tied embedding scores."""
        return self.kernel.value if self.tied_to is None else scoring_table(self.tied_to)

    def _parameters(self):
        """Kernel (V, D) and bias (V,), or None, of the exact distribution, or this shard's rows."""
        return self._kernel(), None if self.bias is None else self.bias.value

    def distribution(self) -> Distribution:
        return Rows(*self._parameters(), self.soft_cap)

    def plain_softmax(self) -> Rows | None:
        rows = self.distribution() if self.built and self.is_distribution else None
        if not isinstance(rows, Rows):
            return None
        return dataclasses.replace(rows, kernel=whole(rows.kernel))

    def _log_normaliser(self, hidden):
        return tf.stop_gradient(self.distribution().log_normaliser(hidden))

    def _word_ids(self):
        """The words whose rows the replica holds, int32."""
        return tf.range(self.vocab_size)

    def _reader(self, ids):
        """A function that reads the rows of ids (n,) of a variable, float32."""
        return functools.partial(rows_of, ids=ids)

    def _rows_and_biases(self, ids, training=False):
        """Kernel rows (n, D) and biases (n,), or zeros, float32, of ids (n,), as trained."""
        read = self._reader(ids)
        biases = tf.zeros(tf.shape(ids)) if self.bias is None else read(self.bias.value)
        return tf.cast(self._kernel_rows(ids, read, training), tf.float32), biases

    def _kernel_rows(self, ids, read, training):
        """The rows (n, D) of ids (n,) in `_kernel()`; `read` gathers those of a variable."""
        if self.tied_to is None:
            return read(self.kernel.value)
        return scoring_rows(self.tied_to, ids, read, training)

    def _label_scores(self, hidden, labels):
        """Score of each position's label, (N,) float32, at the cost of N D."""
        rows, biases = self._rows_and_biases(labels)
        return label_logits(hidden, rows, biases, tf.range(tf.size(labels)))[0]

    def _self_normalised(self, hidden, labels):
        """The label's score, which is its log-probability if Z is one: (N,)."""
        return capped(self._label_scores(hidden, labels), self.soft_cap)
