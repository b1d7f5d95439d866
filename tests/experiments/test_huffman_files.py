"""Huffman trees whose ties stand in a given order, and trees with words by row."""

import numpy as np
import pytest

from experiments.inputs import huffman_files
from tfsoftmax.partitions import tree_builders

COUNTS = np.array([40, 7, 7, 7, 7, 3, 3, 3, 1, 1, 1, 1, 1])


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_any_order_of_ties_is_a_huffman_tree(seed):
    order = np.random.default_rng(seed).permutation(len(COUNTS))
    codes = huffman_files.codes(COUNTS, order)
    tree_builders.from_codes(codes)  # no code begins another
    ours = tree_builders.huffman(COUNTS).codes()
    assert sum(COUNTS * [len(c) for c in codes]) == sum(COUNTS * [len(c) for c in ours])


def test_words_of_one_count_are_neighbours_in_the_order_given():
    order = np.array([0, 4, 3, 2, 1, 7, 6, 5, 12, 9, 8, 11, 10])
    codes = huffman_files.codes(COUNTS, order)
    assert codes[12][:-1] == codes[9][:-1]  # the first two of the rarest words
    assert codes[8][:-1] == codes[11][:-1]


def test_by_row_keeps_the_shape_and_places_words_by_falling_count():
    codes = ["11", "0", "101", "100"]  # leaves from left to right: words 1, 3, 2, 0
    placed = huffman_files.by_row(codes, counts=[5, 1, 9, 5])
    assert placed == ["100", "11", "0", "101"]  # word 2, then 0 and 3 with equal counts, then 1
    assert sorted(placed) == sorted(codes)
