"""Holds what a sampler claims against what it draws."""

import collections
import statistics

import numpy as np
import tensorflow as tf

Audit = collections.namedtuple("Audit", "claimed empirical z limit honest")
_FEWEST = 25  # occurrences to be expected before a word is judged on its own


def audit_sampler(sampler, num_samples, draws=2000, seed=0, jit_compile=False):
    """Compares the expected counts that a sampler claims with the counts of its samples.

    Args:
        sampler: a `Sampler`; its state is not updated.
        num_samples: S.
        draws: number of samples of S words.
        seed: int.
        jit_compile: whether to compile the loop over draws.

    Returns:
        `Audit`:
        claimed: (V,) float64, mean of the expected counts claimed for each word as a label.
        empirical: (V,) float64, mean count of the word in a sample.
        z: (V,) float64, their difference in standard deviations; words with fewer than 25
            expected occurrences are judged together and share one figure.
        limit: what |z| exceeds by chance for some word in one audit of ten thousand.
        honest: whether no |z| exceeds it.

    Raises:
        AssertionError: if an id lies outside [0, V), a word appears twice in a sample without
            replacement, or a word's claim as a sample differs from its claim as a label.
    """
    counts, claims, variances, mismatch, most = _tally(
        sampler, num_samples, draws, seed, jit_compile
    )
    assert mismatch <= 1e-5, f"claims for samples and labels differ by {mismatch} nats"
    assert counts.sum() == draws * num_samples, "an id lies outside [0, V)"
    assert not sampler.unique or most <= 1, "a word appears twice in a sample"
    z = _scores(counts - claims, variances, claims < _FEWEST)
    limit = statistics.NormalDist().inv_cdf(1 - 0.5e-4 / len(np.unique(z)))
    honest = bool(np.all(np.abs(z) <= limit))
    return Audit(claims / draws, counts / draws, z, limit, honest)


def _scores(difference, variances, rare):
    z = np.empty_like(difference)
    # Where a word is certain the variance is zero, and the claim right to rounding.
    certain = variances <= 1e-9
    z[~certain] = difference[~certain] / np.sqrt(variances[~certain])
    z[certain] = np.where(np.abs(difference[certain]) < 1e-3, 0, np.inf)
    rare = rare & ~certain
    if rare.any():
        z[rare] = difference[rare].sum() / np.sqrt(variances[rare].sum())
    return z


def _tally(sampler, num_samples, draws, seed, jit_compile):
    """Sums over draws of counts, claims and variances (V,), the worst mismatch, the top count."""
    size = sampler.vocab_size
    labels = tf.range(size)

    @tf.function(jit_compile=jit_compile)
    def run():
        zeros = tf.zeros([size], tf.float64)
        counts, claims, variances, mismatch, most = zeros, zeros, zeros, 0.0, zeros[0]
        for draw in tf.range(draws):
            ids, log_expected, log_expected_labels = sampler.sample(
                labels, num_samples, tf.stack([seed, draw])
            )
            wrong = log_expected - tf.gather(log_expected_labels, ids)
            mismatch = tf.maximum(mismatch, tf.reduce_max(tf.abs(wrong)))
            count = tf.math.unsorted_segment_sum(tf.ones([num_samples], tf.float64), ids, size)
            claim = tf.exp(tf.cast(log_expected_labels, tf.float64))
            trials = 1 if sampler.unique else num_samples
            counts, claims = counts + count, claims + claim
            variances += claim * (1 - claim / trials)
            most = tf.maximum(most, tf.reduce_max(count))
        return counts, claims, variances, mismatch, most

    return [result.numpy() for result in run()]
