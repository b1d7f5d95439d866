"""A softmax over classes of words, in which each word has a fixed share of its class."""

import dataclasses
from collections.abc import Sequence
from typing import Unpack

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.distributions.base import Distribution
from tfsoftmax.distributions.rows import Rows
from tfsoftmax.heads.base import SoftmaxHead
from tfsoftmax.heads.options import HeadOptions
from tfsoftmax.ops.graphs import held
from tfsoftmax.ops.weighting import weighted_sum
from tfsoftmax.partitions import classes as partitions
from tfsoftmax.support.arguments import ArrayLike
from tfsoftmax.support.counts import checked_counts, with_unseen


@keras.saving.register_keras_serializable(package="tfsoftmax")
class ClassUnigram(SoftmaxHead):
    """P(w | h) = P(class of w | h) · u(w | class of w), with u from counts, exact.

    The kernel has a row for each class and none for words, so that a step costs what a softmax
    over C classes does. Words of a class differ only in their counts.

    Args:
        vocab_size: V, the number of words.
        counts: (V,) numbers >= 0, occurrences of the words. A word of count zero is counted as
            often as the rarest word that was seen.
        classes, num_classes, words, binning: as in `ClassSoftmax`. Classes of words that occur in
            the same contexts, such as Brown's, suit the model; those by frequency do not.
        **kwargs: options of the weights and of the layer, `heads.options.HeadOptions`. The kernel
            is (C, D).

    Example:
        counts = [1_000_000 // rank for rank in range(1, 1001)]
        hidden, labels = keras.random.normal((8, 64)), keras.random.randint((8,), 0, 1000)
        head = tfsoftmax.ClassUnigram(1000, counts, num_classes=32)
        nats = head.training_loss(hidden, labels)

    Source: Müller 2017, equation 2.11 (Brown et al. 1992), whose P(c | H) is an n-gram model's.
    """

    saved_options = ("counts", "classes")
    trains_exactly = True

    def __init__(
        self, vocab_size: int, counts: ArrayLike,
        classes: partitions.ClassesOption = "sqrt_frequency", num_classes: int | None = None,
        words: Sequence[str] | None = None, binning: str = "cumulative",
        **kwargs: Unpack[HeadOptions],
    ):
        super().__init__(vocab_size, **kwargs)
        self.counts = checked_counts(counts, self.vocab_size)
        self.classes = partitions.build(
            classes, self.vocab_size, num_classes, counts, words, binning
        )
        seen = with_unseen(self.counts).astype(np.float64)
        shares = seen / np.bincount(self.classes, seen)[self.classes]
        with tf.init_scope():
            self._class_of = tf.constant(self.classes, tf.int32)
            self._log_share = tf.constant(np.log(shares), tf.float32)

    @property
    def num_classes(self) -> int:
        """C."""
        return int(self.classes.max()) + 1

    def build(self, hidden_shape):
        super().build(hidden_shape)
        self.kernel, self.bias = self._kernel_and_bias(self.num_classes, hidden_shape[-1])

    def distribution(self):
        return Shares(Rows(*self._parameters()), self._class_of, self._log_share)


@dataclasses.dataclass(frozen=True)
class Shares(Distribution):
    """P(w | h) = P(class of w | h) · share of w.

    Attributes:
        classes: `Rows` over the C classes.
        class_of: (V,) int32.
        log_share: (V,) float32; the shares of a class add up to one.

    Example:
        from tfsoftmax.distributions.rows import Rows
        from tfsoftmax.survey.class_unigram import Shares
        class_of, share = keras.ops.array([0, 0, 1]), keras.ops.array([0.2, 0.8, 1.0])
        words = Shares(Rows(keras.random.normal((2, 64))), class_of, keras.ops.log(share))
    """

    classes: Rows
    class_of: tf.Tensor
    log_share: tf.Tensor

    @property
    def vocab_size(self) -> int:
        return self.class_of.shape[0]

    def nats(self, hidden, labels):
        class_of, log_share = self._of(labels)
        return self.classes.nats(hidden, class_of) - log_share

    def weighted_nats(self, hidden, labels, weights):
        class_of, log_share = self._of(labels)
        total, nats = self.classes.weighted_nats(hidden, class_of, weights)
        return total - weighted_sum(log_share, weights), nats - log_share

    def logits(self, hidden):
        class_of, log_share = held((self.class_of, self.log_share))
        return tf.gather(self.classes.logits(hidden), class_of, axis=1) + log_share

    def _of(self, labels):
        return [tf.gather(table, labels) for table in held((self.class_of, self.log_share))]
