"""Proposal distributions that depend on the word that a position has read last."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfsoftmax.ngrams.backoff import NgramOption, given_model
from tfsoftmax.ngrams.previous_word import UNITS, without_word
from tfsoftmax.ngrams.tables import places_of
from tfsoftmax.ops.graphs import held
from tfsoftmax.ops.random import split_seed, uniform
from tfsoftmax.samplers.base import Candidates, Sampler, stateless
from tfsoftmax.samplers.by_name import register
from tfsoftmax.samplers.distributions import Unigram
from tfsoftmax.samplers.rows import cumulative, draw
from tfsoftmax.support.arguments import expect


class AfterWord(Sampler):
    """A proposal q(w | v), from which every position draws its own words, with replacement.

    A head with such a sampler needs `shared_samples=False`. Its hidden states carry the word v
    in their last units: `ngrams.previous_word` puts it there. XLA does not compile it. A subclass
    writes `log_q`, `log_qs` and `_draw_after`, and `update` if its distribution changes.

    Args:
        vocab_size: V.
        **kwargs: as in `keras.layers.Layer`.

    Example:
        from tfsoftmax.ngrams.backoff import BackoffBigrams
        from tfsoftmax.ngrams.counts import Bigrams
        seen = Bigrams.count([([0, 2, 0, 3], [2, 0, 3, 0])], vocab_size=4)
        ngram = BackoffBigrams.from_counts(seen, counts=[4, 3, 2, 1])
        sampler = tfsoftmax.samplers.Bigram(4, ngram)
        assert isinstance(sampler, tfsoftmax.samplers.after_word.AfterWord)
    """

    units = UNITS
    decided_options = ("unique",)

    def __init__(self, vocab_size: int, **kwargs):
        super().__init__(vocab_size, unique=False, **kwargs)
        self.supports_jit = False  # a search in a sorted array compares with all of it under XLA

    def check_use(self, *, shared_samples=True, **options):
        expect(not shared_samples, "shared_samples",
               "be False for a sampler that depends on the word before", shared_samples)
        super().check_use(shared_samples=False, **options)

    def sample(self, labels, num_samples, seed):
        self.check_use()

    def split(self, hidden):
        hidden, before = without_word(hidden)
        return hidden, [before]

    def observe(self, before: tf.Tensor, ids: tf.Tensor, shares: tf.Tensor) -> None:
        """Adapts the distribution to what a step has found, if it changes.

        Args:
            before: (N,) int32, the word v before each position, or -1 to leave the position out.
            ids: (N, C) int32, the words whose scores the step has computed.
            shares: (N, C) float32, their softmax.
        """

    def sample_for_each(
        self, labels: tf.Tensor, num_samples: int, seed: int | tf.Tensor, before: tf.Tensor
    ) -> Candidates:
        """Draws S words for each label separately, with replacement.

        Args:
            labels: (N,) integers.
            num_samples: S.
            seed: as in `sample`.
            before: (N,) integers, the words v.

        Returns:
            `Candidates` with ids (N, S), log_expected (N, S) and log_expected_labels (N,).
        """
        self.check_size(num_samples)
        labels, before = self._checked(labels), self._checked(before, "before")
        ids = self._draw_after(before, num_samples, stateless(seed))
        log_size = np.float32(np.log(num_samples))
        log_q = [self.log_q(ids, before[:, None]), self.log_q(labels, before)]
        return Candidates(ids, *(each + log_size for each in log_q))

    def log_q(self, ids: tf.Tensor, before: tf.Tensor) -> tf.Tensor:
        """ln q(w | v): float32 for words (N,) or (N, S), and those before them, (N,) or (N, 1)."""
        raise NotImplementedError

    def log_qs(self, before: tf.Tensor) -> tf.Tensor:
        """ln q(w | v) of all words: (N, V) float32 for the words before (N,)."""
        raise NotImplementedError

    def _draw_after(self, before, count, seed):
        """Words (N, count) int32 after each of the words (N,), by a stateless seed (2,)."""
        raise NotImplementedError


@register("bigram")
class Bigram(AfterWord):
    """q(w | v) = (1 - β(v)) s(w | v) + β(v) u(w): words seen after v, and a unigram distribution.

    s and β are those of a bigram model with backoff whose P(w | v) = (1 - β) s + β u, such as
    absolute discounting or Kneser-Ney smoothing, interpolated. If a model that is not interpolated
    gives a seen word less than β u, s leaves that word out. After a word that was never seen, q is
    u.

    A draw and `log_q` are binary searches among the R bigrams that were seen, which take 20 bytes
    each. `log_q` gives the probabilities with which words are drawn.

    Args:
        vocab_size: V.
        ngram: a `ngrams.backoff.BackoffBigrams`, what its `to_config` returns, or the path of
            an ARPA file of order 2.
        unigram_weight: β in (0, 1] for all v that were seen, or None for the model's own.
        alpha: distortion of the unigram, which is u^α up to a factor, from 0 (uniform) to 1.
        words: the V words in the order of their ids, for a file.
        **kwargs: as in `keras.layers.Layer`.

    Raises:
        ValueError: if `ngram` is not a model of V words, or `unigram_weight` lies outside (0, 1],
            or `alpha` outside [0, 1].

    Example:
        from tfsoftmax.ngrams import backoff, counts as ngram_counts
        seen = ngram_counts.Bigrams.count([([0, 2, 0, 3], [2, 0, 3, 0])], vocab_size=4)
        ngram = backoff.BackoffBigrams.from_counts(seen, counts=[4, 3, 2, 1])
        head = tfsoftmax.NCE(4, 2, "bigram", ngram=ngram, shared_samples=False)

    Source: Bengio and Senécal 2003 and 2008 (interpolated bigrams); Labeau and Allauzen 2017
    (bigram noise); Müller 2017, sections 2.2.3.1 and 2.2.3.2.
    """

    saved_options = ("ngram", "unigram_weight", "alpha")

    def __init__(
        self, vocab_size: int, ngram: NgramOption,
        unigram_weight: float | None = None, alpha: float = 1.0,
        words: Sequence[str] | None = None, **kwargs,
    ):
        super().__init__(vocab_size, **kwargs)
        right = unigram_weight is None or 0 < unigram_weight <= 1
        expect(right, "unigram_weight", "lie in (0, 1]", unigram_weight)
        self.ngram = given_model(ngram, self.vocab_size, words)
        self.unigram_weight, self.alpha = unigram_weight, alpha
        self.unigram = Unigram(vocab_size, np.exp(self.ngram.log_unigram), alpha)
        ends, q, weight = _seen_and_backoff(self.ngram)
        if unigram_weight is not None:
            weight = np.where(weight < 1, unigram_weight, 1.0)
        with tf.init_scope():
            self._keys, self._starts = tf.constant(self.ngram.keys), tf.constant(self.ngram.starts)
            self._ends, self._seen_q = tf.constant(ends), tf.constant(q, tf.float32)
            self._weight = tf.constant(weight, tf.float32)

    def log_q(self, ids, before):
        keys, seen_q, weights = held((self._keys, self._seen_q, self._weight))
        weight = tf.gather(weights, before)
        q = weight * tf.exp(self.unigram.log_q(ids))
        if keys.shape[0]:
            place, known = places_of(keys, self.vocab_size, before, ids)
            q += tf.where(known, (1 - weight) * tf.gather(seen_q, place), 0.0)
        return tf.math.log(q)

    def log_qs(self, before):
        keys, starts, seen_q = held((self._keys, self._starts, self._seen_q))
        weight = tf.gather(held(self._weight), before)[:, None]
        q = weight * tf.exp(self.unigram.log_q(tf.range(self.vocab_size)))
        seen = tf.ragged.range(tf.gather(starts, before), tf.gather(starts, before + 1))
        rows = seen.value_rowids()
        words = tf.gather(keys, seen.values) % self.vocab_size
        of_seen = tf.gather(1 - weight[:, 0], rows) * tf.gather(seen_q, seen.values)
        shape = tf.shape(q, out_type=tf.int64)
        return tf.math.log(q + tf.scatter_nd(tf.stack([rows, words], 1), of_seen, shape))

    def _draw_after(self, before, count, seed):
        coin_seed, unigram_seed, seen_seed = split_seed(seed, 3)
        before = tf.repeat(before[:, None], count, axis=1)
        shape = tf.shape(before)
        words = tf.reshape(self.unigram._draw(tf.size(before), unigram_seed), shape)
        if not self._keys.shape[0]:
            return words
        place = draw(self._ends, before, seen_seed)
        seen = tf.cast(tf.gather(self._keys, place) % self.vocab_size, tf.int32)
        weight = tf.cast(tf.gather(self._weight, before), tf.float64)
        return tf.where(uniform(shape, coin_seed) < weight, words, seen)


def _seen_and_backoff(ngram):
    """The parts s and β of a model: ends and s (R,) of `cumulative`, and β (V,), all float64."""
    first, backoff = ngram.first, np.exp(ngram.log_backoff)
    excess = np.exp(ngram.log_seen) - backoff[first] * np.exp(ngram.log_unigram[ngram.words])
    excess = np.maximum(excess, 0)
    mass = np.bincount(first, excess, ngram.vocab_size)
    weight = np.where(mass > 0, backoff / (backoff + mass), 1.0)  # 1 where nothing was seen
    return *cumulative(first, excess, ngram.vocab_size), weight
