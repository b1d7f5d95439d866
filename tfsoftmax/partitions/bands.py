"""Words in bands of falling frequency: a shortlist and tails, whatever the order of word ids."""

import dataclasses
import warnings

import numpy as np

from tfsoftmax.partitions.ranks import frequency_ranks, permutation_ranks


@dataclasses.dataclass(frozen=True, eq=False)
class Bands:
    """How words are laid out.

    Attributes:
        ends: K + 1 ints, the frequency rank at which the shortlist and each tail end; the last
            is V.
        order: `Ranks`, or None where every word's id is its rank.
        shares: K floats, the share of all tokens expected in each tail.
    """

    ends: tuple
    order: object
    shares: tuple

    @property
    def cutoffs(self):
        """The ends without the last, which says nothing."""
        return list(self.ends[:-1])

    @property
    def sizes(self):
        """K + 1 ints, the number of words of the shortlist and of each tail."""
        return [int(n) for n in np.diff([0, *self.ends])]

    @property
    def permutation(self):
        """Word ids by falling frequency as a list, or None where they are so already."""
        return None if self.order is None else self.order.ids.tolist()


def frequency_bands(vocab_size, cutoffs, counts=None, permutation=None, shares=None):
    """Parts a vocabulary at frequency ranks.

    Args:
        vocab_size: V.
        cutoffs: K rising ints below V: the shortlist is the `cutoffs[0]` most frequent words.
        counts: (V,) numbers in the order of word ids, or None. Words are ranked by them.
        permutation: (V,) ints, word ids by falling frequency, which overrides the ranking by
            counts; or `"ids"`: they fall already. Without either, ids are taken to fall.
        shares: K floats, the share of all tokens in each tail; from the counts, or without any by
            Zipf's law, if None.

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
        weights = 1 / np.arange(1, vocab_size + 1) if counts is None else np.asarray(counts, float)
        if counts is not None and order is not None:
            weights = weights[order.ids]
        total = weights.sum() or 1.0
        shares = [weights[a:b].sum() / total for a, b in zip(ends, ends[1:])]
    if len(shares) != len(ends) - 1:
        raise ValueError(
            f"`shares` must be one number for each of {len(ends) - 1} tails. Received: {shares}"
        )
    return Bands(ends, order, tuple(float(s) for s in shares))


def checked_cutoffs(cutoffs, vocab_size):
    """The cutoffs as a list of ints, or a ValueError."""
    values = [int(c) for c in cutoffs]
    rising = all(a < b for a, b in zip([0, *values], [*values, vocab_size]))
    if not values or not rising or values != list(cutoffs):
        raise ValueError(
            "`cutoffs` must be whole numbers that increase strictly above 0 and below "
            f"{vocab_size}. Received: cutoffs={cutoffs}"
        )
    return values


def frequency_order(vocab_size, counts=None, permutation=None):
    """`Ranks` by the permutation, else by the counts; None where ids fall in frequency."""
    for name, values in (("counts", counts), ("permutation", permutation)):
        if values is not None and not isinstance(values, str) and np.shape(values) != (vocab_size,):
            raise ValueError(
                f"`{name}` must have one number a word, shape ({vocab_size},). "
                f"Received: {name} of shape {np.shape(values)}"
            )
    if permutation is None:
        order = None if counts is None else frequency_ranks(counts)
    else:
        order = None if isinstance(permutation, str) else permutation_ranks(permutation)
        ranked = counts if counts is None or order is None else np.asarray(counts)[order.ids]
        if ranked is not None and (np.diff(np.asarray(ranked, np.float64)) > 0).any():
            warnings.warn(
                "`counts` do not fall in the order of `permutation`: frequent words among the rare "
                "ones cost time and accuracy", stacklevel=4,
            )
    return None if order is None or order.identity else order


def band_units(units, tails, projection_factor):
    """Units of the shortlist and of each of K tails: D / factor^k, rounded down, at least one."""
    factor = 1 if projection_factor is None else projection_factor
    return [max(1, int(units // factor**k)) for k in range(tails + 1)]
