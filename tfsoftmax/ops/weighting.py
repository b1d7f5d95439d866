"""Weights of positions: where a weight is zero, not even NaN or an infinite loss has a part."""

import tensorflow as tf

from tfsoftmax.ops.replicas import in_replica
from tfsoftmax.ops.subsets import places_where


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


def weighted_places(weights: tf.Tensor) -> tf.Tensor | None:
    """The places where weights (N,) are not zero; None for all, as XLA fixes the number of them.

    In a replica without any it is the first place, since a collective of nothing ends the process.
    """
    places = places_where(weights != 0)
    if places is None or not in_replica():
        return places
    first = tf.range(tf.minimum(tf.size(weights, tf.int64), 1))
    return tf.cond(tf.size(places) > 0, lambda: places, lambda: first)
