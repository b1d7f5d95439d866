"""Words that are in a sample in addition to those that are drawn: hard negatives."""

import tensorflow as tf

from tfsoftmax.samplers.base import Candidates, contains


def with_certain(
    candidates: Candidates, labels: tf.Tensor, certain: tf.Tensor, unbiased: bool = True
) -> tuple[Candidates, tf.Tensor]:
    """Adds words to a sample with replacement; each of these certain words counts once.

    If a certain word was also drawn, or is given several times, its expected count is its number of
    copies, so that all of them together count once. Σ exp(s) / c over the sample remains an
    unbiased estimate of Z: the certain words are summed, the others estimated. If all words have
    the same expected count, the certain words have it too.

    Args:
        candidates: those of `Sampler.sample`, with log_expected (S,).
        labels: (N,) int32, the labels that the candidates were drawn for.
        certain: (C,) int32, the words to add, in any order.
        unbiased: whether each word has its own expected count; if not, all are the same.

    Returns:
        `Candidates` with the certain words after the others, and whether each label is certain,
        (N,), in which case all its copies must be left out of its position: hits.
    """
    ids = tf.concat([candidates.ids, certain], 0)
    once = tf.zeros([]) if unbiased else tf.concat([candidates.log_expected, [0.0]], 0)[0]
    log_expected = tf.concat([candidates.log_expected, tf.fill(tf.shape(certain), once)], 0)
    ordered, words = tf.sort(ids), tf.sort(certain)
    ends = [tf.searchsorted(ordered, ids, side=side) for side in ("left", "right")]
    copies = tf.cast(ends[1] - ends[0], tf.float32)
    log_expected = tf.where(_among(words, ids), once + tf.math.log(copies), log_expected)
    is_certain = _among(words, labels)
    of_labels = tf.where(is_certain, once, candidates.log_expected_labels)
    return Candidates(ids, log_expected, of_labels), is_certain


def _among(words, ids):
    """Whether each id is among the words, of which there may be none."""
    return contains(tf.concat([words, [2**31 - 1]], 0), ids)
