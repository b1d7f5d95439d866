"""Binary trees from word vectors: all words are split in two, and the halves again."""

import numpy as np

from tfsoftmax.partitions import tree_builders
from tfsoftmax.partitions.kmeans import checked_vectors
from tfsoftmax.partitions.tree import Tree
from tfsoftmax.support.arguments import ArrayLike, check_at_least, checks_arguments

MAX_DEPTH = 64


@checks_arguments
def split_tree(
    vectors: ArrayLike, balanced: bool = True, gaussians: bool = True, iterations: int = 10,
    seed: int = 0,
) -> Tree:
    """Tree in which words with similar vectors are close, made by splitting words in two.

    All nodes of a level are fitted at the same time.

    Args:
        vectors: (V, D) float, one row for each word.
        balanced: whether both sides of a node get half of the words, by their odds; else each
            word goes to its likelier side.
        gaussians: whether to fit two spherical Gaussians by EM; else two means.
        iterations: number of iterations of EM or of two-means at each level.
        seed: seed of the two words of each node from which the fit starts.

    Returns:
        A binary `Tree` of a depth of at most `MAX_DEPTH`; nodes that would lead deeper are halved.

    Example:
        vectors = keras.ops.convert_to_numpy(keras.random.normal((100, 8)))
        tree = tfsoftmax.partitions.splits.split_tree(vectors)
        print(tree.report()["depth"])  # 7
        head = tfsoftmax.TreeSoftmax(100, tree)

    Source: Mnih and Hinton 2009, section 4 (BALANCED, ADAPTIVE without words on both sides).
    """
    vectors = checked_vectors(vectors).astype(np.float32)
    check_at_least(0, iterations=iterations)
    rng, bits = np.random.default_rng(seed), []
    words, starts = np.arange(len(vectors)), np.array([0])  # words by node, nodes' first words
    while len(words) > len(starts):
        sizes = np.diff(np.append(starts, len(words)))
        kept = np.repeat(sizes > 1, sizes)  # single words are leaves
        words, sizes = words[kept], sizes[sizes > 1]
        starts = np.cumsum(sizes) - sizes
        odds = _odds(vectors[words], starts, sizes, gaussians, iterations, rng)
        right = _sides(odds, starts, sizes, balanced, MAX_DEPTH - len(bits))
        level = np.full(len(vectors), "", "U1")
        level[words] = np.where(right, "1", "0")
        bits.append(level)
        order = np.lexsort([right, np.repeat(np.arange(len(sizes)), sizes)])
        words, number = words[order], np.add.reduceat(right.astype(int), starts)
        starts = np.sort(np.concatenate([starts, starts + sizes - number]))
    codes = ["".join(code) for code in zip(*bits)] if bits else ["0"]
    return tree_builders.from_codes(codes)


def _sides(odds, starts, sizes, balanced, levels_left):
    """Whether each word goes right. Both sides of a node get at least one word."""
    node = np.repeat(np.arange(len(sizes)), sizes)
    rank = np.empty(len(odds), np.int64)
    rank[np.lexsort([odds, node])] = np.arange(len(odds))
    half = rank - starts[node] >= (sizes // 2)[node]
    number = np.add.reduceat((odds > 0).astype(int), starts)
    # A node that one side would have to itself, or that could become too deep, is halved.
    halved = (number == 0) | (number == sizes) | (np.log2(sizes) > levels_left - 1) | balanced
    return np.where(halved[node], half, odds > 0)


def _odds(x, starts, sizes, gaussians, iterations, rng):
    """Log-odds of each word (M,) for the second of two components of its node."""
    node = np.repeat(np.arange(len(sizes)), sizes)
    first = rng.integers(0, sizes)
    second = (first + rng.integers(1, sizes)) % sizes
    means = [x[starts + first], x[starts + second]]
    spread = np.add.reduceat(_distance(x, means[0], node), starts) / sizes / x.shape[1]
    variances, weights = [spread, spread], [0.5, 0.5]
    for iteration in range(iterations + 1):
        distances = [_distance(x, mean, node) for mean in means]
        if gaussians:
            terms = [
                np.log(w + 1e-12) - 0.5 * x.shape[1] * np.log(v + 1e-12)
                for w, v in zip(weights, variances)
            ]
            odds = np.zeros(len(x)) + (terms[1] - terms[0])[node]
            odds += 0.5 * distances[0] / (variances[0] + 1e-12)[node]
            odds -= 0.5 * distances[1] / (variances[1] + 1e-12)[node]
            share = 0.5 * (1 + np.tanh(0.5 * odds))
        else:
            odds = distances[0] - distances[1]
            share = (odds > 0).astype(np.float64)
        if iteration == iterations:
            return odds
        for k, s in enumerate([1 - share, share]):
            mass = np.add.reduceat(s, starts)
            held = mass > 1e-6  # a component that has lost all words stays where it is
            sums = np.add.reduceat(s[:, None].astype(np.float32) * x, starts)
            means[k] = np.where(held[:, None], sums / np.maximum(mass, 1e-6)[:, None], means[k])
            variance = np.add.reduceat(s * _distance(x, means[k], node), starts)
            variance = variance / np.maximum(mass, 1e-6) / x.shape[1]
            # A Gaussian narrower than a thousandth of the node would hold only one word.
            variances[k] = np.maximum(variance, 1e-3 * spread)
            weights[k] = mass / sizes


def _distance(x, means, node):
    """Squared distance of each row to its node's mean: float64 (M,)."""
    return np.square(x - means[node]).sum(1, dtype=np.float64)
