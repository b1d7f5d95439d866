"""A prepared corpus on disk: its vocabulary and its record files."""

import dataclasses
import os
from collections.abc import Callable
from typing import ClassVar

from tfsoftmax.corpora import manifest as manifests
from tfsoftmax.corpora import tfrecord
from tfsoftmax.corpora.splits import PAD, SentenceSplit, Split
from tfsoftmax.support.arguments import expect
from tfsoftmax.support.manifests import check_file
from tfsoftmax.support.vocabulary import Vocabulary


@dataclasses.dataclass(frozen=True)
class Corpus:
    """A prepared corpus of sentences, for language models.

    Each record holds little-endian int32 and is a batch: (streams, time_steps + 1) words. A corpus
    of another kind is a subclass, with constants and methods of its own.

    Attributes:
        directory: the folder of the corpus.
        name: its name, such as "text8".
        settings: the settings that it was prepared with.
        vocabulary: its `Vocabulary`.
        splits: dictionary from the name of a split to its `Split`.
        tokenizer: the path of the file of its tokenizer; None for words.
        TASK: what it holds.
        SHAPE: the settings that decide how batches look. The first is the number of rows.
        CHOICES: the values that settings can have.
        SPLIT: the class of its splits.

    Example:
        from tfsoftmax.corpora import pipeline, records
        corpus = records.Corpus.load("data/docstrings")
        for words, next_words, weights in pipeline.batches(corpus, "train").take(2):
            print(corpus.vocabulary.decode(words[0].numpy()))
    """

    TASK: ClassVar[str] = "sentences"
    SHAPE: ClassVar[tuple] = ("streams", "time_steps")
    CHOICES: ClassVar[dict] = {"order": ("text", "shuffled")}
    SPLIT: ClassVar[type] = SentenceSplit

    directory: str
    name: str
    settings: dict
    vocabulary: Vocabulary
    splits: dict
    tokenizer: str | None = None

    @property
    def order(self) -> str:
        """The order of its sentences, "text" or "shuffled"."""
        return self.settings["order"]

    @property
    def streams(self) -> int:
        """B, the number of parallel streams of sentences."""
        return self.settings["streams"]

    @property
    def time_steps(self) -> int:
        """T, the number of words of each stream in a record."""
        return self.settings["time_steps"]

    @property
    def batch_size(self) -> int:
        """B, the number of rows of a batch."""
        return self.settings[self.SHAPE[0]]

    @property
    def shape(self) -> dict:
        """The settings that decide how its batches look; those of a run must not change."""
        return {name: self.settings[name] for name in self.SHAPE}

    @property
    def positions(self) -> float:
        """How many words to learn a training batch has on average, with places that are empty."""
        return self.streams * self.time_steps

    @property
    def record_bytes(self) -> int | None:
        """The size of each record in its file; None if they differ."""
        return tfrecord.framed_bytes(self.streams * (self.time_steps + 1))

    def parser(self) -> Callable:
        """Returns a function from a record, a scalar string tensor, to a batch.

        The batch is what `pipeline.batches` says: (words, next_words, weights).
        """
        import tensorflow as tf

        eos = tf.constant(self.vocabulary.eos_id, tf.int32)

        def parse(record):
            shape = self.streams, self.time_steps + 1
            ids = tf.reshape(tf.io.decode_raw(record, tf.int32), shape)
            weights = tf.cast(tf.not_equal(ids[:, 1:], PAD), tf.float32)
            ids = tf.where(tf.equal(ids, PAD), eos, ids)
            return ids[:, :-1], ids[:, 1:], weights

        return parse

    @classmethod
    def load(cls, directory: str | os.PathLike) -> "Corpus":
        """Opens a prepared corpus and checks it against its manifest.

        This checks the SHA-256 of the vocabulary and of the tokenizer, and the sizes of the record
        files; `batches` checks the SHA-256 of the record files when it first reads a split.

        Args:
            directory: the folder of the corpus.

        Raises:
            FileNotFoundError: there is no prepared corpus, or one of its files is missing.
            ValueError: the manifest is damaged or of another version, the vocabulary or the
                record files are not those that were prepared with it, or the corpus is of another
                kind.
        """
        directory = os.fspath(directory)
        manifest = manifests.read_manifest(directory, cls)
        vocabulary = vocabulary_of(directory, manifest["vocabulary"])
        splits = {
            name: cls.SPLIT.of(directory, entry) for name, entry in manifest["splits"].items()
        }
        tokenizer = _tokenizer(directory, manifest.get("tokenizer"))
        corpus = cls(
            directory, manifest["name"], manifest["settings"], vocabulary, splits, tokenizer
        )
        _check_sizes(corpus)
        return corpus

    def split(self, name: str) -> Split:
        """The split of this name. An unknown name is a ValueError."""
        expect(name in self.splits, "split",
               f"be one of {', '.join(self.splits)}, the splits of {self.directory}", name)
        return self.splits[name]


def _tokenizer(directory, expected):
    """The path of the file of the tokenizer that the manifest names, which is checked, or None."""
    if expected is None:
        return None
    path = os.path.join(directory, expected["path"])
    _check_exists(path)
    check_file(path, expected)
    return path


def vocabulary_of(directory: str, expected: dict) -> Vocabulary:
    """The vocabulary of a prepared corpus, of whatever kind.

    Args:
        directory: the folder of the corpus.
        expected: what its manifest says of the vocabulary.

    Raises:
        FileNotFoundError: it is missing.
        ValueError: it is damaged or another one.
    """
    path = os.path.join(directory, manifests.VOCABULARY)
    _check_exists(path)
    vocabulary = Vocabulary.load(path)
    expect(vocabulary.sha256 == expected["sha256"], f"{path}:", "be the vocabulary that the record "
           f"files were made with, of {expected['size']} words and SHA-256 {expected['sha256']}",
           received=f"{len(vocabulary)} words, SHA-256 {vocabulary.sha256}")
    return vocabulary


def _check_exists(path):
    expect(os.path.isfile(path), f"{path}:", "exist next to its manifest", received="no such file",
           error=FileNotFoundError)


def _check_sizes(corpus):
    record_bytes = corpus.record_bytes
    for split in corpus.splits.values():
        found = sum(file.records for file in split.files)
        expect(split.records == found and found != 0,
               f"{os.path.join(corpus.directory, manifests.MANIFEST)}: a split",
               f"have the records of its files, {found}; prepare the corpus again",
               received=f"{split.records} records")
        for file in split.all_files:
            _check_exists(file.path)
            size, of = os.path.getsize(file.path), f" of {record_bytes}" if record_bytes else ""
            whole = size == file.bytes and (not of or size == record_bytes * file.records)
            expect(whole, f"{file.path}:", f"have {file.bytes} bytes, {file.records} records{of}; "
                   "prepare the corpus again", received=f"{size} bytes")
