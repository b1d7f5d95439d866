"""Word error rates, and whether the difference of two systems is more than chance."""

import dataclasses

import numpy as np

CELLS = 1 << 22  # of the resampling's table at a time


def word_errors(references, hypotheses):
    """Counts errors of the best alignment of each pair, by jiwer.

    Args:
        references, hypotheses: lists of N sequences of words.

    Returns:
        int64 (N, 3): substitutions, deletions, insertions.

    Raises:
        RuntimeError: jiwer is not installed.
    """
    try:
        import jiwer
    except ModuleNotFoundError as error:
        raise RuntimeError("word error rates need jiwer: pip install 'tfsoftmax[wer]'") from error
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
    """WER of one system minus WER of another.

    Attributes:
        difference: on all utterances.
        low, high: bounds of the interval.
        better: share of the resamples in which the first system has the lower WER; ties count
            for half.
    """

    difference: float
    low: float
    high: float
    better: float


def bootstrap(errors, other_errors, words, resamples=10_000, level=0.95, seed=1):
    """Percentile interval of the difference of two systems, resampling utterances.

    Both systems are looked at on the same utterances of each resample, so that what makes an
    utterance hard for both does not widen the interval.

    Args:
        errors, other_errors: (U,) errors of each utterance.
        words: (U,) words of its reference.
        resamples: number of times that U utterances are drawn with replacement.
        level: share of the resamples within the interval.
        seed: of the draws.

    Returns:
        `Difference`.

    Raises:
        ValueError: the references have no words.

    Source: Bisani and Ney 2004.
    """
    words = np.asarray(words, np.float64)
    gaps = np.asarray(errors, np.float64) - np.asarray(other_errors, np.float64)
    if not words.sum():
        raise ValueError("`words` must not all be zero. Received: references without words")
    rng, size, differences = np.random.default_rng(seed), len(words), []
    per_part = max(1, CELLS // size)
    for start in range(0, resamples, per_part):
        drawn = rng.integers(0, size, (min(per_part, resamples - start), size))
        # A resample without any words has no errors to divide either.
        differences.append(gaps[drawn].sum(1) / np.maximum(words[drawn].sum(1), 1))
    differences = np.concatenate(differences)
    low, high = np.quantile(differences, [(1 - level) / 2, (1 + level) / 2])
    better = (differences < 0).mean() + (differences == 0).mean() / 2
    return Difference(gaps.sum() / words.sum(), float(low), float(high), float(better))
