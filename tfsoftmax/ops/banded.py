"""Softmax cross-entropy over words in bands, each of which sees hidden units of its own.

With band b of V_b words, its part h_b (N, d_b) of the hidden state and its kernel W_b (V_b, d_b),

    z = [h_0 W_0ᵀ + b_0, h_1 W_1ᵀ + b_1, ...],   P(w | h) = exp(z_w) / Σ_v exp(z_v),

one softmax over all words. The gradient is hand-written and the positions go in chunks as in
`ops/cross_entropy.py`, of which this is the case of a block-diagonal kernel: N Σ V_b d_b
multiplications instead of N V D. Words are named by their frequency rank.

Shapes: N positions, D = Σ d_b hidden units, V = Σ V_b words.
"""

import tensorflow as tf

from tfsoftmax.ops.chunks import sum_over_chunks
from tfsoftmax.ops.cross_entropy import kernel_blocks, full_logits, map_row_chunks, most_rows


def banded_logits(hidden, kernels, biases):
    """Logits (N, V) float32 in the order of ranks; arguments as in `banded_cross_entropy`."""
    blocks = [[band] for band in zip(kernels, biases)]
    return tf.concat([z for band in _logits(hidden, kernels, blocks) for z in band], axis=1)


def banded_cross_entropy(hidden, kernels, biases, ranks):
    """Cross-entropy of each position, for any use that is made of it.

    Args:
        hidden: (N, D) float, the parts of the bands side by side; its dtype is the dtype of the
            matmuls.
        kernels: list of (V_b, d_b) float32, the band of the most frequent words first.
        biases: list of (V_b,) float32, or of None.
        ranks: (N,) int32 in [0, V), the frequency ranks of the labels.

    Returns:
        (N,) float32, nats. Differentiable with respect to hidden, kernels and biases; the
        gradient computes the logits a second time.
    """

    def function(hidden, kernels, biases):
        vocab_size = sum(kernel.shape[0] for kernel in kernels)
        blocks = _blocks(kernels, biases, hidden.dtype)
        log_sum = map_row_chunks(
            lambda rows: _exponentials(_logits(rows, kernels, blocks))[1], hidden, vocab_size
        )
        target = _targets(hidden, kernels, biases, ranks)[0]

        def gradient(upstream):
            return _with_gradients(hidden, kernels, biases, ranks, upstream)[1]

        return log_sum - target, gradient

    return _differentiable(function, hidden, kernels, biases)


def weighted_banded_cross_entropy(hidden, kernels, biases, ranks, weights):
    """Σ weights · cross-entropy, whose gradients are formed while the logits are at hand.

    Args:
        hidden, kernels, biases, ranks: as in `banded_cross_entropy`.
        weights: (N,) float32, the weight of each position in the total.

    Returns:
        total: scalar float32, differentiable with respect to hidden, kernels and biases.
        nats: (N,) float32, cross-entropy without a gradient.
    """

    def function(hidden, kernels, biases):
        nats, gradients = _with_gradients(hidden, kernels, biases, ranks, weights)

        def gradient(upstream, _):
            return [upstream * g for g in gradients]

        return (tf.reduce_sum(weights * nats), nats), gradient

    return _differentiable(function, hidden, kernels, biases)


def _differentiable(function, hidden, kernels, biases):
    """Calls `function` with a custom gradient: a list for hidden, then kernels, then biases."""
    count = len(kernels)
    present = [bias for bias in biases if bias is not None]

    @tf.custom_gradient
    def differentiable(hidden, *flat):
        results, gradient = function(hidden, flat[:count], flat[count:] or [None] * count)

        def cast_gradient(*upstream):
            return [tf.cast(g, x.dtype) for g, x in zip(gradient(*upstream), (hidden, *flat))]

        return results, cast_gradient

    return differentiable(hidden, *kernels, *present)


def _parts(hidden, kernels):
    return tf.split(hidden, [kernel.shape[1] for kernel in kernels], axis=1)


def _blocks(kernels, biases, dtype):
    """For each band, [(some rows of its kernel in `dtype`, their biases)]."""
    return [kernel_blocks(*band, dtype) for band in zip(kernels, biases)]


def _logits(hidden, kernels, blocks):
    """Logits (N, rows) of each block of each band."""
    return [
        [full_logits(part, kernel, bias) for kernel, bias in band]
        for part, band in zip(_parts(hidden, kernels), blocks)
    ]


def _exponentials(logits):
    """exp(z - max z) in the structure of the logits; ln Σ exp z, (N,); Σ exp(z - max z), (N,)."""
    flat = tf.nest.flatten(logits)
    maximum = tf.reduce_max(tf.stack([tf.reduce_max(z, axis=1) for z in flat]), axis=0)
    exps = tf.nest.map_structure(lambda z: tf.exp(z - maximum[:, None]), logits)
    sums = tf.add_n([tf.reduce_sum(e, axis=1) for e in tf.nest.flatten(exps)])
    return exps, maximum + tf.math.log(sums), sums


def _targets(hidden, kernels, biases, ranks):
    """Labels' logits (N,); for each band, which positions it holds, their words, their rows."""
    total, bands, first = tf.zeros(tf.shape(ranks)), [], 0
    for part, kernel, bias in zip(_parts(hidden, kernels), kernels, biases):
        words = ranks - first
        inside = tf.cast((words >= 0) & (words < kernel.shape[0]), tf.float32)
        words = tf.clip_by_value(words, 0, kernel.shape[0] - 1)
        rows = tf.cast(tf.cast(tf.gather(kernel, words), hidden.dtype), tf.float32)
        logits = tf.reduce_sum(tf.cast(part, tf.float32) * rows, axis=1)
        total += inside * (logits if bias is None else logits + tf.gather(bias, words))
        bands.append((inside, words, rows))
        first += kernel.shape[0]
    return total, bands


def _with_gradients(hidden, kernels, biases, ranks, weights):
    """Nats (N,), and the float32 gradients of Σ weights · nats: [dh, *dW, *db]."""
    vocab_size = sum(kernel.shape[0] for kernel in kernels)
    blocks = _blocks(kernels, biases, hidden.dtype)

    def chunk(hidden, weights, totals):
        return _chunk(hidden, weights, kernels, blocks, totals)

    (d_hidden, log_sum), totals = sum_over_chunks(
        chunk, most_rows(vocab_size, hidden.shape[1]), hidden, weights
    )
    target, bands = _targets(hidden, kernels, biases, ranks)
    by_band = [[tf.concat(parts, 0) for parts in zip(*band)] for band in totals]
    by_word = [terms[i] for i in range(len(by_band[0])) for terms in by_band]
    gradients = _minus_targets([d_hidden, *by_word], hidden, kernels, bands, weights)
    return log_sum - target, gradients


def _chunk(hidden, weights, kernels, blocks, totals):
    """One chunk: [dh, ln Σ exp z], [[dW, db] of each block] of each band; targets left out."""
    slopes, log_sum, sums = _exponentials(_logits(hidden, kernels, blocks))
    scale, unit = weights / sums, 1.0
    if hidden.dtype == tf.float16:  # small weights would underflow, unnormalised sums overflow
        unit = tf.maximum(tf.reduce_max(tf.abs(weights)), 1e-30)
        slopes = tf.nest.map_structure(lambda e: e * (scale / unit)[:, None], slopes)
        scale = tf.fill(tf.shape(sums), unit)
    scaled = hidden * tf.cast(scale / unit, hidden.dtype)[:, None]
    d_hidden, by_word = [], []
    for band, (part, parts) in enumerate(zip(_parts(scaled, kernels), blocks)):
        products, terms = [], []
        for block, (kernel, bias) in enumerate(parts):
            low = tf.cast(slopes[band][block], hidden.dtype)
            products.append(tf.cast(tf.matmul(low, kernel), tf.float32))
            term = [unit * tf.cast(tf.matmul(low, part, transpose_a=True), tf.float32)]
            if bias is not None:
                term.append(tf.linalg.matvec(slopes[band][block], scale, transpose_a=True))
            if totals is not None:
                term = [old + new for old, new in zip(totals[band][block], term)]
            terms.append(term)
        d_hidden.append(tf.add_n(products))
        by_word.append(terms)
    return [tf.concat(d_hidden, axis=1) * scale[:, None], log_sum], by_word


def _minus_targets(gradients, hidden, kernels, bands, weights):
    """Subtracts w ∂z_y: the part of the gradients that the labels alone determine."""
    count, d_target, d_words = len(kernels), [], []
    for part, (inside, words, rows) in zip(_parts(hidden, kernels), bands):
        scale = inside * weights
        d_target.append(scale[:, None] * rows)
        d_words.append((words[:, None], scale[:, None] * tf.cast(part, tf.float32), scale))
    d_kernels = [
        tf.tensor_scatter_nd_sub(g, ids, rows)
        for g, (ids, rows, _) in zip(gradients[1 : count + 1], d_words)
    ]
    d_biases = [
        tf.tensor_scatter_nd_sub(g, ids, scale)
        for g, (ids, _, scale) in zip(gradients[count + 1 :], d_words)
    ]
    return [gradients[0] - tf.concat(d_target, axis=1), *d_kernels, *d_biases]
