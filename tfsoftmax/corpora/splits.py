"""The splits of a prepared corpus and their files, as its manifest describes them."""

import dataclasses
import os
from typing import ClassVar

import numpy as np

from tfsoftmax.support import whole_files
from tfsoftmax.support.arguments import expect
from tfsoftmax.support.vocabulary import Vocabulary

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
        found = whole_files.known_sha256(self.path)
        expect(found == self.sha256, f"{self.path}:",
               f"be as it was written, with sha256 {self.sha256}; prepare the corpus again",
               received=f"sha256 {found}")

    @classmethod
    def written(cls, path: str, records: int) -> "RecordFile":
        """The file at a path, as it is now."""
        return cls(path, records, os.path.getsize(path), whole_files.known_sha256(path))

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
    is_restorable: ClassVar[bool] = False  # whether the records' ids determine each line of text

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
    def counted(
        cls, files: tuple, tally: object, written: np.ndarray, vocabulary: Vocabulary, **others
    ) -> "Split":
        """A split that was just written.

        Args:
            files: its `RecordFile`s.
            tally: what a pass over its text counted, with `sentences` and `words`.
            written: (V,) int64, how often each word stands in the records.
            vocabulary: the vocabulary of V words.
            **others: the fields that only this class has.
        """
        return cls(
            files=files, records=sum(file.records for file in files), sentences=tally.sentences,
            words=tally.words, tokens=int(written.sum()), oov=int(written[vocabulary.oov_id]),
            **others,
        )

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
