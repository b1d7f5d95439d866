"""The groups and the tree into which a head divides its words, and what each part is worth.

The probability of a group, or of a branch of a tree, is the sum of the exact probabilities of its
words. So these functions serve every head, whatever its own factors are.
"""

import dataclasses

import numpy as np

from tfsoftmax.heads import SoftmaxHead
from tfsoftmax.partitions.tree import Tree, ranges
from tfsoftmax.partitions.tree_builders import edge_sums
from tfsoftmax.support.arguments import ArrayLike


@dataclasses.dataclass(frozen=True, eq=False)
class Grouping:
    """The group of each word.

    Attributes:
        kind: what the head calls a group: "cluster", "class", "band" or "part".
        of_word: int (V,), the number of each word's group.

    Example:
        from tfsoftmax.lm.word_groups import grouping_of
        grouping = grouping_of(tfsoftmax.ClassSoftmax(4, classes=[0, 0, 1, 1]))
        print(grouping.kind, grouping.sums([0.1, 0.2, 0.3, 0.4]))  # class [0.3 0.7]
    """

    kind: str
    of_word: np.ndarray

    def sums(self, values: ArrayLike) -> np.ndarray:
        """The sum of the values (V,) of the words of each group, float64."""
        return np.bincount(self.of_word, np.asarray(values, np.float64))

    def members(self, group: int, values: ArrayLike) -> np.ndarray:
        """The words of a group, int, those of the largest values (V,) first."""
        ids = np.flatnonzero(self.of_word == group)
        return ids[np.argsort(-np.asarray(values)[ids], kind="stable")]


def grouping_of(head: SoftmaxHead) -> Grouping | None:
    """The groups of a head's words, or None for a head that has none."""
    if hasattr(head, "clusters"):
        return Grouping("cluster", head.clusters)
    if hasattr(head, "classes"):
        return Grouping("class", np.asarray(head.classes))
    if hasattr(head, "bands"):
        ranks, ends, kind = head.bands.order.ranks, head.bands.ends, "band"
    elif hasattr(head, "shortlist"):
        ranks, ends, kind = head.order.ranks, (head.shortlist, head.vocab_size), "part"
    else:
        return None
    return Grouping(kind, np.searchsorted(ends, ranks, side="right"))


@dataclasses.dataclass(frozen=True)
class Branch:
    """A way to go on from a node of a tree.

    Attributes:
        probability: of the words below it, given the node.
        words: how many words are below it.
        likeliest: ids of the likeliest of them, the likeliest first.
        taken: whether the path goes on here.

    Example:
        from tfsoftmax.lm.word_groups import path_of
        tree = tfsoftmax.partitions.tree.Tree(sizes=[2, 2], words=[2, -1, 0, 1])
        first, second = path_of(tree, word=0, probabilities=[0.3, 0.1, 0.6])
        print([branch.probability for branch in first])  # [0.6, 0.4], up to rounding
    """

    probability: float
    words: int
    likeliest: list[int]
    taken: bool


def path_of(tree: Tree, word: int, probabilities: ArrayLike, shown: int = 5) -> list[list[Branch]]:
    """The branches at each node on the path to a word, from the root down.

    Args:
        tree: the `Tree` of V words.
        word: the id of the word.
        probabilities: (V,) of all words. The probability of the word is the product of those of
            the branches that are taken.
        shown: the most words and branches to list. The branch that is taken is among them.

    Returns:
        A list for each node: at most `shown` branches, the likeliest first.
    """
    probabilities = np.asarray(probabilities, np.float64)
    sums, counts = edge_sums(tree, probabilities), edge_sums(tree, np.ones(tree.vocab_size))
    steps = []
    path = tree.paths([word])[0]
    for edge in path[path >= 0]:
        first = tree.starts[tree.owners[edge]]
        edges = np.arange(first, first + tree.sizes[tree.owners[edge]])
        order = edges[np.argsort(-sums[edges], kind="stable")]
        kept = order[:shown] if edge in order[:shown] else [*order[: shown - 1], edge]
        whole = sums[edges].sum()
        steps.append([
            Branch(
                float(sums[e] / whole) if whole else 0.0, int(counts[e]),
                likeliest_below(tree, e, probabilities, shown), bool(e == edge),
            )
            for e in kept
        ])
    return steps


def likeliest_below(tree: Tree, edge: int, values: ArrayLike, count: int) -> list[int]:
    """The words below an edge with the largest values (V,), at most `count`, the largest first."""
    edges, found, ends = np.array([edge]), [], np.cumsum(tree.words < 0)
    while len(edges):
        words = tree.words[edges]
        found.append(words[words >= 0])
        nodes = ends[edges[words < 0]]
        edges = ranges(tree.starts[nodes], tree.sizes[nodes])
    ids = np.concatenate(found)
    return ids[np.argsort(-np.asarray(values)[ids], kind="stable")][:count].tolist()
