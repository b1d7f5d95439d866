"""Trees from word vectors: halves, and the groups that the vectors were made of."""

import numpy as np
import pytest

from refusals import refuses
from tfsoftmax.partitions import splits


def clouds(sizes, seed=0, width=0.1):
    """Vectors around as many corners of a cube, and the corner of each."""
    rng = np.random.default_rng(seed)
    corner = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    corners = np.array([[4.0, 0, 0], [4.0, 1, 0], [-4.0, 0, 0], [-4.0, 0, 1]])
    return corners[corner] + width * rng.standard_normal((len(corner), 3)), corner


@pytest.mark.parametrize("gaussians", [False, True])
@pytest.mark.parametrize("vocab_size", [1, 2, 3, 13, 100])
def test_balanced_splits_halve_every_node(gaussians, vocab_size):
    vectors = np.random.default_rng(0).standard_normal((vocab_size, 5))
    tree = splits.split_tree(vectors, gaussians=gaussians)
    assert tree.vocab_size == vocab_size and np.ptp(tree.depths) <= 1


@pytest.mark.parametrize("gaussians", [False, True])
@pytest.mark.parametrize("sizes", [[16, 16, 16, 16], [40, 20, 7, 3]])
def test_clouds_of_vectors_become_subtrees(gaussians, sizes):
    """The first split separates distant clouds of any size if it need not be balanced."""
    vectors, corner = clouds(sizes)
    codes = splits.split_tree(vectors, balanced=False, gaussians=gaussians).codes()
    sides = [{code[0] for code, c in zip(codes, corner) if c // 2 == far} for far in (0, 1)]
    assert sorted(map(list, sides)) == [[0], [1]]


def test_gaussians_of_unlike_widths_part_where_means_do_not():
    """A narrow cloud within a wide one: two means cut through both."""
    rng = np.random.default_rng(0)
    vectors = np.concatenate([0.05 * rng.standard_normal((100, 6)), rng.standard_normal((100, 6))])
    kinds = np.repeat([0, 1], 100)

    def agreement(gaussians):
        tree = splits.split_tree(vectors, balanced=False, gaussians=gaussians, iterations=30)
        codes = tree.codes()
        side = np.array([code[0] for code in codes])
        return max(np.mean(side == kinds), np.mean(side != kinds))

    assert agreement(True) > 0.97 > 0.8 > agreement(False)


@pytest.mark.parametrize("gaussians", [False, True])
def test_vectors_that_are_all_the_same_are_halved(gaussians):
    tree = splits.split_tree(np.ones((50, 3)), balanced=False, gaussians=gaussians)
    assert np.ptp(tree.depths) <= 1


def test_trees_that_would_be_too_deep_are_halved():
    vectors = np.cumprod(np.full(300, 1.15))[:, None]  # splits take a few largest away
    tree = splits.split_tree(vectors, balanced=False, gaussians=False, iterations=50)
    assert 20 < tree.depths.max() <= splits.MAX_DEPTH


@pytest.mark.parametrize("name, rule, arguments", [
    ("vectors", "be finite (V, D)", {"vectors": [[np.nan]]}),
    ("vectors", "be finite (V, D)", {"vectors": np.ones((3, 0))}),
    ("iterations", "be at least 0", {"iterations": -1}),
    ("iterations", "be an integer", {"iterations": 1.5}),
])
def test_mistakes_are_named(name, rule, arguments):
    with refuses(name, rule):
        splits.split_tree(**{"vectors": np.ones((3, 2)), **arguments})
