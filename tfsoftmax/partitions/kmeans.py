"""Trees of a few wide levels from word vectors: principal components, then K-means."""

import math

import numpy as np

from tfsoftmax.partitions import tree_builders
from tfsoftmax.partitions.ranks import frequency_ranks
from tfsoftmax.partitions.tree import Tree
from tfsoftmax.support.arguments import ArrayLike, check_positive, checks_arguments, expect

CHUNK = 4096  # words whose distances to all centres are held at a time


@checks_arguments
def kmeans_tree(
    vectors: ArrayLike, counts: ArrayLike, in_root: int = 0, classes: int | None = None,
    most_words: int = 1000, dimensions: int = 10, iterations: int = 20, seed: int = 0,
) -> Tree:
    """Tree whose root has frequent words and classes as children; large classes are split again.

    Args:
        vectors: (V, D) float, one row for each word.
        counts: (V,), occurrences of each word.
        in_root: number of the most frequent words that are children of the root.
        classes: number of classes below the root; None: ⌊√W + 1⌋ for W words.
        most_words: a class of W words, if W is more than this, becomes ⌊√W + 1⌋ classes.
        dimensions: number of principal components that the vectors are reduced to.
        iterations: the most iterations of K-means.
        seed: seed of the centres from which K-means starts.

    Returns:
        A `Tree` for `NarySoftmax`.

    Example:
        vectors = keras.ops.convert_to_numpy(keras.random.normal((100, 8)))
        counts = [1000 // rank for rank in range(1, 101)]
        tree = tfsoftmax.partitions.kmeans.kmeans_tree(vectors, counts, in_root=20)
        head = tfsoftmax.NarySoftmax(100, tree)

    Source: SOUL, Le et al. 2011, section 3.2.
    """
    vectors = checked_vectors(vectors, len(counts))
    check_positive(classes=classes, dimensions=dimensions, iterations=iterations)
    expect(0 <= in_root <= len(counts), "in_root", f"lie in [0, {len(counts)}]", in_root)
    rng = np.random.default_rng(seed)
    order = frequency_ranks(counts).ids
    points = principal_components(vectors, dimensions)

    def node(words, number):
        """Nested lists of the words, divided into `number` classes."""
        if number < 2 or number >= len(words):
            return words.tolist()
        label = kmeans(points[words], number, iterations, rng)
        parts = [words[label == c] for c in np.unique(label)]
        if len(parts) == 1:  # all alike
            return words.tolist()
        return [
            node(part, _number(len(part))) if len(part) > most_words else part.tolist()
            for part in parts
        ]

    rest = order[in_root:]
    nested = order[:in_root].tolist()
    if len(rest):
        nested += node(rest, _number(len(rest)) if classes is None else classes)
    return tree_builders.from_nested(nested)


@checks_arguments
def kmeans_classes(
    vectors: ArrayLike, classes: int, dimensions: int = 10, iterations: int = 20, seed: int = 0
) -> np.ndarray:
    """Classes of words with similar vectors.

    Args:
        vectors: (V, D) float, one row for each word.
        classes: the most classes that there may be, at most V.
        dimensions, iterations, seed: as in `kmeans_tree`.

    Returns:
        int (V,), the class of each word, without gaps.
    """
    vectors = checked_vectors(vectors)
    check_positive(dimensions=dimensions, iterations=iterations)
    expect(1 <= classes <= len(vectors), "classes", f"lie in [1, {len(vectors)}]", classes)
    points = principal_components(vectors, dimensions)
    label = kmeans(points, classes, iterations, np.random.default_rng(seed))
    return np.unique(label, return_inverse=True)[1]


def checked_vectors(vectors: ArrayLike, words: int | None = None) -> np.ndarray:
    """The vectors as float64, or a ValueError if they are not finite, a row for each word."""
    vectors = np.asarray(vectors, np.float64)
    right = vectors.ndim == 2 and vectors.size and words in (None, len(vectors))
    rows = "each word" if words is None else f"each of {words} words"
    expect(right and np.isfinite(vectors).all(), "vectors",
           f"be finite (V, D), one row for {rows}", received=f"shape {vectors.shape}")
    return vectors


def _number(words):
    return int(math.sqrt(words) + 1)


def principal_components(vectors, dimensions):
    """The coordinates (V, min(D, dimensions)) along the directions of the largest variance."""
    centred = vectors - vectors.mean(0)
    _, directions = np.linalg.eigh(centred.T @ centred)  # of rising variance
    return centred @ directions[:, ::-1][:, :dimensions]


def kmeans(points, number, iterations, rng):
    """The nearest centre of each point after Lloyd's iterations: int (N,).

    The centres begin at random points; one that loses all points stays where it is.
    """
    centres = points[rng.choice(len(points), number, replace=False)]
    before = None
    for _ in range(iterations):
        label = nearest(points, centres)
        if before is not None and np.array_equal(label, before):
            break
        before = label
        sizes = np.bincount(label, minlength=number)
        sums = np.stack([np.bincount(label, column, number) for column in points.T], 1)
        centres = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centres)
    return label


def nearest(points, centres):
    """The nearest of the centres (K, D) to each of the points (N, D): int (N,)."""
    offsets = 0.5 * np.square(centres).sum(1)
    return np.concatenate([
        (offsets - points[i : i + CHUNK] @ centres.T).argmin(1)
        for i in range(0, len(points), CHUNK)
    ])
