"""Facts about the trees of the experiment `tree_shapes`."""

import numpy as np
import pytest

from experiments.inputs import tree_files
from tfsoftmax.partitions import tree_builders

ORDER = np.random.default_rng(0).permutation(1000)


@pytest.mark.parametrize("codes", [tree_files.balanced, tree_files.skewed])
def test_leaves_stand_in_the_order_given(codes):
    codes = codes(ORDER)
    assert len(set(codes)) == 1000
    np.testing.assert_array_equal(sorted(range(1000), key=codes.__getitem__), ORDER)


def test_each_node_of_a_skewed_tree_puts_a_tenth_on_its_left_side():
    codes = tree_files.skewed(ORDER)
    for prefix, words in (("", 1000), ("1", 900), ("11", 810), ("0", 100)):
        below = [code for code in codes if code.startswith(prefix)]
        assert len(below) == words
        assert sum(code.startswith(prefix + "0") for code in below) == words // 10


def test_a_skewed_tree_is_deep_and_out_of_balance():
    flat, deep = (
        tree_builders.from_codes(codes(ORDER)) for codes in (tree_files.balanced, tree_files.skewed)
    )
    assert flat.report()["depth"] == 10 and deep.report()["depth"] > 50
    assert flat.report()["balance"] > 0.99 and deep.report()["balance"] < 0.55
    row = tree_files.table({"deep": deep}, np.ones(1000)).splitlines()[-1]
    assert row.startswith(f"| deep | {deep.report()['depth']} |")
