"""A bigram model with backoff, from counts or from an ARPA file, for the words of a vocabulary."""

import contextlib
import dataclasses
import functools
import math
import os
import re
from collections.abc import Mapping, Sequence

import numpy as np

from tfsoftmax.ngrams.counts import Bigrams
from tfsoftmax.support import textio, whole_files
from tfsoftmax.support.arguments import ArrayLike, check_exists, expect, needed, refusal, refusing
from tfsoftmax.support.counts import checked_counts, with_unseen
from tfsoftmax.support.packing import packed, unpacked
from tfsoftmax.support.vocabulary import EOS, OTHER_SPELLINGS, UNK

BEGIN, END = "<s>", OTHER_SPELLINGS[EOS]  # of a sentence, in ARPA files


@dataclasses.dataclass(frozen=True, eq=False)
class BackoffBigrams:
    """P(w | v) is stored where v w was seen, and is b(v) u(w) elsewhere; it sums to one over V.

    Attributes:
        log_unigram: float64 (V,), ln u(w).
        log_backoff: float64 (V,), ln b(v).
        starts: int64 (V + 1,); the words seen after v stand at starts[v] ... starts[v + 1].
        words: int32 (R,), rising for each v.
        log_seen: float64 (R,), ln P(w | v).

    Raises:
        ValueError: an array has another shape or type, a logarithm is not finite, or `starts` and
            `words` do not fit the others.

    Example:
        from tfsoftmax.ngrams import backoff, counts
        bigrams = counts.Bigrams.count([([0, 2, 0, 3], [2, 0, 3, 0])], vocab_size=4)
        model = backoff.BackoffBigrams.from_counts(bigrams, counts=[4, 3, 2, 1])
        print(model.log_prob(before=[0, 0], words=[2, 1]))

    Source: Müller 2017, section 2.2.1, whose n-gram models back off (Katz 1987).
    """

    log_unigram: np.ndarray
    log_backoff: np.ndarray
    starts: np.ndarray
    words: np.ndarray
    log_seen: np.ndarray

    def __post_init__(self):
        size, seen = len(self.log_unigram), len(self.words)
        for name, length in (("log_unigram", size), ("log_backoff", size), ("log_seen", seen)):
            value = getattr(self, name)
            fits = value.shape == (length,) and value.dtype.kind == "f"
            right = fits and np.isfinite(value).all()
            expect(right, name, f"be {length} finite numbers", value)
        rises = self.starts.shape == (size + 1,) and (np.diff(self.starts) >= 0).all()
        rises = rises and (self.starts[0], self.starts[-1]) == (0, seen)
        expect(rises, "starts", f"be {size + 1} numbers that rise from 0 to {seen}", self.starts)
        known = (self.words >= 0) & (self.words < size)
        expect(known.all(), "words", f"lie in [0, {size})", self.words)

    @classmethod
    def from_counts(
        cls, bigrams: Bigrams, counts: ArrayLike, discount: float = 0.75
    ) -> "BackoffBigrams":
        """P(w | v) = (max(c(v, w) - δ, 0) + δ n(v) u(w)) / c(v), and u(w) where c(v) = 0.

        Args:
            bigrams: `Bigrams` of the training text, with counts c(v, w), their sums c(v), and
                n(v) different words after v.
            counts: (V,) numbers >= 0, which u is proportional to; those of count zero are counted
                as often as the rarest word that was seen.
            discount: δ, in (0, 1].

        Source: Ney et al. 1994 (absolute discounting, interpolated).
        """
        expect(0 < discount <= 1, "discount", "lie in (0, 1]", discount)
        counts = with_unseen(checked_counts(counts, bigrams.vocab_size)).astype(np.float64)
        unigram = counts / counts.sum()
        starts, words, times = bigrams.successors
        kinds = np.diff(starts)
        first = np.repeat(np.arange(bigrams.vocab_size), kinds)
        sums = np.bincount(first, times, bigrams.vocab_size)
        backoff = np.where(sums > 0, discount * kinds / np.maximum(sums, 1), 1.0)
        seen = (times - discount) / sums[first] + backoff[first] * unigram[words]
        return cls(np.log(unigram), np.log(backoff), starts, words, np.log(seen))

    @classmethod
    def read_arpa(cls, path: str | os.PathLike, words: Sequence[str]) -> "BackoffBigrams":
        """Reads an ARPA file of order 2.

        <s> and </s> are `<eos>`, before and after which they stand, and <unk> and <UNK> are
        `<unk>`, as in KenLM. What the file says of words that the vocabulary lacks is left out, and
        a word that the file lacks is as likely as its rarest one. P(· | v) is then divided by its
        sum.

        Args:
            path: a UTF-8 file, plain, .gz, .xz or .bz2.
            words: V str, the vocabulary, with `<eos>`.

        Raises:
            ValueError: the file is no ARPA file of order 2, or has no word of the vocabulary, or
                the vocabulary has the word <s>, </s> or <UNK>.
        """
        check_no_marks(words)
        ids = {word: i for i, word in enumerate(words)}
        ids[OTHER_SPELLINGS[UNK]] = ids.get(UNK)
        before, after = ({**ids, tag: ids.get(EOS)} for tag in (BEGIN, END))
        unigram, backoff, seen = np.full(len(words), np.nan), np.zeros(len(words)), {}
        for order, where, fields in _arpa_entries(path):
            log_p, *ngram = fields[: order + 1]
            if order == 1:
                if ngram[0] != BEGIN and after.get(ngram[0]) is not None:
                    unigram[after[ngram[0]]] = _number(log_p, where)
                if ngram[0] != END and before.get(ngram[0]) is not None and len(fields) > 2:
                    backoff[before[ngram[0]]] = _number(fields[2], where)
            elif ngram[0] != END and ngram[1] != BEGIN:
                key = before.get(ngram[0]), after.get(ngram[1])
                if None not in key:
                    seen[key] = _number(log_p, where)
        expect(not np.isnan(unigram).all(), f"{os.fspath(path)}:", "have words of the vocabulary",
               received="none of them")
        unigram = np.where(np.isnan(unigram), np.nanmin(unigram), unigram)
        keys = np.array(sorted(seen), np.int64).reshape(-1, 2)
        log_seen = np.array([seen[tuple(key)] for key in keys.tolist()], np.float64)
        starts = np.searchsorted(keys[:, 0], np.arange(len(words) + 1))
        columns = keys[:, 1].astype(np.int32)
        base = math.log(10)
        model = cls(base * unigram, base * backoff, starts, columns, base * log_seen)
        total = model.log_mass(np.ones(len(words), bool))
        return dataclasses.replace(
            model, log_backoff=model.log_backoff - total,
            log_seen=model.log_seen - total[model.first],
        )

    def write_arpa(self, path: str | os.PathLike, words: Sequence[str]) -> None:
        """Writes an ARPA file of order 2, in which `<eos>` is <s> or </s> by its place.

        Args:
            path: the file to write, UTF-8, compressed if it ends in .gz, .xz or .bz2.
            words: V str, the vocabulary, with `<eos>`.

        Raises:
            ValueError: the words are not V, `<eos>` is not among them, or <s>, </s> or <UNK> is.
        """
        words = list(words)
        expect(len(words) == self.vocab_size and EOS in words, "words",
               f"be {self.vocab_size} words with {EOS} among them",
               received=f"{len(words)} words, {EOS} {words.count(EOS)} times")
        check_no_marks(words)
        eos, base = words.index(EOS), math.log(10)
        # No word follows </s>, and no word is followed by <s>.
        before, after = ([tag if i == eos else w for i, w in enumerate(words)]
                         for tag in (BEGIN, END))
        backoff = [f"\t{b:.6f}" for b in self.log_backoff / base]
        with whole_files.writing(path) as file:
            file.write(f"\\data\\\nngram 1={len(words) + 1}\nngram 2={len(self.words)}\n")
            file.write(f"\n\\1-grams:\n-99\t{BEGIN}{backoff[eos]}\n")
            for i, log_p in enumerate(self.log_unigram / base):
                file.write(f"{log_p:.6f}\t{after[i]}{backoff[i] if i != eos else ''}\n")
            file.write("\n\\2-grams:\n")
            for v, w, log_p in zip(self.first, self.words, self.log_seen / base):
                file.write(f"{log_p:.6f}\t{before[v]} {after[w]}\n")
            file.write("\n\\end\\\n")

    @property
    def vocab_size(self) -> int:
        """V."""
        return len(self.log_unigram)

    @property
    def first(self) -> np.ndarray:
        """int64 (R,), the first word of each bigram that was seen."""
        return np.repeat(np.arange(self.vocab_size), np.diff(self.starts))

    @functools.cached_property
    def keys(self) -> np.ndarray:
        """int64 (R,), v V + w of each bigram that was seen, rising."""
        return self.first * self.vocab_size + self.words

    def log_prob(self, before: ArrayLike, words: ArrayLike) -> np.ndarray:
        """ln P(word | the word before it): float64 (...) for integers (...)."""
        before, words = np.broadcast_arrays(np.asarray(before, np.int64), words)
        result = self.log_backoff[before] + self.log_unigram[words]
        if not len(self.words):
            return result
        keys, wanted = self.keys, before * self.vocab_size + words
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[place] == wanted, self.log_seen[place], result)

    def log_mass(self, chosen: np.ndarray) -> np.ndarray:
        """ln Σ P(w | v) over the words that `chosen`, bool (V,), marks: float64 (V,), by v."""
        inside, first = chosen[self.words], self.first
        unigram = np.exp(self.log_unigram)
        seen, of_seen = (
            np.bincount(first[inside], values[inside], self.vocab_size)
            for values in (np.exp(self.log_seen), unigram[self.words])
        )
        unseen = np.maximum(unigram[chosen].sum() - of_seen, 0)
        return np.log(seen + np.exp(self.log_backoff) * unseen)

    def to_config(self) -> dict:
        """A dictionary that JSON can hold."""
        return {field.name: packed(getattr(self, field.name)) for field in dataclasses.fields(self)}

    @classmethod
    def from_config(cls, config: Mapping) -> "BackoffBigrams":
        """The model that `to_config` made a dictionary of."""
        arrays = {name: np.asarray(unpacked(value)) for name, value in config.items()}
        for name in ("starts", "words"):  # lists without elements have no type
            arrays[name] = arrays[name].astype(np.int64)
        return cls(**arrays)


NgramOption = BackoffBigrams | Mapping | str | os.PathLike  # a model, its configuration, or a file


def check_no_marks(words: Sequence[str]) -> None:
    """Raises ValueError if words are among those that mean something else in ARPA files."""
    marks = {BEGIN, *OTHER_SPELLINGS.values()}.intersection(words)
    expect(not marks, "words", f"not hold {BEGIN}, {END} or {OTHER_SPELLINGS[UNK]}, which in ARPA "
           "files are the ends of sentences and unknown words", received=", ".join(sorted(marks)))


def given_model(
    ngram: NgramOption, vocab_size: int, words: Sequence[str] | None = None
) -> BackoffBigrams:
    """The bigram model that an argument `ngram` stands for.

    Args:
        ngram: a `BackoffBigrams`, what its `to_config` returns, or the path of an ARPA file.
        vocab_size: V.
        words: V str, for a file.

    Raises:
        ValueError: it is none of these, or a model of another number of words.
        FileNotFoundError: there is no such file.
    """
    if isinstance(ngram, (str, os.PathLike)):
        check_exists("ngram", ngram, ["a BackoffBigrams"])
        words = needed("words", words, "ngram", ngram)
        ngram = BackoffBigrams.read_arpa(ngram, words)
    elif isinstance(ngram, Mapping):
        with refusing((KeyError, TypeError, ValueError), "ngram",
                      "be what `BackoffBigrams.to_config` returns",
                      before=f"keys {list(ngram)}, of which "):
            ngram = BackoffBigrams.from_config(ngram)
    expect(isinstance(ngram, BackoffBigrams), "ngram",
           "be a BackoffBigrams, its configuration, or the path of an ARPA file", ngram)
    expect(ngram.vocab_size == vocab_size, "ngram", f"be a model of {vocab_size} words",
           received=f"{ngram.vocab_size} words")
    return ngram


_BLANKS = " \t\r"  # words may hold other blanks of Unicode


def _arpa_entries(path):
    """Yields the order, the place and the fields of each n-gram in an ARPA file."""
    order = 0
    for where, line in textio.lines(path):
        line = line.strip(_BLANKS)
        if line.startswith("\\"):
            order = {"\\data\\": 0, "\\1-grams:": 1, "\\2-grams:": 2, "\\end\\": 0}.get(line)
            expect(order is not None, f"{where}:", "be a section of an ARPA file of order 2", line)
        elif line and order:
            fields = re.split(f"[{_BLANKS}]+", line)
            expect(len(fields) - order in (1, 2), f"{where}:", f"be a {order}-gram", line)
            yield order, where, fields


def _number(text, where):
    with contextlib.suppress(ValueError):
        if math.isfinite(number := float(text)):
            return number
    raise refusal(f"{where}:", "have a finite number", text)
