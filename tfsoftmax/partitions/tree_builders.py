"""Trees over a vocabulary: balanced, random, alphabetical, Huffman, from codes, from lists."""

import os
import zlib
from collections.abc import Mapping, Sequence

import numpy as np

from tfsoftmax.partitions import code_files
from tfsoftmax.partitions.tree import Tree
from tfsoftmax.support import textio
from tfsoftmax.support.arguments import (
    ArrayLike,
    check_exists,
    checks_arguments,
    expect,
    is_whole,
    needed,
    refusal,
)
from tfsoftmax.support.counts import checked_counts

TreeOption = Tree | dict | str | os.PathLike  # a tree, its configuration, a name, or a file
NAMES = ("balanced", "random", "alphabetical", "huffman")  # the trees that need no file


def balanced(order: ArrayLike) -> Tree:
    """Binary tree whose words differ in depth by at most one.

    Args:
        order: int (V,), the words from left to right; the shallower leaves come first.

    Returns:
        A `Tree`.

    Raises:
        ValueError: if there are no words.

    Source: Morin and Bengio 2005, section 4.
    """
    order = np.asarray(order)
    expect(len(order), "order", "have at least one word", order)
    if len(order) == 1:
        return Tree([1], order)
    row = 1 << (len(order).bit_length() - 1)  # the last full row
    deeper = len(order) - row
    inner = np.full(row - 2, -1, order.dtype)
    parts = inner, order[: row - deeper], np.full(deeper, -1, order.dtype), order[row - deeper :]
    return Tree(np.full(len(order) - 1, 2, np.int32), np.concatenate(parts))


def shuffled(vocab_size: int, seed: int = 0) -> Tree:
    """Balanced tree over the words in random order (Jiang et al. 2017, "random shuffle")."""
    return balanced(np.random.default_rng(seed).permutation(vocab_size))


def alphabetical(words: Sequence[str]) -> Tree:
    """Balanced tree over the words in code point order (Jiang et al. 2017)."""
    return balanced(np.array(sorted(range(len(words)), key=words.__getitem__), np.int32))


def huffman(counts: ArrayLike) -> Tree:
    """Binary tree of the least expected path length under the counts.

    If there are several such trees, this one has the least depth.

    Args:
        counts: (V,) numbers >= 0, not all zero.

    Returns:
        A `Tree`.

    Source: Huffman 1952; two queues as in van Leeuwen 1976.
    """
    counts = checked_counts(counts).astype(np.float64)
    order = np.argsort(counts, kind="stable")
    parents, size = _merge(counts[order]), len(counts)
    words = np.full(2 * size - 1, -1, np.int32)
    words[:size] = order
    # From the root down, the heavier child first.
    parents = np.where(parents < 0, -1, 2 * size - 2 - parents)[::-1]
    return Tree.from_parents(parents, words[::-1]) if size > 1 else Tree([1], [0])


def _merge(weights):
    """Parents of the nodes 0 ... 2V-2 of the Huffman tree of V rising weights; -1 at the root."""
    size = len(weights)
    weights = np.append(weights, np.empty(size - 1))
    parents = np.full(2 * size - 1, -1, np.int32)
    leaf, inner, end = 0, size, size  # waiting are the leaves from `leaf` and nodes [inner, end)
    while end < 2 * size - 1:
        first = np.sort(np.append(weights[leaf : min(leaf + 2, size)], weights[inner:end][:2]))
        # No node that this round makes weighs less than the first, so that what weighs no more
        # than it is merged in pairs. The sums double in two rounds, if not in one.
        least = first[0] + first[1]
        leaves = leaf + np.searchsorted(weights[leaf:size], least, side="right")
        inners = inner + np.searchsorted(weights[inner:end], least, side="right")
        nodes = np.append(np.arange(leaf, leaves), np.arange(inner, inners))
        # Leaves win ties, which keeps the tree as shallow as it can be.
        nodes = nodes[np.argsort(weights[nodes], kind="stable")]
        pairs = nodes[: len(nodes) // 2 * 2].reshape(-1, 2)
        last = end + len(pairs)
        weights[end:last] = weights[pairs].sum(axis=1)
        parents[pairs] = np.arange(end, last)[:, None]
        odd = nodes[pairs.size :]  # one node or none
        leaf, inner, end = leaves - (odd < size).sum(), inners - (odd >= size).sum(), last
    return parents


@checks_arguments
def from_codes(codes: Sequence[str]) -> Tree:
    """Tree of the words' codes, such as the bit strings of a Brown clustering.

    Words of one code become the children of one node. Nodes with a single child vanish.

    Args:
        codes: list of V str; none may be the beginning of another.

    Returns:
        A `Tree`; binary if the codes are of 0 and 1 and differ.
    """
    codes = list(codes)
    strings = codes and all(isinstance(c, str) for c in codes)
    expect(strings, "codes", "be strings, one for each word", codes)
    distinct = sorted(set(codes))
    parents, leftmost, first = _trie(distinct)
    count = len(parents)
    leaf_of = {code: leaf for leaf, code in enumerate(distinct)}
    owners = np.array([leaf_of[code] for code in codes])
    sharing = np.bincount(owners, minlength=first) > 1
    # A word with a code of its own is the leaf; words that share a code become its children.
    words = np.full(count, -1)
    alone = np.flatnonzero(~sharing[owners])
    words[owners[alone]] = alone
    below = np.flatnonzero(sharing[owners])
    parents = np.concatenate([parents, owners[below]])
    leftmost = np.concatenate([leftmost, np.full(len(below), first)])
    order = np.argsort(leftmost, kind="stable")
    names = np.empty_like(order)
    names[order] = np.arange(len(order))
    parents = np.where(parents < 0, -1, names[parents])[order]
    words = np.concatenate([words, below])[order]
    return Tree([1], [0]) if len(words) == 1 else Tree.from_parents(parents, words)


def _trie(codes):
    """Compressed trie of n sorted codes: parents, the leftmost leaf below each node, and n."""
    parents, leftmost = [-1] * len(codes), list(range(len(codes)))
    stack = []  # (length of the common prefix, node): the rightmost path
    for leaf in range(1, len(codes)):
        pair = codes[leaf - 1 : leaf + 1]
        common = len(os.path.commonprefix(pair))
        expect(common < len(pair[0]), "codes", "not begin one with another", pair)
        last = leaf - 1
        while stack and stack[-1][0] > common:
            parents[last] = stack[-1][1]
            last = stack.pop()[1]
        if not stack or stack[-1][0] < common:
            stack.append((common, len(parents)))
            parents.append(-1)
            leftmost.append(leftmost[last])
        parents[last] = stack[-1][1]
    last = len(codes) - 1
    while stack:
        parents[last] = stack[-1][1]
        last = stack.pop()[1]
    return np.array(parents), np.array(leftmost), len(codes)


@checks_arguments
def from_nested(nested: list | tuple, ids: Mapping[str, int] | None = None) -> Tree:
    """Tree of nested lists: a list is a node, anything else a word.

        from_nested([["golf", ["soccer", "football"]], ["piano", "violin"]], ids={"golf": 0, ...})

    Args:
        nested: lists within lists; at the leaves words or, without `ids`, word ids.
        ids: mapping from word to id.

    Returns:
        A `Tree`.

    Source: Mao 2019, whose corpus trees these are.
    """
    parents, words, pending = [], [], [(nested, -1)]
    while pending:
        node, parent = pending.pop()
        is_list = isinstance(node, (list, tuple))
        if is_list:
            expect(node, "nested", "not hold an empty list", nested)
        elif ids is None:
            expect(is_whole(node), "A leaf of `nested`", "be the id of a word", node)
        else:
            known = isinstance(node, str) and node in ids
            expect(known, "A leaf of `nested`", "be a word of the vocabulary", node)
        pending += [(child, len(parents)) for child in reversed(node)] if is_list else []
        parents.append(parent)
        words.append(-1 if is_list else node if ids is None else ids[node])
    return Tree.from_parents(parents, words)


def binarised(tree: Tree, counts: ArrayLike | None = None) -> Tree:
    """The tree with a Huffman tree in place of each node of more than two children.

    Args:
        tree: a `Tree`; nodes with one child vanish.
        counts: (V,), occurrences of each word; None: all the same.

    Returns:
        A binary `Tree`.
    """
    if tree.is_binary:
        return tree
    weights = edge_sums(tree, np.ones(tree.vocab_size) if counts is None else counts)
    targets = np.cumsum(tree.words < 0)  # the inner node at the end of each edge without a word
    parents, words, pending = [], [], [(0, -1, None)]
    while pending:
        node, parent, word = pending.pop()
        if word is None and tree.sizes[node] == 1:
            edge = tree.starts[node]
            pending.append((targets[edge], parent, _word(tree, edge)))
            continue
        name = len(parents)
        parents.append(parent)
        words.append(-1 if word is None else word)
        if word is not None:
            continue
        first, size = tree.starts[node], tree.sizes[node]
        edges, owners = np.arange(first, first + size), [name] * size
        if size > 2:
            edges = edges[np.argsort(weights[edges], kind="stable")]
            inner = _merge(weights[edges])
            # inner[-1] is the node itself, the others are new; parents come before children.
            places = {2 * size - 2: name}
            for k in range(2 * size - 3, size - 1, -1):
                places[k] = len(parents)
                parents.append(places[int(inner[k])])
                words.append(-1)
            owners = [places[k] for k in inner[:size].tolist()]
        pending += [
            (targets[e], n, _word(tree, e)) for e, n in reversed(list(zip(edges, owners)))
        ]
    return Tree.from_parents(parents, words) if len(words) > 1 else Tree([1], [0])


def _word(tree, edge):
    return None if tree.words[edge] < 0 else int(tree.words[edge])


def edge_sums(tree: Tree, values: ArrayLike) -> np.ndarray:
    """The sum of the values (V,) of the words below each edge: float64 (E,)."""
    result = np.zeros(len(tree.words))
    result[tree.leaves] = np.asarray(values, np.float64)
    for first, last in reversed(tree.levels[1:]):
        start, stop = tree.starts[first], tree.starts[last - 1] + tree.sizes[last - 1]
        of_nodes = np.add.reduceat(result[start:stop], tree.starts[first:last] - start)
        result[tree.entries[first:last]] = of_nodes
    return result


def build(
    spec: TreeOption, vocab_size: int, counts: ArrayLike | None = None,
    words: Sequence[str] | None = None, seed: int = 0,
) -> Tree:
    """The tree that a head's `tree` option means.

    Args:
        spec: a `Tree`; what `Tree.to_config` returns; "balanced" (over the ids), "random",
            "alphabetical", "huffman"; or the path of a file of codes or nested lists, see
            `tfsoftmax.partitions.code_files`.
        vocab_size: V.
        counts: (V,) occurrences, for "huffman".
        words: V str, for "alphabetical" and files.
        seed: seed of "random".

    Returns:
        A `Tree` over V words.

    Example:
        from tfsoftmax.partitions import tree_builders
        huffman = tree_builders.build("huffman", 5, counts=[9, 5, 3, 2, 1])
        alphabetical = tree_builders.build("alphabetical", 3, words=["b", "c", "a"])
        head = tfsoftmax.TreeSoftmax(5, huffman)
    """
    if counts is not None:
        counts = checked_counts(counts, vocab_size)
    if isinstance(spec, dict):
        try:
            spec = Tree.from_config(spec)
        except (KeyError, TypeError, ValueError, zlib.error) as error:
            raise refusal(
                "tree", "be what `Tree.to_config` returns",
                received=f"{repr(spec)[:200]}, {type(error).__name__}: {error}",
            ) from error
    elif spec == "balanced":
        spec = balanced(np.arange(vocab_size, dtype=np.int32))
    elif spec == "random":
        spec = shuffled(vocab_size, seed)
    elif spec == "huffman":
        spec = huffman(needed("counts", counts, "tree", spec))
    elif spec == "alphabetical":
        spec = alphabetical(needed("words", words, "tree", spec))
    elif isinstance(spec, (str, os.PathLike)):
        check_exists("tree", spec, NAMES)
        spec = _from_file(spec, needed("words", words, "tree", spec))
    right = isinstance(spec, Tree) and spec.vocab_size == vocab_size
    found = f"one of {spec.vocab_size} words" if isinstance(spec, Tree) else None
    expect(right, "tree", f"be a tree of {vocab_size} words", spec, found)
    return spec


def _from_file(path, words):
    is_nested = textio.plain_name(path).endswith(".json")
    nested = code_files.read_nested(path) if is_nested else None
    codes = code_files.read_codes(path, words) if nested is None else None
    try:
        if nested is None:
            return from_codes(codes)
        return from_nested(nested, {word: index for index, word in enumerate(words)})
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from None
