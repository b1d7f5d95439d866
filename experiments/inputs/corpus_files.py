"""Writes the trees and the bigram model that experiments read from the folder of a corpus.

    python -m experiments.inputs.corpus_files --data=data/million
    python -m experiments.inputs.corpus_files --data=data/million --shapes

Reads DATA/brown.paths, which `tfsoftmax cluster` wrote, and writes into DATA:

- brown-balanced.paths and brown-skewed.paths, other trees over the words in Brown's order, and
  random-skewed.paths, a tree over the words in random order (experiment `tree_shapes`),
- huffman-random.paths and huffman-text.paths, Huffman trees in which words of one count stand in
  random order, and in the order in which they first occur in the training split (`huffman`),
- huffman-shuffled.paths, a Huffman tree whose codes are given to the words by lot, so that its
  shape helps no frequent word (`sgd_trees`),
- brown-by-row.paths, Brown's tree with its words placed as the published code of Jiang et al. 2017
  places them: `by_row` (`huffman`),
- bigrams.arpa, absolute discounting of the counts of the training split, interpolated with the
  unigram distribution, for proposals that depend on the context (`field`).

With --shapes, it also writes RESULTS/tree_shapes/shapes.md: the depth and balance of trees.
"""

import sys
from pathlib import Path

import numpy as np
import tfsoftmax_command  # noqa: F401  (imported before the package, which then skips TensorFlow)
from absl import flags

from experiments.framework import markdown
from experiments.framework.definition import DATA
from experiments.inputs.corrupted_nbest import bigram_model, neighbours
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


def codes_of(tree):
    """The codes of the words of a binary `Tree` as str."""
    return ["".join(map(str, code)) for code in tree.codes()]


def balanced(order):
    """Codes of a binary tree whose words differ in depth by at most one, by word."""
    return codes_of(tree_builders.balanced(order))


def huffman(counts, order):
    """The Huffman codes of all words, with words of one count in the order of `order`.

    Args:
        counts: (V,).
        order: (V,), the words in order.

    Returns:
        list of V str of 0 and 1.
    """
    of_place = codes_of(tree_builders.huffman(np.asarray(counts)[order]))
    return [of_place[place] for place in np.argsort(order)]


def by_row(codes, counts):
    """The codes of a tree, given to the words by falling count.

    A `paths` file has a code and a word in each line, sorted by code. The published code of Jiang
    et al. 2017 (lmkit, p-tHSM/utils.py, load_brown_prefix) takes the number of the line for the id
    of the word, and does not read the word. Ids are ranks by count, so that the tree keeps its
    shape, and its leaves from left to right hold the words from the most frequent to the rarest.

    Args:
        codes: list of V str of 0 and 1, by word.
        counts: (V,).

    Returns:
        list of V str, by word.
    """
    by_count = np.argsort(-np.asarray(counts), kind="stable")
    placed = [""] * len(codes)
    for word, code in zip(by_count, sorted(codes)):
        placed[word] = code
    return placed


def first_occurrences(corpus):
    """The words of a corpus in the order in which they first occur; the others at the end."""
    from tfsoftmax.corpora.pipeline import batches

    streams = np.concatenate([
        next_words.numpy() for _, next_words, _ in batches(corpus, "train")
    ], axis=1)
    words, first = np.unique(streams.ravel(), return_index=True)
    never = np.setdiff1d(np.arange(len(corpus.vocabulary)), words)
    return np.concatenate([words[np.argsort(first)], never])


def built(tree, vocabulary):
    """The `Tree` that `TreeSoftmax` makes of its option `tree`."""
    made = tree_builders.build(tree, len(vocabulary), vocabulary.counts, vocabulary.words)
    return tree_builders.binarised(made, vocabulary.counts)


def trees_of(corpus, folder):
    """{name of a file: the codes of all words} of the trees of a corpus."""
    vocabulary = corpus.vocabulary
    counts, brown_file = vocabulary.counts, folder / "brown.paths"
    brown = np.argsort(code_files.read_codes(brown_file, vocabulary.words), kind="stable")
    one_order, other_order = (
        np.random.default_rng(seed).permutation(len(vocabulary)) for seed in (0, 1))
    plain = huffman(counts, np.arange(len(vocabulary)))
    return {
        "brown-balanced": balanced(brown), "brown-skewed": skewed(brown),
        "random-skewed": skewed(one_order),
        "huffman-random": huffman(counts, other_order),
        "huffman-text": huffman(counts, first_occurrences(corpus)),
        "huffman-shuffled": [plain[place] for place in other_order],
        "brown-by-row": by_row(codes_of(built(str(brown_file), vocabulary)), counts),
    }


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
    program.load_tensorflow()
    from tfsoftmax.corpora.records import Corpus

    corpus = Corpus.load(flags.FLAGS.data)
    vocabulary, folder = corpus.vocabulary, Path(corpus.directory)
    for name, codes in trees_of(corpus, folder).items():
        path = folder / f"{name}.paths"
        code_files.write_codes(path, codes, vocabulary.words, vocabulary.counts)
        print(path)
    path = folder / "bigrams.arpa"
    bigram_model(neighbours(corpus), vocabulary).write_arpa(path, vocabulary.words)
    print(path)
    if not flags.FLAGS.shapes:
        return
    names = {**TREES, "huffman": "huffman", "alphabetical": "alphabetical"}
    trees = {name: built(of.replace(DATA, str(folder)), vocabulary) for name, of in names.items()}
    print(markdown.write(
        Path(flags.FLAGS.results) / "tree_shapes" / "shapes.md", "# Depth and balance of trees",
        f"V = {len(vocabulary):,}, the corpus of [tree_shapes](README.md), whose perplexities are "
        "there; those of Huffman and alphabetical trees are in [jiang](../jiang/README.md).",
        table(trees, vocabulary.counts), NOTE,
        "Written by `python -m experiments.inputs.corpus_files --shapes`.",
    ))


if __name__ == "__main__":
    flags.DEFINE_string("data", None, "Directory of the prepared corpus.", required=True)
    flags.DEFINE_bool("shapes", False, "Also write the page of the shapes of trees.")
    flags.DEFINE_string("results", "experiments/results", "Directory of the pages.")
    program.run(main, __doc__, sys.argv)
