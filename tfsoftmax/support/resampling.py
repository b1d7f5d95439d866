"""Intervals of what is measured on a sample of texts, by resampling the texts (the bootstrap)."""

import dataclasses

import numpy as np

from tfsoftmax.support.arguments import ArrayLike

CELLS = 1 << 22  # the most numbers that are drawn at a time


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A number that was measured on a sample, with a percentile interval.

    Attributes:
        value: the number on the whole sample.
        low, high: the bounds of its interval.

    Example:
        from tfsoftmax.support.resampling import estimated_mean
        estimate = estimated_mean([0.1, 0.4, 0.2, 0.0, 0.3])
        print(estimate.value)
        print(estimate.low < 0.2 < estimate.high)
    """

    value: float
    low: float
    high: float


def resampled_ratios(
    values: ArrayLike, weights: ArrayLike, resamples: int = 10_000, seed: int = 1
) -> np.ndarray:
    """Computes the sum of values over the sum of weights for random samples of the texts.

    Equal seeds draw the same texts, so that ratios of several systems can be compared.

    Args:
        values, weights: (N,), two numbers of each text.
        resamples: how many times N texts are drawn with replacement.
        seed: the seed of the draws.

    Returns:
        float64 (resamples,). It is 0 where the weights sum to 0.
    """
    values, weights = np.asarray(values, np.float64), np.asarray(weights, np.float64)
    rng, size, ratios = np.random.default_rng(seed), len(values), []
    per_part = max(1, CELLS // size)
    for start in range(0, resamples, per_part):
        drawn = rng.integers(0, size, (min(per_part, resamples - start), size))
        sums = weights[drawn].sum(1)
        ratios.append(values[drawn].sum(1) / np.where(sums == 0, np.inf, sums))
    return np.concatenate(ratios)


def percentile_interval(resampled: np.ndarray, level: float) -> tuple[float, float]:
    """The bounds between which the given share of the resampled numbers lies."""
    low, high = np.quantile(resampled, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def estimated_mean(
    values: ArrayLike, level: float = 0.95, resamples: int = 10_000, seed: int = 1
) -> Estimate:
    """The mean of N numbers, one of each text, with its interval.

    Args:
        values: (N,), N at least 1.
        level: the share of the resamples that lie in the interval.
        resamples, seed: arguments of `resampled_ratios`.

    Source: Efron 1979; the percentile interval of Lin 2004, section 3.
    """
    values = np.asarray(values, np.float64)
    resampled = resampled_ratios(values, np.ones(len(values)), resamples, seed)
    return Estimate(float(values.mean()), *percentile_interval(resampled, level))
