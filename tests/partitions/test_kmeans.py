"""SOUL's trees: frequent words in the root, clouds of vectors in classes, large classes split."""

import numpy as np
import pytest

from refusals import refuses
from tfsoftmax.partitions import kmeans


def clouds(number, size, seed=0):
    """`number` clouds of `size` vectors each in 30 dimensions, and the cloud of each vector."""
    rng = np.random.default_rng(seed)
    cloud = rng.permutation(np.repeat(np.arange(number), size))
    centres = 10 * rng.standard_normal((number, 30))
    return centres[cloud] + 0.1 * rng.standard_normal((len(cloud), 30)), cloud


def test_principal_components_are_those_of_the_singular_values():
    vectors = np.random.default_rng(0).standard_normal((50, 7)) * np.arange(1, 8)
    centred = vectors - vectors.mean(0)
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    ours, expected = kmeans.principal_components(vectors, 3), (left * values)[:, :3]
    np.testing.assert_allclose(np.abs(ours), np.abs(expected), rtol=1e-6, atol=1e-9)


def test_nearest_centres_equal_a_loop(monkeypatch):
    monkeypatch.setattr(kmeans, "CHUNK", 7)
    rng = np.random.default_rng(0)
    points, centres = rng.standard_normal((30, 3)), rng.standard_normal((5, 3))
    expected = [min(range(5), key=lambda c: np.sum((p - centres[c]) ** 2)) for p in points]
    assert kmeans.nearest(points, centres).tolist() == expected


def test_iterations_bring_points_nearer_to_their_centres():
    points = np.random.default_rng(0).standard_normal((300, 2))

    def spread(iterations):
        label = kmeans.kmeans(points, 8, iterations, np.random.default_rng(1))
        groups = [points[label == c] for c in set(label)]
        return sum(np.square(g - g.mean(0)).sum() for g in groups)

    assert spread(20) < spread(3) < spread(1)


@pytest.mark.parametrize("dtype", ["int64", "uint32"])
def test_frequent_words_hang_on_the_root_and_others_on_classes(dtype):
    vectors, _ = clouds(4, 20)
    counts = np.random.default_rng(0).permutation(np.arange(80))
    tree = kmeans.kmeans_tree(vectors, counts.astype(dtype), in_root=5, classes=6)
    assert tree.vocab_size == 80
    assert set(np.flatnonzero(tree.depths == 1)) == set(np.argsort(-counts)[:5])
    assert tree.depths.max() == 2 and tree.sizes[0] <= 5 + 6


def test_words_of_a_class_are_of_one_cloud():
    vectors, cloud = clouds(4, 30)
    tree = kmeans.kmeans_tree(vectors, np.ones(120), classes=12)
    groups = {}
    for word, code in enumerate(tree.codes()):
        groups.setdefault(code[0], set()).add(cloud[word])
    assert all(len(kinds) == 1 for kinds in groups.values())


def test_large_classes_are_split_again():
    vectors, _ = clouds(3, 100)
    tree = kmeans.kmeans_tree(vectors, np.ones(300), classes=3, most_words=40)
    assert tree.depths.max() >= 3
    assert max((tree.words[a : a + n] >= 0).sum() for a, n in zip(tree.starts, tree.sizes)) <= 40


@pytest.mark.parametrize("vocab_size", [1, 2, 3, 50])
def test_words_that_are_all_the_same_make_a_tree(vocab_size):
    tree = kmeans.kmeans_tree(np.ones((vocab_size, 4)), np.ones(vocab_size), most_words=2)
    assert tree.vocab_size == vocab_size


@pytest.mark.parametrize("name, rule, make, arguments, options", [
    ("vectors", "one row for each of 4 words", kmeans.kmeans_tree,
     (np.ones((3, 2)), np.ones(4)), {}),
    ("vectors", "be finite (V, D), one row for each word", kmeans.kmeans_classes,
     (np.full((4, 2), np.nan), 2), {}),
    ("in_root", "lie in [0, 4]", kmeans.kmeans_tree,
     (np.ones((4, 2)), np.ones(4)), {"in_root": 5}),
    ("vectors", "be finite (V, D)", kmeans.kmeans_classes, (np.ones((4, 0)), 2), {}),
    ("in_root", "be an integer", kmeans.kmeans_tree,
     (np.ones((4, 2)), np.ones(4)), {"in_root": 0.5}),
    ("classes", "lie in [1, 4]", kmeans.kmeans_classes, (np.ones((4, 2)), 0), {}),
    ("classes", "be an integer", kmeans.kmeans_classes, (np.ones((4, 2)), 2.5), {}),
    ("classes", "lie in", kmeans.kmeans_tree, (np.ones((4, 2)), np.ones(4)), {"classes": 0}),
    *((option, "lie in", make, (np.ones((4, 2)), given), {option: 0})
      for option in ("iterations", "dimensions")
      for make, given in ((kmeans.kmeans_classes, 2), (kmeans.kmeans_tree, [4, 3, 2, 1]))),
])
def test_mistakes_are_named(name, rule, make, arguments, options):
    with refuses(name, rule):
        make(*arguments, **options)


def test_kmeans_classes_hold_words_of_one_cloud():
    vectors, cloud = clouds(4, 30)
    label = kmeans.kmeans_classes(vectors, 12, seed=1)
    assert set(label) == set(range(label.max() + 1)) and label.max() < 12
    assert all(len(set(cloud[label == c])) == 1 for c in set(label))
