"""ln Σ exp z of rows of logits, whole or in blocks of words.

On a CPU, blocks whose logits stay in the cache between the passes over them are faster, and
oneDNN's softmax is faster than the subtraction, exp and sum.

Shapes: N positions, V words.
"""

import math

import tensorflow as tf

from tfsoftmax.ops.custom_gradients import custom_gradient
from tfsoftmax.ops.graphs import under_xla


def _exponentials(logits):
    """exp(z - o) (N, V), o (N,) and ln Σ exp z (N,): -inf, and NaN or 0 before it, without words.

    A row has no words where all its z are -inf.
    """
    maximum = tf.reduce_max(logits, axis=1)
    none = tf.equal(maximum, -math.inf)
    if under_xla():  # which fails to compile the softmax of adaptive softmax's rounds
        exps = tf.exp(logits - tf.where(none, 0.0, maximum)[:, None])
        return exps, maximum, maximum + tf.math.log(tf.reduce_sum(exps, axis=1))
    # oneDNN's softmax takes a third of the time of the subtraction, exp and sum, and its greatest
    # probability, exp(max - ln Σ exp z), yields the sum. It is NaN where all z are -inf.
    with tf.control_dependencies([maximum]):  # the last to read the logits can take their place
        exps = tf.nn.softmax(logits)
    log_sum = tf.where(none, maximum, maximum - tf.math.log(tf.reduce_max(exps, axis=1)))
    return exps, log_sum, log_sum


def exponentials_of_blocks(blocks, read=()):
    """exp(z - o_b) of each block of logits (N, words), and ln Σ exp z over all words.

    Each block has an offset of its own, so that the passes over it follow one another while it is
    in the cache.

    Args:
        blocks: list of (N, words).
        read: list of what else is read of each block, which has to happen before the exponentials
            can take its memory.

    Returns:
        [exponentials (N, words)], [exp(o_b - ln Σ exp z) (N,)], which a block's exponentials have
        to be multiplied by to be probabilities, and ln Σ exp z (N,).
    """
    exps, offsets, log_sums = zip(*_of_each(_exponentials, blocks, read))
    none = tf.equal(tf.stack(log_sums), -math.inf)

    def with_zeros():
        return [tf.where(n[:, None], 0.0, e) for n, e in zip(tf.unstack(none), exps)]

    exps = tf.cond(tf.reduce_any(none), with_zeros, lambda: list(exps))
    log_sum = _joined(log_sums)
    return exps, [tf.exp(offset - log_sum) for offset in offsets], log_sum


def log_sum_of_blocks(blocks, read=()):
    """ln Σ exp z (N,) over all words; the arguments are those of `exponentials_of_blocks`."""
    return _joined(_of_each(log_sum_of, blocks, read))


def _of_each(function, blocks, read):
    results = []
    for i, logits in enumerate(blocks):
        with tf.control_dependencies(read[i : i + 1]):
            results.append(function(logits))
    return results


def _joined(log_sums):
    return log_sums[0] if len(log_sums) == 1 else tf.reduce_logsumexp(tf.stack(log_sums), axis=0)


@custom_gradient
def log_sum_of(logits):
    """ln Σ exp z of each row, (N,)."""
    exps, offset, log_sum = _exponentials(logits)

    def gradient(upstream):
        factors = upstream * tf.exp(offset - log_sum)
        none = log_sum == -float("inf")  # a row without words has no gradient, but NaN stays NaN
        return tf.where(none[:, None], 0.0, exps * factors[:, None])

    return log_sum, gradient
