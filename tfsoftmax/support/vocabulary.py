"""Words, their ids and their counts, in a text file that a person can read and edit."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from itertools import repeat

import numpy as np

from tfsoftmax.support import textio, whole_files
from tfsoftmax.support.arguments import (
    ArrayLike,
    check_at_least,
    check_hint,
    expect,
    refusal,
    whole_numbers,
)

UNK = "<unk>"
EOS = "<eos>"
# How files of other tools (ARPA, word2vec, clusters) spell them where they do not spell them so.
OTHER_SPELLINGS = {UNK: "<UNK>", EOS: "</s>"}
_LINE_BYTES = 1 << 26  # more than the longest line, and so the longest word, of a corpus


class Vocabulary:
    """The words of a corpus. A word's position is its id.

    `<unk>` stands for every word that has no id of its own (out of vocabulary, OOV), and `<eos>`
    for the end of a sentence. Both are ordinary members, anywhere in the list.

    Args:
        words: distinct str without whitespace, `<unk>` and `<eos>` among them.
        counts: (V,) integers, occurrences in the training split. `<unk>` counts the OOV tokens
            and `<eos>` the sentences.

    Raises:
        ValueError: if `<unk>` or `<eos>` is missing, if a word is repeated, empty or contains
            whitespace, or if `counts` are not V numbers >= 0.

    Example:
        counts = {"the": 9, "cat": 4, "sat": 1, "<eos>": 3}
        vocabulary = tfsoftmax.Vocabulary.build(counts, min_count=2)
        print(vocabulary.words)                          # ('the', 'cat', '<eos>', '<unk>')
        print(vocabulary.encode("the cat sat".split()))  # [0 1 3]
    """

    def __init__(self, words: Iterable[str], counts: ArrayLike):
        check_hint("words", words, Iterable[str])
        self.words = tuple(words)
        self.counts = whole_numbers("counts", counts).copy()
        expect(self.counts.shape == (len(self.words),), "counts",
               f"have one number for each word, shape ({len(self.words)},)",
               received=f"counts of shape {self.counts.shape}")
        least = self.counts.min(initial=0)
        expect(least >= 0, "counts", "not be negative", received=str(least))
        self.counts.setflags(write=False)
        self._ids = {}
        for index, word in enumerate(self.words):
            _check_word(word, index, self._ids)
            self._ids[word] = index
        for special in (UNK, EOS):
            expect(special in self._ids, "words", f"contain `{special}`", self.words)
        self.oov_id = self._ids[UNK]
        self.eos_id = self._ids[EOS]

    @classmethod
    def build(
        cls, counts: Mapping[str, int], min_count: int = 1, max_size: int | None = None
    ) -> "Vocabulary":
        """Makes the vocabulary of a corpus, with ids by descending frequency.

        Args:
            counts: mapping from word to its number of occurrences. `<eos>` is the number
                of sentences, `<unk>` the number of times it appears in the text.
            min_count: rarer words become OOV, except for `<unk>` and `<eos>`.
            max_size: how many of the most frequent words to keep at most, `<unk>` and `<eos>`
                included. None means no limit.

        Returns:
            A `Vocabulary`. `<unk>` and `<eos>` are ranked by their own counts. Words of the same
            count are in alphabetical (code point) order.

        Raises:
            ValueError: if `min_count` is below 1 or `max_size` below 2.

        Source: Müller 2017, section 4.2.
        """
        check_at_least(1, min_count=min_count)
        right = max_size is None or max_size >= 2
        expect(right, "max_size", f"be at least 2, for `{UNK}` and `{EOS}`", max_size)
        ranked = sorted(
            ((-n, word) for word, n in counts.items() if n >= min_count and word not in (UNK, EOS))
        )
        if max_size is not None:
            ranked = ranked[: max_size - 2]
        kept = -sum(n for n, _ in ranked)
        sentences = counts.get(EOS, 0)
        oov = sum(counts.values()) - sentences - kept
        ranked = sorted([*ranked, (-oov, UNK), (-sentences, EOS)])
        return cls([word for _, word in ranked], [-n for n, _ in ranked])

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Vocabulary":
        """Reads a file that was written by `save` or by hand.

        Raises:
            FileNotFoundError: if there is no such file.
            ValueError: if the file is not such a list. The message names the file and the line.
        """
        words, counts, lines = [], [], {}
        for number, (where, line) in enumerate(textio.lines(path, _LINE_BYTES), start=1):
            word, count = _parse(line, where)
            if word in lines:
                raise refusal(f"{where}: words", "differ",
                              received=f"{word!r}, which is also line {lines[word]}")
            lines[word] = number
            words.append(word)
            counts.append(count)
        for special in (UNK, EOS):
            expect(special in lines, f"{os.fspath(path)}: one of the {len(words)} lines",
                   f"be `{special}<TAB>count`", received="none")
        return cls(words, counts)

    def save(self, path: str | os.PathLike) -> None:
        """Writes a line `word<TAB>count` for each word, in the order of the ids, in UTF-8."""
        whole_files.write_whole(path, self._bytes())

    @property
    def sha256(self) -> str:
        """Hexadecimal SHA-256 of the bytes that `save` writes."""
        return hashlib.sha256(self._bytes()).hexdigest()

    def encode(self, words: Iterable[str]) -> np.ndarray:
        """Returns the ids of N words, (N,) int32, with `oov_id` for unknown words."""
        listed = not isinstance(words, (str, bytes))
        expect(listed, "words", "be a list of words, not one string", words, error=TypeError)
        words = words if isinstance(words, (list, tuple)) else list(words)
        ids = map(self._ids.get, words, repeat(self.oov_id))
        return np.fromiter(ids, dtype=np.int32, count=len(words))

    def decode(self, ids: ArrayLike) -> list[str]:
        """Returns the words of N ids. Raises ValueError for an id outside [0, V)."""
        ids = np.asarray(ids, dtype=np.int64).reshape(-1)
        outside = ids[(ids < 0) | (ids >= len(self.words))]
        expect(not outside.size, "ids", f"lie in [0, {len(self.words)})", outside[:5].tolist())
        return [self.words[index] for index in ids]

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._ids

    def __repr__(self):
        return f"<Vocabulary of {len(self)} words, {self.counts.sum()} tokens>"

    def _bytes(self):
        lines = (f"{word}\t{count}\n" for word, count in zip(self.words, self.counts.tolist()))
        # `load` drops a byte order mark, so a word that begins with one needs another before it.
        mark = "\ufeff" if self.words[0].startswith("\ufeff") else ""
        return (mark + "".join(lines)).encode("utf-8")


def _check_word(word, index, seen):
    if not isinstance(word, str) or word.split() != [word]:
        raise refusal("words", "be non-empty strings without whitespace",
                      received={f"words[{index}]": word})
    if word in seen:
        raise refusal("words", "differ", received=f"{word!r} at {seen[word]} and {index}")


def _parse(line, where):
    """Returns (word, count) of one line of the file."""
    columns = line.split("\t")
    expect(len(columns) == 2, f"{where}:", "be `word<TAB>count`", line)
    word, count = columns
    expect(word.split() == [word], f"{where}: the word", "not be empty or contain blanks", line)
    number = count.isascii() and count.isdigit() and len(count) < 19
    expect(number, f"{where}: the count", "be a whole number", count)
    return word, int(count)
