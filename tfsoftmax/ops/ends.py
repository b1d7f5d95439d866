"""Intervals of frequency ranks, each given by the rank at which it ends."""

import tensorflow as tf


def interval_of(ranks, ends):
    """The interval that holds each rank: (N,) int32 for ranks (N,) and K + 1 rising ends.

    Ranks outside the vocabulary fall into the first or the last interval.
    """
    bounds = tf.constant(list(ends[:-1]), ranks.dtype)
    return tf.reduce_sum(tf.cast(ranks[:, None] >= bounds, tf.int32), axis=1)
