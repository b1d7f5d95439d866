"""Occurrences of words: what they must be, and how words that were never seen are counted."""

import numpy as np

from tfsoftmax.support.arguments import ArrayLike, array_of, refusal


def checked_counts(counts: ArrayLike, vocab_size: int | None = None) -> np.ndarray:
    """The counts as an array (V,) of their own dtype.

    Args:
        counts: (V,) numbers in the order of the word ids.
        vocab_size: V, or None for any number of words.

    Raises:
        ValueError: if they are not V finite numbers >= 0, or all are zero.
    """
    counts = array_of("counts", counts, "biuf", "be numbers")
    number = counts.size if vocab_size is None else vocab_size
    wrong = np.argwhere(~(np.isfinite(counts) & (counts >= 0)))
    if counts.shape == (number,) and counts.any() and not len(wrong):
        return counts
    if counts.shape != (number,):
        received = f"counts of shape {counts.shape}"
    elif len(wrong):
        received = f"{counts[wrong[0, 0]]} for word {wrong[0, 0]}"
    else:
        received = "all zero"
    raise refusal("counts", "be finite, not negative, and not all zero, one number for each of "
                  f"{number} words", received=received)


def with_unseen(counts: np.ndarray) -> np.ndarray:
    """The counts, where a word of count zero is counted as often as the rarest one seen."""
    return np.where(counts > 0, counts, counts[counts > 0].min())
