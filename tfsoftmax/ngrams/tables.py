"""The probabilities that a bigram model gives to the words outside a shortlist, as tensors.

Shapes: N positions, V words, S words in the shortlist, R bigrams that were seen.
Source: Müller 2017, equations 2.8-2.10.
"""

import typing

import numpy as np
import tensorflow as tf

from tfsoftmax.ops.ranking import places_among


class BigramTables(typing.NamedTuple):
    """A bigram model as tensors, and what `Shortlist` needs of it.

    Attributes:
        keys, log_seen: (R,), v V + w of the bigrams that were seen, rising, and ln q(w | v).
        starts: (V + 1,), where the bigrams of each v begin.
        tail_place: (V,), the place of each word among those outside the shortlist, or V.
        log_unigram, log_backoff: (V,), ln u(w) and ln b(v).
        log_unigram_of_tail: (V - S,), ln u of the words outside the shortlist.
        log_mass: (V,), ln Σ q(w | v) over the shortlist, or over the tail where there is a node.
        oos_node: whether there is a node.
    """

    keys: tf.Tensor
    log_seen: tf.Tensor
    starts: tf.Tensor
    tail_place: tf.Tensor
    log_unigram: tf.Tensor
    log_backoff: tf.Tensor
    log_unigram_of_tail: tf.Tensor
    log_mass: tf.Tensor
    oos_node: bool

    @classmethod
    def of(cls, model, tail, oos_node):
        in_tail = np.zeros(model.vocab_size, bool)
        in_tail[tail] = True
        place = np.full(model.vocab_size, model.vocab_size, np.int32)
        place[tail] = np.arange(len(tail))
        floats = [
            model.log_seen, model.log_unigram, model.log_backoff, model.log_unigram[tail],
            model.log_mass(in_tail if oos_node else ~in_tail),
        ]
        seen, unigram, backoff, of_tail, mass = (tf.constant(x, tf.float32) for x in floats)
        starts = tf.constant(model.starts, tf.int64)
        return cls(tf.constant(model.keys), seen, starts, tf.constant(place), unigram, backoff,
                   of_tail, mass, oos_node)

    def log_shortlist(self, before):
        """What is added to the log-probability of a word of the shortlist, (N,)."""
        return tf.zeros(tf.shape(before)) if self.oos_node else tf.gather(self.log_mass, before)

    def log_tail(self, before, labels):
        """The same for a word outside of it: ln q(w | v), or its share of all such words, (N,)."""
        result = tf.gather(self.log_backoff, before) + tf.gather(self.log_unigram, labels)
        if self.keys.shape[0]:
            place, known = places_of(self.keys, self.log_unigram.shape[0], before, labels)
            result = tf.where(known, tf.gather(self.log_seen, place), result)
        return result - tf.gather(self.log_mass, before) if self.oos_node else result

    def log_tails(self, before):
        """`log_tail` of all words outside the shortlist, (N, V - S), by falling frequency."""
        result = tf.gather(self.log_backoff, before)[:, None] + self.log_unigram_of_tail
        first, last = tf.gather(self.starts, before), tf.gather(self.starts, before + 1)
        seen = tf.ragged.range(first, last)
        words = tf.gather(self.keys, seen.values) % self.log_unigram.shape[0]
        columns = tf.gather(self.tail_place, words)
        kept = tf.where(columns < self.log_unigram_of_tail.shape[0])[:, 0]
        rows = tf.gather(seen.value_rowids(), kept)
        places = tf.stack([rows, tf.cast(tf.gather(columns, kept), tf.int64)], axis=1)
        values = tf.gather(tf.gather(self.log_seen, seen.values), kept)
        result = tf.tensor_scatter_nd_update(result, places, values)
        return result - tf.gather(self.log_mass, before)[:, None] if self.oos_node else result


def places_of(keys, vocab_size, before, words):
    """Where bigrams stand among those that were seen, and whether they are there.

    Args:
        keys: (R,) int64, v V + w, rising, R > 0.
        vocab_size: V.
        before, words: (...) integers, v and w.

    Returns:
        place: (...) int32, in [0, R).
        known: (...) bool.
    """
    key = tf.cast(before, tf.int64) * vocab_size + tf.cast(words, tf.int64)
    return places_among(key, keys)
