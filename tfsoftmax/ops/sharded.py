"""Softmax over a vocabulary whose rows lie on several replicas, `cross_entropy` across shards.

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

from tfsoftmax.ops import products
from tfsoftmax.ops.chunk_gradients import (
    PLAIN,
    blocks_of,
    chunk_gradients,
    logits_of,
    normaliser_terms,
)
from tfsoftmax.ops.chunks import sum_over_chunks
from tfsoftmax.ops.cross_entropy import minus_targets
from tfsoftmax.ops.custom_gradients import differentiable
from tfsoftmax.ops.log_sums import log_sum_of_blocks
from tfsoftmax.ops.logits import full_logits, labels_of_blocks, logits_rows, map_row_chunks
from tfsoftmax.ops.replicas import of_all_replicas, sum_of_replicas


def sharded_cross_entropy(hidden, kernel, bias, labels, shard, objective=PLAIN):
    """Cross-entropy of each position of this replica, over the words of all replicas.

    All replicas call it together, and its gradient too. The gradient with respect to kernel and
    bias is that of the sum of all replicas' positions, which must not be summed again.

    Args:
        hidden: (n, D) float; its dtype is the dtype of the matmuls.
        kernel: (⌈V / P⌉, D) float32; the last row is padding where the shard has fewer words.
        bias: (⌈V / P⌉,) float32, or None.
        labels: (n,) int32 in [0, V).
        shard: a `Shard`.
        objective: an `Objective`.

    Returns:
        losses: (n,) float32, nats, differentiable with respect to hidden, kernel and bias.
        nats: (n,) float32, the exact cross-entropy, without smoothing or z-loss; no gradient.
        log_z: (n,) float32, ln Σ exp z; no gradient.
    """

    def function(hidden, kernel, bias):
        every, every_label, own = shard.gather_positions(hidden, labels)
        bands = [_without_padding(kernel, bias, shard)]
        rows = every_label - shard.first  # of the kernel, or below or beyond it
        log_z, target, spread = _exchanged(every, bands, rows, shard, objective)
        losses = spread + normaliser_terms([], log_z, _without_smoothing(objective))
        losses -= (1 - objective.label_smoothing) * target

        def gradients(upstream, *_):
            d_hidden, d_shard = _gradients(
                every, bands, rows, target, of_all_replicas(upstream), log_z, objective, shard
            )
            return own(sum_of_replicas(d_hidden)), [_with_padding(d, shard) for d in d_shard]

        return tuple(map(own, (losses, log_z - target, log_z))), gradients

    return differentiable(function, hidden, kernel, bias)


def sharded_top_k(hidden, kernel, bias, k, shard, soft_cap=None):
    """The k likeliest of all words: ids (n, k) int32 and log-probabilities (n, k) float32.

    The replicas exchange the k likeliest words of each shard, (P, N, k). The arguments are those
    of `sharded_cross_entropy`.
    """
    every, _, own = shard.gather_positions(hidden)
    kernel, bias = _without_padding(kernel, bias, shard)
    most, missing = min(k, shard.words), max(0, k - shard.words)

    def chunk(hidden):
        logits = full_logits(hidden, kernel, bias, soft_cap)
        values, ids = tf.math.top_k(logits, most)
        values = tf.pad(values, [[0, 0], [0, missing]], constant_values=float("-inf"))
        return values, tf.pad(ids, [[0, 0], [0, missing]]), tf.reduce_logsumexp(logits, axis=1)

    values, ids, log_z = map_row_chunks(chunk, every, shard.words)
    columns = of_all_replicas([t[None] for t in (values, ids + shard.first, log_z)])
    values, ids = (own(_side_by_side(t)) for t in columns[:2])
    best, place = tf.math.top_k(values, k)
    log_z = own(tf.reduce_logsumexp(columns[2], axis=0))
    return tf.gather(ids, place, batch_dims=1), best - log_z[:, None]


def sharded_logits(hidden, kernel, bias, shard, soft_cap=None):
    """Logits (n, V) float32, for which each replica holds (N, V) for a while.

    The arguments are those of `sharded_cross_entropy`.
    """
    every, _, own = shard.gather_positions(hidden)
    logits = full_logits(every, *_without_padding(kernel, bias, shard), soft_cap)
    return own(of_all_replicas(logits, axis=1))


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


def _side_by_side(tensor):
    """(N, P k) for (P, N, k)."""
    replicas, positions, _ = tf.unstack(tf.shape(tensor))
    columns = replicas * tensor.shape[2]
    return tf.reshape(tf.transpose(tensor, [1, 0, 2]), [positions, columns])


def _exchanged(hidden, bands, rows, shard, objective):
    """ln Z (N,), the labels' logits (N,) and -ε mean z (N,), or zero without smoothing."""
    blocks, smooth = blocks_of(bands, hidden.dtype), bool(objective.label_smoothing)
    only_smoothing = dataclasses.replace(_of_shard(objective, shard), log_z=0.0, z_loss=0.0)

    def chunk(hidden, rows):
        logits = logits_of([hidden], blocks, objective.soft_cap)
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


def _gradients(hidden, bands, rows, target, weights, log_z, objective, shard):
    """dh (N, D), the shard's part of it, and [dW, db] of the shard, float32."""
    blocks, of_shard = blocks_of(bands, hidden.dtype), _of_shard(objective, shard)
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
            d_hidden, d_bands, hidden, bands, rows, target, weights, objective
        )
        return None, (d_hidden, d_shard)

    return products.with_unit_weights(function, weights, hidden.dtype)[1]


def _of_shard(objective, shard):
    """The objective with the part of the smoothed mass that falls on the shard's words."""
    smoothing = objective.label_smoothing * shard.words / shard.vocab_size
    return dataclasses.replace(objective, label_smoothing=smoothing)


def _without_smoothing(objective):
    return dataclasses.replace(objective, label_smoothing=0.0)
