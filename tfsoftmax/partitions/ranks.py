"""From word ids to frequency ranks and back."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class Ranks:
    """An order of the vocabulary.

    Attributes:
        ids: (V,) int32, the word of each rank; rank 0 is the most frequent word.
        ranks: (V,) int32, the rank of each word, the inverse permutation.
    """

    ids: np.ndarray
    ranks: np.ndarray

    @property
    def identity(self):
        """Whether every word's id is its rank, so that nothing need be gathered."""
        return bool(np.array_equal(self.ids, np.arange(len(self.ids))))


def frequency_ranks(counts):
    """Words by falling count; words of one count keep the order of their ids.

    Args:
        counts: (V,) numbers, in the order of the word ids.

    Returns:
        `Ranks`.
    """
    ids = np.argsort(-np.asarray(counts, np.float64), kind="stable")
    return permutation_ranks(ids)


def permutation_ranks(ids):
    """The order that a list of all words by falling frequency gives.

    Args:
        ids: (V,) integers, each of [0, V) once.

    Returns:
        `Ranks`.

    Raises:
        ValueError: if `ids` is no permutation.
    """
    ids = np.asarray(ids)
    size = len(ids) if ids.ndim == 1 else -1
    if not (np.issubdtype(ids.dtype, np.integer) and np.array_equal(np.sort(ids), np.arange(size))):
        raise ValueError(
            "`permutation` must hold each word id from 0 to V - 1 once. Received: "
            f"{ids.dtype} of shape {ids.shape}, {np.array2string(ids, threshold=8, edgeitems=3)}"
        )
    ids = ids.astype(np.int32)
    ranks = np.empty_like(ids)
    ranks[ids] = np.arange(size, dtype=np.int32)
    return Ranks(ids, ranks)
