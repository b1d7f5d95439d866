"""Samples without replacement in which each member is with a probability of its own, π."""

import tensorflow as tf


def inclusion_probabilities(sizes, count, least=0.0):
    """π (T,) float64 in proportion to sizes (T,) >= 0, at most one each, that add up to `count`.

    Each size is raised by a share `least` of their mean.

    Source: Särndal, Swensson and Wretman 1992, section 3.6.
    """
    sizes = tf.cast(sizes, tf.float64)
    sizes += least * tf.reduce_mean(sizes) + 1e-300
    rest = tf.cumsum(tf.sort(sizes, direction="DESCENDING"), reverse=True)[:count]
    # If the j largest are certain, the others share count - j. Any other j gives a smaller ratio.
    ratio = tf.reduce_max(tf.range(count, 0, -1, tf.float64) / rest)
    return tf.minimum(ratio * sizes, 1.0)


def systematic_sample(inclusion, count, offset):
    """Numbers of `count` = Σπ members, rising, each with its probability π (T,).

    Members are laid end to end, each as long as its π, and those at offset, offset + 1, ... are
    taken, for an offset in [0, 1).

    Source: Madow 1949.
    """
    ends = tf.cumsum(inclusion)
    ends *= count / ends[-1]  # which differs by rounding
    places = offset + tf.range(count, dtype=tf.float64)
    return tf.minimum(tf.searchsorted(ends, places, side="right"), inclusion.shape[0] - 1)
