"""A learned unigram, and a unigram interpolated with the uniform distribution (equation 5.1)."""

from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.ops.random import split_seed, uniform, uniform_words
from tfsoftmax.ops.replicas import add_state, gathered_rows, labels_of_all_replicas, own_copy
from tfsoftmax.ops.saved_arrays import array_of
from tfsoftmax.samplers.alias_table import cells
from tfsoftmax.samplers.base import Sampler
from tfsoftmax.samplers.by_name import register
from tfsoftmax.samplers.distributions import Unigram
from tfsoftmax.support.arguments import ArrayLike, expect, is_number, refusing


@register("learned_unigram")
class LearnedUnigram(Sampler):
    """q(w) proportional to 1 + the number of times `update` has seen w.

    The counts are the leaves of a binary tree of sums in one variable. A draw descends the tree
    and an update adds along the paths of the labels; both take O(log V) for each word. float64
    holds counts exactly up to 2^53. The labels of all replicas of a strategy count. Positions of
    weight zero, such as those that a mask or `ignore_class` leaves out, do not count, unless the
    loss is that of `training_loss` without a `mask`.

    Args:
        vocab_size: V.
        **kwargs: arguments of `Sampler`, such as `unique`.

    Example:
        sampler = tfsoftmax.samplers.LearnedUnigram(1000)
        sampler.update([3, 3, 5])
        print(keras.ops.exp(sampler.log_q([3, 5, 7])) * 1003)  # 3, 2 and 1
        head = tfsoftmax.SampledSoftmax(1000, num_samples=50, sampler=sampler)

    Source: Müller 2017, table 3.1; TensorFlow's learned unigram sampler, which has the same q but
        gives no access to its counts, and learns from every call for a sample.
    """

    def __init__(self, vocab_size: int, **kwargs):
        super().__init__(vocab_size, **kwargs)
        self.sums = add_state(
            self, "sums", (2 * cells(vocab_size),), "float64",
            lambda shape, dtype: tf.constant(_sum_tree(np.ones(vocab_size)), dtype),
        )

    def log_q(self, ids):
        count = gathered_rows(self.sums.value, tf.cast(ids, tf.int64) + cells(self.vocab_size))
        return tf.cast(tf.math.log(count / self._total()), tf.float32)

    def update(self, labels):
        if not self.trainable:
            return
        labels = labels_of_all_replicas(tf.reshape(self._checked(labels, least=-1), [-1]))
        leaves = tf.maximum(tf.cast(labels, tf.int64), 0) + cells(self.vocab_size)
        depth = cells(self.vocab_size).bit_length()
        paths = [tf.bitwise.right_shift(leaves, np.int64(level)) for level in range(depth)]
        nodes = tf.concat(paths, 0)
        seen = tf.tile(tf.cast(labels >= 0, tf.float64), [depth])  # below zero is no label
        ones = tf.IndexedSlices(seen, nodes)
        own_copy(self.sums.value).scatter_add(ones)  # all replicas have the same labels

    def take_over(self, old, renumbering):
        leaves = array_of(old.sums)[cells(old.vocab_size) :][: old.vocab_size]
        self.sums.assign(_sum_tree(renumbering.rows(leaves, 1)))

    def _draw(self, count, seed):
        total = self._total()
        rest = tf.minimum(tf.floor(uniform([count], seed) * total), total - 1)
        node = tf.ones([count], tf.int64)
        for _ in range(cells(self.vocab_size).bit_length() - 1):
            left = gathered_rows(self.sums.value, 2 * node)
            right = rest >= left
            rest -= tf.where(right, left, 0)
            node = 2 * node + tf.cast(right, tf.int64)
        return tf.cast(node - cells(self.vocab_size), tf.int32)

    def _total(self):
        return gathered_rows(self.sums.value, 1)

    def _typical_q(self):
        return _zipf(self.vocab_size)  # not the counts so far, which will change


@register("interpolated")
class Interpolated(Unigram):
    """q(w) = λ unigram(w) + (1 - λ) / V.

    Args:
        vocab_size: V.
        counts: (V,) numbers >= 0.
        unigram_weight: λ in [0, 1], or a function that returns it for a training step, such as
            `keras.optimizers.schedules.PolynomialDecay(0.8, 20000, end_learning_rate=1.0)`. Its
            results are clipped to [0, 1]. `update` counts the steps. A schedule may also be given
            in the form {"class_name": ..., "config": {...}} in which Keras writes it to JSON.
        **kwargs: as in `Unigram`.

    Raises:
        ValueError: as in `Unigram`, and if `unigram_weight` is neither a number in [0, 1] nor a
            function.

    Example:
        schedule = keras.optimizers.schedules.PolynomialDecay(0.8, 100, end_learning_rate=1.0)
        sampler = tfsoftmax.samplers.Interpolated(4, [50, 30, 15, 5], unigram_weight=schedule)
        print(sampler.weight())  # 0.8 at the first step
        head = tfsoftmax.SampledSoftmax(4, num_samples=2, sampler=sampler)

    Source: Müller 2017, equation 5.1.
    """

    saved_options = ("unigram_weight",)

    def __init__(
        self, vocab_size: int, counts: ArrayLike,
        unigram_weight: float | Callable | dict = 0.95, **kwargs,
    ):
        super().__init__(vocab_size, counts, **kwargs)
        if isinstance(unigram_weight, dict):
            wrong = TypeError, ValueError, KeyError, AttributeError
            rule = "be a schedule as Keras writes it to JSON, if it is a dict"
            received = f"unigram_weight={unigram_weight!r}, "
            with refusing(wrong, "unigram_weight", rule, before=received):
                unigram_weight = keras.optimizers.schedules.deserialize(unigram_weight)
        number = is_number(unigram_weight) and 0 <= unigram_weight <= 1
        expect(number or callable(unigram_weight), "unigram_weight",
               "lie in [0, 1] or be a function of the step", unigram_weight)
        self.unigram_weight = unigram_weight
        self.step = add_state(self, "step", (), "int64") if callable(unigram_weight) else None

    def weight(self) -> tf.Tensor:
        """λ at the current step, scalar float32."""
        if self.step is None:
            return tf.constant(self.unigram_weight, tf.float32)
        weight = tf.cast(self.unigram_weight(self.step.value), tf.float32)
        return tf.clip_by_value(weight, 0.0, 1.0)

    def log_q(self, ids):
        weight = self.weight()
        unigram = tf.exp(super().log_q(ids))
        return tf.math.log(weight * unigram + (1 - weight) / self.vocab_size)

    def update(self, labels):
        if self.step is not None and self.trainable:
            self.step.assign_add(1)

    def _draw(self, count, seed):
        coin_seed, unigram_seed, uniform_seed = split_seed(seed, 3)
        from_unigram = uniform([count], coin_seed) < tf.cast(self.weight(), tf.float64)
        return tf.where(
            from_unigram,
            super()._draw(count, unigram_seed),
            uniform_words(count, self.vocab_size, uniform_seed),
        )

    def _typical_q(self):
        # With the uniform distribution mixed in, fewer draws bring as many different words.
        return np.exp(self._log_q.numpy().astype(np.float64))


def _sum_tree(counts):
    """(2P,) float64: node n sums its children 2n and 2n + 1; a word is leaf P + w."""
    width = cells(len(counts))
    sums = np.zeros(2 * width)
    sums[width : width + len(counts)] = counts
    while width > 1:
        sums[width // 2 : width] = sums[width : 2 * width].reshape(-1, 2).sum(1)
        width //= 2
    return sums


def _zipf(vocab_size):
    weights = 1 / np.arange(1, vocab_size + 1)
    return weights / weights.sum()
