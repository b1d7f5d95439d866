"""Class-based softmax whose two factors are trained by noise contrastive estimation."""

import math
from collections.abc import Sequence
from typing import Unpack

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.distributions.base import NatsOf
from tfsoftmax.distributions.sampled import sampled_loss
from tfsoftmax.heads.class_based import ClassSoftmax
from tfsoftmax.heads.options import HeadOptions
from tfsoftmax.heads.random_state import RandomState
from tfsoftmax.ops.criteria import logistic
from tfsoftmax.ops.logits import rows_of
from tfsoftmax.partitions.classes import ClassesOption
from tfsoftmax.samplers import Candidates, Unigram
from tfsoftmax.samplers.rows import cumulative, draw
from tfsoftmax.support.arguments import ArrayLike, check_positive
from tfsoftmax.support.counts import checked_counts, with_unseen


@keras.saving.register_keras_serializable(package="tfsoftmax")
class ClassNCE(ClassSoftmax):
    """P(w | h) = P(class of w | h) · P(w | h, class of w), each trained by NCE instead of softmax.

        loss = NCE of the label's class against k sampled classes, shared by all positions
             + NCE of the label against k words sampled from its class, for each position

    with the unigram distribution of classes, and that of words within a class, as noise. Z is the
    number of classes, and the size of the class, so that scores near zero begin as a distribution.
    The cost of a step does not depend on the sizes of the classes. XLA does not compile the head,
    because each position has its own samples. Outside training the distribution is exactly that of
    `ClassSoftmax`, with the same kernel.

    Args:
        vocab_size: V, the number of words.
        num_samples: k.
        counts: (V,) occurrences of the words, for the noise and for classes by frequency. None
            counts every word once: classes are drawn in proportion to their sizes.
        seed: seed of the samples.
        classes, num_classes, words, binning: as in `ClassSoftmax`.
        **kwargs: options of the weights and of the layer, `heads.options.HeadOptions`.

    Example:
        counts = [1_000_000 // rank for rank in range(1, 1001)]
        hidden, labels = keras.random.normal((8, 64)), keras.random.randint((8,), 0, 1000)
        head = tfsoftmax.ClassNCE(1000, num_samples=10, counts=counts, num_classes=32)
        nats, log_prob = head.training_loss(hidden, labels), head.log_prob(hidden, labels)

    Source: Baltescu and Blunsom 2014; Müller 2017, section 2.2.3.2.
    """

    saved_options = ("num_samples", "counts", "seed")
    trains_exactly = False

    def __init__(
        self, vocab_size: int, num_samples: int = 25, counts: ArrayLike | None = None,
        seed: int | None = None, *, classes: ClassesOption | None = None,
        num_classes: int | None = None, words: Sequence[str] | None = None,
        binning: str = "cumulative", **kwargs: Unpack[HeadOptions],
    ):
        super().__init__(vocab_size, classes, num_classes, counts, words, binning, **kwargs)
        check_positive(num_samples=num_samples)
        self.num_samples, self.seed = num_samples, seed
        self.supports_jit = False  # no sampled words of each position's own are compiled
        self.random_state = RandomState(seed)
        self.counts = None if counts is None else checked_counts(counts, self.vocab_size)
        seen = np.ones(vocab_size) if counts is None else with_unseen(self.counts)
        self._class_noise = Unigram(self.num_classes, np.bincount(self.classes, seen))
        by_edge = self.tree.words[self.num_classes :]  # the words, class by class
        ends, q = cumulative(self.classes[by_edge], np.float64(seen)[by_edge], self.num_classes)
        log_sizes = np.log(np.bincount(self.classes))[self.classes[by_edge]]
        with tf.init_scope():
            self._class_of, self._ends = tf.constant(self.classes, tf.int32), tf.constant(ends)
            self._log_noise = tf.constant(np.log(q), tf.float32)
            self._log_sizes = tf.constant(log_sizes, tf.float32)

    def objective(self):
        return NatsOf(self._nats)

    def _nats(self, hidden, labels):
        classes = tf.gather(self._class_of, labels)
        return self._class_nats(hidden, classes) + self._word_nats(hidden, labels, classes)

    def _class_nats(self, hidden, classes):
        seed = self.random_state.next(synchronized=True)
        candidates = self._class_noise.sample(classes, self.num_samples, seed)

        def read(ids):
            rows, biases = self._rows_and_biases(ids)
            return rows, biases - math.log(self.num_classes)

        return sampled_loss(logistic, hidden, read, classes, candidates)

    def _word_nats(self, hidden, labels, classes):
        beside = tf.repeat(classes[:, None], self.num_samples, axis=1)
        places = draw(self._ends, beside, self.random_state.next())
        leaves = self._layout[-1]
        own = tf.gather(leaves, labels) - self.num_classes
        log_expected = (
            tf.gather(self._log_noise, p) + math.log(self.num_samples) for p in (places, own)
        )

        def read(places):
            rows, biases = self._rows_and_biases(places + self.num_classes)
            return rows, biases - tf.gather(self._log_sizes, places)

        return sampled_loss(logistic, hidden, read, own, Candidates(places, *log_expected))

    def _rows_and_biases(self, edges):
        biases = tf.zeros(tf.shape(edges)) if self.bias is None else rows_of(self.bias.value, edges)
        return rows_of(self.kernel.value, edges), biases
