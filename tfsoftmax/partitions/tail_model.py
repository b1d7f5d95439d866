"""How the words outside a shortlist share their probability, given the word before them."""

import numpy as np
from numpy.typing import ArrayLike

from tfsoftmax.partitions.counts import checked_counts, with_unseen
from tfsoftmax.partitions.ngram_counts import Bigrams


class TailBigrams:
    """A bigram model of the tail only, which gives `Shortlist` the shares of eq. 2.10.

        P(w | v) = (max(c(v, w) - δ, 0) + δ n(v) u(w)) / c(v)      for w in the tail,

    with c(v, w) bigrams, c(v) = Σ_tail c(v, w), n(v) different words of the tail after v, and the
    unigram u(w) over the tail, which stands alone where c(v) = 0. It sums to one over the tail,
    so that perplexity over the whole vocabulary stays exact:

        bigrams = TailBigrams(Bigrams.count(batches, V), counts, head.tail)
        head.log_prob(hidden, labels, tail_log_prob=bigrams.log_prob(words, labels))

    Args:
        bigrams: `Bigrams` of the training text.
        counts: (V,) numbers >= 0, occurrences of each word; those of count zero are counted as
            often as the rarest word that was seen.
        tail: integers, the ids of the words outside the shortlist.
        discount: δ, in (0, 1].

    Example:
        from tfsoftmax.partitions import ngram_counts, tail_model
        bigrams = ngram_counts.Bigrams.count([([0, 2, 0, 3], [2, 0, 3, 0])], vocab_size=4)
        model = tail_model.TailBigrams(bigrams, counts=[4, 3, 2, 1], tail=[2, 3])
        shares = model.log_prob(words=[0, 0], labels=[2, 3])  # ln P(label | word) in the tail

    Source: Müller 2017, eq. 2.10 (Park et al. 2010); Ney et al. 1994 (absolute discounting).
    """

    def __init__(
        self, bigrams: Bigrams, counts: ArrayLike, tail: ArrayLike, discount: float = 0.75
    ):
        if not 0 < discount <= 1:
            raise ValueError(f"`discount` must lie in (0, 1]. Received: discount={discount}")
        self.vocab_size = bigrams.vocab_size
        self.discount = discount
        self.in_tail = np.zeros(self.vocab_size, bool)
        self.in_tail[tail] = True
        counts = with_unseen(checked_counts(counts, self.vocab_size)).astype(np.float64)
        self.unigram = np.where(self.in_tail, counts, 0) / counts[self.in_tail].sum()
        starts, words, times = bigrams.successors
        first = np.repeat(np.arange(self.vocab_size), np.diff(starts))
        kept = self.in_tail[words]
        first, words, self._times = first[kept], words[kept], times[kept]
        self._keys = first * self.vocab_size + words  # sorted, as a row's words are
        self._sums = np.bincount(first, self._times, self.vocab_size)
        self._kinds = np.bincount(first, minlength=self.vocab_size)

    def log_prob(self, words: ArrayLike, labels: ArrayLike) -> np.ndarray:
        """ln P(label | word before it) within the tail.

        Args:
            words: (...) integers, the word before each label.
            labels: (...) integers.

        Returns:
            (...) float32, nats; zero for labels of the shortlist, which the model does not cover.
        """
        words, labels = np.asarray(words, np.int64), np.asarray(labels, np.int64)
        sums = self._sums[words]
        seen = np.maximum(self._count(words, labels) - self.discount, 0)
        rest = self.discount * self._kinds[words] * self.unigram[labels]
        known = (seen + rest) / np.maximum(sums, 1)
        shares = np.where(sums > 0, known, self.unigram[labels])
        return np.log(np.where(self.in_tail[labels], shares, 1)).astype(np.float32)

    def _count(self, words, labels):
        """How often each label followed its word, (...) float64."""
        if not len(self._keys):
            return np.zeros(words.shape)
        keys = words * self.vocab_size + labels
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[place] == keys, self._times[place], 0)
