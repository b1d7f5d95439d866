"""Logits h Wᵀ + b of a hidden state, for all words, for the labels, or for words in bands.

Shapes: N positions, D hidden units, V words.
"""

import numpy as np
import tensorflow as tf

from tfsoftmax.ops.chunks import chunk_rows, map_chunks
from tfsoftmax.ops.graphs import under_xla
from tfsoftmax.ops.ranking import columns_of_best, given, without
from tfsoftmax.ops.replicas import gathered_rows
from tfsoftmax.support import budgets


def capped(logits, soft_cap):
    """`soft_cap * tanh(logits / soft_cap)`, or the logits themselves without a cap."""
    return logits if soft_cap is None else soft_cap * tf.tanh(logits / soft_cap)


def bands_of(kernel, bias):
    """[(kernel, bias or None) of each band]; full softmax has one band."""
    return list(zip(kernel, bias)) if isinstance(kernel, (list, tuple)) else [(kernel, bias)]


def parts_of(hidden, bands):
    """The part (N, d_b) of the hidden state that each band (V_b, d_b) sees, from left to right."""
    return tf.split(hidden, [kernel.shape[1] for kernel, _ in bands], axis=1)


def words_of(bands):
    """V, the number of words in all bands."""
    return sum(kernel.shape[0] for kernel, _ in bands)


def full_logits(hidden, kernel, bias, soft_cap=None):
    """Logits (N, V) in float32; the product is taken in the dtype of `hidden`.

    The arguments are those of `distributions.rows.Rows`.
    """
    if isinstance(kernel, (list, tuple)):
        bands = bands_of(kernel, bias)
        by_band = zip(parts_of(hidden, bands), bands)
        return tf.concat([full_logits(part, *band, soft_cap) for part, band in by_band], axis=1)
    logits = tf.matmul(hidden, tf.cast(kernel, hidden.dtype), transpose_b=True)
    logits = tf.cast(logits, tf.float32)
    if bias is not None:
        logits = tf.nn.bias_add(logits, tf.cast(bias, tf.float32))  # which joins the matmul
    return capped(logits, soft_cap)


def with_one(hidden, one=1.0):
    """[h | 1], (..., D + 1) float32, whose products with [W | b] are the logits."""
    hidden = tf.cast(hidden, tf.float32)
    return tf.concat([hidden, tf.fill(tf.shape(hidden[..., :1]), one)], -1)


def rows_of(parameter, ids):
    """The rows (n, ...) float32 of some ids; the rest of the parameter is neither read nor cast."""
    return tf.cast(gathered_rows(parameter, ids), tf.float32)


def narrow_rows(kernel, ids, dtype):
    """The rows (n, D) float32 of some ids, rounded to the dtype of the products."""
    return tf.cast(tf.cast(gathered_rows(kernel, ids), dtype), tf.float32)


def label_logits(hidden, kernel, bias, labels):
    """The logit of each position's label (N,) and its row of the kernel (N, D), float32.

    In half precision the logits of all words are rounded, and this one is not. An exact
    log-probability takes `labels_of_blocks`.
    """
    rows = narrow_rows(kernel, labels, hidden.dtype)
    logits = tf.reduce_sum(tf.cast(hidden, tf.float32) * rows, axis=1)
    return logits if bias is None else logits + rows_of(bias, labels), rows


def labels_of_blocks(blocks, labels):
    """The logit of each position's label, as it stands among the logits of all words.

    Args:
        blocks: list of logits (n, words), which hold the words in order.
        labels: (n,) int32.

    Returns:
        The labels' logits (n,), and what was read of each block, a list of (n,).
    """
    sizes = np.array([logits.shape[1] for logits in blocks], np.int32)
    ends = np.cumsum(sizes, dtype=np.int32)
    which = interval_of(labels, ends)
    inside = which == np.arange(len(blocks), dtype=np.int32)[:, None]
    places = tf.where(inside, labels - tf.gather(ends - sizes, which), 0)
    found = [tf.gather(*of_block, batch_dims=1) for of_block in zip(blocks, tf.unstack(places))]
    return tf.reduce_sum(tf.where(inside, tf.stack(found), 0.0), axis=0), found


def kernel_blocks(kernel, bias, dtype, most, step=None):
    """[(rows of the kernel in `dtype`, their biases or None)], at most `MOST_BLOCKS` of them.

    A block has at most `most` rows, unless more are needed to have so few blocks. With `step`,
    their numbers are multiples of it, but for a last block of fewer rows.
    """
    unit = step or 16  # rows in multiples of 16 keep the split a view of the kernel
    rest = kernel.shape[0] % (step or 1)
    whole = kernel.shape[0] - rest
    most = max(most, unit * -(-whole // (unit * budgets.MOST_BLOCKS)))
    sizes = [min(most, whole - start) for start in range(0, whole, most)] + [rest] * (rest > 0)
    biases = [None] * len(sizes) if bias is None else tf.split(bias, sizes)
    return list(zip(tf.split(tf.cast(kernel, dtype), sizes), biases))


def block_words(words: int) -> int:
    """How many of the words a block has, so that its logits stay in the cache between passes.

    Blocks do not help a GPU, and XLA copies what it splits: these get all words in one.
    """
    whole = under_xla() or tf.config.list_logical_devices("GPU")
    return words if whole else budgets.BLOCK_WORDS


def logits_rows(vocab_size, units, most=None):
    """How many positions go into a chunk whose logits take 4 V bytes for each."""
    budget = max(budgets.LOGITS_BYTES, 4 * vocab_size * units)
    return chunk_rows(4 * vocab_size, budget, budgets.LEAST_ROWS, most)


def map_row_chunks(function, hidden, vocab_size, *more):
    """Applies `function` to chunks of rows, one after the other, and joins the results.

    Args:
        function: maps (rows, D), and as many rows of the others, to a structure of tensors with
            `rows` first. Its intermediate results may be tensors (rows, V).
        hidden: (N, D).
        vocab_size: V.
        *more: (N, ...).

    Returns:
        The structure with N first.
    """
    return map_chunks(function, hidden, logits_rows(vocab_size, hidden.shape[1]), *more)


def top_k_of(logits_of, hidden, k, vocab_size, excluded=None):
    """The k likeliest words: ids (N, k) int32 and log-probabilities (N, k) float32.

    `logits_of` maps positions (n, D) to logits (n, V). Of words with equal logits, the one with
    the lower id comes first. Words of `excluded` (N, E) come last, with -inf.
    """

    def chunk(hidden, excluded=None):
        logits = logits_of(hidden)
        log_z = tf.reduce_logsumexp(logits, axis=1, keepdims=True)
        values, ids = columns_of_best(without(logits, excluded), k)
        return ids, values - log_z

    return map_row_chunks(chunk, hidden, vocab_size, *given(excluded))


def interval_of(ranks, ends):
    """The interval that holds each rank: (N,) int32 for ranks (N,) and K + 1 rising ends.

    Ranks outside the vocabulary fall into the first or the last interval.
    """
    bounds = tf.constant(list(ends[:-1]), ranks.dtype)
    return tf.reduce_sum(tf.cast(ranks[:, None] >= bounds, tf.int32), axis=1)
