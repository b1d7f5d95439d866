"""Exact scores of a few words of each position, and what they tell about ln Z of all words.

Shapes: N positions, D hidden units, V words, C words that a search found, S words of a sample.
"""

import typing

import numpy as np
import tensorflow as tf

from tfsoftmax.ops.inclusion import systematic_sample
from tfsoftmax.ops.logits import capped, narrow_rows, rows_of
from tfsoftmax.ops.ranking import places_among


class Sample(typing.NamedTuple):
    """Words drawn once without replacement, to estimate sums over all words.

    Attributes:
        ids: (S,) int32, rising.
        inclusion: (S,) float64 in (0, 1], π: how likely a draw was to include each of them.
    """

    ids: np.ndarray
    inclusion: np.ndarray


def sample_of(inclusion, seed):
    """A `Sample` of Σπ words, which includes each word with exactly its probability π (V,).

    Words that are not certain are laid end to end in random order.
    """
    inclusion, rng = np.asarray(inclusion, np.float64), np.random.default_rng(seed)
    certain, others = np.flatnonzero(inclusion >= 1), np.flatnonzero(inclusion < 1)
    others = rng.permutation(others)
    count = round(inclusion[others].sum())
    if count:
        drawn = systematic_sample(inclusion[others], count, rng.random())
        certain = np.concatenate([certain, others[drawn.numpy()]])
    ids = np.sort(certain)
    return Sample(ids.astype(np.int32), inclusion[ids])


def checked_sample(sample, words):
    """A `Sample` from a file, checked for this number of words.

    Raises:
        ValueError: if its arrays are not such as `sample_of` returns.
    """
    ids, inclusion = sample
    if ids.dtype != np.int32 or inclusion.dtype != np.float64 or ids.ndim != 1:
        raise ValueError(f"a sample of types {ids.dtype} and {inclusion.dtype}")
    inside = np.diff(ids, prepend=-1).min(initial=1) > 0 and ids.max(initial=0) < words
    if not (inside and ids.shape == inclusion.shape and ((0 < inclusion) & (inclusion <= 1)).all()):
        raise ValueError("a sample whose ids do not rise in [0, V), or shares outside (0, 1]")
    return sample


def scores_of(hidden, kernel, bias, ids, soft_cap=None):
    """Exact logits (N, C) float32 of the words (N, C) of each position; -inf where an id is -1."""
    safe = tf.maximum(ids, 0)
    rows = narrow_rows(kernel, safe, hidden.dtype)
    scores = tf.linalg.matvec(rows, tf.cast(hidden, tf.float32))
    scores = scores if bias is None else scores + rows_of(bias, safe)
    return tf.where(ids < 0, -float("inf"), capped(scores, soft_cap))


def estimated_log_z(hidden, kernel, bias, ids, scores, sample, soft_cap=None):
    """An estimate of ln Z = ln Σ_v exp(z_v), and its standard error.

    Z is the sum over the words found, which is exact, and over the other words of a sample, each
    divided by its probability π of being in the sample: over many draws, the mean of the
    estimates of Z is Z. The estimate is Z itself if the sample is all words.

    Args:
        hidden: (N, D).
        kernel: (V, D).
        bias: (V,), or None.
        ids: (N, C) int32, distinct words that were found, or -1 in an empty place.
        scores: (N, C) float32, their logits, of which each position has a finite one.
        sample: a `Sample`.
        soft_cap: caps the logits, unless it is None.

    Returns:
        log_z: (N,) float32.
        error: (N,) float32, standard error of `log_z` by the delta method.

    Source: Horvitz and Thompson 1952; for the variance Deville 1993, which for equal π is that of
    simple random sampling, (1 - S / V) V² s² / S.
    """
    rows = narrow_rows(kernel, sample.ids, hidden.dtype)
    sampled = tf.matmul(tf.cast(hidden, tf.float32), rows, transpose_b=True)
    sampled = sampled if bias is None else sampled + rows_of(bias, sample.ids)
    counted = _among(ids, sample.ids)
    sampled = tf.where(counted, -float("inf"), capped(sampled, soft_cap))

    highest = tf.maximum(tf.reduce_max(scores, 1), tf.reduce_max(sampled, 1))
    terms = tf.exp(sampled - highest[:, None]) / tf.constant(sample.inclusion, tf.float32)
    z = tf.reduce_sum(tf.exp(scores - highest[:, None]), 1) + tf.reduce_sum(terms, 1)
    return highest + tf.math.log(z), tf.sqrt(_variance(terms, sample.inclusion)) / z


def _among(ids, sample):
    """Whether each word of a sample (S,) is among those of a position (N, C): (N, S)."""
    size, count = len(sample), tf.shape(ids)[0]
    places, there = places_among(ids, sample)
    places = tf.where(there, places, size)
    rows = tf.repeat(tf.range(count)[:, None], ids.shape[1], 1)
    marks = tf.tensor_scatter_nd_max(
        tf.zeros([count, size + 1], tf.int32), tf.stack([rows, places], 2), tf.ones_like(places)
    )
    return marks[:, :size] > 0


def _variance(terms, inclusion):
    """Estimated variance (N,) of the sums of y / π, (N, S), over the draws of samples."""
    random = 1 - inclusion
    drawn = int((random > 0).sum())
    if not drawn:
        return tf.zeros(tf.shape(terms)[:1])
    weights = tf.constant(random, tf.float32)
    mean = tf.reduce_sum(weights * terms, 1, keepdims=True) / float(random.sum())
    squares = tf.reduce_sum(weights * tf.square(terms - mean), 1)
    return squares * (drawn / max(drawn - 1, 1))
