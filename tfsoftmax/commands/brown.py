"""Brown clusters of a prepared corpus's words, in the format of the common brown-cluster tool.

    tfsoftmax brown --data=data/text8 --classes=1000 --out=data/text8/paths
    tfsoftmax train --data=data/text8 --run=runs/brown --head=tree \\
        --head_options='{"tree": "data/text8/paths"}'

Reads the training split; every word of the vocabulary gets a line `bit string<TAB>word<TAB>count`.
30,000 words and 14 million tokens take some minutes on one core. A head of classes reads the same
file: --head=class --head_options='{"classes": "data/text8/paths"}'. --words=N prints the N most
frequent words of each class, --words_of=WORD those of one word's class.
"""

import sys

import numpy as np
from absl import flags

from tfsoftmax.commands.program import load_tensorflow


def define_flags():
    flags.DEFINE_string("data", None, "directory that `tfsoftmax prepare` made", required=True)
    flags.DEFINE_string("out", None, "file to write", required=True)
    flags.DEFINE_integer("classes", 1000, "number of classes; the time grows with its square")
    flags.DEFINE_integer("passes", 3, "passes over the words to move each to its best class")
    flags.DEFINE_integer("words", 0, "print so many words of each class")
    flags.DEFINE_string("words_of", None, "print the class of this word only")


def main():
    options = flags.FLAGS
    if options.classes < 1:
        raise ValueError(f"`classes` must be positive. Received: classes={options.classes}")
    from tfsoftmax.corpora.progress import Progress
    from tfsoftmax.corpora.records import Corpus
    from tfsoftmax.partitions import brown
    from tfsoftmax.partitions import code_files
    from tfsoftmax.partitions import tree_builders
    from tfsoftmax.partitions.ngram_counts import Bigrams

    corpus = Corpus.load(options.data)
    vocabulary = corpus.vocabulary
    if options.words_of is not None and options.words_of not in vocabulary:
        raise ValueError(
            f"`words_of` must be a word of the vocabulary. Received: {options.words_of!r}"
        )
    open(options.out, "a", encoding="utf-8").close()  # better now than after minutes
    progress = Progress()
    with progress.phase("counting", corpus.split("train").tokens, "tokens") as done:
        bigrams = Bigrams.count(neighbours(corpus, done), len(vocabulary))
    result = brown.cluster(bigrams, options.classes, options.passes, progress.phase)
    codes = [result.codes[c] for c in result.classes]
    code_files.write_codes(options.out, codes, vocabulary.words, vocabulary.counts)

    tree = tree_builders.binarised(tree_builders.from_codes(codes), vocabulary.counts)
    print(summary(result, tree.report(vocabulary.counts)))
    for line in listing(result, vocabulary, options.words, options.words_of):
        print(line)


def neighbours(corpus, done):
    """Yields the pairs of words and following words of the training split."""
    load_tensorflow()
    from tfsoftmax.corpora.pipeline import batches

    for words, following, weights in batches(corpus, "train").as_numpy_iterator():
        kept = weights > 0
        done(int(kept.sum()))
        yield words[kept], following[kept]


def summary(result, report):
    """What came out: three lines."""
    bits = ", ".join(f"{nats / np.log(2):.4f}" for nats in result.information)
    sizes = np.bincount(result.classes)
    return "\n".join([
        f"average mutual information, bits, after merging and each exchange: {bits}",
        f"words in each of {len(sizes):,} classes: {sizes.min():,} to {sizes.max():,}, "
        f"median {np.median(sizes):,.0f}",
        f"tree with Huffman trees within the classes: depth {report['depth']}, expected path "
        f"{report['expected_path_length']:.2f} (no tree is below {report['entropy_bits']:.2f})",
    ])


def listing(result, vocabulary, count, word):
    """Lines of bit string and the most frequent words of classes."""
    order = np.argsort(-vocabulary.counts, kind="stable")
    only = None if word is None else result.classes[vocabulary.encode([word])[0]]
    for c in sorted(range(len(result.codes)), key=result.codes.__getitem__):
        if only == c or (only is None and count):
            words = [vocabulary.words[w] for w in order if result.classes[w] == c]
            yield f"{result.codes[c]}\t{' '.join(words[: count or 20])}"
