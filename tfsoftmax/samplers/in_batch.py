"""In-batch negatives: the labels of a batch are the sample for all its positions."""

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import ArrayLike

from tfsoftmax.partitions.counts import checked_counts, with_unseen
from tfsoftmax.partitions.packing import packed
from tfsoftmax.samplers.base import Candidates, Sampler


@keras.saving.register_keras_serializable(package="tfsoftmax")
class InBatch(Sampler):
    """q(w) proportional to count(w); the labels of the other positions are the draws from it.

    Recommenders train a tower of users and a tower of items in this way. A step needs the rows
    of its labels anyway, and it reads no others.

    For each position, the sample contains its own label and N - 1 draws, the labels of the other
    positions. `SampledSoftmax` leaves the own label out once, so that the loss of a position is

        -ln [ exp(s_w) / q(w) / Σ_n exp(s_n) / q(n) ],    n over the labels of the N positions.

    If positions are drawn independently, its minimum is exactly the softmax over all V words.
    Other heads need `remove_accidental_hits=True`. It also leaves out equal labels of other
    positions, which is an approximation.

    The division by q is known as the correction by ln q. Without it, frequent words end up with
    low scores, because they are frequent negatives. Equal counts turn it off. Positions of weight
    zero are negatives like all others.

    Args:
        vocab_size: V.
        counts: (V,) numbers >= 0, how often each word is a label in training. A word of count
            zero is counted as often as the rarest word that was seen.
        **kwargs: as in `keras.layers.Layer`.

    Raises:
        ValueError: if `counts` are not V finite numbers >= 0, or all are zero.

    Example:
        labels = keras.random.randint((1024,), 0, 100)
        counts = keras.ops.bincount(labels, minlength=100)
        sampler = tfsoftmax.samplers.InBatch(100, counts)
        head = tfsoftmax.SampledSoftmax(100, num_samples=None, sampler=sampler)

    Source: Yi et al. 2019, with counts instead of their running estimate of q. Departure: a
    position's own label counts once, and the label of each other position counts every time.
    """

    holds_labels = True

    def __init__(self, vocab_size: int, counts: ArrayLike, **kwargs):
        super().__init__(vocab_size, unique=False, implementation="own", **kwargs)
        self.counts = checked_counts(counts, vocab_size)
        seen = with_unseen(self.counts)
        with tf.init_scope():
            self._log_q = tf.constant(np.log(seen / seen.sum(dtype=np.float64)), tf.float32)

    def sample(
        self, labels: tf.Tensor, num_samples: int | None, seed: int | tf.Tensor
    ) -> Candidates:
        """Returns the labels themselves as the sample.

        Args:
            labels: (...) integers, the N labels of a batch, at least one.
            num_samples: None.
            seed: has no effect, because nothing is drawn.

        Returns:
            `Candidates` with the labels in their order. The expected count of a word is
            (N - 1) q, its count among the other positions.

        Raises:
            ValueError: if `num_samples` is not None, or if there are no labels.
        """
        self.check_size(num_samples)
        labels = tf.cast(labels, tf.int32)
        if labels.shape.num_elements() == 0:
            raise ValueError(
                "`labels` must be those of a batch, because they are the sample. "
                "Received: no labels"
            )
        others = tf.cast(tf.maximum(tf.size(labels) - 1, 1), tf.float32)
        log_expected = self.log_q(labels) + tf.math.log(others)
        ids, flat = tf.reshape(labels, [-1]), tf.reshape(log_expected, [-1])
        return Candidates(ids, flat, log_expected)

    def sample_for_each(self, labels, num_samples, seed):
        raise ValueError(
            "`shared_samples` must be True if the labels of the batch are the sample. "
            "Received: shared_samples=False"
        )

    def log_q(self, ids):
        return tf.gather(self._log_q, ids)

    def check_size(self, num_samples: int | None) -> None:
        """Raises ValueError for anything but None, because the batch decides the size."""
        if num_samples is not None:
            raise ValueError(
                "`num_samples` must be None, because the labels of a batch are the sample. "
                f"Received: num_samples={num_samples}"
            )

    def get_config(self):
        config = super().get_config()
        del config["unique"], config["implementation"]
        return {**config, "counts": packed(self.counts)}
