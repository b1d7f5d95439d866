"""Stateless random numbers that are the same with and without jit.

TensorFlow's stateless integers are the same, but its floats are not, because XLA makes them from
the same bits in another way. Floats are therefore made from integers here.
"""

import tensorflow as tf


def split_seed(seed: tf.Tensor, count: int) -> list[tf.Tensor]:
    """Makes `count` independent stateless seeds (2,) from one."""
    return tf.unstack(tf.random.split(seed, count, alg="philox"))


def random_bits(shape: list[int], seed: tf.Tensor) -> tf.Tensor:
    """int64 numbers, uniform over their whole range: 64 random bits each."""
    return tf.random.stateless_uniform(
        shape, seed, minval=None, maxval=None, dtype=tf.int64, alg="philox"
    )


def uniform(shape: list[int], seed: tf.Tensor) -> tf.Tensor:
    """Uniform float64 in [0, 1), multiples of 2^-53.

    The steps of float32, 2^-23, would be wider than the share of a rare word.
    """
    bits = tf.bitwise.right_shift(random_bits(shape, seed), 11) & ((1 << 53) - 1)
    return tf.cast(bits, tf.float64) * 2.0**-53


def exponential(shape: list[int], seed: tf.Tensor) -> tf.Tensor:
    """Standard exponential variates, float64."""
    return -tf.math.log1p(-uniform(shape, seed))


def uniform_words(count: int, vocab_size: int, seed: tf.Tensor) -> tf.Tensor:
    """Independent words (count,) int32, all equally likely up to a bias of V / 2^64."""
    words = tf.random.stateless_uniform(
        [count], seed, maxval=vocab_size, dtype=tf.int64, alg="philox"
    )
    return tf.cast(words, tf.int32)
