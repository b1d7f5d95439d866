"""Alias tables of integers, which draw words with exactly the claimed probabilities."""

import numpy as np

_UNIT = 1 << 32  # a full cell


def integer_weights(weights: np.ndarray) -> np.ndarray:
    """Probabilities as integers that add up to the capacity of the table.

    Args:
        weights: (V,) floats >= 0, not all zero.

    Returns:
        (V,) int64, each at least 1, with sum P * 2^32, where P is the power of two at or above V.
    """
    weights = np.asarray(weights, np.float64)
    capacity = cells(len(weights)) * _UNIT
    scaled = np.maximum(np.rint(weights * (capacity / weights.sum())), 1).astype(np.int64)
    scaled[np.argmax(scaled)] += capacity - scaled.sum()  # what rounding left
    return scaled


def cells(vocab_size: int) -> int:
    """P, the number of cells: a power of two, so that random bits choose a cell without bias."""
    return 1 << max(vocab_size - 1, 0).bit_length()


def alias_table(scaled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Builds the alias table of integer weights without a loop over the words.

    A draw chooses a cell c and 32 random bits, read as a signed integer. If they are below
    `threshold[c]`, the word is c, and `alias[c]` otherwise. Words that are heavier than a cell
    fill the lighter cells in order. The heavy word that fills a cell is the first whose running
    excess covers the running deficit before that cell. Where the excess of a heavy word ends
    within a cell, the next heavy word fills up the cell of that word.

    Args:
        scaled: (V,) int64 of `integer_weights`.

    Returns:
        threshold: (P,) int32.
        alias: (P,) int32, words.

    Source: Walker 1977; Hübschle-Schneider, Sanders 2019, section 4.2, for the sweep over running
        sums, which is a binary search here. Departure: 64-bit integers instead of floats.
    """
    size = cells(len(scaled))
    weight = np.zeros(size, np.int64)
    weight[: len(scaled)] = scaled
    light, heavy = np.flatnonzero(weight < _UNIT), np.flatnonzero(weight >= _UNIT)
    deficit = np.cumsum(_UNIT - weight[light])
    excess = np.cumsum(weight[heavy] - _UNIT)
    before = np.concatenate([[0], deficit[:-1]])[: len(light)]
    alias = np.arange(size, dtype=np.int64)
    alias[light] = heavy[np.searchsorted(excess, before, side="left")]
    kept = weight  # light cells keep their weight
    kept[heavy] = _UNIT
    ends_in = np.searchsorted(deficit, excess, side="right")
    ends = ends_in < len(light)
    kept[heavy[ends]] = _UNIT - (deficit[ends_in[ends]] - excess[ends])
    alias[heavy[:-1][ends[:-1]]] = heavy[1:][ends[:-1]]
    # The threshold of a full cell would be 2^32. It is 2^32 - 1, which changes nothing, because
    # a full cell is its own alias.
    threshold = np.minimum(kept, _UNIT - 1) - _UNIT // 2
    return threshold.astype(np.int32), alias.astype(np.int32)
