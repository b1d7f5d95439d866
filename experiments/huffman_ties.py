"""Writes Huffman trees in which words of one count stand in other orders.

    python -m experiments.huffman_ties --data=data/million

Writes DATA/huffman-random.paths, with words of one count in random order, and
DATA/huffman-text.paths, with these words in the order in which they first occur in the training
split. Both are for the experiment `huffman`.
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
    orders = {
        "random": np.random.default_rng(1).permutation(len(words)),
        "text": first_occurrences(corpus),
    }
    for name, order in orders.items():
        path = Path(corpus.directory) / f"huffman-{name}.paths"
        code_files.write_codes(path, codes(counts, order), words, counts)
        print(path)


if __name__ == "__main__":
    flags.DEFINE_string("data", None, "Directory of the prepared corpus.", required=True)
    program.run(main, __doc__, sys.argv)
