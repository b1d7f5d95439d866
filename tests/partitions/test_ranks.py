import numpy as np
import pytest

from tfsoftmax.partitions.ranks import frequency_ranks, permutation_ranks


def test_ranks_follow_falling_counts_and_ties_keep_their_order():
    order = frequency_ranks([5, 9, 0, 9, 5])
    assert order.ids.tolist() == [1, 3, 0, 4, 2]
    assert order.ranks.tolist() == [2, 0, 4, 1, 3]
    assert not order.identity


def test_ids_and_ranks_are_inverse():
    counts = np.random.default_rng(0).integers(0, 50, size=301)
    order = frequency_ranks(counts)
    assert np.all(np.diff(counts[order.ids]) <= 0)
    np.testing.assert_array_equal(order.ranks[order.ids], np.arange(301))
    assert order.ids.dtype == order.ranks.dtype == np.int32


def test_falling_counts_are_in_order_already():
    assert frequency_ranks([9, 7, 7, 0]).identity


@pytest.mark.parametrize("wrong", [[0, 2], [0, 0], [0.0, 1.0], [[0, 1]], [1, 2]])
def test_what_is_no_permutation_is_named(wrong):
    with pytest.raises(ValueError, match="`permutation` must hold each word id .* Received: "):
        permutation_ranks(wrong)
