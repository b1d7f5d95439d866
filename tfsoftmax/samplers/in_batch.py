"""In-batch negatives: the labels of a batch are the sample for all its positions."""

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import ArrayLike

from tfsoftmax.ops.replicas import of_all_replicas
from tfsoftmax.partitions.counts import checked_counts, with_unseen
from tfsoftmax.partitions.packing import packed
from tfsoftmax.samplers.base import Candidates, Sampler, stateless
from tfsoftmax.samplers.random import uniform_words


@keras.saving.register_keras_serializable(package="tfsoftmax")
class InBatch(Sampler):
    """q(w) proportional to count(w); the labels of the other positions are the draws from it.

    Recommenders train a tower of users and a tower of items in this way. A step needs the rows
    of its labels anyway, and it reads no others. The S words of `num_samples`, which are drawn
    uniformly with replacement, may join them; with num_samples=None there are none.

    For each position, the sample contains its own label and N - 1 draws, the labels of the other
    positions. `SampledSoftmax` leaves the own label out once, so that the loss of a position is

        -ln [ exp(s_w) / q(w) / Σ_n exp(s_n) / q(n) ],    n over the labels of the N positions.

    If positions are drawn independently, its minimum is exactly the softmax over all V words.
    With S uniform words, n goes over these too, and (N - 1) q(w) + S / V takes the place of q(w);
    the minimum is then only near the softmax. Other heads need `remove_accidental_hits=True`. It
    also leaves out equal labels of other positions, which is an approximation. The batch is the
    whole batch of all replicas of a strategy, if there are several.

    The division by q is known as the correction by ln q. `counts=None` turns it off, and then the
    loss is biased: frequent words end up with low scores, because they are frequent negatives,
    and perplexity suffers, though `log_prob` is normalised all the same. Positions of weight zero
    are negatives like all others.

    Args:
        vocab_size: V.
        counts: (V,) numbers >= 0, how often each word is a label in training. A word of count
            zero is counted as often as the rarest word that was seen. None for a loss without
            correction.
        **kwargs: as in `keras.layers.Layer`.

    Raises:
        ValueError: if `counts` are neither None nor V finite numbers >= 0, or all are zero.

    Example:
        labels = keras.random.randint((1024,), 0, 100)
        counts = keras.ops.bincount(labels, minlength=100)
        sampler = tfsoftmax.samplers.InBatch(100, counts)
        head = tfsoftmax.SampledSoftmax(100, num_samples=None, sampler=sampler)

    Source: Yi et al. 2019, with counts instead of their running estimate of q. Departure: a
    position's own label counts once, and the label of each other position counts every time.
    Shmuma 2017 ("sampled softmax") is `counts=None` with uniform words.
    """

    holds_labels = True

    def __init__(self, vocab_size: int, counts: ArrayLike | None, **kwargs):
        super().__init__(vocab_size, unique=False, implementation="own", **kwargs)
        self.counts = None if counts is None else checked_counts(counts, vocab_size)
        seen = np.ones(vocab_size) if counts is None else with_unseen(self.counts)
        with tf.init_scope():
            self._log_q = tf.constant(np.log(seen / seen.sum(dtype=np.float64)), tf.float32)

    def sample(
        self, labels: tf.Tensor, num_samples: int | None, seed: int | tf.Tensor
    ) -> Candidates:
        """Returns the labels themselves, and S uniform words, as the sample.

        Args:
            labels: (...) integers, the N labels of a batch, at least one.
            num_samples: S, or None for no uniform words.
            seed: int, or (2,) integers; the same seed draws the same uniform words.

        Returns:
            `Candidates` with the labels of all replicas in their order, and then the uniform
            words. The expected
            count of a word is (N - 1) q + S / V, its count among the other positions and these.

        Raises:
            ValueError: if there are no labels.
        """
        self.check_size(num_samples)
        labels = tf.cast(labels, tf.int32)
        ids = of_all_replicas(tf.reshape(labels, [-1]))
        if ids.shape.num_elements() == 0:
            raise ValueError(
                "`labels` must be those of a batch, because they are the sample. "
                "Received: no labels"
            )
        others = tf.size(ids) - 1

        def log_expected(ids):
            if num_samples is None:
                return self.log_q(ids) + tf.math.log(tf.cast(tf.maximum(others, 1), tf.float32))
            expected = tf.cast(others, tf.float32) * tf.exp(self.log_q(ids))
            return tf.math.log(expected + num_samples / self.vocab_size)

        if num_samples is not None:
            uniform = uniform_words(num_samples, self.vocab_size, stateless(seed))
            ids = tf.concat([ids, uniform], 0)
        return Candidates(ids, log_expected(ids), log_expected(labels))

    def sample_for_each(self, labels, num_samples, seed):
        raise ValueError(
            "`shared_samples` must be True if the labels of the batch are the sample. "
            "Received: shared_samples=False"
        )

    def log_q(self, ids):
        return tf.gather(self._log_q, ids)

    def check_size(self, num_samples: int | None) -> None:
        """Raises ValueError unless this is None or a number of uniform words."""
        if num_samples is not None:
            super().check_size(num_samples)

    def get_config(self):
        config = super().get_config()
        del config["unique"], config["implementation"]
        return {**config, "counts": packed(self.counts)}
