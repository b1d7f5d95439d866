"""In-batch negatives: the labels of a batch are the sample for all its positions."""

import numpy as np
import tensorflow as tf

from tfsoftmax.ops.criteria import LEFT_OUT, Hits
from tfsoftmax.ops.graphs import held
from tfsoftmax.ops.replicas import in_replica, labels_of_all_replicas
from tfsoftmax.samplers.base import Candidates, Given, Sampler, stateless
from tfsoftmax.samplers.by_name import register
from tfsoftmax.samplers.distributions import Uniform
from tfsoftmax.samplers.learned import LearnedUnigram
from tfsoftmax.support.arguments import ArrayLike, expect
from tfsoftmax.support.counts import checked_counts, with_unseen


@register("in_batch")
class InBatch(Given):
    """q(w) proportional to count(w); the labels of the other positions count as draws from it.

    Recommenders train a user tower and an item tower in this way. A step needs the rows of its
    labels anyway, and it reads no others. `num_samples` can add S words (mixed negatives), which
    are drawn with replacement from a distribution r. By default r is uniform; `extra` changes it.
    With num_samples=None there are no such words.

    For each position, the sample contains its own label and N - 1 draws, the labels of the other
    positions. `SampledSoftmax` leaves the own label out once, so that the loss of a position is

        -ln [ exp(s_w) / q(w) / Σ_n exp(s_n) / q(n) ],    n over the labels of the N positions.

    If positions are drawn independently, its minimum is exactly the softmax over all V words.
    With S words of r, n goes over these too, and (N - 1) q(w) + S r(w) takes the place of q(w);
    the minimum is then only near the softmax. `NCE` leaves the own label out once too, and its
    minimum is exact, even with words of r. `remove_accidental_hits=True`, the default of
    `BlackOut`, also leaves out equal labels of other positions; the minimum is then different. With
    several replicas, the batch is that of all replicas. Positions of weight zero, such as those of
    an ignored label, are not used as negatives.

    The division by q is known as the correction by ln q. `counts=None` turns it off, and then the
    loss is biased: frequent words end up with low scores, because they are frequent negatives,
    and perplexity suffers, although `log_prob` is still normalised.

    Args:
        vocab_size: V.
        counts: (V,) numbers >= 0, how often each word is a label in training. A word of count
            zero is counted as often as the rarest word that was seen. "learned" counts the
            labels of training as they come, in a `LearnedUnigram`, whose q is uniform at first.
            None for a loss without correction.
        extra: a `Sampler` with replacement, for r; None for the uniform distribution.
        **kwargs: as in `keras.layers.Layer`.

    Raises:
        ValueError: if `counts` are neither None nor "learned" nor V finite numbers >= 0, or all
            are zero, or if `extra` does not draw with replacement for all positions.

    Example:
        labels = keras.random.randint((1024,), 0, 100)
        counts = keras.ops.bincount(labels, minlength=100)
        sampler = tfsoftmax.samplers.InBatch(100, counts)
        head = tfsoftmax.SampledSoftmax(100, num_samples=None, sampler=sampler)

    Source: Yi et al. 2019, with counts instead of their running estimate of q; Yang et al. 2020
    (mixed negatives). Departures: a position's own label counts once, and the label of each other
    position counts every time; and in a mixed sample the expected counts of both parts are added.
    Shmuma 2017 ("sampled softmax") is `counts=None` with uniform words.
    """

    saved_options = ("counts", "extra")
    hits = Hits.REMOVE_ONE  # the position's own label

    def __init__(
        self, vocab_size: int, counts: ArrayLike | str | None, extra: Sampler | None = None,
        **kwargs,
    ):
        super().__init__(vocab_size, unique=False, **kwargs)
        self.extra = Uniform(vocab_size) if extra is None else extra
        self._check_extra()
        if not self.trainable:
            self.extra.trainable = False
        self.counts, self.learned, self.unbiased = counts, None, counts is not None
        if isinstance(counts, str):
            expect(counts == "learned", "counts", "be numbers, 'learned' or None", counts)
            self.learned = LearnedUnigram(vocab_size, name="learned", trainable=self.trainable)
            return
        self.counts = None if counts is None else checked_counts(counts, vocab_size)
        seen = np.ones(vocab_size) if counts is None else with_unseen(self.counts)
        with tf.init_scope():
            self._log_q = tf.constant(np.log(seen / seen.sum(dtype=np.float64)), tf.float32)

    def _check_extra(self):
        extra = self.extra
        draws = isinstance(extra, Sampler) and not isinstance(extra, Given)
        draws = draws and not extra.unique and not extra.units
        expect(
            draws and extra.vocab_size == self.vocab_size, "extra",
            f"be a sampler of {self.vocab_size} words that draws with replacement for all "
            "positions", extra,
        )

    def sample(
        self, labels: tf.Tensor, num_samples: int | None, seed: int | tf.Tensor,
        label_smoothing: float = 0.0,
    ) -> Candidates:
        """Returns the labels themselves, and S words of r, as the sample.

        Args:
            labels: (...) integers, the N labels of a batch. Negative labels, those of positions
                that do not count, do not count either.
            num_samples: S, or None for no words of r.
            seed: int, or (2,) integers; the same seed draws the same words of r.
            label_smoothing: the share of the labels that the head has replaced by uniform words.
                `counts` do not include these; learned counts do.

        Returns:
            `Candidates` with the labels of all replicas in their order, and then the words of r.
            The expected count of a word is (N - 1) q + S r, its count among the other positions
            and these.
        """
        self.check_size(num_samples)
        labels = self._checked(labels, least=-1)
        ids = labels_of_all_replicas(tf.reshape(labels, [-1]))
        others = tf.maximum(tf.math.count_nonzero(ids >= 0, dtype=tf.float32) - 1, 0)

        def log_expected(ids):
            log_q = self.log_q(ids)
            if label_smoothing and self.learned is None:
                uniform = label_smoothing / self.vocab_size
                log_q = tf.math.log((1 - label_smoothing) * tf.exp(log_q) + uniform)
            if num_samples is None:
                return log_q + tf.math.log(tf.maximum(others, 1.0))
            of_extra = num_samples * tf.exp(self.extra.log_q(ids))
            if self.counts is None:  # a loss without correction has none for these words either
                of_extra = num_samples / self.vocab_size
            expected = others * tf.exp(log_q) + of_extra
            # A lone label that r excludes has none, and no loss: no sample can be mistaken for it.
            return tf.math.log(tf.maximum(expected, np.finfo(np.float32).tiny))

        if num_samples is not None:
            drawn = self.extra._draw(num_samples, stateless(seed))
            ids = tf.concat([ids, drawn], 0)
        elif in_replica():  # a loss needs a word, also where no label is left
            ids = tf.pad(ids, [[0, tf.cast(tf.size(ids) == 0, tf.int32)]])
        ids, unlabelled = tf.maximum(ids, 0), ids < 0  # which XLA cannot leave out
        of_ids = tf.where(unlabelled, -LEFT_OUT, log_expected(ids))
        return Candidates(ids, of_ids, log_expected(tf.maximum(labels, 0)))

    def sample_of_step(self, labels, num_samples, seed, label_smoothing):
        return self.sample(labels, num_samples, seed, label_smoothing)

    def sample_for_each(self, labels, num_samples, seed):
        self.check_use(shared_samples=False)

    def check_use(
        self, *, shared_samples=True, keep=None, label_in_sum=True, remove_accidental_hits=None,
        restore_proposal=False, labels_known=True, **options,
    ):
        super().check_use(**options)
        expect(shared_samples, "shared_samples",
               "be True if the labels of the batch are the sample", shared_samples)
        whole = "for a sampler that holds the labels themselves"
        expect(remove_accidental_hits is not False, "remove_accidental_hits",
               f"not be False {whole}", False)
        expect(keep is None or keep > 0, "keep", "be a positive integer", keep)
        expect(label_in_sum, "label_in_sum", f"be True {whole}", label_in_sum)
        expect(not restore_proposal, "restore_proposal", f"be False {whole}, as many as the batch "
               "has", True)
        expect(
            labels_known, "sampler", "draw words of its own: the sample of this one is the "
            "labels, which are not known here", self,
        )

    def log_q(self, ids):
        if self.learned is not None:
            return self.learned.log_q(ids)
        return tf.gather(held(self._log_q), ids)

    def update(self, labels):
        if self.learned is not None:
            self.learned.update(labels)
        self.extra.update(labels)

    def check_size(self, num_samples: int | None) -> None:
        """Raises ValueError unless this is None or a number of words of `extra`."""
        if num_samples is not None:
            super().check_size(num_samples)
