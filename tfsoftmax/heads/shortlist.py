"""Shortlist: a softmax over frequent words; an n-gram model divides one score among the others."""

from collections.abc import Sequence
from typing import Unpack

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.distributions.rows import Rows
from tfsoftmax.distributions.shortlist import ShortlistAndTail
from tfsoftmax.heads.base import SoftmaxHead
from tfsoftmax.heads.options import HeadOptions
from tfsoftmax.ngrams.backoff import NgramOption, given_model
from tfsoftmax.ngrams.previous_word import UNITS
from tfsoftmax.ngrams.tables import BigramTables
from tfsoftmax.partitions.bands import frequency_order
from tfsoftmax.support.arguments import ArrayLike, expect
from tfsoftmax.support.counts import checked_counts, with_unseen
from tfsoftmax.support.packing import packed


@keras.saving.register_keras_serializable(package="tfsoftmax")
class Shortlist(SoftmaxHead):
    """A softmax over the S most frequent words, with one more node for all others.

        P(w | h) = softmax(z)_w                          for a word of the shortlist,
                   softmax(z)_OOS · q(w | v) / Q(v)      for any other, Q(v) = Σ_tail q(u | v),

    This is a distribution over the whole vocabulary, so its perplexity is exact and comparable with
    that of any other head. q is the unigram distribution, one that you pass, or, with `ngram`, a
    bigram model given the last word v that was read. Words may have any ids.

    With `ngram`, the last four units of the hidden states carry v; `ngrams.previous_word`
    puts it there, and `tfsoftmax train` does so automatically. XLA then does not compile the head.

    Args:
        vocab_size: V, the number of words.
        shortlist: S, the number of words that have a score of their own, below V.
        counts: (V,) numbers >= 0, occurrences of each word, which rank the words and are the
            unigram distribution. A word of count zero is counted as often as the rarest word
            that was seen, so that every label has a probability.
        tail_log_probs: (V,) finite numbers, ln q(w) up to a constant, instead of the unigram.
            Those of the shortlist matter only without the node.
        permutation: (V,) word ids by descending frequency, which overrides the order of the counts;
            `"ids"` says that the ids are sorted so. There is a warning if the counts disagree.
        oos_node: whether the softmax has the node. Without it, P(w | h) = P_S(v) softmax(z)_w for
            the shortlist and q(w | v) for the others, with P_S(v) = Σ_shortlist q(u | v), and only
            positions whose label is in the shortlist train the layer.
        ngram: q(w | v): a `ngrams.backoff.BackoffBigrams`, what its `to_config` returns, or
            the path of an ARPA file of order 2, such as KenLM's `lmplz -o 2` writes. None for a
            q(w) without history.
        words: the V words in the order of their ids, for a file.
        **kwargs: options of the weights and of the layer, `heads.options.HeadOptions`. The kernel
            is (S + 1, D), without the node (S, D).

    Example:
        counts = [1_000_000 // rank for rank in range(1, 1001)]
        hidden, labels = keras.random.normal((8, 64)), keras.random.randint((8,), 0, 1000)
        head = tfsoftmax.Shortlist(1000, shortlist=100, counts=counts)
        nats = head.training_loss(hidden, labels)

    Source: Müller 2017, eq. 2.10 (Park et al. 2010), and without the node eq. 2.8 and 2.9
    (Schwenk 2007), whose history H is the last word. Departure: without `ngram`, q has no history.
    Training with the node does not depend on q, so that longer histories can be left to evaluation:
    `tfsoftmax evaluate --tail_ngram` for eq. 2.10, and `log_prob`, which takes any shares.
    """

    saved_options = ("shortlist", "oos_node", "ngram")
    trains_exactly = True

    def __init__(
        self, vocab_size: int, shortlist: int, counts: ArrayLike | None = None,
        tail_log_probs: ArrayLike | None = None, permutation: ArrayLike | str | None = None,
        oos_node: bool = True, ngram: NgramOption | None = None,
        words: Sequence[str] | None = None, **kwargs: Unpack[HeadOptions],
    ):
        super().__init__(vocab_size, **kwargs)
        expect(1 <= shortlist < vocab_size, "shortlist", f"lie in [1, {vocab_size})", shortlist)
        self.shortlist = int(shortlist)
        self.counts = counts
        self.tail_log_probs = tail_log_probs
        self.permutation = permutation
        self.oos_node = bool(oos_node)
        self.order = frequency_order(self.vocab_size, counts, permutation)
        self.ngram = None if ngram is None else given_model(ngram, self.vocab_size, words)
        if self.ngram is None:
            log_u = _log_unigram(self.vocab_size, counts, tail_log_probs)[self.order.ids]
            self._extra_by_rank = _extra_log_probs(log_u, self.shortlist, self.oos_node)
        else:
            absent = tail_log_probs is None
            expect(absent, "tail_log_probs", "be None with `ngram`", received="an array")
        self.supports_jit = self.ngram is None

    @property
    def reads_previous_word(self) -> bool:
        """Whether the last units of the hidden states carry the word that was read last."""
        return self.ngram is not None

    @property
    def tail(self) -> np.ndarray:
        """The words outside the shortlist, by descending frequency: int32 (V - S,)."""
        return self.order.ids[self.shortlist :]

    @property
    def tail_log_shares(self) -> np.ndarray:
        """ln (q(w) / Q) of the words of `tail`, float64 (V - S,), with the node and no `ngram`."""
        return self._extra_by_rank[self.shortlist :]

    def build(self, hidden_shape):
        super().build(hidden_shape)
        rows = self.shortlist + self.oos_node
        units = hidden_shape[-1] - (UNITS if self.reads_previous_word else 0)
        rule = f"have more than {UNITS} units with `ngram`: the last ones carry the word before"
        expect(units >= 1, "hidden", rule, received=f"hidden of shape {tuple(hidden_shape)}")
        self.kernel, self.bias = self._kernel_and_bias(rows, units)
        self._extra = self._likeliest_tail = self._bigrams = None
        with tf.init_scope():
            if self.reads_previous_word:
                self._bigrams = BigramTables.of(self.ngram, self.tail, self.oos_node)
                return
            tail = np.argsort(-self._extra_by_rank[self.shortlist :], kind="stable")
            self._extra = tf.constant(self._extra_by_rank, tf.float32)
            self._likeliest_tail = tf.constant(tail + self.shortlist, tf.int32)

    def log_prob(
        self, hidden: ArrayLike, labels: ArrayLike, tail_log_prob: ArrayLike | None = None,
        mask: ArrayLike | None = None,
    ) -> tf.Tensor:
        """Exact log-probability of each label, with an n-gram model's shares if you have one.

        Args:
            hidden: (..., D) float.
            labels: (...) integers.
            tail_log_prob: (...) float32, ln of P_NGRAM(label | history) / Σ_tail
                P_NGRAM(w | history) for this position's history, of an n-gram model of any
                order, KenLM's for example; read where the label is not in the shortlist. None:
                those of the constructor's arguments.
            mask: (...) bool; where it is False the result is zero. None: it is computed everywhere.

        Returns:
            (...) float32.

        Raises:
            ValueError: if the shares are given to a head without the node.
        """
        if tail_log_prob is None:
            return super().log_prob(hidden, labels, mask)
        rule = "be None with oos_node=False"
        expect(self.oos_node, "tail_log_prob", rule, received="a tensor")
        known = super().log_prob(hidden, labels, mask)
        labels = tf.cast(labels, tf.int32)
        _, (_, extra) = self.distribution().targets(self._as_hidden(hidden), labels)
        in_tail = self.order.rank(labels) >= self.shortlist
        if mask is not None:
            in_tail &= tf.cast(mask, tf.bool)
        return tf.where(in_tail, known - extra + tf.cast(tail_log_prob, tf.float32), known)

    def distribution(self):
        return ShortlistAndTail(
            Rows(*self._parameters()), self.shortlist, self.order, self._extra,
            self._likeliest_tail, self._bigrams,
        )

    def get_config(self):
        return {
            **super().get_config(),
            "counts": packed(self.counts),
            "tail_log_probs": packed(self.tail_log_probs),
            "permutation": packed(self.permutation),
        }


def _log_unigram(vocab_size, counts, tail_log_probs):
    """ln u(w) of each word by its id, normalised, (V,) float64."""
    if tail_log_probs is not None:
        log_u = np.asarray(tail_log_probs)
        log_u = log_u.astype(np.float64) if log_u.dtype.kind in "iuf" else np.empty(())
        finite = np.isfinite(log_u).sum()
        expect(log_u.shape == (vocab_size,) and finite == vocab_size, "tail_log_probs",
               f"be one finite number for each word, shape ({vocab_size},)",
               received=f"shape {log_u.shape}, of which {finite} finite")
    else:
        given = counts is not None
        expect(given, "`counts` or `tail_log_probs`", "be given", received="neither")
        log_u = np.log(with_unseen(checked_counts(counts, vocab_size)).astype(np.float64))
    return log_u - np.logaddexp.reduce(log_u)


def _extra_log_probs(log_u, shortlist, oos_node):
    """What is added to the log-probability of a word's node, by the word's rank: (V,)."""
    extra = log_u.copy()
    extra[:shortlist] = 0.0 if oos_node else np.logaddexp.reduce(log_u[:shortlist])
    if oos_node:
        extra[shortlist:] -= np.logaddexp.reduce(log_u[shortlist:])
    return extra
