"""A bigram proposal that follows the model's own probabilities in training."""

import numpy as np
import tensorflow as tf

from tfsoftmax.ops.random import split_seed, uniform
from tfsoftmax.ops.replicas import add_state, gathered_rows, of_all_replicas, own_copy
from tfsoftmax.ops.saved_arrays import array_of
from tfsoftmax.samplers.after_word import AfterWord
from tfsoftmax.samplers.by_name import register
from tfsoftmax.samplers.distributions import Unigram
from tfsoftmax.support.arguments import ArrayLike, check_positive, expect
from tfsoftmax.support.counts import checked_counts


@register("online_bigram")
class OnlineBigram(AfterWord):
    """q(w | v) = (weight of w after v + (n(v) + lost(v)) u(w)) / (n(v) + total(v)), online.

    A training step computes scores of each position's label and sample. Their shares, exp(s) / q
    over the sum, estimate the model's probabilities of these words, and are added to the weights
    after the word v that the position has read. v keeps its M heaviest words, n(v) of them in use;
    lost(v) is the weight of the words that were dropped, and total(v) that of both. Before the
    first step q is the unigram u. Positions of weight zero, such as those of an ignored label, are
    not observed, unless the loss is that of `training_loss` without a `mask`. An objective without
    correction, `SampledObjective(corrected=False)`, has the shares of exp(s), which are no
    estimates: q then drifts to the words that it draws often.

    It takes 8 M bytes for each word of the vocabulary. An update sorts the words of the sample and
    the M words of each v of the batch, which is most of its cost.

    Args:
        vocab_size: V.
        counts: (V,) numbers >= 0, for u; None for uniform words.
        slots: M.
        decay: in (0, 1]; multiplies the weights of every v that occurs in the batch of a step.
        **kwargs: as in `keras.layers.Layer`.

    Raises:
        ValueError: if `counts` are not V finite numbers >= 0, `slots` is below 1, or `decay` lies
            outside (0, 1].

    Example:
        hidden, words = keras.random.normal((2, 5, 16)), keras.random.randint((2, 5), 0, 1000)
        carried = tfsoftmax.ngrams.previous_word.PreviousWord()([hidden, words])
        head = tfsoftmax.SampledSoftmax(1000, 25, "online_bigram", shared_samples=False)
        nats = head.training_loss(carried, keras.random.randint((2, 5), 0, 1000))

    Source: Bengio and Senécal 2008, adaptive importance sampling; Müller 2017, section 2.2.3.1.
    Departures: bigrams instead of n-grams with backoff, M words for each history instead of all,
    and the smoothing of Witten and Bell 1991 with the unigram.
    """

    saved_options = ("counts", "slots", "decay")

    def __init__(
        self, vocab_size: int, counts: ArrayLike | None = None, slots: int = 64,
        decay: float = 0.99, **kwargs,
    ):
        super().__init__(vocab_size, **kwargs)
        check_positive(slots=slots)
        expect(0 < decay <= 1, "decay", "lie in (0, 1]", decay)
        self.slots, self.decay = slots, decay
        self.counts = None if counts is None else checked_counts(counts, self.vocab_size)
        self.unigram = Unigram(vocab_size, np.ones(vocab_size) if counts is None else counts)
        self.words = add_state(self, "words", (self.vocab_size, slots), "int32")
        self.weights_after = add_state(self, "weights", (self.vocab_size, slots))
        self.total = add_state(self, "total", (self.vocab_size,))

    def observe(self, before: tf.Tensor, ids: tf.Tensor, shares: tf.Tensor) -> None:
        """Adds estimated probabilities to the weights, unless `trainable` is False.

        Args:
            before: (N,) int32, the word v of each position, or -1 to leave the position out.
            ids: (N, C) int32, the words whose scores it has computed.
            shares: (N, C) float32, which sum to one over C.
        """
        if not self.trainable:
            return
        before, ids, shares = (of_all_replicas(each) for each in (before, ids, shares))
        before, ids, shares = (tf.boolean_mask(x, before >= 0) for x in (before, ids, shares))
        touched, place = tf.unique(before)
        count, width = tf.size(touched), tf.shape(ids)[1]
        old = self.decay * gathered_rows(self.weights_after.value, touched)
        rows = [tf.repeat(tf.range(count), self.slots), tf.repeat(place, width)]
        words = [gathered_rows(self.words.value, touched), ids]
        flat = (tf.concat([tf.reshape(x, [-1]) for x in both], 0)
                for both in (rows, words, (old, shares)))
        words, weights = _heaviest(*flat, self.slots, count, self.vocab_size)
        total = self.decay * gathered_rows(self.total.value, touched)
        total += tf.math.unsorted_segment_sum(tf.ones_like(place, tf.float32), place, count)
        for state, new in (self.words, words), (self.weights_after, weights), (self.total, total):
            own_copy(state.value).scatter_update(tf.IndexedSlices(new, touched))

    def log_q(self, ids, before):
        words, weights, of_unigram = self._after(before)
        slots = tf.reduce_sum(tf.where(words == ids[..., None], weights, 0.0), axis=-1)
        return tf.math.log(slots + of_unigram * tf.exp(self.unigram.log_q(ids)))

    def log_qs(self, before):
        words, weights, of_unigram = self._after(before)
        q = of_unigram[:, None] * tf.exp(self.unigram.log_q(tf.range(self.vocab_size)))
        rows = tf.repeat(tf.range(tf.size(before))[:, None], self.slots, axis=1)
        return tf.math.log(tf.tensor_scatter_nd_add(q, tf.stack([rows, words], 2), weights))

    def _after(self, before):
        """Words (..., M) after v (...), their part of q (..., M), and the unigram's (...)."""
        words = gathered_rows(self.words.value, before)
        weights = gathered_rows(self.weights_after.value, before)
        used = tf.math.count_nonzero(weights, axis=-1, dtype=tf.float32)
        kept = tf.reduce_sum(weights, axis=-1)
        total = tf.maximum(gathered_rows(self.total.value, before), kept)
        # One where nothing was observed yet, so that the unigram has all.
        scale = 1 / tf.where(total > 0, used + total, 1.0)
        return words, weights * scale[..., None], 1 - kept * scale

    def _draw_after(self, before, count, seed):
        unigram_seed, height_seed = split_seed(seed, 2)
        words, weights, _ = self._after(before)
        ends = tf.cumsum(tf.cast(weights, tf.float64), axis=1)
        shape = tf.stack([tf.size(before), count])
        place = tf.searchsorted(ends, uniform(shape, height_seed), side="right")
        drawn = tf.gather(words, tf.minimum(place, self.slots - 1), batch_dims=1)
        others = tf.reshape(self.unigram._draw(tf.size(place), unigram_seed), shape)
        return tf.where(place < self.slots, drawn, others)

    def take_over(self, old, renumbering):
        words, weights = renumbering.ids(array_of(old.words)), array_of(old.weights_after)
        weights = np.where(words < 0, 0, weights)  # of words that are gone, as if they were lost
        self.words.assign(renumbering.rows(np.maximum(words, 0), 0))
        self.weights_after.assign(renumbering.rows(weights, 0))
        renumbering.copy_rows(self.total, old.total)


def _heaviest(rows, words, weights, most, count, vocab_size):
    """The `most` heaviest words of each row: words and weights (count, most), filled with zeros.

    Args:
        rows, words, weights: (E,), the entries. Those of one row and word are added.
    """
    keys = tf.cast(rows, tf.int64) * vocab_size + tf.cast(words, tf.int64)
    keys, place = tf.unique(keys)
    weights = tf.math.unsorted_segment_sum(weights, place, tf.size(keys))
    order = tf.argsort(weights, direction="DESCENDING")
    rows = tf.cast(keys // vocab_size, tf.int32)
    order = tf.gather(order, tf.argsort(tf.gather(rows, order), stable=True))
    rows, weights = tf.gather(rows, order), tf.gather(weights, order)
    words = tf.cast(tf.gather(keys, order) % vocab_size, tf.int32)
    rank = tf.range(tf.size(rows)) - tf.searchsorted(rows, rows)
    kept = tf.where(rank < most)[:, 0]
    cells = tf.gather(tf.stack([rows, rank], 1), kept)
    return [tf.scatter_nd(cells, tf.gather(x, kept), [count, most]) for x in (words, weights)]
