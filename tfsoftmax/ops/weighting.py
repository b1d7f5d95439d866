"""Weights of positions: where a weight is zero, not even NaN or an infinite loss has a part."""

import tensorflow as tf


def weighted(nats, weights):
    """weights · nats, (...) float32 each: zero where the weight is."""
    return tf.math.multiply_no_nan(nats, weights)


def weighted_sum(nats, weights):
    """Σ weights · nats, a scalar."""
    return tf.reduce_sum(weighted(nats, weights))


def without_broken(hidden, weights):
    """Hidden states that may be multiplied by the weights, without NaN for weights of zero.

    Args:
        hidden: (..., D) float.
        weights: (...) float32.

    Returns:
        Hidden states (..., D), with zeros where they are not finite at positions of weight zero,
        and which positions those are, (...) bool.
    """
    broken = (weights == 0) & ~tf.reduce_all(tf.math.is_finite(hidden), axis=-1)
    return tf.where(broken[..., None], tf.zeros_like(hidden), hidden), broken
