"""Groups words into classes or trees for hierarchical output layers.

    tfsoftmax cluster --data=data/text8 --out=data/text8/paths
    tfsoftmax train --data=data/text8 --run=runs/brown --head=tree \\
        --head_options='{"tree": "data/text8/paths"}'

--method is one of

- brown: Brown clusters, from the training split only. For 30,000 words and 14 million tokens they
  take a few minutes on one core. With --speed_penalty the classes of frequent words are smaller.
- kmeans: classes of words with similar vectors.
- splits: a binary tree. All words are split in two by their vectors, and the halves are split
  again.
- soul: a tree of a few wide levels. The --shortlist most frequent words are children of the root,
  the other words are in classes, and large classes are split again.
- file: the classes of another tool, --file, in the format that --format says: mkcls
  (`word<TAB>class`), word2vec (`word class`) or srilm (`class word` or `class probability word`).
  Words that the file lacks share a class.

kmeans, splits and soul take word vectors from a trained model, --run. --vectors says which: the
input embedding (the default of kmeans and soul), or the average hidden state before each word (the
default of splits):

    tfsoftmax train --data=data/text8 --run=runs/random --head=tree \\
        --head_options='{"tree": "random"}'
    tfsoftmax cluster --method=splits --run=runs/random --out=data/text8/splits
    tfsoftmax train --data=data/text8 --run=runs/splits --head=tree \\
        --head_options='{"tree": "data/text8/splits"}'

    tfsoftmax train --data=data/text8 --run=runs/short --head=shortlist \\
        --head_options='{"shortlist": 8000}'
    tfsoftmax cluster --method=soul --run=runs/short --shortlist=8000 \\
        --out=data/text8/soul.json
    tfsoftmax train --data=data/text8 --run=runs/soul --head=nary \\
        --head_options='{"tree": "data/text8/soul.json"}'

The file has a line `code<TAB>word<TAB>count` for every word of the vocabulary, in the format of the
common brown-cluster tool. Class-based output layers read it, too (--head=class
--head_options='{"classes": "data/text8/paths"}'). For soul the file is JSON, nested lists of words.
--words=N prints the N most frequent words of each class, and --words_of=WORD prints those of the
class of WORD.
"""

import dataclasses
import os

from tfsoftmax.commands.program import check_out, load_tensorflow, printable
from tfsoftmax.commands.shared import checked_word_of, corpus_of
from tfsoftmax.support.arguments import check_at_least, expect, refusal
from tfsoftmax.support.conditions import needs, needs_above
from tfsoftmax.support.textio import plain_name

NEEDED = {"brown": ("data",), "file": ("data", "file", "format")}  # --run for the others
BROWN_CLASSES = 1000
_OF_VECTORS = needs("method", "kmeans", "splits", "soul")


@dataclasses.dataclass(frozen=True)
class ClusterOptions:
    """Words, method and result.

    Attributes:
        method: How words are grouped.
        data: Directory of a corpus that `tfsoftmax prepare` made, which brown, file and hidden
            vectors need. By default, with --run, the corpus that it was trained on.
        run: Directory of a training run, whose vectors are used.
        vectors: Vectors of the words. By default hidden for splits, else embedding.
        out: File to write.
        overwrite: Replace a file that exists.
        classes: Number of classes. By default 1000 for brown, whose time grows with the square of
            this number, else about the square root of the number of words.
        passes: With brown: number of passes that move each word to its best class.
        speed_penalty: With brown: nats of mutual information to give up for each score that a
            class-based output layer saves at an average token, such as 0.001.
        shortlist: With soul: number of frequent words at the root of the tree.
        balanced: With splits: halve the words exactly.
        seed: Seed of the vectors that the search starts from.
        file: With file: the file of classes.
        format: With file: the tool that wrote the file.
        words: Number of words to print of each class.
        words_of: Print only the class of this word.
    """

    CHOICES = {
        "method": ("brown", "kmeans", "splits", "soul", "file"), "vectors": ("embedding", "hidden"),
        "format": ("mkcls", "word2vec", "srilm"),
    }
    NEEDS = {
        "run": _OF_VECTORS, "vectors": _OF_VECTORS, "seed": _OF_VECTORS,
        "classes": needs("method", "brown", "kmeans", "soul"), "passes": needs("method", "brown"),
        "speed_penalty": (needs("method", "brown"), needs_above("passes", 0)),
        "shortlist": needs("method", "soul"), "balanced": needs("method", "splits"),
        "file": needs("method", "file"), "format": needs("method", "file"),
    }

    out: str
    method: str = "brown"
    data: str | None = None
    run: str | None = None
    vectors: str | None = None
    overwrite: bool = False
    classes: int | None = None
    passes: int = 3
    speed_penalty: float = 0.0
    shortlist: int = 0
    balanced: bool = True
    seed: int = 0
    file: str | None = None
    format: str | None = None
    words: int = 0
    words_of: str | None = None

    def __post_init__(self):
        check_at_least(0, passes=self.passes, words=self.words, seed=self.seed,
                       speed_penalty=self.speed_penalty, shortlist=self.shortlist)
        check_at_least(1, classes=self.classes)
        if self.method == "soul" and self.classes == 1:
            raise refusal("classes", "be at least 2 for --method=soul", received="classes=1")
        for needed in NEEDED.get(self.method, ("run",)):
            expect(getattr(self, needed) is not None, needed,
                   f"be given for --method={self.method}", received=f"{needed}=None")
        expect((self.method == "soul") == plain_name(self.out).endswith(".json"), "out",
               "end in .json for --method=soul, and only then", self.out)


@dataclasses.dataclass
class Grouping:
    """What a method made of the words: their codes, or a tree of wide levels, and its story."""

    codes: list | None
    tree: object
    story: list[str] = dataclasses.field(default_factory=list)


def main(options: ClusterOptions):
    from tfsoftmax.corpora.manifest import files_of, is_ours
    from tfsoftmax.corpora.records import Corpus
    from tfsoftmax.partitions import code_files, tree_builders
    from tfsoftmax.support.progress import Progress

    folder, name = os.path.split(os.path.abspath(options.out))
    if is_ours(folder) and name in files_of(folder):
        raise refusal("out", "not be a file of a corpus", options.out)
    check_out(options.out)
    if options.method in ("brown", "file"):
        run, corpus = None, Corpus.load(options.data)
    else:
        load_tensorflow()
        from tfsoftmax.runs.runs import Run

        run = Run(options.run)
        run.check_task()
        hidden = _vectors(options) == "hidden"
        corpus = corpus_of(run, options.data) if hidden or options.data else None
    vocabulary = corpus.vocabulary if corpus else run.vocabulary()
    _check_sizes(options, len(vocabulary))
    word = checked_word_of(options.words_of, vocabulary)
    if options.method == "brown":
        grouping = by_brown(corpus, Progress(), options)
    elif options.method == "file":
        codes = code_files.read_codes(options.file, vocabulary.words, options.format)
        grouping = Grouping(codes, tree_builders.from_codes(codes))
    else:
        vectors = vectors_of(run, corpus if hidden else None, Progress())
        grouping = by_vectors(vectors, vocabulary, options)
    if grouping.codes is None:
        code_files.write_nested(options.out, grouping.tree.nested(vocabulary.words))
    else:
        code_files.write_codes(options.out, grouping.codes, vocabulary.words, vocabulary.counts)
    print("\n".join([*grouping.story, *summary(grouping, vocabulary)]))
    for line in listing(grouping, vocabulary, options.words, word):
        print(line)


def _check_sizes(options, words):
    expect(options.shortlist < words, "shortlist",
           f"be smaller than the vocabulary of {words:,} words", options.shortlist)
    most = words - options.shortlist
    expect(options.classes is None or options.classes <= most, "classes",
           f"be at most {most:,}, the number of words that they are made of", options.classes)


def by_brown(corpus, progress, options):
    """Brown clusters of the training split."""
    import numpy as np

    from tfsoftmax.ngrams.counts import Bigrams
    from tfsoftmax.partitions import brown, tree_builders

    with progress.phase("counting", corpus.split("train").tokens, "tokens") as done:
        bigrams = Bigrams.count(neighbours(corpus, done), len(corpus.vocabulary))
    result = brown.cluster(
        bigrams, options.classes or BROWN_CLASSES, options.passes, progress.phase,
        options.speed_penalty,
    )
    codes = [result.codes[c] for c in result.classes]
    bits = ", ".join(f"{nats / np.log(2):.4f}" for nats in result.information)
    story = [f"average mutual information in bits, after merging and after each pass: {bits}"]
    return Grouping(codes, tree_builders.from_codes(codes), story)


def neighbours(corpus, done):
    """Yields words of the training split and the words that follow them, in two arrays."""
    load_tensorflow()
    from tfsoftmax.corpora.pipeline import batches

    for words, following, weights in batches(corpus, "train").as_numpy_iterator():
        kept = weights > 0
        done(int(kept.sum()))
        yield words[kept], following[kept]


def _vectors(options):
    return options.vectors or ("hidden" if options.method == "splits" else "embedding")


def vectors_of(run, corpus, progress):
    """The vectors (V, D) of the words: their embeddings, or with a corpus their hidden states."""
    from tfsoftmax.lm import word_vectors
    from tfsoftmax.runs import runs

    if corpus is None:
        return word_vectors.input_embeddings(runs.load(run.directory, streams=1)[0])
    model, _, _ = runs.load(run.directory, corpus.batch_size, corpus.shape["time_steps"])
    with progress.phase("averaging", corpus.split("train").tokens, "tokens") as done:
        return word_vectors.average_hidden_states(model, corpus, done)


def by_vectors(vectors, vocabulary, options):
    """Classes or a tree of words with similar vectors."""
    import math

    from tfsoftmax.partitions import kmeans, splits, tree_builders

    if options.method == "soul":
        tree = kmeans.kmeans_tree(
            vectors, vocabulary.counts, options.shortlist, options.classes, seed=options.seed
        )
        return Grouping(None, tree)
    if options.method == "splits":
        tree = splits.split_tree(vectors, options.balanced, seed=options.seed)
        return Grouping(["".join(map(str, code)) for code in tree.codes()], tree)
    number = options.classes or math.isqrt(len(vocabulary) - 1) + 1
    classes = kmeans.kmeans_classes(vectors, number, seed=options.seed)
    digits = len(str(classes.max()))
    codes = [f"{c:0{digits}}" for c in classes]
    return Grouping(codes, tree_builders.from_codes(codes))


def summary(grouping, vocabulary):
    """Lines that describe the classes, unless each word has its own, and the tree."""
    import numpy as np

    from tfsoftmax.partitions import tree_builders

    names = np.array(class_names(grouping))
    in_class = names != ""  # the others, words of a shortlist, are children of the root
    classes, members = np.unique(names[in_class], return_inverse=True)
    sizes, counts = np.bincount(members), vocabulary.counts
    if grouping.codes is None:
        beside = f", with {np.sum(~in_class):,} words beside them in the root"
        layer = "an output layer over the tree"
        scores = grouping.tree.report(counts)["expected_scores"]
    else:
        beside, layer = "", "a class-based output layer"
        scores = len(classes) + np.bincount(members, counts) @ sizes / counts.sum()
    report = tree_builders.binarised(grouping.tree, counts).report(counts)
    lines = [
        f"words in each of {len(classes):,} classes: {sizes.min():,} to {sizes.max():,}, "
        f"median {np.median(sizes):,.0f}{beside}; {layer} computes {scores:,.0f} scores for an "
        "average token",
    ] if len(classes) < len(members) else []
    return [
        *lines,
        f"tree with Huffman trees in its wide nodes: depth {report['depth']}, expected path "
        f"{report['expected_path_length']:.2f} (the entropy, {report['entropy_bits']:.2f}, is the "
        "least that any tree can have)",
    ]


def class_names(grouping):
    """A name for the class of each word: its code, or the path to the word's node."""
    if grouping.codes is not None:
        return grouping.codes
    return [".".join(map(str, code[:-1])) for code in grouping.tree.codes()]


def listing(grouping, vocabulary, count, word):
    """Yields lines with the name of a class and its most frequent words."""
    names, members = class_names(grouping), {}
    for w in (-vocabulary.counts).argsort(kind="stable"):
        members.setdefault(names[w], []).append(vocabulary.words[w])
    for name in sorted(members):
        if (word is None and count) or (word is not None and name == names[word]):
            yield f"{name}\t{printable(' '.join(members[name][: count or 20]))}"
