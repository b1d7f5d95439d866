"""A prepared corpus on disk: its vocabulary and its record files."""

import dataclasses
import functools
import os
from collections.abc import Callable
from typing import ClassVar

from tfsoftmax.corpora import manifest as manifests
from tfsoftmax.corpora import tfrecord
from tfsoftmax.support import whole_files
from tfsoftmax.support.arguments import refusal
from tfsoftmax.vocabulary import Vocabulary

PAD = -1  # stands in files where a stream or a text has ended before the longest one


@dataclasses.dataclass(frozen=True)
class RecordFile:
    """One TFRecord file.

    Attributes:
        path: the path of the file.
        records: the number of records.
        bytes: the size of the file.
        sha256: the SHA-256 of its content, in hexadecimal digits.

    Example:
        from tfsoftmax.corpora.records import Corpus
        for file in Corpus.load("data/docstrings").split("train").files:
            file.verify()
            print(file.path, file.records)
    """

    path: str
    records: int
    bytes: int
    sha256: str

    def verify(self) -> None:
        """Raises ValueError if the content is not what was written.

        The first call reads the file, at about 1 GB/s; later ones only ask whether it changed.
        """
        stat = os.stat(self.path)
        found = sha256_of(self.path, stat.st_size, stat.st_mtime_ns)
        if found != self.sha256:
            raise ValueError(
                f"{self.path}: the SHA-256 must be {self.sha256}, as the manifest says; prepare "
                f"the corpus again. Received: {found}"
            )

    def described(self) -> dict:
        """What the manifest says of the file, as `of` reads it."""
        return dataclasses.asdict(self) | {"path": os.path.basename(self.path)}

    @classmethod
    def of(cls, directory: str, entry: dict) -> "RecordFile":
        """The file in a folder that an entry of a manifest describes."""
        path = os.path.join(directory, entry["path"])
        return cls(path, entry["records"], entry["bytes"], entry["sha256"])


@dataclasses.dataclass(frozen=True)
class Split:
    """One split of a corpus. All fields but the files are numbers that the manifest keeps.

    Attributes:
        files: its `RecordFile`s, in order.
        records: the number of records in all files.
        sentences: the number of sentences, each of which `<eos>` ends.
        words: the number of words to predict, without `<eos>`.
        tokens: the number of words, or of the pieces that a tokenizer makes of them, plus one
            `<eos>` for each sentence.
        oov: how many of the words or pieces are out of vocabulary.

    Example:
        from tfsoftmax.corpora.records import Corpus
        split = Corpus.load("data/docstrings").split("test")
        print(split.sentences, split.tokens)
        print(f"{split.oov_rate:.2%}")
    """

    OTHER_FILES: ClassVar[tuple] = ()  # fields that are `RecordFile`s, besides `files`

    files: tuple
    records: int
    sentences: int
    words: int
    tokens: int
    oov: int

    @property
    def oov_rate(self) -> float:
        """The fraction of the words or pieces that are out of vocabulary."""
        return self.oov / max(1, self.tokens - self.sentences)

    @property
    def is_restorable(self) -> bool:
        """Whether the ids in the records determine each line of the text."""
        return False

    @property
    def all_files(self) -> tuple:
        """The record files and the others."""
        return (*self.files, *(getattr(self, name) for name in self.OTHER_FILES))

    @classmethod
    def counts(cls) -> list[str]:
        """The names of the numbers."""
        names = [field.name for field in dataclasses.fields(cls)]
        return [name for name in names if name not in ("files", *cls.OTHER_FILES)]

    def described(self) -> dict:
        """What the manifest says of the split, as `of` reads it."""
        return {
            **{name: getattr(self, name) for name in self.counts()},
            "oov_rate": self.oov_rate,
            "files": [file.described() for file in self.files],
            **{name: getattr(self, name).described() for name in self.OTHER_FILES},
        }

    @classmethod
    def of(cls, directory: str, entry: dict) -> "Split":
        """The split in a folder that an entry of a manifest describes."""
        return cls(
            files=tuple(RecordFile.of(directory, file) for file in entry["files"]),
            **{name: entry[name] for name in cls.counts()},
            **{name: RecordFile.of(directory, entry[name]) for name in cls.OTHER_FILES},
        )


@dataclasses.dataclass(frozen=True)
class SentenceSplit(Split):
    """A split of sentences.

    Attributes:
        text_bytes: the bytes of the sentences in UTF-8, each with the end of its line.
        changed_lines: how many sentences their words or pieces do not restore exactly, because
            there were several blanks between words, for example.

    Example:
        from tfsoftmax.corpora.records import Corpus
        print(Corpus.load("data/docstrings").split("test").text_bytes)
    """

    text_bytes: int
    changed_lines: int

    @property
    def is_restorable(self) -> bool:
        """Whether the ids in the records determine each line of the text.

        Lines without a word are left out, and how lines end is not kept.
        """
        return self.oov == 0 and self.changed_lines == 0


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
        if name not in self.splits:
            raise refusal(
                "split", f"be one of {', '.join(self.splits)}, the splits of {self.directory}", name
            )
        return self.splits[name]


@functools.lru_cache(maxsize=4096)
def sha256_of(path, size, modified_ns):
    """The SHA-256 of a file. Its size and time of change make the cache notice changes."""
    return whole_files.sha256_of(path)


def _tokenizer(directory, expected):
    """The path of the file of the tokenizer that the manifest names, which is checked, or None."""
    if expected is None:
        return None
    path = os.path.join(directory, expected["path"])
    if not os.path.isfile(path):
        raise refusal(
            f"{path}:", "exist next to its manifest",
            received="no such file", error=FileNotFoundError,
        )
    stat = os.stat(path)
    found = sha256_of(path, stat.st_size, stat.st_mtime_ns)
    if found != expected["sha256"]:
        raise refusal(
            f"{path}:", "be the tokenizer that the record files were made with, of SHA-256 "
            f"{expected['sha256']}", received=f"{found}"
        )
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
    if not os.path.isfile(path):
        raise refusal(
            f"{path}:", "exist next to its manifest",
            received="no such file", error=FileNotFoundError,
        )
    vocabulary = Vocabulary.load(path)
    if vocabulary.sha256 != expected["sha256"]:
        raise refusal(
            f"{path}:",
            f"be the vocabulary that the record files were made with, of {expected['size']} words "
            f"and SHA-256 {expected['sha256']}",
            received=f"{len(vocabulary)} words, SHA-256 {vocabulary.sha256}",
        )
    return vocabulary


def _check_sizes(corpus):
    record_bytes = corpus.record_bytes
    for split in corpus.splits.values():
        found = sum(file.records for file in split.files)
        if split.records != found or found == 0:
            raise ValueError(
                f"{os.path.join(corpus.directory, manifests.MANIFEST)}: a split must have the "
                f"records of its files, {found}; prepare the corpus again. "
                f"Received: {split.records} records"
            )
        for file in split.all_files:
            if not os.path.isfile(file.path):
                raise FileNotFoundError(
                    f"{file.path}: the manifest names this file. Received: no such file"
                )
            size = os.path.getsize(file.path)
            if size != file.bytes or record_bytes and size != record_bytes * file.records:
                of = f" of {record_bytes}" if record_bytes else ""
                raise refusal(
                    f"{file.path}:",
                    f"have {file.bytes} bytes, {file.records} records{of}; prepare the corpus "
                    "again", received=f"{size} bytes"
                )
