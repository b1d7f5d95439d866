"""A prepared corpus on disk: its vocabulary and its record files."""

import dataclasses
import functools
import os

from tfsoftmax.corpora import manifest as manifests
from tfsoftmax.corpora import tfrecord
from tfsoftmax.corpora.config import TASKS
from tfsoftmax.support import whole_files
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


@dataclasses.dataclass(frozen=True)
class Split:
    """One split of a corpus.

    Attributes:
        files: its `RecordFile`s, in order.
        records: the number of records in all files.
        sentences: the number of sentences; with task="pairs", that of pairs.
        words: the number of words, without `<eos>`; with task="pairs", those of the targets.
        tokens: the number of words, or of the pieces that a tokenizer makes of them, plus one
            `<eos>` for each sentence.
        oov: how many of the words or pieces are out of vocabulary.
        text_bytes: the bytes of the sentences in UTF-8, each with the end of its line; None where
            they were not counted.
        changed_lines: how many sentences their words or pieces do not restore exactly, because
            there were several blanks between words, for example.
        texts: with task="pairs", a `RecordFile` of the pairs as they were read, one a line, which
            `tfsoftmax.corpora.pair_texts` reads.
        pair_counts: with task="pairs", a dictionary of further numbers: `manifest.PAIR_COUNTS`.

    Example:
        from tfsoftmax.corpora.records import Corpus
        split = Corpus.load("data/docstrings").split("test")
        print(split.sentences, split.tokens)
        print(f"{split.oov_rate:.2%}")
    """

    files: tuple
    records: int
    sentences: int
    words: int
    tokens: int
    oov: int
    text_bytes: int | None = None
    changed_lines: int | None = None
    texts: RecordFile | None = None
    pair_counts: dict = dataclasses.field(default_factory=dict)

    @property
    def oov_rate(self) -> float:
        """The fraction of the words or pieces that are out of vocabulary."""
        return self.oov / max(1, self.tokens - self.sentences)

    @property
    def is_restorable(self) -> bool:
        """Whether the ids in the records determine each line of the text.

        Lines without a word are left out, and how lines end is not kept.
        """
        return self.text_bytes is not None and self.oov == 0 and self.changed_lines == 0

    @property
    def all_files(self) -> tuple:
        """The record files and the file of the texts, if there is one."""
        return (*self.files, self.texts) if self.texts else self.files


@dataclasses.dataclass(frozen=True)
class Corpus:
    """A prepared corpus: of sentences for language models, or of pairs of texts.

    Each record holds little-endian int32 and is a batch: (streams, time_steps + 1) words of
    sentences, or `batch_size` pairs of similar lengths as `tfsoftmax.corpora.pair_batches` lays
    them out.

    Attributes:
        directory: the folder of the corpus.
        name: its name, such as "text8".
        settings: the settings that it was prepared with.
        vocabulary: its `Vocabulary`.
        splits: dictionary from the name of a split to its `Split`.
        tokenizer: the path of the file of its tokenizer; None for words.

    Example:
        from tfsoftmax.corpora import pipeline, records
        corpus = records.Corpus.load("data/docstrings")
        for words, next_words, weights in pipeline.batches(corpus, "train").take(2):
            print(corpus.vocabulary.decode(words[0].numpy()))
    """

    directory: str
    name: str
    settings: dict
    vocabulary: Vocabulary
    splits: dict
    tokenizer: str | None = None

    @property
    def task(self) -> str:
        """What it holds, "sentences" or "pairs"."""
        return self.settings["task"]

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
        """B, the number of rows of a batch: streams of sentences, or pairs."""
        return self.settings[manifests.SHAPE[self.task][0]]

    @property
    def shape(self) -> dict:
        """The settings that decide how its batches look; those of a run must not change."""
        return {name: self.settings[name] for name in manifests.SHAPE[self.task]}

    @property
    def positions(self) -> float:
        """How many words to learn a training batch has on average; all places, with streams."""
        if self.task == "sentences":
            return self.streams * self.time_steps
        return self.split("train").tokens / self.split("train").records

    @classmethod
    def load(cls, directory: str | os.PathLike, tasks: tuple = TASKS[:1]) -> "Corpus":
        """Opens a prepared corpus and checks it against its manifest.

        This checks the SHA-256 of the vocabulary and of the tokenizer, and the sizes of the record
        files; `batches` checks the SHA-256 of the record files when it first reads a split.

        Args:
            directory: the folder of the corpus.
            tasks: the tasks that the caller can use a corpus of, "sentences", "pairs" or both.

        Raises:
            FileNotFoundError: there is no prepared corpus, or one of its files is missing.
            ValueError: the manifest is damaged or of another version, the vocabulary or the
                record files are not those that were prepared with it, or the corpus is for another
                task.
        """
        directory = os.fspath(directory)
        manifest = manifests.read_manifest(directory)
        if manifest["settings"]["task"] not in tasks:
            raise ValueError(
                f"{directory!r} must be a corpus of {' or '.join(tasks)}. "
                f"Received: one of {manifest['settings']['task']}"
            )
        vocabulary = _load_vocabulary(directory, manifest["vocabulary"])
        splits = {name: _split(directory, entry) for name, entry in manifest["splits"].items()}
        tokenizer = _tokenizer(directory, manifest.get("tokenizer"))
        corpus = cls(
            directory, manifest["name"], manifest["settings"], vocabulary, splits, tokenizer
        )
        _check_sizes(corpus)
        return corpus

    def split(self, name: str) -> Split:
        """The split of this name. An unknown name is a ValueError."""
        if name not in self.splits:
            raise ValueError(
                f"`split` must be one of {', '.join(self.splits)}, the splits of {self.directory}. "
                f"Received: split={name!r}"
            )
        return self.splits[name]


@functools.lru_cache(maxsize=4096)
def sha256_of(path, size, modified_ns):
    """The SHA-256 of a file. Its size and time of change make the cache notice changes."""
    return whole_files.sha256_of(path)


def _split(directory, entry):
    def described(file):
        path = os.path.join(directory, file["path"])
        return RecordFile(path, file["records"], file["bytes"], file["sha256"])

    return Split(
        tuple(map(described, entry["files"])),
        **{count: entry[count] for count in manifests.COUNTS},
        **{count: entry.get(count) for count in manifests.TEXT_COUNTS},
        texts=described(entry["texts"]) if "texts" in entry else None,
        pair_counts={count: entry[count] for count in manifests.PAIR_COUNTS if "texts" in entry},
    )


def _tokenizer(directory, expected):
    """The path of the file of the tokenizer that the manifest names, which is checked, or None."""
    if expected is None:
        return None
    path = os.path.join(directory, expected["path"])
    if not os.path.isfile(path):
        raise FileNotFoundError(f"{path}: must exist next to its manifest. Received: no such file")
    stat = os.stat(path)
    found = sha256_of(path, stat.st_size, stat.st_mtime_ns)
    if found != expected["sha256"]:
        raise ValueError(
            f"{path}: must be the tokenizer that the record files were made with, of SHA-256 "
            f"{expected['sha256']}. Received: {found}"
        )
    return path


def _load_vocabulary(directory, expected):
    path = os.path.join(directory, manifests.VOCABULARY)
    if not os.path.isfile(path):
        raise FileNotFoundError(f"{path}: must exist next to its manifest. Received: no such file")
    vocabulary = Vocabulary.load(path)
    if vocabulary.sha256 != expected["sha256"]:
        raise ValueError(
            f"{path}: must be the vocabulary that the record files were made with, of "
            f"{expected['size']} words and SHA-256 {expected['sha256']}. "
            f"Received: {len(vocabulary)} words, SHA-256 {vocabulary.sha256}"
        )
    return vocabulary


def _check_sizes(corpus):
    record_bytes = None  # those of pairs have several sizes
    if corpus.task == "sentences":
        record_bytes = tfrecord.framed_bytes(corpus.streams * (corpus.time_steps + 1))
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
                raise ValueError(
                    f"{file.path}: must have {file.bytes} bytes, {file.records} records{of}; "
                    f"prepare the corpus again. Received: {size} bytes"
                )
