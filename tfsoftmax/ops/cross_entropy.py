"""Softmax cross-entropy over a large vocabulary, in row chunks, with a hand-written gradient.

Words may lie in bands. Band b has a kernel W_b (V_b, d_b), biases b_b, and sees a part h_b
(N, d_b) of the hidden state h = [h_0, h_1, ...]; full softmax is the case of one band. With

    z = [h_0 W_0ᵀ + b_0, h_1 W_1ᵀ + b_1, ...],   m = max z,   e = exp(z - m),   s = Σ e,

the loss of a position with weight w is w (m + ln s - z_y), and with f = w / s its gradient is

    dh_b = f (e_b W_b) - w W_y,   dW_b = e_bᵀ (f h_b) - [scatter of w h_b to row y],

where the terms of the label y belong to its band only. The (N, V) matrix e is never normalised;
instead, matrices of the size (N, D) are divided.

Chunks of `CHUNK_ROWS` positions, and blocks of the kernels' rows for the products that have the
kernels' shape, limit the memory besides weights and gradients to

    4 V CHUNK_ROWS bytes for e, and about three times BLOCK_BYTES;

where e takes up to three times as much with a soft cap or label smoothing. If a chunk would need
more than LOGITS_BYTES and more than the kernel itself, it has fewer rows.

Shapes: N positions, n of them in a chunk or a subset, D = Σ d_b hidden units, V = Σ V_b words.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from tfsoftmax.ops import products
from tfsoftmax.ops.chunks import CHUNK_ROWS, sum_over_chunks
from tfsoftmax.ops.custom_gradients import immediate_gradient, recomputed_gradient
from tfsoftmax.ops.ends import interval_of
from tfsoftmax.ops.log_sums import block_words, log_sum_of_blocks
from tfsoftmax.ops.logits import (
    bands_of,
    capped,
    full_logits,
    kernel_blocks,
    label_logits,
    logits_rows,
    map_row_chunks,
    parts_of,
    words_of,
)

BLOCK_BYTES = 1 << 25


@dataclasses.dataclass(frozen=True)
class Objective:
    """What is added to plain cross-entropy.

    Attributes:
        soft_cap: makes the logits `soft_cap * tanh(logits / soft_cap)`, unless it is None.
        label_smoothing: mass ε moved from the label to the uniform distribution.
        z_loss: coefficient c of c (ln Σ exp z)², which holds the normaliser near one.
        log_z: coefficient of ln Σ exp z. The objective is a likelihood only if this is 1.
    """

    soft_cap: float | None = None
    label_smoothing: float = 0.0
    z_loss: float = 0.0
    log_z: float = 1.0


PLAIN = Objective()


def cross_entropy(hidden, kernel, bias, labels, objective=PLAIN, subset=None):
    """Cross-entropy of each position, which may be weighted or summed later.

    The gradient computes the logits a second time, because the weight of each position is known
    only then: four matmuls of N V D. Where the weights are known beforehand,
    `weighted_cross_entropy` needs three.

    Args:
        hidden: (N, D) float; its dtype is the dtype of the matmuls.
        kernel: (V, D) float32, or the list of (V_b, d_b) of words in bands.
        bias: (V,) float32, or None; for words in bands, a list of them.
        labels: (N,) integers in [0, V), numbered through all bands.
        objective: an `Objective`.
        subset: (n,) int32, the positions whose normalisers are computed. Each of them stands for
            N / n positions, and the others keep only the term of z_y. None: all positions.

    Returns:
        (N,) float32, nats. Differentiable with respect to hidden, kernel and bias.
    """

    def nats(hidden, bands):
        blocks = blocks_of(bands, hidden.dtype, block_words(words_of(bands)))

        def chunk(hidden):
            logits = logits_of(parts_of(hidden, bands), blocks, objective.soft_cap)
            return normaliser_terms(logits, log_sum_of_blocks(logits), objective)

        terms = map_row_chunks(chunk, _rows_of(subset, hidden), words_of(bands))
        terms = _scattered(subset, labels, _scale(subset, labels) * terms)
        return _losses(terms, _targets(hidden, bands, labels)[0], objective)

    def gradients(upstream, hidden, bands):
        return _with_gradients(hidden, bands, labels, upstream, objective, subset)[1]

    return recomputed_gradient(nats, gradients, hidden, bands_of(kernel, bias))


def weighted_cross_entropy(
    hidden, kernel, bias, labels, weights, objective=PLAIN, subset=None
):
    """Σ weights · objective, whose gradients are formed while the logits are at hand.

    Args:
        hidden, kernel, bias, labels, objective, subset: as in `cross_entropy`.
        weights: (N,) float32, the weight of each position in the total.

    Returns:
        total: scalar float32, differentiable with respect to hidden, kernel, bias and weights.
        nats: (N,) float32, the exact cross-entropy, without smoothing or z-loss; no gradient.
            None if only a subset of the normalisers is computed.
    """

    def function(weights, hidden, bands):
        (losses, *nats), gradients = _with_gradients(
            hidden, bands, labels, weights, objective, subset
        )
        return (tf.reduce_sum(weights * losses), *nats), [losses, gradients]

    total, *nats = immediate_gradient(function, weights, hidden, bands_of(kernel, bias))
    return total, nats[0] if nats else None


def blocks_of(bands, dtype, words=None):
    """[(number of the band, rows of its kernel in `dtype`, their biases)], at most `words` rows."""
    blocks = []
    for number, (kernel, bias) in enumerate(bands):
        # Rows in multiples of 16 keep the split a view of the kernel instead of a copy.
        most = max(16, BLOCK_BYTES // (4 * max(kernel.shape[1], CHUNK_ROWS)) // 16 * 16)
        most = min(most, words or most)
        blocks += [(number, *block) for block in kernel_blocks(kernel, bias, dtype, most)]
    return blocks


def _by_band(results, blocks):
    """The results of each band's blocks, in lists."""
    count = blocks[-1][0] + 1
    return [[r for r, block in zip(results, blocks) if block[0] == b] for b in range(count)]


def logits_of(parts, blocks, soft_cap):
    """Logits (n, rows) of each block."""
    return [full_logits(parts[band], kernel, bias, soft_cap) for band, kernel, bias in blocks]


def exponentials(logits):
    """e of each block (n, rows), ln Σ exp z (n,) and s (n,)."""
    maximum = tf.reduce_max(tf.stack([tf.reduce_max(z, axis=1) for z in logits]), axis=0)
    exps = [tf.exp(z - maximum[:, None]) for z in logits]
    sums = tf.add_n([tf.reduce_sum(e, axis=1) for e in exps])
    return exps, maximum + tf.math.log(sums), sums


def normaliser_terms(logits, log_sum, objective):
    """What the objective makes of all logits: ln s + c (ln s)² - ε mean z, (n,)."""
    terms = objective.log_z * log_sum
    if objective.z_loss:  # zero times a square that overflows is NaN
        terms += objective.z_loss * tf.square(log_sum)
    if objective.label_smoothing:
        total = tf.add_n([tf.reduce_sum(z, axis=1) for z in logits])
        terms -= objective.label_smoothing / sum(z.shape[1] for z in logits) * total
    return terms


def _losses(terms, target, objective):
    """The objective (N,) from its normaliser terms and the labels' logits."""
    return terms - (1 - objective.label_smoothing) * capped(target, objective.soft_cap)


def _targets(hidden, bands, labels):
    """The labels' logits before the cap (N,), and what each band holds of the labels.

    The latter are (whether the label is in the band (N,), its number in the band (N,), its row of
    the kernel (N, d_b)). Labels of other bands have number 0.
    """
    logits, held, first = 0.0, [], 0
    which = interval_of(labels, np.cumsum([kernel.shape[0] for kernel, _ in bands]))
    for number, (part, band) in enumerate(zip(parts_of(hidden, bands), bands)):
        inside = which == number
        words = tf.where(inside, labels - first, 0)
        band_logits, rows = label_logits(part, *band, words)
        logits += tf.where(inside, band_logits, 0.0)
        held.append((inside, words, rows))
        first += band[0].shape[0]
    return logits, held


def _rows_of(subset, tensor):
    """The rows (n, ...) of a tensor (N, ...)."""
    return tensor if subset is None else tf.gather(tensor, subset)


def _scattered(subset, labels, tensor):
    """A tensor (n, ...) as (N, ...), with zeros outside the subset."""
    if subset is None:
        return tensor
    shape = tf.concat([tf.shape(labels), tf.shape(tensor)[1:]], 0)
    return tf.scatter_nd(subset[:, None], tensor, shape)


def _scale(subset, labels):
    """N / n, the number of positions for which one of the subset stands."""
    return 1.0 if subset is None else tf.cast(tf.size(labels) / tf.size(subset), tf.float32)


def _with_gradients(hidden, bands, labels, weights, objective, subset):
    """The objective (N,) and its gradients: dh (N, D) and [[dW_b, db_b] of each band], float32.

    Without a subset, the plain cross-entropy (N,) follows the objective.
    """
    blocks, scale = blocks_of(bands, hidden.dtype), _scale(subset, labels)
    targets = _targets(hidden, bands, labels)

    def chunk(hidden, weights, totals):
        return chunk_gradients(hidden, weights, parts_of(hidden, bands), blocks, objective, totals)

    def function(weights):
        rows = _rows_of(subset, hidden), _rows_of(subset, scale * weights)
        most = logits_rows(words_of(bands), hidden.shape[1])
        (d_hidden, *results), totals = sum_over_chunks(chunk, most, *rows)
        d_hidden = _scattered(subset, labels, d_hidden)
        d_bands = [[tf.concat(t, 0) for t in zip(*band)] for band in _by_band(totals, blocks)]
        return results, minus_targets(
            d_hidden, d_bands, hidden, bands, targets, weights, objective
        )

    (log_sum, terms), gradients = products.with_unit_weights(function, weights, hidden.dtype)
    losses = _losses(_scattered(subset, labels, scale * terms), targets[0], objective)
    if subset is not None:
        return [losses], gradients
    return [losses, log_sum - capped(targets[0], objective.soft_cap)], gradients


def chunk_gradients(hidden, weights, parts, blocks, objective, totals, log_z=None):
    """One chunk of positions, without the terms of the labels.

    Args:
        hidden, weights: (n, D) and (n,).
        parts: what each band sees of `hidden`.
        blocks: result of `blocks_of`.
        objective: an `Objective`.
        totals: gradients of the blocks to which this chunk's are added, or None.
        log_z: (n,), ln Σ exp z over all words, where the blocks hold only some of them.

    Returns:
        [dh (n, D), ln s (n,), normaliser terms (n,)], and for each block [dW, db] added to
        `totals`.
    """
    logits = logits_of(parts, blocks, objective.soft_cap)
    exps, log_sum, sums = exponentials(logits)
    terms = normaliser_terms(logits, log_sum, objective)
    if log_z is not None:
        # No smaller than one, but for the padding of the last chunk.
        sums, log_sum = sums * tf.exp(tf.nn.relu(log_z - log_sum)), log_z
    factors = (objective.log_z + 2 * objective.z_loss * log_sum) / sums
    slopes, factors = _slopes(logits, exps, factors, objective)
    d_biases = [
        [] if bias is None else [products.by_biases(q, factors * weights)]
        for q, (*_, bias) in zip(slopes, blocks)
    ]
    slopes, factors = products.narrowed(slopes, factors, hidden.dtype)
    factors *= weights
    d_parts = [products.by_hidden(q, factors, block[1]) for q, block in zip(slopes, blocks)]
    d_hidden = tf.concat([tf.add_n(band) for band in _by_band(d_parts, blocks)], axis=1)
    by_block = _word_gradients(slopes, factors, parts, blocks, d_biases, totals, d_hidden)
    return [d_hidden, log_sum, terms], by_block


def _slopes(logits, exps, factors, objective):
    """Derivatives of the normaliser terms with respect to h Wᵀ + b of each block.

    Returns:
        Slopes (n, rows) float32, and factors (n,) that remain to be multiplied into them.
    """
    smoothing, cap = objective.label_smoothing, objective.soft_cap
    if not smoothing and cap is None:
        return exps, factors
    slopes = [e * factors[:, None] for e in exps]
    if smoothing:
        uniform = smoothing / sum(z.shape[1] for z in logits)
        slopes = [q - uniform for q in slopes]
    if cap is not None:
        slopes = [q * _cap_slope(z, cap) for q, z in zip(slopes, logits)]
    return slopes, tf.ones_like(factors)


def _cap_slope(capped_logits, soft_cap):
    """∂ capped z / ∂z."""
    return 1 - tf.square(capped_logits / soft_cap)


def _word_gradients(slopes, factors, parts, blocks, d_biases, totals, previous):
    """[dW, db] of each block, added to `totals` unless they are None.

    The kernels' are computed one after the other, and after `previous`, so that one block's
    product is alive at a time.
    """
    by_block = []
    for i, (q, block) in enumerate(zip(slopes, blocks)):
        with tf.control_dependencies([previous]):
            terms = [products.by_words(q, factors, parts[block[0]]), *d_biases[i]]
            if totals is not None:
                terms = [old + new for old, new in zip(totals[i], terms)]
        previous = terms[0]
        by_block.append(terms)
    return by_block


def minus_targets(d_hidden, d_bands, hidden, bands, targets, weights, objective):
    """Subtracts (1-ε) w ∂z_y, the part of the gradients that the labels alone determine."""
    logits, held = targets
    weights = (1 - objective.label_smoothing) * weights
    if objective.soft_cap is not None:
        weights *= _cap_slope(capped(logits, objective.soft_cap), objective.soft_cap)
    of_labels, gradients = [], []
    for part, (inside, words, rows), terms in zip(parts_of(hidden, bands), held, d_bands):
        own = tf.where(inside, weights, 0.0)
        of_labels.append(own[:, None] * rows)
        gradients.append(products.minus_labels(terms, words, own, part))
    return d_hidden - tf.concat(of_labels, axis=1), gradients
