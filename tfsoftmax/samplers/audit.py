"""Compares what a sampler claims with what it draws."""

import statistics
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfsoftmax.samplers.base import Sampler
from tfsoftmax.support.arguments import check_positive, checks_arguments, expect

_FEWEST = 25  # variance of a count from which its word is judged on its own


class Audit(NamedTuple):
    """What `audit_sampler` found.

    Attributes:
        claimed: (V,) float64, mean of the expected counts claimed for each word as a label.
        empirical: (V,) float64, mean count of each word in a sample.
        z: (V,) float64, their difference in standard deviations. Words whose count has a variance
            below 25 are judged together, those that are rarely in a sample and those that are
            rarely absent each, and share one figure.
        limit: the |z| that some word exceeds by chance in one of ten thousand audits.
        honest: whether no |z| exceeds the limit.

    Example:
        sampler = tfsoftmax.samplers.Unigram(4, counts=[50, 30, 15, 5], unique=True)
        audit = tfsoftmax.samplers.audit_sampler(sampler, num_samples=2, draws=200)
        print(audit.claimed, audit.empirical)
        assert audit.honest
    """

    claimed: np.ndarray
    empirical: np.ndarray
    z: np.ndarray
    limit: float
    honest: bool


@checks_arguments
def audit_sampler(
    sampler: Sampler, num_samples: int, draws: int = 2000, seed: int = 0, jit_compile: bool = False
) -> Audit:
    """Compares the expected counts that a sampler claims with the counts of its samples.

    Args:
        sampler: the sampler, whose state is not updated.
        num_samples: S.
        draws: number of samples of S words.
        seed: seed of the draws.
        jit_compile: whether to compile the loop over draws.

    Returns:
        `Audit`.

    Raises:
        ValueError: if the sampler draws an id outside [0, V), draws a word twice although it is
            `unique`, or claims another count for a word as a sample than for the same word as a
            label.
    """
    check_positive(draws=draws)
    sampler.check_size(num_samples)
    counts, claims, variances, mismatch, most, outside = _tally(
        sampler, num_samples, draws, seed, jit_compile
    )
    expect(not outside, "sampler", f"draw ids in [0, {sampler.vocab_size})",
           received=f"{outside} of {draws * num_samples} ids outside")
    expect(not sampler.unique or most <= 1, "sampler",
           "draw different words, because it is `unique`",
           received=f"a word {most:.0f} times in one sample")
    expect(mismatch <= 1e-5, "sampler",
           "claim the same count for a word as a sample and as a label",
           received=f"claims that differ by {mismatch:.6g} nats")
    return Audit(claims / draws, counts / draws, *_judged(counts, claims, variances, draws))


def _judged(counts, claims, variances, draws):
    """The z, limit and verdict of an `Audit`."""
    z = _scores(counts - claims, variances, claims > draws / 2)
    limit = statistics.NormalDist().inv_cdf(1 - 0.5e-4 / len(np.unique(z)))
    return z, limit, bool(np.all(np.abs(z) <= limit))


def _scores(difference, variances, often):
    """Differences in standard deviations, for words that are in most samples, `often`, or not."""
    # A word that is certain has variance zero; its claim must be right up to rounding.
    certain = variances <= 1e-9
    z = difference / np.sqrt(np.maximum(variances, _FEWEST))
    z[certain] = np.where(np.abs(difference[certain]) < 1e-3, 0, np.inf)
    few = (variances < _FEWEST) & ~certain
    for pool in (few & often, few & ~often):
        # The tails of a sum of a few rare events are heavier than those of its normal distribution.
        z[pool] = difference[pool].sum() / np.sqrt(max(variances[pool].sum(), _FEWEST))
    return z


def _tally(sampler, num_samples, draws, seed, jit_compile):
    """Sums over draws of counts, claims and variances, each (V,) float64, and three scalars.

    These are the largest difference between two claims for a word, the largest count of a word
    in one sample, and the number of ids outside [0, V).
    """
    size = sampler.vocab_size
    labels = tf.range(size)

    @tf.function(jit_compile=jit_compile)
    def run():
        zeros = tf.zeros([size], tf.float64)
        counts, claims, variances, mismatch, most = zeros, zeros, zeros, 0.0, zeros[0]
        outside = 0
        for draw in tf.range(draws):
            ids, log_expected, log_expected_labels = sampler.sample(
                labels, num_samples, tf.stack([seed, draw])
            )
            wrong = (ids < 0) | (ids >= size)
            outside += tf.math.count_nonzero(wrong, dtype=tf.int32)
            ids = tf.where(wrong, 0, ids)
            gap = tf.abs(log_expected - tf.gather(log_expected_labels, ids))
            mismatch = tf.maximum(mismatch, tf.reduce_max(gap))
            count = tf.math.unsorted_segment_sum(tf.ones([num_samples], tf.float64), ids, size)
            claim = tf.exp(tf.cast(log_expected_labels, tf.float64))
            trials = 1 if sampler.unique else num_samples
            counts, claims = counts + count, claims + claim
            variances += claim * (1 - claim / trials)
            most = tf.maximum(most, tf.reduce_max(count))
        return counts, claims, variances, mismatch, most, outside

    return [result.numpy() for result in run()]
