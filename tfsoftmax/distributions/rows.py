"""Softmax of h Wᵀ + b, with one row of W for each word, or with the words in bands.

Shapes: N positions, D hidden units, V words.
"""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from tfsoftmax.distributions.base import Distribution
from tfsoftmax.distributions.chunk_gradients import RowLoss
from tfsoftmax.distributions.drawn_tiles import Draw
from tfsoftmax.distributions.penalised import Penalised
from tfsoftmax.ops.chunks import in_turn
from tfsoftmax.ops.graphs import whole
from tfsoftmax.ops.logits import (
    bands_of,
    full_logits,
    map_row_chunks,
    top_k_of,
    words_of,
)
from tfsoftmax.ops.ranking import best, columns_of_best, given, without
from tfsoftmax.support import budgets


@dataclasses.dataclass(frozen=True)
class Rows(Distribution):
    """P(w | h) = exp(z_w) / Σ_v exp(z_v) with z = h Wᵀ + b.

    Words in bands see parts of the hidden state, from left to right, each with a kernel (V_b, d_b)
    and biases (V_b,), in a list; their ids follow one another.

    Attributes:
        kernel: (V, D) float, or the list of the bands' kernels.
        bias: (V,) float, or None; for words in bands, a list of them.
        soft_cap: caps the logits smoothly, z → soft_cap · tanh(z / soft_cap), unless it is None.

    Example:
        rows = tfsoftmax.distributions.rows.Rows(keras.random.normal((1000, 64)))
        ids, log_probs = rows.top_k(keras.random.normal((8, 64)), 5)
    """

    kernel: tf.Tensor | list[tf.Tensor]
    bias: tf.Tensor | list[tf.Tensor | None] | None = None
    soft_cap: float | None = None

    @property
    def vocab_size(self) -> int:
        return words_of(self._bands)

    @property
    def _bands(self):
        return bands_of(self.kernel, self.bias)

    def penalised(
        self, label_smoothing: float = 0.0, z_loss: float = 0.0, log_z: float = 1.0,
        subset: Callable[[tf.Tensor], tf.Tensor] | None = None, draw: Draw | None = None,
    ) -> Penalised:
        """The cross-entropy with what `RowLoss` and `Penalised` add to it."""
        loss = RowLoss(self.soft_cap, label_smoothing, z_loss, log_z)
        return Penalised(self._bands, loss, subset, draw)

    def logits(self, hidden):
        return full_logits(hidden, self.kernel, self.bias, self.soft_cap)

    def log_normaliser(self, hidden):
        return Distribution.log_normaliser(self._read_once(), hidden)

    def top_k(self, hidden, k, excluded=None):
        """Words come in blocks, so that memory does not grow with V."""
        rows = self._read_once()
        most = budgets.TOP_K_WORDS
        if isinstance(self.kernel, (list, tuple)) or self.vocab_size <= most:
            return top_k_of(rows.logits, hidden, k, self.vocab_size, excluded)
        return map_row_chunks(
            lambda hidden, *excluded: rows._top_k_of_blocks(hidden, k, *excluded), hidden, most,
            *given(excluded),
        )

    def nats(self, hidden, labels):
        return self.penalised().nats(hidden, labels)

    def weighted_nats(self, hidden, labels, weights):
        return self.penalised().weighted_nats(hidden, labels, weights)

    def _read_once(self):
        """The same with kernels that are read now, and not in a loop over positions."""
        several = isinstance(self.kernel, (list, tuple))
        kernel = [*map(whole, self.kernel)] if several else whole(self.kernel)
        return dataclasses.replace(self, kernel=kernel)

    def _top_k_of_blocks(self, hidden, k, excluded=None):
        """`top_k` of a chunk of positions, whose logits exist for one block at a time."""
        words = self.vocab_size
        size = min(words, max(k, budgets.TOP_K_WORDS))

        def block(start, count):
            """The k best of some words, or all if they are fewer, and ln Σ exp of their logits."""
            biases = None if self.bias is None else self.bias[start : start + count]
            kernel = self.kernel[start : start + count]
            logits = full_logits(hidden, kernel, biases, self.soft_cap)
            log_z = tf.reduce_logsumexp(logits, axis=1, keepdims=True)
            logits = without(logits, excluded, start)
            values, ids = columns_of_best(logits, min(k, count))
            return values, ids + start, log_z

        def joined(first, more):
            log_sums = tf.concat([first[2], more[2]], 1)
            log_z = tf.reduce_logsumexp(log_sums, 1, keepdims=True)
            return *best(k, first[:2], more[:2]), log_z

        def visit(i, likeliest):
            found = block(i * size, size)
            return [], found if likeliest is None else joined(likeliest, found)

        _, likeliest = in_turn(visit, words // size)
        if words % size:
            with tf.control_dependencies(likeliest):  # matmuls side by side take longer
                last = block(words - words % size, words % size)
            likeliest = joined(likeliest, last)
        values, ids, log_z = likeliest
        return ids, values - log_z
