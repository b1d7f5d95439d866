"""Groups the words of a corpus into Brown clusters.

    tfsoftmax brown --data=data/text8 --classes=1000 --out=data/text8/paths
    tfsoftmax train --data=data/text8 --run=runs/brown --head=tree \\
        --head_options='{"tree": "data/text8/paths"}'

The command reads the training split and writes a line `bit string<TAB>word<TAB>count` for every
word of the vocabulary, in the format of the common brown-cluster tool. For 30,000 words and 14
million tokens it takes a few minutes on one core. A class-based output layer reads the same file:
--head=class --head_options='{"classes": "data/text8/paths"}'. --words=N prints the N most
frequent words of each class, and --words_of=WORD prints those of the class of WORD.
"""

from absl import flags

from tfsoftmax.commands import shared_flags
from tfsoftmax.commands.program import check_at_least, load_tensorflow, printable


def define_flags():
    shared_flags.define_data()
    flags.DEFINE_string("out", None, "File to write.", required=True)
    flags.DEFINE_integer("classes", 1000, "Number of classes. The time grows with its square.")
    flags.DEFINE_integer("passes", 3, "Passes over the words that move each to its best class.")
    shared_flags.define_words_of(0, "class")


def main():
    options = flags.FLAGS
    check_at_least(1, classes=options.classes)
    check_at_least(0, passes=options.passes, words=options.words)
    from tfsoftmax.corpora.progress import Progress
    from tfsoftmax.corpora.records import Corpus
    from tfsoftmax.partitions import brown, code_files, tree_builders
    from tfsoftmax.partitions.ngram_counts import Bigrams
    from tfsoftmax.textio import check_writable

    corpus = Corpus.load(options.data)
    vocabulary = corpus.vocabulary
    word = shared_flags.checked_word_of(vocabulary)
    check_writable(options.out)
    progress = Progress()
    with progress.phase("counting", corpus.split("train").tokens, "tokens") as done:
        bigrams = Bigrams.count(neighbours(corpus, done), len(vocabulary))
    result = brown.cluster(bigrams, options.classes, options.passes, progress.phase)
    codes = [result.codes[c] for c in result.classes]
    code_files.write_codes(options.out, codes, vocabulary.words, vocabulary.counts)

    tree = tree_builders.binarised(tree_builders.from_codes(codes), vocabulary.counts)
    print(summary(result, tree.report(vocabulary.counts)))
    for line in listing(result, vocabulary, options.words, word):
        print(line)


def neighbours(corpus, done):
    """Yields words of the training split and the words that follow them, in two arrays."""
    load_tensorflow()
    from tfsoftmax.corpora.pipeline import batches

    for words, following, weights in batches(corpus, "train").as_numpy_iterator():
        kept = weights > 0
        done(int(kept.sum()))
        yield words[kept], following[kept]


def summary(result, report):
    """Describes the clustering in three lines."""
    import numpy as np

    bits = ", ".join(f"{nats / np.log(2):.4f}" for nats in result.information)
    sizes = np.bincount(result.classes)
    return "\n".join([
        f"average mutual information in bits, after merging and after each pass: {bits}",
        f"words in each of {len(sizes):,} classes: {sizes.min():,} to {sizes.max():,}, "
        f"median {np.median(sizes):,.0f}",
        f"tree with Huffman trees within the classes: depth {report['depth']}, expected path "
        f"{report['expected_path_length']:.2f} (the entropy, {report['entropy_bits']:.2f}, is the "
        "least that any tree can have)",
    ])


def listing(result, vocabulary, count, word):
    """Yields lines with the bit string of a class and its most frequent words."""
    order = (-vocabulary.counts).argsort(kind="stable")
    only = None if word is None else result.classes[word]
    for c in sorted(range(len(result.codes)), key=result.codes.__getitem__):
        if only == c or (only is None and count):
            words = [vocabulary.words[w] for w in order if result.classes[w] == c]
            yield f"{result.codes[c]}\t{printable(' '.join(words[: count or 20]))}"
