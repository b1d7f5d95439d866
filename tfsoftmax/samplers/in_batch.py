"""In-batch negatives: the labels of a batch are the sample that all its positions share."""

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.partitions.counts import checked_counts, with_unseen
from tfsoftmax.samplers.base import Candidates, Sampler


@keras.saving.register_keras_serializable(package="tfsoftmax")
class InBatch(Sampler):
    """q(w) proportional to count(w), and the labels of the other positions are the draws from it.

    What recommenders train a tower of users and a tower of items with: the rows of the labels
    are needed anyway, and the step reads no others.

        counts = np.bincount(train_labels, minlength=vocab_size)
        head = SampledSoftmax(vocab_size, None, InBatch(vocab_size, counts))

    A sample holds each position's own label once more than its draws, the N - 1 other positions,
    do. `SampledSoftmax` leaves that one out, so that the loss of a position is

        -ln [ exp(s_w) / q(w) / Σ_n exp(s_n) / q(n) ],    n over the labels of the N positions;

    with positions drawn independently its minimum is the softmax over all V words, exactly. Other
    heads take the sampler with `remove_accidental_hits=True`, which leaves out labels of other
    positions that happen to be the same, too, and is an approximation.

    Dividing by q is the correction by ln q, without which frequent words, being frequent
    negatives, end up with low scores. Equal counts leave it out. Positions of weight zero are
    among the negatives too, with the label that they have.

    Args:
        vocab_size: V.
        counts: (V,) numbers >= 0, how often each word is a label in training. A word of count
            zero is counted as often as the rarest word that was seen.
        **kwargs: of `keras.layers.Layer`.

    Raises:
        ValueError: if counts are not V finite numbers >= 0 or are all zero.

    Source: Yi et al. 2019, with counts in place of their running estimate of q. Departure: a
    position's own label counts once, and other positions' labels however often they occur.
    """

    holds_labels = True

    def __init__(self, vocab_size, counts, **kwargs):
        super().__init__(vocab_size, unique=False, implementation="own", **kwargs)
        self.counts = checked_counts(counts, vocab_size)
        seen = with_unseen(self.counts)
        with tf.init_scope():
            self._log_q = tf.constant(np.log(seen / seen.sum(dtype=np.float64)), tf.float32)

    def sample(self, labels, num_samples, seed):
        """The labels themselves, whatever the seed.

        Args:
            labels: (...) integers, N in all, not none.
            num_samples: None.
            seed: ignored.

        Returns:
            ids: (N,) int32, the labels in their order.
            log_expected: (N,) float32, ln (N - 1) q, the count to be expected among the other
                positions.
            log_expected_labels: (...) float32, the same.

        Raises:
            ValueError: if num_samples is not None, or there are no labels.
        """
        self.check_size(num_samples)
        labels = tf.cast(labels, tf.int32)
        if labels.shape.num_elements() == 0:
            raise ValueError("`labels` must be those of a batch: nothing else is the sample.")
        others = tf.cast(tf.maximum(tf.size(labels) - 1, 1), tf.float32)
        log_expected = self.log_q(labels) + tf.math.log(others)
        ids, flat = tf.reshape(labels, [-1]), tf.reshape(log_expected, [-1])
        return Candidates(ids, flat, log_expected)

    def sample_for_each(self, labels, num_samples, seed):
        raise ValueError("`shared_samples` must be True for a sampler that is the batch's labels.")

    def log_q(self, ids):
        return tf.gather(self._log_q, ids)

    def check_size(self, num_samples):
        """Raises ValueError for anything but None: the batch decides."""
        if num_samples is not None:
            raise ValueError(
                "`num_samples` must be None, as the labels of a batch are the sample. "
                f"Received: num_samples={num_samples}"
            )

    def get_config(self):
        config = super().get_config()
        del config["unique"], config["implementation"]
        return {**config, "counts": self.counts.tolist()}
