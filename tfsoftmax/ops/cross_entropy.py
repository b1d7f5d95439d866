"""Softmax cross-entropy over a large vocabulary, in row chunks, with a hand-written gradient.

With z = h Wᵀ + b, m = max z, e = exp(z - m), s = Σ e, the loss of a position with
weight w is w (m + ln s - z_y), and its gradient is

    a = w / s,   dh = a (e W) - w W_y,   dW = eᵀ (a h) - [scatter of w h to row y],

so that the (N, V) matrix e is never normalised: the division falls on (N, D). Chunks of
`CHUNK_ROWS` positions, and blocks of the kernel's rows for the products that have the
kernel's shape, bound the memory beyond weights and gradients by

    4 V CHUNK_ROWS bytes for e, and about three times BLOCK_BYTES;

a soft cap or label smoothing takes up to three times the first. Vocabularies for which a
chunk would need more than CHUNK_BYTES and more than the kernel itself get fewer rows.

Shapes: N positions, D hidden units, V words.
"""

import dataclasses

import tensorflow as tf

from tfsoftmax.ops.chunks import map_chunks, sum_over_chunks

# 256 rows lose a quarter of the matmul's speed, 1,280 gain less than 4 % (V=44,370).
CHUNK_ROWS = 512
CHUNK_BYTES = 1 << 29
MIN_CHUNK_ROWS = 64
BLOCK_BYTES = 1 << 25


@dataclasses.dataclass(frozen=True)
class Objective:
    """What is added to plain cross-entropy.

    Attributes:
        soft_cap: the logits become `soft_cap * tanh(logits / soft_cap)`.
        label_smoothing: mass ε moved from the label to the uniform distribution.
        z_loss: coefficient c of c (ln Σ exp z)², which holds the normaliser near one.
        log_z: coefficient of ln Σ exp z; any but one is no likelihood.
    """

    soft_cap: float | None = None
    label_smoothing: float = 0.0
    z_loss: float = 0.0
    log_z: float = 1.0


def capped(logits, soft_cap):
    """`soft_cap * tanh(logits / soft_cap)`, or the logits themselves without a cap."""
    return logits if soft_cap is None else soft_cap * tf.tanh(logits / soft_cap)


def full_logits(hidden, kernel, bias, soft_cap=None):
    """Logits (N, V) in float32; the product is taken in the dtype of `hidden`."""
    logits = tf.matmul(hidden, tf.cast(kernel, hidden.dtype), transpose_b=True)
    logits = tf.cast(logits, tf.float32)
    return capped(logits if bias is None else logits + bias, soft_cap)


def map_row_chunks(function, hidden, vocab_size):
    """Applies `function` to chunks of rows, one after the other, and joins the results.

    Args:
        function: takes (rows, D), returns a structure of tensors with `rows` first; it may
            hold tensors (rows, V) while it runs.
        hidden: (N, D).
        vocab_size: V.

    Returns:
        The structure with N first.
    """
    return map_chunks(function, hidden, most_rows(vocab_size, hidden.shape[1]))


def exact_top_k(hidden, kernel, bias, k, soft_cap=None):
    """The k likeliest words: ids (N, k) int32 and log-probabilities (N, k) float32."""

    def chunk(hidden):
        logits = full_logits(hidden, kernel, bias, soft_cap)
        values, ids = tf.math.top_k(logits, k)
        return ids, values - tf.reduce_logsumexp(logits, axis=1, keepdims=True)

    return map_row_chunks(chunk, hidden, kernel.shape[0])


def cross_entropy(hidden, kernel, bias, labels, objective=Objective(), some=None):
    """Cross-entropy of each position, for any use that is made of it.

    The gradient computes the logits a second time, since it is only then known how much
    each position weighs: four matmuls of N V D. Where the weights are known beforehand,
    `weighted_cross_entropy` needs three.

    Args:
        hidden: (N, D) float; its dtype is the dtype of the matmuls.
        kernel: (V, D) float32.
        bias: (V,) float32, or None.
        labels: (N,) integers in [0, V).
        objective: an `Objective`.
        some: (n,) int32 positions whose normalisers are computed, each of which stands for
            N / n; None: all. The others have what the objective makes of z_y alone.

    Returns:
        (N,) float32, nats. Differentiable with respect to hidden, kernel and bias.
    """
    arguments = [hidden, kernel] + ([] if bias is None else [bias])

    @tf.custom_gradient
    def differentiable(hidden, kernel, bias=None):
        target = _target_logits(hidden, kernel, bias, labels, objective.soft_cap)
        (rows,) = _of_some(some, hidden)
        sums = map_row_chunks(
            lambda chunk: _row_sums(full_logits(chunk, kernel, bias, objective.soft_cap), objective),
            rows, kernel.shape[0],
        )
        nats = _stands_for(some, hidden) * _normaliser_nats(*sums, objective)
        (above,) = _for_all(some, hidden, nats)

        def gradient(upstream):
            _, _, gradients = _with_gradients(
                hidden, kernel, bias, labels, upstream, objective, some
            )
            return [tf.cast(g, x.dtype) for g, x in zip(gradients, arguments)]

        return above - (1 - objective.label_smoothing) * target, gradient

    return differentiable(*arguments)


def weighted_cross_entropy(
    hidden, kernel, bias, labels, weights, objective=Objective(), some=None
):
    """Σ weights · objective, whose gradients are formed while the logits are at hand.

    Args:
        hidden, kernel, bias, labels, objective, some: as in `cross_entropy`.
        weights: (N,) float32, the weight of each position in the total.

    Returns:
        total: scalar float32, differentiable with respect to hidden, kernel and bias.
        nats: (N,) float32, the exact cross-entropy, without smoothing or z-loss; no gradient.
            None where only some normalisers are computed.
    """
    arguments = [hidden, kernel] + ([] if bias is None else [bias])

    @tf.custom_gradient
    def differentiable(hidden, kernel, bias=None):
        losses, nats, gradients = _with_gradients(
            hidden, kernel, bias, labels, weights, objective, some
        )

        def gradient(upstream, *_):
            return [tf.cast(upstream * g, x.dtype) for g, x in zip(gradients, arguments)]

        return (tf.reduce_sum(weights * losses), *nats), gradient

    total, *nats = differentiable(*arguments)
    return total, nats[0] if nats else None


def _normaliser_nats(log_sum, mean, objective):
    """What the objective makes of all logits but the label's, (n,): ln s + c (ln s)² - ε mean(z)."""
    nats = objective.log_z * log_sum + objective.z_loss * tf.square(log_sum)
    return nats - objective.label_smoothing * mean if objective.label_smoothing else nats


def _of_some(some, *tensors):
    """The rows (n, ...) of tensors (N, ...)."""
    return tensors if some is None else [tf.gather(t, some) for t in tensors]


def _for_all(some, hidden, *tensors):
    """Tensors (n, ...) as (N, ...), zeros elsewhere."""
    if some is None:
        return tensors
    count = tf.shape(hidden)[:1]
    return [
        tf.scatter_nd(some[:, None], t, tf.concat([count, tf.shape(t)[1:]], 0)) for t in tensors
    ]


def _stands_for(some, hidden):
    """N / n."""
    return 1.0 if some is None else tf.cast(tf.shape(hidden)[0] / tf.size(some), tf.float32)


def _row_sums(logits, objective):
    """(ln Σ exp z, mean z) of each row; the mean only where smoothing needs it, else zeros."""
    log_sum = tf.reduce_logsumexp(logits, axis=1)
    mean = tf.reduce_mean(logits, 1) if objective.label_smoothing else tf.zeros_like(log_sum)
    return log_sum, mean


def _target_logits(hidden, kernel, bias, labels, soft_cap):
    """The label's logit of each position, (N,) float32."""
    target_rows = tf.cast(tf.gather(kernel, labels), hidden.dtype)
    logits = tf.reduce_sum(tf.cast(hidden, tf.float32) * tf.cast(target_rows, tf.float32), axis=1)
    return capped(logits if bias is None else logits + tf.gather(bias, labels), soft_cap)


def _with_gradients(hidden, kernel, bias, labels, weights, objective, some):
    """Objective (N,), [cross-entropy (N,)] or [], and the gradients, float32, of Σ weights · objective."""
    blocks = kernel_blocks(kernel, bias, hidden.dtype)

    def chunk(hidden, weights, totals):
        return _chunk_with_gradients(hidden, weights, blocks, objective, totals)

    times = _stands_for(some, hidden)
    (d_hidden, log_sum, mean), totals = sum_over_chunks(
        chunk, most_rows(*kernel.shape), *_of_some(some, hidden, times * weights)
    )
    nats = times * _normaliser_nats(log_sum, mean, objective)
    d_hidden, above = _for_all(some, hidden, d_hidden, nats)
    gradients = [d_hidden, *(tf.concat(parts, 0) for parts in zip(*totals))]
    gradients = _minus_targets(gradients, hidden, kernel, bias, labels, weights, objective)
    target = _target_logits(hidden, kernel, bias, labels, objective.soft_cap)
    losses = above - (1 - objective.label_smoothing) * target
    return losses, [log_sum - target] if some is None else [], gradients


def _chunk_with_gradients(hidden, weights, blocks, objective, totals):
    """One chunk: ([dh, ln s, mean z], [[dW, db] of each block, added to `totals`]), targets left out."""
    cap, smoothing = objective.soft_cap, objective.label_smoothing
    logits = [full_logits(hidden, kernel, bias, cap) for kernel, bias in blocks]
    maximum = tf.reduce_max(tf.stack([tf.reduce_max(z, axis=1) for z in logits]), axis=0)
    exps = [tf.exp(z - maximum[:, None]) for z in logits]
    sums = tf.add_n([tf.reduce_sum(e, axis=1) for e in exps])
    log_sum = maximum + tf.math.log(sums)
    mean, vocab_size = tf.zeros_like(sums), sum(kernel.shape[0] for kernel, _ in blocks)
    scale = weights * (objective.log_z + 2 * objective.z_loss * log_sum) / sums
    slopes, rows_scale, unit = exps, scale, None
    if smoothing:
        mean = tf.add_n([tf.reduce_sum(z, axis=1) for z in logits]) / vocab_size
    if smoothing or cap is not None or hidden.dtype == tf.float16:
        slopes, rows_scale = [e * scale[:, None] for e in exps], tf.ones_like(scale)
    if smoothing:
        slopes = [q - (smoothing / vocab_size * weights)[:, None] for q in slopes]
    if cap is not None:
        slopes = [q * (1 - tf.square(z / cap)) for q, z in zip(slopes, logits)]
    if hidden.dtype == tf.float16:  # small weights would underflow, unnormalised sums overflow
        unit = tf.maximum(tf.reduce_max(tf.abs(weights)), 1e-30)
        slopes, rows_scale = [q / unit for q in slopes], unit * rows_scale

    slopes = [tf.cast(q, hidden.dtype) for q in slopes]
    scaled = hidden if unit is not None else hidden * tf.cast(rows_scale, hidden.dtype)[:, None]
    d_hidden = tf.add_n(
        [tf.cast(tf.matmul(q, kernel), tf.float32) for q, (kernel, _) in zip(slopes, blocks)]
    )
    by_word, previous = [], d_hidden
    for q, (_, bias), total in zip(slopes, blocks, totals or [None] * len(blocks)):
        with tf.control_dependencies([previous]):  # one block's product alive at a time
            product = tf.cast(tf.matmul(q, scaled, transpose_a=True), tf.float32)
            terms = [product if unit is None else unit * product]
            if bias is not None:
                terms.append(tf.linalg.matvec(tf.cast(q, tf.float32), rows_scale, transpose_a=True))
            if total is not None:
                terms = [old + new for old, new in zip(total, terms)]
        previous = terms[0]
        by_word.append(terms)
    return [d_hidden * rows_scale[:, None], log_sum, mean], by_word


def _minus_targets(gradients, hidden, kernel, bias, labels, weights, objective):
    """Subtracts (1-ε) w ∂z_y: the part of the gradients that the labels alone determine."""
    scale = (1 - objective.label_smoothing) * weights
    if objective.soft_cap is not None:
        target = _target_logits(hidden, kernel, bias, labels, objective.soft_cap)
        scale *= 1 - tf.square(target / objective.soft_cap)
    rows = scale[:, None] * tf.cast(tf.gather(kernel, labels), tf.float32)
    ids = labels[:, None]
    result = [
        gradients[0] - rows,
        tf.tensor_scatter_nd_sub(gradients[1], ids, scale[:, None] * tf.cast(hidden, tf.float32)),
    ]
    return result + [tf.tensor_scatter_nd_sub(g, ids, scale) for g in gradients[2:]]


def most_rows(vocab_size, size):
    """Positions in a chunk, each of which costs 4 V bytes."""
    return min(CHUNK_ROWS, max(CHUNK_BYTES // (4 * vocab_size), size, MIN_CHUNK_ROWS))


def kernel_blocks(kernel, bias, dtype):
    """[(rows of the kernel in `dtype`, their biases)], each block's float32 rows at most `BLOCK_BYTES`."""
    vocab_size, size = kernel.shape
    # Rows in multiples of 16 keep the split a view of the kernel instead of a copy.
    rows = max(16, BLOCK_BYTES // (4 * max(size, CHUNK_ROWS)) // 16 * 16)
    sizes = [min(rows, vocab_size - start) for start in range(0, vocab_size, rows)]
    kernels = tf.split(tf.cast(kernel, dtype), sizes)
    biases = [None] * len(sizes) if bias is None else tf.split(bias, sizes)
    return list(zip(kernels, biases))
