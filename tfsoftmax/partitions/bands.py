"""Words in bands of descending frequency, for word ids in any order.

Adaptive softmax calls its bands clusters: the first is the head cluster, the others are tails.
Differentiated softmax calls them bands. Both lay out the vocabulary by this module.
"""

import dataclasses
import warnings
from collections.abc import Sequence

import numpy as np

from tfsoftmax.partitions.ranks import Ranks, frequency_ranks, permutation_ranks
from tfsoftmax.support.arguments import ArrayLike, expect, is_whole
from tfsoftmax.support.counts import checked_counts


@dataclasses.dataclass(frozen=True, eq=False)
class Bands:
    """How words are laid out.

    Attributes:
        ends: K + 1 ints, the frequency rank at which the shortlist and each tail end; the last
            is V.
        order: the `Ranks` of the words.
        shares: K floats, the share of all tokens expected in each tail.

    Example:
        bands = tfsoftmax.partitions.bands.frequency_bands(6, [2], counts=[5, 9, 0, 7, 1, 3])
        print(bands.sizes)                     # [2, 4]
        print(bands.order.ids[:2])             # [1 3], the two most frequent words
        print(round(bands.shares[0], 2))       # 0.36, the share of all tokens in the tail
    """

    ends: tuple[int, ...]
    order: Ranks
    shares: tuple[float, ...]

    @property
    def cutoffs(self) -> list[int]:
        """The ends without the last, which is always V."""
        return list(self.ends[:-1])

    @property
    def sizes(self) -> list[int]:
        """K + 1 ints, the number of words of the shortlist and of each tail."""
        return [int(n) for n in np.diff([0, *self.ends])]

    @property
    def permutation(self) -> np.ndarray | None:
        """Word ids by descending frequency, int32 (V,), or None if ids are in this order."""
        return None if self.order.identity else self.order.ids

    def positions(self, labels: ArrayLike) -> np.ndarray:
        """How many of the labels each band holds, the shortlist first: int (K + 1,)."""
        bands = np.searchsorted(self.ends, self.order.ranks[np.asarray(labels)], side="right")
        return np.bincount(bands, minlength=len(self.ends))


def frequency_bands(
    vocab_size: int, cutoffs: Sequence[int], counts: ArrayLike | None = None,
    permutation: ArrayLike | str | None = None, shares: Sequence[float] | None = None,
) -> Bands:
    """Divides a vocabulary into bands at frequency ranks.

    Args:
        vocab_size: V.
        cutoffs: K rising ints below V: the shortlist is the `cutoffs[0]` most frequent words.
        counts: (V,) numbers in the order of word ids, or None. Words are ranked by them.
        permutation: (V,) ints, word ids by descending frequency, which overrides the ranking by
            counts; or `"ids"` if frequency falls with the ids, which is also assumed without
            counts and permutation.
        shares: K floats, the share of all tokens in each tail. None takes them from the counts,
            or from Zipf's law without counts.

    Returns:
        `Bands`.

    Raises:
        ValueError: if an argument does not fit.

    Warns:
        UserWarning: if the counts do not fall in the order of `permutation`.
    """
    ends = (*checked_cutoffs(cutoffs, vocab_size), vocab_size)
    order = frequency_order(vocab_size, counts, permutation)
    if shares is None:
        falling = 1 / np.arange(1, vocab_size + 1)
        if counts is not None:
            falling = np.asarray(counts, np.float64)[order.ids]
        shares = [falling[a:b].sum() / falling.sum() for a, b in zip(ends, ends[1:])]
    fit = np.shape(shares) == (len(ends) - 1,) and np.asarray(shares).dtype.kind in "iuf"
    right = fit and all(0 <= share <= 1 for share in shares)
    expect(right, "shares", f"be one number for each of {len(ends) - 1} tails, in [0, 1]", shares)
    return Bands(ends, order, tuple(float(s) for s in shares))


def checked_cutoffs(cutoffs: Sequence[int], vocab_size: int) -> list[int]:
    """The cutoffs as a list of ints, or a ValueError."""
    values = list(cutoffs) if np.ndim(cutoffs) == 1 else []
    rising = all(map(is_whole, values)) and values == sorted({*values, 0, vocab_size})[1:-1]
    expect(values and rising, "cutoffs",
           f"be whole numbers that increase strictly above 0 and below {vocab_size}", cutoffs)
    return [int(c) for c in values]


def frequency_order(
    vocab_size: int, counts: ArrayLike | None = None, permutation: ArrayLike | str | None = None
) -> Ranks:
    """`Ranks` by the permutation, else by the counts; without either, each id is its rank."""
    if counts is not None:
        counts = checked_counts(counts, vocab_size)
    if permutation is None and counts is not None:
        return frequency_ranks(counts)
    if permutation is None or (isinstance(permutation, str) and permutation == "ids"):
        order = permutation_ranks(np.arange(vocab_size))
    else:
        order = permutation_ranks(permutation, vocab_size)
    if counts is not None and (np.diff(counts[order.ids].astype(np.float64)) > 0).any():
        warnings.warn(
            "`counts` do not fall in the order of `permutation`: frequent words among the rare "
            "ones cost time and accuracy", stacklevel=4,
        )
    return order


def band_units(units: int, tails: int, projection_factor: float | None) -> list[int]:
    """Units of the shortlist and of each of K tails: D / factor^k, rounded down, at least one."""
    factor = 1 if projection_factor is None else projection_factor
    return [max(1, int(units // factor**k)) for k in range(tails + 1)]
