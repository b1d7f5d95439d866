"""A prepared corpus of pairs of texts: batches of similar lengths, and the texts themselves."""

import dataclasses
from collections.abc import Callable
from typing import ClassVar

from tfsoftmax.corpora.records import Corpus
from tfsoftmax.corpora.splits import PAD, RecordFile, Split

TEXTS = "-texts.tsv.gz"  # the end of the names of the files of texts


@dataclasses.dataclass(frozen=True)
class PairSplit(Split):
    """A split of pairs. Its sentences are the pairs, and its words those of the targets.

    Attributes:
        source_words: the number of words of the sources.
        source_oov: how many of them are `<unk>`.
        cut_sources: how many sources were cut.
        empty_pairs: how many pairs were left out because a side was empty.
        long_targets: how many were left out because their target was too long.
        texts: a `RecordFile` of the pairs as they were read, one a line, which `pairs.texts` reads.

    Example:
        from tfsoftmax.pairs.corpus import PairCorpus
        print(PairCorpus.load("data/pairs").split("test").long_targets)
    """

    OTHER_FILES = ("texts",)

    source_words: int
    source_oov: int
    cut_sources: int
    empty_pairs: int
    long_targets: int
    texts: RecordFile


class PairCorpus(Corpus):
    """A prepared corpus of pairs.

    Each record is a batch of `batch_size` pairs of similar lengths as `pairs.batches` lays them
    out.

    Example:
        from tfsoftmax.corpora import pipeline
        from tfsoftmax.pairs.corpus import PairCorpus
        corpus = PairCorpus.load("data/pairs")
        for (source, words), next_words, weights in pipeline.batches(corpus, "train").take(2):
            print(corpus.vocabulary.decode(next_words[0].numpy()))
    """

    TASK = "pairs"
    SHAPE = ("batch_size", "max_source", "max_target")
    CHOICES: ClassVar[dict] = {"vocabulary_from": ("targets", "both")}
    SPLIT = PairSplit
    record_bytes = None  # as records have several sizes

    @property
    def positions(self) -> float:
        """How many words to learn a training batch has on average."""
        return self.split("train").tokens / self.split("train").records

    def parser(self) -> Callable:
        """Returns a function from a record to a batch `((source, words), next_words, weights)`.

        These are int32 (B, S), int32 (B, T), int32 (B, T), float32 (B, T), where S and T differ
        from batch to batch, with at most 36 shapes in a corpus. `<eos>` ends each source and fills
        it up to S; `model.real_words` tells the two apart. `words` begins with `<eos>`, and
        `next_words` ends with it. An empty pair whose weights are all 0 may stand in one batch of a
        split.
        """
        import tensorflow as tf

        rows, eos = self.batch_size, tf.constant(self.vocabulary.eos_id, tf.int32)

        def parse(record):
            ints = tf.io.decode_raw(record, tf.int32)
            end = 2 + rows * ints[0]
            source, targets = (tf.reshape(part, (rows, -1)) for part in (ints[2:end], ints[end:]))
            weights = tf.cast(tf.not_equal(targets, PAD), tf.float32)
            source, targets = (tf.where(tf.equal(ids, PAD), eos, ids) for ids in (source, targets))
            words = tf.pad(targets[:, :-1], [[0, 0], [1, 0]], constant_values=eos)
            return (source, words), targets, weights

        return parse
