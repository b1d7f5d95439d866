"""The softmax of a chunk of positions with its gradient, in blocks of the kernels' rows.

The terms of the loss are here: the z-loss (Müller 2017, eq. 2.45), label smoothing and the cap.

Gradients leave out the terms of the labels, and accumulate from chunk to chunk;
`distributions.penalised` has the equations.

Shapes: n positions in a chunk, D = Σ d_b hidden units, V = Σ V_b words.
"""

import dataclasses

import tensorflow as tf

from tfsoftmax.distributions import drawn_tiles, products
from tfsoftmax.distributions.log_sums import exponentials_of_blocks
from tfsoftmax.ops.logits import full_logits, kernel_blocks, labels_of_blocks
from tfsoftmax.support import budgets


@dataclasses.dataclass(frozen=True)
class RowLoss:
    """How the loss differs from plain cross-entropy.

    Attributes:
        soft_cap: makes the logits `soft_cap * tanh(logits / soft_cap)`, unless it is None.
        label_smoothing: mass ε moved from the label to the uniform distribution.
        z_loss: coefficient c of c (ln Σ exp z)², which holds the normaliser near one.
        log_z: coefficient of ln Σ exp z. The loss is a likelihood only if this is 1.

    Example:
        from tfsoftmax.distributions.chunk_gradients import RowLoss
        smoothed = RowLoss(label_smoothing=0.1)
    """

    soft_cap: float | None = None
    label_smoothing: float = 0.0
    z_loss: float = 0.0
    log_z: float = 1.0


def blocks_of(bands, dtype, words=None, draw=None):
    """[(number of the band, rows of its kernel in `dtype`, their biases)], at most `words` rows.

    If tiles are drawn, the rows of a band that do not fill a tile are a block of their own.
    """
    # Rows in multiples of 16 keep the split a view of the kernel instead of a copy.
    step = 16 if draw is None else budgets.TILE_WORDS
    blocks = []
    for number, (kernel, bias) in enumerate(bands):
        most = budgets.BLOCK_BYTES // (4 * max(kernel.shape[1], budgets.CHUNK_ROWS))
        most = max(step, most // step * step)
        most = min(most, words or most)
        of_band = kernel_blocks(kernel, bias, dtype, most, draw and step)
        blocks += [(number, *block) for block in of_band]
    return blocks


def by_band(results, blocks):
    """The results of each band's blocks, in lists."""
    count = blocks[-1][0] + 1
    return [[r for r, block in zip(results, blocks) if block[0] == b] for b in range(count)]


def logits_of(parts, blocks, soft_cap):
    """Logits (n, rows) of each block."""
    return [full_logits(parts[band], kernel, bias, soft_cap) for band, kernel, bias in blocks]


def normaliser_terms(logits, log_sum, loss):
    """What the loss makes of all logits: log_z · ln s + c (ln s)² - ε mean z, (n,)."""
    terms = loss.log_z * log_sum
    if loss.z_loss:  # zero times a square that overflows is NaN
        terms += loss.z_loss * tf.square(log_sum)
    if loss.label_smoothing:
        total = tf.add_n([tf.reduce_sum(z, axis=1) for z in logits])
        terms -= loss.label_smoothing / sum(z.shape[1] for z in logits) * total
    return terms


def chunk_gradients(labels, weights, parts, blocks, loss, totals, log_z=None, draw=None):
    """One chunk of positions, without the terms of the labels.

    Args:
        labels: (n,), or None where their logits are known.
        weights: (n,).
        parts: what each band sees of the hidden states.
        blocks: result of `blocks_of`.
        loss: a `RowLoss`.
        totals: gradients of the blocks to which this chunk's are added, or None.
        log_z: (n,), ln Σ exp z over all words, where the blocks hold only some of them.
        draw: share and offset for `drawn_tiles`, or None for exact gradients.

    Returns:
        [dh (n, D), ln s (n,), normaliser terms (n,), the labels' logits (n,)], and for each block
        [dW, db] added to `totals`.
    """
    logits = logits_of(parts, blocks, loss.soft_cap)
    target, read = (None, ()) if labels is None else labels_of_blocks(logits, labels)
    exps, factors, log_sum = exponentials_of_blocks(logits, read)
    terms = normaliser_terms(logits, log_sum, loss)
    of_all = tf.ones_like(log_sum)
    if log_z is not None:
        # The share is at most one, except in the rows that pad the last chunk.
        of_all, log_sum = tf.exp(-tf.nn.relu(log_z - log_sum)), log_z
    of_all *= loss.log_z + 2 * loss.z_loss * log_sum
    factors = [of_all * f for f in factors]
    masses = [] if draw is None else _masses(exps, factors, weights, loss)
    slopes, factors = _slopes(logits, exps, factors, loss)
    d_biases = [
        [] if bias is None else [products.by_biases(q, f * weights)]
        for q, f, (*_, bias) in zip(slopes, factors, blocks)
    ]
    kernels, tiles = [kernel for _, kernel, _ in blocks], [None] * len(blocks)
    if draw is not None:
        drawn = drawn_tiles.drawn_tiles(slopes, masses, kernels, *draw)
        slopes, kernels, tiles = zip(*drawn)
    slopes, factors = products.narrowed(slopes, factors, parts[0].dtype)
    factors = [f * weights for f in factors]
    d_parts = [products.by_hidden(*of_block) for of_block in zip(slopes, factors, kernels)]
    d_hidden = tf.concat([tf.add_n(band) for band in by_band(d_parts, blocks)], axis=1)
    by_block = _word_gradients(slopes, factors, parts, blocks, tiles, d_biases, totals, d_hidden)
    return [d_hidden, log_sum, terms, target], by_block


def _masses(exps, factors, weights, loss):
    """Σ_n |w| (p + ε / V) of each word (rows,) of a block, by which tiles are drawn."""
    uniform = loss.label_smoothing / sum(e.shape[1] for e in exps)
    uniform *= tf.reduce_sum(tf.abs(weights))
    return [products.by_biases(e, tf.abs(f * weights)) + uniform for e, f in zip(exps, factors)]


def _slopes(logits, exps, factors, loss):
    """Derivatives of the normaliser terms with respect to h Wᵀ + b of each block.

    Returns:
        Slopes (n, rows) float32 of each block, and factors (n,) that remain to be multiplied into
        them.
    """
    smoothing, cap = loss.label_smoothing, loss.soft_cap
    if not smoothing and cap is None:
        return exps, factors
    slopes = [e * f[:, None] for e, f in zip(exps, factors)]
    if smoothing:
        uniform = smoothing / sum(z.shape[1] for z in logits)
        slopes = [q - uniform for q in slopes]
    if cap is not None:
        slopes = [q * cap_slope(z, cap) for q, z in zip(slopes, logits)]
    return slopes, [tf.ones_like(f) for f in factors]


def cap_slope(capped_logits, soft_cap):
    """∂ capped z / ∂z."""
    return 1 - tf.square(capped_logits / soft_cap)


def _word_gradients(slopes, factors, parts, blocks, tiles, d_biases, totals, previous):
    """[dW, db] of each block, added to `totals` unless they are None.

    The kernels' are computed one after the other, and after `previous`, so that one block's
    product is alive at a time. If there are `tiles`, products are those of the drawn tiles.
    """
    by_block = []
    for i, (q, f, (band, kernel, _)) in enumerate(zip(slopes, factors, blocks)):
        with tf.control_dependencies([previous]):
            d_kernel, old = products.by_words(q, f, parts[band]), totals and totals[i]
            if tiles[i] is not None:
                total = old[0] if old else tf.zeros(kernel.shape)
                d_kernel = drawn_tiles.add_to_tiles(total, d_kernel, tiles[i])
            elif old:
                d_kernel = old[0] + d_kernel
            others = [a + b for a, b in zip(old[1:], d_biases[i])] if old else d_biases[i]
        previous = d_kernel
        by_block.append([d_kernel, *others])
    return by_block
