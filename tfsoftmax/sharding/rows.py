"""Softmax over a vocabulary whose rows lie on several replicas: `Rows` over shards.

Replica p of P holds the words [p V / P, (p + 1) V / P), rounded down, and sees the positions of
all replicas. With ln Z_p = ln Σ exp z over its own words,

    ln Z = ln Σ_p Z_p,   dh = Σ_p f (e_p W_p) - w W_y,   dW_p = e_pᵀ (f h) - [w h in row y],

so that the replicas exchange, for N positions in all of them,

    hidden states and labels (N, D + 2),   ln Z_p and the labels' scores (P, 2, N)

in the forward pass, by all-gathers, and the positions' weights (N,) by an all-gather and dh (N, D)
by an all-reduce in the backward pass. A maximum need not be exchanged. tf.distribute has no public
reduce-scatter; that would halve the bytes of dh. As ln Z must be known before dW_p, the gradient
computes the logits again: four matmuls of N D V / P for each replica.

No tensor has V rows, and no matrix (n, V / P) outlives its chunk of positions.

Source: Shoeybi et al. 2019 (Megatron-LM), section 3. Departure: it exchanges the maximum, the sum
and the label's score in three all-reduces.
"""

import dataclasses

import tensorflow as tf

from tfsoftmax.distributions import products
from tfsoftmax.distributions.base import Distribution, Objective
from tfsoftmax.distributions.chunk_gradients import (
    RowLoss,
    blocks_of,
    chunk_gradients,
    logits_of,
    normaliser_terms,
)
from tfsoftmax.distributions.log_sums import log_sum_of_blocks
from tfsoftmax.distributions.penalised import minus_targets
from tfsoftmax.distributions.rows import Rows
from tfsoftmax.ops.chunks import sum_over_chunks
from tfsoftmax.ops.custom_gradients import differentiable
from tfsoftmax.ops.logits import full_logits, labels_of_blocks, logits_rows, map_row_chunks
from tfsoftmax.ops.ranking import best, columns_of_best, given, without
from tfsoftmax.ops.replicas import of_all_replicas, sum_of_replicas
from tfsoftmax.ops.weighting import weighted_sum
from tfsoftmax.sharding.shards import Shard


@dataclasses.dataclass(frozen=True)
class RowsInShards(Distribution):
    """`Rows`, of which each replica has those of its shard; all replicas call together.

    Attributes:
        rows: a `Rows` with the kernel (⌈V / P⌉, D) and the bias (⌈V / P⌉,) or None; the last row
            is padding where the shard has fewer words.
        shard: a `Shard`.

    Example:
        from tfsoftmax.distributions.rows import Rows
        from tfsoftmax.sharding.shards import Shard
        rows = Rows(keras.random.normal((1000, 64)))
        rows = tfsoftmax.sharding.rows.RowsInShards(rows, Shard(0, 1, 1000))
    """

    rows: Rows
    shard: Shard

    @property
    def vocab_size(self) -> int:
        return self.shard.vocab_size

    def penalised(self, label_smoothing: float = 0.0, z_loss: float = 0.0) -> "PenalisedInShards":
        """The cross-entropy with what `RowLoss` adds to it."""
        loss = RowLoss(self.rows.soft_cap, label_smoothing, z_loss)
        return PenalisedInShards(self.rows, self.shard, loss)

    def logits(self, hidden):
        """Each replica holds (N, V) for a while."""
        every, _, own = self.shard.gather_positions(hidden)
        logits = full_logits(every, *self._words(), self.rows.soft_cap)
        return own(of_all_replicas(logits, axis=1))

    def log_normaliser(self, hidden):
        labels = tf.zeros(tf.shape(hidden)[:1], tf.int32)
        return self.penalised().losses(hidden, labels)[2]

    def top_k(self, hidden, k, excluded=None):
        """The replicas exchange the k likeliest words of each shard, (P, N, k)."""
        every, _, own = self.shard.gather_positions(hidden)
        kernel, bias = self._words()
        if excluded is not None:
            excluded = of_all_replicas(_of_equal_width(excluded))

        def chunk(hidden, excluded=None):
            logits = full_logits(hidden, kernel, bias, self.rows.soft_cap)
            log_z = tf.reduce_logsumexp(logits, axis=1)
            logits = without(logits, excluded, self.shard.first)
            return *columns_of_best(logits, k), log_z

        values, ids, log_z = map_row_chunks(chunk, every, self.shard.words, *given(excluded))
        columns = of_all_replicas([t[None] for t in (values, ids + self.shard.first, log_z)])
        values, ids = best(k, tuple(own(_side_by_side(t)) for t in columns[:2]))
        return ids, values - own(tf.reduce_logsumexp(columns[2], axis=0))[:, None]

    def nats(self, hidden, labels):
        return self.penalised().nats(hidden, labels)

    def weighted_nats(self, hidden, labels, weights):
        return self.penalised().weighted_nats(hidden, labels, weights)

    def _words(self):
        return _without_padding(self.rows.kernel, self.rows.bias, self.shard)


@dataclasses.dataclass(frozen=True)
class PenalisedInShards(Objective):
    """The cross-entropy of `RowsInShards`, and what `RowLoss` adds to it.

    All replicas call it together, and its gradient too. The gradient with respect to kernel and
    bias is that of the sum of all replicas' positions, which must not be summed again.

    Attributes:
        rows, shard: as in `RowsInShards`.
        loss: a `RowLoss`.

    Example:
        from tfsoftmax.distributions.rows import Rows
        from tfsoftmax.sharding.rows import PenalisedInShards
        from tfsoftmax.sharding.shards import Shard
        rows = Rows(keras.random.normal((1000, 64)))
        objective = PenalisedInShards(rows, Shard(0, 1, 1000))
    """

    rows: Rows
    shard: Shard
    loss: RowLoss = RowLoss()

    def nats(self, hidden, labels):
        return self.losses(hidden, labels)[0]

    def weighted_nats(self, hidden, labels, weights):
        losses, nats, _ = self.losses(hidden, labels)
        return weighted_sum(losses, weights), nats

    def losses(
        self, hidden: tf.Tensor, labels: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """The losses, and without a gradient the exact cross-entropies and ln Z, (n,) each."""
        shard, loss = self.shard, self.loss

        def function(hidden, kernel, bias):
            every, every_label, own = shard.gather_positions(hidden, labels)
            bands = [_without_padding(kernel, bias, shard)]
            rows = every_label - shard.first  # of the kernel, or below or beyond it
            log_z, target, spread = _exchanged(every, bands, rows, shard, loss)
            others = dataclasses.replace(loss, label_smoothing=0.0)
            losses = spread + normaliser_terms([], log_z, others)
            losses -= (1 - loss.label_smoothing) * target

            def gradients(upstream, *_):
                d_hidden, d_shard = _gradients(
                    every, bands, rows, target, of_all_replicas(upstream), log_z, loss, shard
                )
                d_shard = [_with_padding(d, shard) for d in d_shard]
                return own(sum_of_replicas(d_hidden)), d_shard

            return tuple(map(own, (losses, log_z - target, log_z))), gradients

        return differentiable(function, hidden, self.rows.kernel, self.rows.bias)


def _without_padding(kernel, bias, shard):
    """The rows of the shard's words; a view, as they are the first ones."""
    if shard.words == shard.rows:
        return kernel, bias
    return kernel[: shard.words], None if bias is None else bias[: shard.words]


def _with_padding(gradient, shard):
    """A gradient (words, ...) with zeros for the rows that hold no words."""
    if shard.words == shard.rows:
        return gradient
    return tf.pad(gradient, [[0, shard.rows - shard.words]] + [[0, 0]] * (len(gradient.shape) - 1))


def _of_equal_width(excluded):
    """Ids (n, E), padded with -1 to the largest E of all replicas."""
    width = tf.shape(excluded)[1]
    more = tf.reduce_max(of_all_replicas(width[None])) - width
    return tf.pad(excluded, [[0, 0], [0, more]], constant_values=-1)


def _side_by_side(tensor):
    """(N, P k) for (P, N, k)."""
    replicas, positions, _ = tf.unstack(tf.shape(tensor))
    columns = replicas * tensor.shape[2]
    return tf.reshape(tf.transpose(tensor, [1, 0, 2]), [positions, columns])


def _exchanged(hidden, bands, rows, shard, loss):
    """ln Z (N,), the labels' logits (N,) and -ε mean z (N,), or zero without smoothing."""
    blocks, smooth = blocks_of(bands, hidden.dtype), bool(loss.label_smoothing)
    only_smoothing = dataclasses.replace(_of_shard(loss, shard), log_z=0.0, z_loss=0.0)

    def chunk(hidden, rows):
        logits = logits_of([hidden], blocks, loss.soft_cap)
        target, read = labels_of_blocks(logits, rows)
        log_sum = log_sum_of_blocks(logits, read)
        spread = smooth * [normaliser_terms(logits, log_sum, only_smoothing)]
        return [log_sum, target, *spread]

    inside = (rows >= 0) & (rows < shard.words)
    log_z, target, *spread = map_row_chunks(
        chunk, hidden, shard.words, tf.where(inside, rows, 0)
    )
    parts = [log_z, tf.where(inside, target, 0.0), *spread]
    parts = of_all_replicas(tf.stack(parts)[None])
    log_z, sums = tf.reduce_logsumexp(parts[:, 0], axis=0), tf.reduce_sum(parts[:, 1:], axis=0)
    return log_z, sums[0], sums[1] if smooth else 0.0


def _gradients(hidden, bands, rows, target, weights, log_z, loss, shard):
    """dh (N, D), the shard's part of it, and [dW, db] of the shard, float32."""
    blocks, of_shard = blocks_of(bands, hidden.dtype), _of_shard(loss, shard)
    most = logits_rows(shard.words, hidden.shape[1])

    def chunk(hidden, weights, log_z, totals):
        (d_hidden, *_), totals = chunk_gradients(
            None, weights, [hidden], blocks, of_shard, totals, log_z
        )
        return d_hidden, totals

    def function(weights):
        d_hidden, totals = sum_over_chunks(chunk, most, hidden, weights, log_z)
        d_bands = [[tf.concat(terms, 0) for terms in zip(*totals)]]
        d_hidden, (d_shard,) = minus_targets(
            d_hidden, d_bands, hidden, bands, rows, target, weights, loss
        )
        return None, (d_hidden, d_shard)

    return products.with_unit_weights(function, weights, hidden.dtype)[1]


def _of_shard(loss, shard):
    """The loss with the part of the smoothed mass that falls on the shard's words."""
    smoothing = loss.label_smoothing * shard.words / shard.vocab_size
    return dataclasses.replace(loss, label_smoothing=smoothing)
