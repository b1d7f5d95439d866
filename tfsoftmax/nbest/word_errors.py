"""Counts word errors, and tells whether two systems differ by more than chance."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from tfsoftmax.support.arguments import refusal
from tfsoftmax.support.extras import imported
from tfsoftmax.support.resampling import percentile_interval, resampled_ratios


def load_jiwer():
    """The package jiwer, or an error without it."""
    return imported("jiwer", "the word error rate")


def word_errors(
    references: Sequence[Sequence[str]], hypotheses: Sequence[Sequence[str]]
) -> np.ndarray:
    """Counts the errors in the best alignment of each reference and hypothesis, with jiwer.

    Args:
        references, hypotheses: N sequences of words each.

    Returns:
        int64 (N, 3): substitutions, deletions, insertions.

    Raises:
        RuntimeError: jiwer is not installed.
    """
    jiwer = load_jiwer()
    if not references:
        return np.zeros((0, 3), np.int64)
    output = jiwer.process_words(
        [" ".join(words) for words in references], [" ".join(words) for words in hypotheses]
    )
    counts = np.zeros((len(references), 3), np.int64)
    column = {"substitute": 0, "delete": 1, "insert": 2}
    for row, chunks in zip(counts, output.alignments, strict=True):
        for chunk in chunks:
            if chunk.type != "equal":
                words = max(
                    chunk.ref_end_idx - chunk.ref_start_idx, chunk.hyp_end_idx - chunk.hyp_start_idx
                )
                row[column[chunk.type]] += words
    return counts


@dataclasses.dataclass(frozen=True)
class Difference:
    """The word error rate of one system minus that of another.

    Attributes:
        difference: the difference on all utterances.
        low, high: the bounds of its interval.
        better: the share of resamples in which the first system has the lower rate. Ties count
            half.

    Example:
        from tfsoftmax.nbest.word_errors import bootstrap
        errors, others, words = [1, 0, 2, 0], [2, 1, 2, 0], [9, 8, 12, 5]
        found = bootstrap(errors, others, words)
        print(found.difference, found.low, found.high)
    """

    difference: float
    low: float
    high: float
    better: float


def bootstrap(
    errors: np.ndarray, other_errors: np.ndarray, words: np.ndarray,
    other_words: np.ndarray | None = None, resamples: int = 10_000, level: float = 0.95,
    seed: int = 1,
) -> Difference:
    """Estimates the difference of two systems with a percentile interval, by resampling utterances.

    Each resample compares both systems on the same utterances, so that utterances which are hard
    for both do not widen the interval.

    Args:
        errors, other_errors: (U,), the errors of the systems in each utterance.
        words: (U,), the number of words in each reference.
        other_words: (U,), the same for the other system, whose errors may be those of another
            reading of the references; None if they are equal.
        resamples: how many times U utterances are drawn with replacement.
        level: the share of the resamples that lie in the interval.
        seed: the seed of the draws.

    Raises:
        ValueError: the references have no words.

    Source: Bisani and Ney 2004.
    """
    systems = (errors, words), (other_errors, words if other_words is None else other_words)
    if not all(np.sum(of) for _, of in systems):
        raise refusal("words", "not all be zero", received="references without words")
    # Equal seeds draw equal utterances. A resample may have no words; then its rates are zero.
    first, second = (resampled_ratios(*system, resamples, seed) for system in systems)
    differences = first - second
    low, high = percentile_interval(differences, level)
    better = (differences < 0).mean() + (differences == 0).mean() / 2
    rate, other_rate = (float(np.sum(wrong) / np.sum(of)) for wrong, of in systems)
    return Difference(rate - other_rate, low, high, float(better))
