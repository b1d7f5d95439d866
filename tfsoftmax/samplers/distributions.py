"""Proposal distributions that do not change in training: uniform, log-uniform, unigram."""

import math
import warnings

import numpy as np
import tensorflow as tf

from tfsoftmax.ops.graphs import held
from tfsoftmax.ops.random import random_bits, uniform, uniform_words
from tfsoftmax.samplers.alias_table import alias_table, cells, integer_weights
from tfsoftmax.samplers.base import Sampler
from tfsoftmax.samplers.by_name import register
from tfsoftmax.support.arguments import ArrayLike, expect
from tfsoftmax.support.counts import checked_counts, with_unseen


@register("uniform")
class Uniform(Sampler):
    """q(w) = 1 / V.

    Args:
        vocab_size: V.
        unique, **kwargs: as in `Sampler`.

    Example:
        sampler = tfsoftmax.samplers.Uniform(1000)
        sample = sampler.sample(labels=[3, 5], num_samples=50, seed=0)
        head = tfsoftmax.SampledSoftmax(1000, 50, sampler)
        head = tfsoftmax.SampledSoftmax(1000, 50, "uniform")  # the same

    Source: Müller 2017, table 3.1.
    """

    def log_q(self, ids):
        return tf.fill(tf.shape(ids), np.float32(-math.log(self.vocab_size)))

    def _draw(self, count, seed):
        return uniform_words(count, self.vocab_size, seed)


@register("log_uniform")
class LogUniform(Sampler):
    """q(w) = ln((w + 2) / (w + 1)) / ln(V + 1): Zipf's law for ids sorted by descending frequency.

    Args:
        vocab_size: V.
        counts: None, or (V,) occurrences of each word. There is a warning if they do not fall.
        **kwargs: as in `Sampler`.

    Raises:
        ValueError: if `counts` are not V finite numbers >= 0, or all are zero.

    Example:
        sampler = tfsoftmax.samplers.LogUniform(1000, unique=True)
        sample = sampler.sample(labels=[3, 5], num_samples=50, seed=0)
        head = tfsoftmax.SampledSoftmax(1000, 50, sampler)
        head = tfsoftmax.SampledSoftmax(1000, 50, "log_uniform", sampler_options={"unique": True})

    Source: Müller 2017, table 3.1.
    """

    def __init__(self, vocab_size: int, counts: ArrayLike | None = None, **kwargs):
        super().__init__(vocab_size, **kwargs)
        if counts is not None and np.any(np.diff(checked_counts(counts, vocab_size)) > 0):
            warnings.warn(
                "`counts` do not fall with the word id, but the log-uniform proposal takes the "
                "id for the frequency rank: it will rarely sample frequent words with high ids. "
                "Use the unigram proposal, or sort the ids by falling frequency.",
                stacklevel=2,
            )

    def log_q(self, ids):
        rank = tf.cast(ids, tf.float32)
        scale = np.float32(math.log(math.log(self.vocab_size + 1)))
        return tf.math.log(tf.math.log1p(1 / (rank + 1))) - scale

    def _draw(self, count, seed):
        height = tf.exp(uniform([count], seed) * math.log(self.vocab_size + 1))
        return tf.clip_by_value(tf.cast(height, tf.int32) - 1, 0, self.vocab_size - 1)


@register("unigram")
class Unigram(Sampler):
    """q(w) proportional to count(w)^alpha, drawn from an alias table.

    A word of count zero is counted as often as the rarest word that was seen, so that every label
    has q > 0; use `Excluding` for words that must never be drawn. The table consists of integers,
    and `log_q` gives the probabilities with which it draws.

    Args:
        vocab_size: V.
        counts: (V,) numbers >= 0 in the order of the word ids, which may be any order.
        alpha: distortion, from 0 (uniform) to 1 (unigram).
        **kwargs: as in `Sampler`.

    Raises:
        ValueError: if `counts` are not V finite numbers >= 0, if all are zero, or if `alpha` lies
            outside [0, 1].

    Example:
        sampler = tfsoftmax.samplers.Unigram(4, counts=[50, 30, 15, 5], alpha=0.75)
        print(keras.ops.exp(sampler.log_q([0, 1, 2, 3])))  # the probabilities of the four words
        head = tfsoftmax.SampledSoftmax(4, num_samples=2, sampler=sampler)
        head = tfsoftmax.SampledSoftmax(4, 2, "unigram", counts=[50, 30, 15, 5])  # alpha=1

    Source: Müller 2017, section 5.2.2; Mikolov et al. 2013 (distortion); Walker 1977 (alias).
    """

    saved_options = ("counts", "alpha")

    def __init__(self, vocab_size: int, counts: ArrayLike, alpha: float = 1.0, **kwargs):
        super().__init__(vocab_size, **kwargs)
        expect(0 <= alpha <= 1, "alpha", "lie in [0, 1]", alpha)
        self.counts = checked_counts(counts, vocab_size)
        self.alpha = alpha
        scaled = integer_weights(with_unseen(self.counts).astype(np.float64) ** alpha)
        capacity = cells(vocab_size) * 2.0**32
        threshold, alias = alias_table(scaled)
        with tf.init_scope():
            self._log_q = tf.constant(np.log(scaled / capacity), tf.float32)
            self._threshold, self._alias = tf.constant(threshold), tf.constant(alias)

    def log_q(self, ids):
        return tf.gather(held(self._log_q), ids)

    def _draw(self, count, seed):
        bits = random_bits([count], seed)
        cell = bits & (cells(self.vocab_size) - 1)
        stays = tf.bitwise.right_shift(bits, 32) < tf.cast(
            tf.gather(self._threshold, cell), tf.int64
        )
        return tf.where(stays, tf.cast(cell, tf.int32), tf.gather(self._alias, cell))
