"""Words, their ids and their counts, in a text file that a person can read and edit."""

import hashlib
import os
from itertools import repeat

import numpy as np

UNK = "<unk>"
EOS = "<eos>"


class Vocabulary:
    """The words of a corpus: a word's position is its id.

    `<unk>` stands for every word that has no id of its own (out of vocabulary,
    OOV), `<eos>` for the end of a sentence. Both are ordinary members, anywhere
    in the list.

    Args:
        words: sequence of distinct str without whitespace, `<unk>` and `<eos>` among them.
        counts: int (V,), occurrences in the training split; `<unk>` counts the OOV
            tokens, `<eos>` the sentences.

    Raises:
        ValueError: a word is missing, repeated, empty or contains whitespace, or
            `counts` does not fit.
    """

    def __init__(self, words, counts):
        self.words = tuple(words)
        self.counts = np.array(counts, dtype=np.int64)
        if self.counts.shape != (len(self.words),):
            raise ValueError(
                f"`counts` must have one number a word, shape ({len(self.words)},). "
                f"Received: counts of shape {self.counts.shape}"
            )
        if (self.counts < 0).any():
            raise ValueError(f"`counts` must not be negative. Received: {self.counts.min()}")
        self.counts.setflags(write=False)
        self._ids = {}
        for index, word in enumerate(self.words):
            _check_word(word, index, self._ids)
            self._ids[word] = index
        for special in (UNK, EOS):
            if special not in self._ids:
                raise ValueError(
                    f"`words` must contain `{special}`. Received: {_brief(self.words)}"
                )
        self.oov_id = self._ids[UNK]
        self.eos_id = self._ids[EOS]

    @classmethod
    def build(cls, counts, min_count=1, max_size=None):
        """Makes the vocabulary of a corpus: ids by falling frequency.

        Args:
            counts: mapping from word to its number of occurrences. `<eos>` is the number
                of sentences, `<unk>` the number of times it stands in the text.
            min_count: rarer words become OOV. Does not apply to `<unk>` and `<eos>`.
            max_size: at most this many entries, `<unk>` and `<eos>` included: the most
                frequent ones. None: no limit.

        Returns:
            A `Vocabulary`. `<unk>` and `<eos>` are ranked by their own counts; words of
            the same count are in alphabetical (code point) order.

        Raises:
            ValueError: `min_count` < 1 or `max_size` < 2.

        Source: Müller 2017, section 4.2.
        """
        if min_count < 1:
            raise ValueError(f"`min_count` must be at least 1. Received: min_count={min_count}")
        if max_size is not None and max_size < 2:
            raise ValueError(
                f"`max_size` must be at least 2, for `{UNK}` and `{EOS}`. "
                f"Received: max_size={max_size}"
            )
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
    def load(cls, path):
        """Reads a file written by `save`, or by hand.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: the file is not such a list; the message names file and line.
        """
        with open(path, "rb") as file:
            data = file.read()
        words, counts, lines = [], [], {}
        for number, line in enumerate(data.removesuffix(b"\n").split(b"\n"), start=1):
            word, count = _parse(line, f"{os.fspath(path)}, line {number}")
            if word in lines:
                raise ValueError(
                    f"{os.fspath(path)}, line {number}: words must differ. "
                    f"Received: {word!r}, which is also line {lines[word]}"
                )
            lines[word] = number
            words.append(word)
            counts.append(count)
        for special in (UNK, EOS):
            if special not in lines:
                raise ValueError(
                    f"{os.fspath(path)}: one of the {len(words)} lines must be "
                    f"`{special}<TAB>count`. Received: none"
                )
        return cls(words, counts)

    def save(self, path):
        """Writes one `word<TAB>count` a line in UTF-8; the line number, from 0, is the id."""
        with open(path, "wb") as file:
            file.write(self._bytes())

    @property
    def sha256(self):
        """Hexadecimal SHA-256 of the bytes that `save` writes."""
        return hashlib.sha256(self._bytes()).hexdigest()

    def encode(self, words):
        """Returns the ids of an iterable of N words, `oov_id` for the unknown: int32 (N,)."""
        if isinstance(words, (str, bytes)):
            raise TypeError(f"`words` must be a list of words, not one string. Received: {words!r}")
        words = words if isinstance(words, (list, tuple)) else list(words)
        ids = map(self._ids.get, words, repeat(self.oov_id))
        return np.fromiter(ids, dtype=np.int32, count=len(words))

    def decode(self, ids):
        """Returns the words of N ids as a list of str; an id outside [0, V) is a ValueError."""
        ids = np.asarray(ids, dtype=np.int64).reshape(-1)
        outside = ids[(ids < 0) | (ids >= len(self.words))]
        if outside.size:
            raise ValueError(
                f"`ids` must lie in [0, {len(self.words)}). Received: {outside[0]}"
            )
        return [self.words[index] for index in ids]

    def __len__(self):
        return len(self.words)

    def __contains__(self, word):
        return word in self._ids

    def __repr__(self):
        return f"<Vocabulary of {len(self)} words, {self.counts.sum()} tokens>"

    def _bytes(self):
        lines = (f"{word}\t{count}\n" for word, count in zip(self.words, self.counts.tolist()))
        return "".join(lines).encode("utf-8")


def _check_word(word, index, seen):
    if not isinstance(word, str) or word.split() != [word]:
        raise ValueError(
            "`words` must be non-empty strings without whitespace. "
            f"Received: words[{index}]={word!r}"
        )
    if word in seen:
        raise ValueError(
            f"`words` must differ. Received: {word!r} at {seen[word]} and {index}"
        )


def _parse(line, where):
    """Returns (word, count) of one line of the file."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{where}: must be UTF-8. Received: {line[:80]!r}") from error
    columns = text.removesuffix("\r").split("\t")
    if len(columns) != 2:
        raise ValueError(f"{where}: must be `word<TAB>count`. Received: {text!r}")
    word, count = columns
    if word.split() != [word]:
        raise ValueError(
            f"{where}: the word must not be empty or contain blanks. Received: {text!r}"
        )
    if not (count.isascii() and count.isdigit() and len(count) < 19):
        raise ValueError(f"{where}: the count must be a whole number. Received: {count!r}")
    return word, int(count)


def _brief(words):
    return f"{', '.join(map(repr, words[:5]))}{', …' if len(words) > 5 else ''}"
