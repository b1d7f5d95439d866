"""A tree whose leaves are the words: one representation for all hierarchical heads."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import numpy as np

from tfsoftmax.support.arguments import ArrayLike, expect, refusal, whole_numbers
from tfsoftmax.support.packing import packed, unpacked

MAX_DEPTH = 1000  # heads hold a path of this length for every word


@dataclasses.dataclass(frozen=True, eq=False)
class Tree:
    """A rooted, ordered tree over V words, numbered breadth-first.

    Inner nodes are numbered from the root, 0, downwards, one level after the other; edges are
    numbered in the same order, so that the edges below an inner node are consecutive. In a
    binary tree the edges below node n are 2n and 2n + 1.

    Args:
        sizes: int (I,), the number of children of each inner node.
        words: int (E,), for each edge the word at its end, or -1 where an inner node follows;
            the k-th of these leads to inner node k + 1.

    Raises:
        ValueError: if the arrays do not describe one tree with each of the words 0 ... V-1 once.

    Example:
        tree = tfsoftmax.partitions.tree.Tree(sizes=[2, 2], words=[2, -1, 0, 1])
        print(tree.codes())   # [[1, 0], [1, 1], [0]]: word 2 is the first child of the root
        print(tree.depths)    # [2 2 1]
        head = tfsoftmax.TreeSoftmax(3, tree)
    """

    sizes: np.ndarray
    words: np.ndarray

    def __post_init__(self):
        for name in ("sizes", "words"):
            array = whole_numbers(name, getattr(self, name), "int32").copy()
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        _check(self)

    @classmethod
    def from_parents(cls, parents: ArrayLike, words: ArrayLike) -> "Tree":
        """The tree of nodes in any numbering, with the children of a node in that order.

        Args:
            parents: int (M,), the parent of each node; -1 for the root, exactly one.
            words: int (M,), the word at each leaf, -1 at inner nodes.

        Returns:
            A `Tree`.
        """
        # With half the bytes, large trees take half the time.
        parents = whole_numbers("parents", parents, "int32")
        words = whole_numbers("words", words)
        roots = np.flatnonzero(parents < 0)
        expect(len(roots) == 1, "parents", "have one root", received=f"{len(roots)} roots")
        children = np.argsort(parents, kind="stable")[1:].astype(np.int32)
        counts = np.bincount(parents[parents >= 0], minlength=len(parents)).astype(np.int32)
        starts = np.cumsum(counts, dtype=np.int32) - counts
        levels, level = [roots], roots
        while len(level):
            level = children[ranges(starts[level], counts[level])]
            levels.append(level)
            _check_depth(len(levels) - 2)  # of nodes: one more than of edges, and an empty one
        order = np.concatenate(levels)
        expect(len(order) == len(parents), "parents", "lead every node to the root",
               received=f"{len(parents)} nodes, of which the root reaches {len(order)}")
        inner = order[counts[order] > 0]
        right = (words[inner] < 0).all() and (words[counts == 0] >= 0).all()
        expect(right, "words", "be word ids at the leaves and -1 at inner nodes",
               received={"words": words[:20], "children": counts[:20]})
        return cls(counts[inner], words[order[1:]])

    @property
    def vocab_size(self) -> int:
        """V."""
        return len(self.words) - len(self.sizes) + 1

    @property
    def is_binary(self) -> bool:
        """Whether every inner node has two children."""
        return bool((self.sizes == 2).all())

    @functools.cached_property
    def starts(self) -> np.ndarray:
        """int (I,), the first edge below each inner node."""
        return np.cumsum(self.sizes, dtype=np.int32) - self.sizes

    @functools.cached_property
    def owners(self) -> np.ndarray:
        """int (E,), the inner node above each edge."""
        return np.repeat(np.arange(len(self.sizes), dtype=np.int32), self.sizes)

    @functools.cached_property
    def entries(self) -> np.ndarray:
        """int (I,), the edge that leads into each inner node, -1 for the root."""
        return np.concatenate([[-1], np.flatnonzero(self.words < 0)]).astype(np.int32)

    @functools.cached_property
    def leaves(self) -> np.ndarray:
        """int (V,), the edge that ends in each word."""
        result = np.empty(self.vocab_size, np.int32)
        edges = np.flatnonzero(self.words >= 0)
        result[self.words[edges]] = edges
        return result

    @functools.cached_property
    def levels(self) -> list[tuple[int, int]]:
        """Pairs (first, last + 1) of the inner nodes of each level, from the root down."""
        followers = np.concatenate([[0], np.cumsum(self.words < 0)])
        ends = self.starts + self.sizes
        result = [(0, 1)]
        while result[-1][1] < len(self.sizes):
            first, last = result[-1]
            result.append((last, 1 + int(followers[ends[last - 1]])))
        return result

    @functools.cached_property
    def depths(self) -> np.ndarray:
        """int (V,), the number of edges from the root to each word."""
        depth = np.repeat(np.arange(len(self.levels)), [b - a for a, b in self.levels])
        return (depth[self.owners[self.leaves]] + 1).astype(np.int32)

    def children(self) -> np.ndarray:
        """What each edge of a binary tree leads to: int32 (V-1, 2), a node or -1 - w for word w."""
        inner = self.words < 0
        result = np.where(inner, np.cumsum(inner), -1 - self.words)
        return result.astype(np.int32).reshape(-1, 2)

    def above(self) -> np.ndarray:
        """The edge above each edge, by which paths are followed: int32 (1 + E,).

        Entry e + 1 is the edge that leads to the node above edge e, and -1 if that is the root.
        Entry 0 is -1.
        """
        return np.append(np.int32(-1), self.entries[self.owners])

    def paths(self, words: ArrayLike | None = None) -> np.ndarray:
        """The edges from the root to some words (N,), or to all: int32 (N, L), -1 after the end."""
        words = slice(None) if words is None else np.asarray(words)
        edges, depths = np.array(self.leaves[words]), self.depths[words]
        result = np.full((len(edges), len(self.levels)), -1, np.int32)
        for step in range(len(self.levels)):
            rows = np.flatnonzero(depths > step)
            result[rows, depths[rows] - 1 - step] = edges[rows]
            edges[rows] = self.entries[self.owners[edges[rows]]]
        return result

    def codes(self) -> list[list[int]]:
        """For each word the list of the positions among the children that lead to it."""
        paths = self.paths()
        ranks = np.arange(len(self.words)) - self.starts[self.owners]
        return [ranks[path[:depth]].tolist() for path, depth in zip(paths, self.depths)]

    def nested(self, words: Sequence[str]) -> list:
        """The tree as nested lists of its words, of which `words` has the names."""
        lists = [[] for _ in self.sizes]
        ends = np.cumsum(self.words < 0)  # the inner node at the end of each edge without a word
        for owner, word, end in zip(self.owners.tolist(), self.words.tolist(), ends.tolist()):
            lists[owner].append(lists[end] if word < 0 else words[word])
        return lists[0]

    def report(self, counts: ArrayLike | None = None) -> dict[str, float]:
        """Depth, balance and expected path length.

        Args:
            counts: (V,), occurrences of each word; None: all the same.

        Returns:
            dict: `words` V; `nodes` I; `depth` of the deepest word; `mean_depth` over words;
            `expected_path_length`, edges, over the tokens that `counts` counts; `entropy_bits`
            of that distribution, a lower bound for the expected path length of a binary tree;
            `expected_scores`, the children of all nodes on a path, over the tokens; `balance`,
            ln V over the mean of Σ ln(children) along the paths: 1 where every node divides its
            words evenly.
        """
        counts = np.ones(self.vocab_size) if counts is None else np.asarray(counts, np.float64)
        p = counts / counts.sum()
        entropy = -np.sum(p[p > 0] * np.log2(p[p > 0]))
        children = np.append(self.sizes[self.owners], 1)  # one where a path has ended, -1
        paths = [children[column] for column in self.paths().T]
        cost = sum(np.log(path).mean() for path in paths)
        scores = sum(path * (path > 1) for path in paths)
        return {
            "words": self.vocab_size,
            "nodes": len(self.sizes),
            "depth": int(self.depths.max()),
            "mean_depth": float(self.depths.mean()),
            "expected_path_length": float(p @ self.depths),
            "entropy_bits": float(entropy),
            "expected_scores": float(p @ scores),
            "balance": float(np.log(self.vocab_size) / cost) if cost else 1.0,
        }

    def to_config(self) -> dict:
        """The tree as JSON: `sizes` (2 for a binary tree) and `words`, packed if it is large."""
        return {"sizes": 2 if self.is_binary else packed(self.sizes), "words": packed(self.words)}

    @classmethod
    def from_config(cls, config: dict) -> "Tree":
        """The tree that `to_config` described."""
        expect(isinstance(config, Mapping) and {"sizes", "words"} <= config.keys(), "tree",
               "be a dict that `Tree.to_config` returned, of `sizes` and `words`", config)
        sizes, words = unpacked(config["sizes"]), unpacked(config["words"])
        return cls([sizes] * (len(words) // 2) if isinstance(sizes, int) else sizes, words)


def ranges(starts, counts):
    """For each pair start, start + 1, ..., start + count - 1, one after the other."""
    ends = np.cumsum(counts, dtype=counts.dtype)
    total = ends[-1] if len(ends) else 0
    return np.repeat(starts - ends + counts, counts) + np.arange(total, dtype=counts.dtype)


def _check(tree):
    sizes, words = tree.sizes, tree.words
    right = sizes.ndim == words.ndim == 1 and len(sizes) and sizes.min() >= 1
    expect(right, "sizes", "be positive integers (I,), and `words` integers (E,)",
           received={"sizes": sizes[:20], "words": words[:20]})
    inner = np.flatnonzero(words < 0)
    expect(
        sizes.sum() == len(words) and len(inner) == len(sizes) - 1, "sizes",
        "sum to the number of `words`; one fewer of these than there are sizes must be negative, "
        "for inner nodes", received=f"{len(sizes)} sizes of sum {sizes.sum()}, {len(words)} edges, "
        f"{len(inner)} of them without a word",
    )
    below = tree.starts[1:]
    expect((inner < below).all(), "words", "lead to an inner node before the edges below it",
           received={"inner": inner[:20], "edges": below[:20]})
    present = np.sort(words[words >= 0])
    if not np.array_equal(present, np.arange(len(present))):
        found = f"{len(np.unique(present))} different words up to {present.max(initial=-1)}"
        raise refusal("words", f"hold each of 0 ... {len(present) - 1} once", received=found)
    _check_depth(len(tree.levels))


def _check_depth(levels):
    expect(levels <= MAX_DEPTH, "A tree", f"have at most {MAX_DEPTH} levels", received="more")
