"""Stateless random numbers that are the same with and without jit.

TensorFlow's stateless integers are; its floats are not (XLA makes them in another way from the
same bits), so floats are made from integers here.
"""

import tensorflow as tf


def split_seed(seed, count):
    """`count` independent stateless seeds from one: a list of (2,) tensors."""
    return tf.unstack(tf.random.split(seed, count, alg="philox"))


def random_bits(shape, seed):
    """64 random bits each: int64 over its whole range."""
    return tf.random.stateless_uniform(
        shape, seed, minval=None, maxval=None, dtype=tf.int64, alg="philox"
    )


def uniform(shape, seed):
    """Uniform float64 in [0, 1), multiples of 2^-53.

    Not float32, whose steps of 2^-23 are wider than a rare word's share.
    """
    bits = tf.bitwise.right_shift(random_bits(shape, seed), 11) & ((1 << 53) - 1)
    return tf.cast(bits, tf.float64) * 2.0**-53


def exponential(shape, seed):
    """Standard exponential variates, float64."""
    return -tf.math.log1p(-uniform(shape, seed))


def uniform_words(count, vocab_size, seed):
    """Independent words (count,) int32, all equally likely up to V / 2^64."""
    words = tf.random.stateless_uniform(
        [count], seed, maxval=vocab_size, dtype=tf.int64, alg="philox"
    )
    return tf.cast(words, tf.int32)
