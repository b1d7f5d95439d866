"""Writes the trees of the experiments `huffman` and `sgd_trees`.

    python -m experiments.inputs.huffman_files --data=data/million

DATA/huffman-random.paths and DATA/huffman-text.paths are Huffman trees. Words of one count stand in
random order in the first, and in the order in which they first occur in the training split in the
second. DATA/huffman-shuffled.paths is a Huffman tree whose codes are given to the words by lot, so
that its shape helps no frequent word. DATA/brown-by-row.paths is the tree of DATA/brown.paths,
which `tfsoftmax cluster` wrote, with its words placed as the published code of Jiang et al. 2017
places them: `by_row`.
"""

import sys
from pathlib import Path

import numpy as np
import tfsoftmax_command  # noqa: F401  (imported before the package, which then skips TensorFlow)
from absl import flags

from tfsoftmax.commands import program
from tfsoftmax.partitions import code_files, tree_builders


def codes(counts, order):
    """The Huffman codes of all words, with words of one count in the order of `order`.

    Args:
        counts: (V,).
        order: (V,), the words in order.

    Returns:
        list of V str of 0 and 1.
    """
    of_place = tree_builders.huffman(np.asarray(counts)[order]).codes()
    places = np.argsort(order)
    return ["".join(map(str, of_place[place])) for place in places]


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


def main():
    from tfsoftmax.corpora.records import Corpus

    corpus = Corpus.load(flags.FLAGS.data)
    words, counts = corpus.vocabulary.words, corpus.vocabulary.counts
    folder = Path(corpus.directory)
    orders = {
        "random": np.random.default_rng(1).permutation(len(words)),
        "text": first_occurrences(corpus),
    }
    trees = {f"huffman-{name}": codes(counts, order) for name, order in orders.items()}
    huffman = codes(counts, np.arange(len(words)))
    trees["huffman-shuffled"] = [huffman[place] for place in orders["random"]]
    brown = tree_builders.build(str(folder / "brown.paths"), len(words), counts, words)
    brown = tree_builders.binarised(brown, counts)  # as TreeSoftmax does
    trees["brown-by-row"] = by_row(["".join(map(str, code)) for code in brown.codes()], counts)
    for name, of_words in trees.items():
        path = folder / f"{name}.paths"
        code_files.write_codes(path, of_words, words, counts)
        print(path)


if __name__ == "__main__":
    flags.DEFINE_string("data", None, "Directory of the prepared corpus.", required=True)
    program.run(main, __doc__, sys.argv)
