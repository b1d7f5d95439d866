"""Facts about the trees that experiments read from the folder of a corpus."""

import numpy as np
import pytest

from experiments.inputs import corpus_files
from tfsoftmax.partitions import tree_builders

COUNTS = np.array([40, 7, 7, 7, 7, 3, 3, 3, 1, 1, 1, 1, 1])
ORDER = np.random.default_rng(0).permutation(1000)


@pytest.mark.parametrize("codes", [corpus_files.balanced, corpus_files.skewed])
def test_leaves_stand_in_the_order_given(codes):
    codes = codes(ORDER)
    assert len(set(codes)) == 1000
    np.testing.assert_array_equal(sorted(range(1000), key=codes.__getitem__), ORDER)


def test_each_node_of_a_skewed_tree_puts_a_tenth_on_its_left_side():
    codes = corpus_files.skewed(ORDER)
    for prefix, words in (("", 1000), ("1", 900), ("11", 810), ("0", 100)):
        below = [code for code in codes if code.startswith(prefix)]
        assert len(below) == words
        assert sum(code.startswith(prefix + "0") for code in below) == words // 10


def test_a_skewed_tree_is_deep_and_out_of_balance():
    both = corpus_files.balanced, corpus_files.skewed
    flat, deep = (tree_builders.from_codes(codes(ORDER)) for codes in both)
    assert flat.report()["depth"] == 10 and deep.report()["depth"] > 50
    assert flat.report()["balance"] > 0.99 and deep.report()["balance"] < 0.55
    row = corpus_files.table({"deep": deep}, np.ones(1000)).splitlines()[-1]
    assert row.startswith(f"| deep | {deep.report()['depth']} |")


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_any_order_of_ties_is_a_huffman_tree(seed):
    order = np.random.default_rng(seed).permutation(len(COUNTS))
    codes = corpus_files.huffman(COUNTS, order)
    tree_builders.from_codes(codes)  # no code begins another
    ours = tree_builders.huffman(COUNTS).codes()
    assert sum(COUNTS * [len(c) for c in codes]) == sum(COUNTS * [len(c) for c in ours])


def test_words_of_one_count_are_neighbours_in_the_order_given():
    order = np.array([0, 4, 3, 2, 1, 7, 6, 5, 12, 9, 8, 11, 10])
    codes = corpus_files.huffman(COUNTS, order)
    assert codes[12][:-1] == codes[9][:-1]  # the first two of the rarest words
    assert codes[8][:-1] == codes[11][:-1]


def test_by_row_keeps_the_shape_and_places_words_by_falling_count():
    codes = ["11", "0", "101", "100"]  # leaves from left to right: words 1, 3, 2, 0
    placed = corpus_files.by_row(codes, counts=[5, 1, 9, 5])
    assert placed == ["100", "11", "0", "101"]  # word 2, then 0 and 3 with equal counts, then 1
    assert sorted(placed) == sorted(codes)
