"""The beginnings that sentences share, each of which is scored once."""

from collections.abc import Sequence

import numpy as np


def numbered_prefixes(
    targets: Sequence[np.ndarray], vocab_size: int
) -> tuple[list[tuple[np.ndarray, int]], int]:
    """Numbers the distinct beginnings of sentences, starting with 1.

    Args:
        targets: the word ids (T,) of each sentence.
        vocab_size: V, the number of words.

    Returns:
        A list with a pair for each sentence: the numbers of its beginnings, the shortest first,
        and how many of them no earlier sentence has, which are the last ones; and the number of
        distinct beginnings.
    """
    known, numbers = {}, []
    for ids in targets:
        before, prefix, of_sentence = len(known), 0, []
        for word in ids.tolist():
            prefix = known.setdefault(prefix * vocab_size + word, len(known) + 1)
            of_sentence.append(prefix)
        numbers.append((np.array(of_sentence), len(known) - before))
    return numbers, len(known)


def fresh_numbers(prefixes: np.ndarray, fresh: int) -> np.ndarray:
    """The numbers of a sentence's beginnings, with 0 for those that an earlier sentence has."""
    return np.where(np.arange(len(prefixes)) >= len(prefixes) - fresh, prefixes, 0)
