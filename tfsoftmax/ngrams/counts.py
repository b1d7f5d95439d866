"""Counts of neighbouring words, sparse: what Brown clustering reads of a corpus."""

import dataclasses
from collections.abc import Iterable

import numpy as np

from tfsoftmax.support.arguments import ArrayLike

MERGE_AT = 1 << 24  # bigrams that wait to be counted, 128 MiB


@dataclasses.dataclass(frozen=True, eq=False)
class Bigrams:
    """The distinct bigrams (v, w) of a corpus and how often each occurs.

    Attributes:
        vocab_size: V.
        successors: (starts (V+1,), words (R,), counts (R,)): the words that follow v, and how
            often, stand at starts[v] ... starts[v+1].
        predecessors: the same with the words that stand before w.

    Example:
        from tfsoftmax.ngrams.counts import Bigrams
        words, next_words = [0, 1, 0, 2], [1, 0, 2, 0]
        bigrams = Bigrams.count([(words, next_words)], vocab_size=3)
        (after, counts), _ = bigrams.row(0)  # the words 1 and 2 follow word 0, once each
    """

    vocab_size: int
    successors: tuple
    predecessors: tuple

    @classmethod
    def count(cls, batches: Iterable[tuple[ArrayLike, ArrayLike]], vocab_size: int) -> "Bigrams":
        """Counts pairs of neighbours.

        Args:
            batches: iterable of pairs of integer arrays of one shape: words, and the word that
                follows each.
            vocab_size: V.

        Returns:
            `Bigrams`.
        """
        keys, counts = np.empty(0, np.int64), np.empty(0, np.int64)
        waiting, size = [], 0
        for words, following in batches:
            pairs = np.asarray(words, np.int64).ravel() * vocab_size + np.ravel(following)
            waiting.append(pairs)
            size += len(pairs)
            if size >= MERGE_AT:
                keys, counts, waiting, size = *_merged(keys, counts, waiting), [], 0
        keys, counts = _merged(keys, counts, waiting)
        first, second = np.divmod(keys, vocab_size)
        backwards = np.argsort(second, kind="stable")
        return cls(
            vocab_size,
            _rows(first, second, counts, vocab_size),
            _rows(second[backwards], first[backwards], counts[backwards], vocab_size),
        )

    def row(self, word: int) -> tuple:
        """((words after, counts), (words before, counts)) of one word."""
        return tuple(
            (words[starts[word] : starts[word + 1]], counts[starts[word] : starts[word + 1]])
            for starts, words, counts in (self.successors, self.predecessors)
        )

    def totals(self) -> tuple[np.ndarray, np.ndarray]:
        """How often each word is the first, and the second, of a bigram: float64 (V,) each."""
        return tuple(
            np.diff(np.append(0.0, np.cumsum(counts))[starts])
            for starts, _, counts in (self.successors, self.predecessors)
        )

    def between(self, classes: np.ndarray, num_classes: int) -> np.ndarray:
        """How often class c is followed by class d: float64 (C, C)."""
        starts, words, counts = self.successors
        first = np.repeat(classes, np.diff(starts))
        keys = first * num_classes + classes[words]
        table = np.bincount(keys, counts, num_classes**2)
        return table.reshape(num_classes, num_classes)


def _merged(keys, counts, waiting):
    """Distinct keys, sorted, and their counts, with those of the waiting keys added."""
    fresh, numbers = np.unique(np.concatenate([keys[:0], *waiting]), return_counts=True)
    keys, index = np.unique(np.concatenate([keys, fresh]), return_inverse=True)
    return keys, np.bincount(index, np.concatenate([counts, numbers]), len(keys)).astype(np.int64)


def _rows(first, second, counts, vocab_size):
    starts = np.searchsorted(first, np.arange(vocab_size + 1))
    return starts, second.astype(np.int32), counts.astype(np.float64)
