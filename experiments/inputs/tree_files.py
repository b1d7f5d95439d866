"""Writes the trees of the experiment `tree_shapes`, and a page of their depth and balance.

    python -m experiments.inputs.tree_files --data=data/million

Reads DATA/brown.paths, which `tfsoftmax cluster` wrote. Writes DATA/brown-balanced.paths and
DATA/brown-skewed.paths, other trees over the words in Brown's order, DATA/random-skewed.paths, and
experiments/results/tree_shapes/shapes.md.
"""

import sys
from pathlib import Path

import numpy as np
import tfsoftmax_command  # noqa: F401  (imported before the package, which then skips TensorFlow)
from absl import flags

from experiments.framework import markdown
from experiments.framework.definition import DATA
from experiments.tables.tree_shapes import TREES
from tfsoftmax.commands import program
from tfsoftmax.partitions import code_files, tree_builders

SHARE = 0.1  # of the words of a node of a skewed tree, those on its left side
NOTE = """\
Each decision of a path is one product with the hidden state. Decisions for a token are weighted by
the counts of the training split; a word is one of the vocabulary. Balance is ln V over the mean of
ln 2 times the depth of a word: 1 where every node divides its words evenly."""


def skewed(order, share=SHARE):
    """Codes of a binary tree in which each node puts a share of its words on the left side.

    Args:
        order: int (V,), the words from left to right.
        share: share of the words of a node, of which each side has at least one.

    Returns:
        list of V str of 0 and 1, by word.
    """
    codes = [""] * len(order)
    waiting = [(0, len(order), "")]
    while waiting:
        start, stop, code = waiting.pop()
        if stop - start == 1:
            codes[order[start]] = code
        else:
            middle = start + max(1, round(share * (stop - start)))
            waiting += [(start, middle, code + "0"), (middle, stop, code + "1")]
    return codes


def balanced(order):
    """Codes of a binary tree whose words differ in depth by at most one, by word."""
    return ["".join(map(str, code)) for code in tree_builders.balanced(order).codes()]


def table(trees, counts):
    """The shapes of trees as Markdown; `trees` is {name: Tree}, `counts` are (V,)."""
    rows = [["tree", "deepest word", "mean depth of a word", "decisions for a token", "balance"]]
    for name, tree in trees.items():
        shape = tree.report(counts)
        rows.append([
            name, str(shape["depth"]), f"{shape['mean_depth']:.1f}",
            f"{shape['expected_path_length']:.2f}", f"{shape['balance']:.2f}",
        ])
    return markdown.table(rows)


def main():
    from tfsoftmax.corpora.records import Corpus

    corpus = Corpus.load(flags.FLAGS.data)
    vocabulary, folder = corpus.vocabulary, Path(corpus.directory)
    brown = code_files.read_codes(folder / "brown.paths", vocabulary.words)
    orders = {
        "brown": np.argsort(brown, kind="stable"),
        "random": np.random.default_rng(0).permutation(len(vocabulary)),
    }
    for name, codes in (("brown-balanced", balanced(orders["brown"])),
                        ("brown-skewed", skewed(orders["brown"])),
                        ("random-skewed", skewed(orders["random"]))):
        path = folder / f"{name}.paths"
        code_files.write_codes(path, codes, vocabulary.words, vocabulary.counts)
        print(path)
    trees = {}
    for name, tree in {**TREES, "huffman": "huffman", "alphabetical": "alphabetical"}.items():
        found = tree_builders.build(
            tree.replace(DATA, str(folder)), len(vocabulary), vocabulary.counts, vocabulary.words)
        trees[name] = tree_builders.binarised(found, vocabulary.counts)  # as TreeSoftmax does
    page = Path(flags.FLAGS.results) / "tree_shapes" / "shapes.md"
    print(markdown.write(
        page, "# Depth and balance of trees",
        f"V = {len(vocabulary):,}, the corpus of [tree_shapes](README.md), whose perplexities are "
        "there; those of Huffman and alphabetical trees are in [jiang](../jiang/README.md).",
        table(trees, vocabulary.counts), NOTE,
        "Written by `python -m experiments.inputs.tree_files`.",
    ))


if __name__ == "__main__":
    flags.DEFINE_string("data", None, "Directory of the prepared corpus.", required=True)
    flags.DEFINE_string("results", "experiments/results", "Directory of the pages.")
    program.run(main, __doc__, sys.argv)
