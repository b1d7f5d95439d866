"""Sampling without replacement as a race, with exact inclusion probabilities.

Words are drawn one after the other at the ticks of a Poisson process of rate 1. The times at
which they first arrive are independent, and exponential with rate q(w). The sample is the first
S different words. Given the arrivals of all other words, w is in the sample if it arrives before
the S-th of those others, at time t; the probability is 1 - exp(-q(w) t) for any q, S and V. In
the whole race, t is the time of arrival S+1 for a word of the sample, and S for any other word.
Hence E[claim] = P(w in sample) and E[1{w in sample} / claim] = 1 (Horvitz-Thompson).
"""

import numpy as np
import tensorflow as tf

from tfsoftmax.ops.random import exponential, split_seed


def tries_needed(q: np.ndarray, num_samples: int) -> int:
    """Number of draws after which S+1 different words have appeared in all but 1 of 10,000 cases.

    Args:
        q: (V,) float64, probabilities.
        num_samples: S.

    Returns:
        int, at most V, because a race over all words costs no more than V draws.
    """
    target = num_samples + 1 + 4 * np.sqrt(num_samples + 1)
    time = target
    while time < len(q) and -np.expm1(-q * time).sum() < target:
        time *= 1.1
    return int(min(time, len(q)))


def poisson_race(draw, log_q, vocab_size, num_samples, tries, seed):
    """The first S different words of a stream of draws, and the times that admitted them.

    Draws `tries` words. If they do not suffice, because q is steeper than `tries` was chosen for,
    the race continues from there with eight times as many, and so on; if that would be more than V
    words, it continues over all words, in O(V). Waiting times have no memory, so the distribution
    is the same.

    Args:
        draw: function of (count, seed) to independent words (count,) int32.
        log_q: function without arguments that returns ln q of all words (V,). It is called if
            the tries do not suffice.
        vocab_size: V.
        num_samples: S <= V.
        tries: length of the stream.
        seed: (2,) integers.

    Returns:
        ids: (S,) int32, all different, in order of arrival.
        time_inside: scalar float32, when word S+1 arrived; infinite where S = V.
        time_outside: scalar float32, when word S arrived.
    """
    none = tf.zeros([0], tf.int32), tf.zeros([1], tf.float64)
    ids, inside, outside = _race_from(*none, draw, log_q, vocab_size, num_samples, tries, seed)
    ids = tf.ensure_shape(ids, [num_samples])
    return ids, tf.cast(inside, tf.float32), tf.cast(outside, tf.float32)


def _race_from(words, times, draw, log_q, vocab_size, num_samples, more, seed):
    """The race whose stream began with some words (n,), at times (n + 1,) that begin with zero.

    The stream goes on with `more` words. Other arguments and results as in `poisson_race`, in
    float64.
    """
    word_seed, time_seed, rest_seed = split_seed(seed, 3)
    words = tf.concat([words, draw(more, word_seed)], 0)
    times = tf.concat([times, times[-1] + tf.cumsum(exponential([more], time_seed))], 0)
    size = words.shape[0]
    first = _first_positions(words)

    def in_stream():
        ends = tf.gather(times[1:], tf.minimum(first[num_samples - 1 : num_samples + 1], size - 1))
        return tf.gather(words, first[:num_samples]), ends[1], ends[0]

    def with_more_words():
        return _race_from(
            words, times, draw, log_q, vocab_size, num_samples, 7 * size, rest_seed
        )

    def over_all_words():
        keys = exponential([vocab_size], rest_seed) * tf.exp(-tf.cast(log_q(), tf.float64))
        # Times relative to the end of the stream, so that words of the stream are negative.
        keys = tf.tensor_scatter_nd_min(keys, words[:, None], times[1:] - times[-1])
        keys, ids = tf.math.top_k(-keys, min(num_samples + 1, vocab_size))
        ends = tf.concat([times[-1] - keys, [np.inf]], 0)
        return ids[:num_samples], ends[num_samples], ends[num_samples - 1]

    further = with_more_words if 8 * size < vocab_size else over_all_words
    if size <= num_samples:
        return further()
    return tf.cond(first[num_samples] < size, in_stream, further)


def _first_positions(words):
    """Where each different word appears first: (M,) int64, increasing, filled up with M."""
    size = words.shape[0]
    shift = max(size - 1, 1).bit_length()
    position = tf.range(size, dtype=tf.int64)
    keys = tf.sort(tf.bitwise.left_shift(tf.cast(words, tf.int64), shift) | position)
    word = tf.bitwise.right_shift(keys, shift)
    starts = tf.concat([[True], word[1:] != word[:-1]], 0)
    return tf.sort(tf.where(starts, keys & ((1 << shift) - 1), size))
