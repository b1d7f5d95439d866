"""Sampled losses where each position has its own sample.

Each position multiplies other rows, so there is no product of dense matrices. The rows are
gathered sample by sample, and gradients are products with a sparse matrix, so that the memory
beyond scores and rows is that of (N, D).
"""

import tensorflow as tf

from tfsoftmax.distributions.sparse_product import sparse_product
from tfsoftmax.ops.chunks import in_turn
from tfsoftmax.ops.criteria import LEFT_OUT, Hits, Words
from tfsoftmax.ops.custom_gradients import custom_gradient
from tfsoftmax.ops.weighting import weighted


def per_example_loss(
    criterion, hidden, rows_and_biases, labels, candidates, corrected=True, hits=Hits.KEEP
):
    """Loss of each position over its label and its own sampled words.

    Args:
        candidates: `Candidates` with ids and log_expected (N, S).
        hits: a `Hits`, `KEEP` or `REMOVE`.
        criterion, hidden, rows_and_biases, labels, corrected: as in `sampled_loss`.

    Returns:
        (N,) float32, nats, differentiable with respect to hidden, rows and biases; and the scores
        (N, 1 + S) of the label and of the words, without a gradient.
    """
    ids = tf.transpose(candidates.ids)  # (S, N)
    rows, place = tf.unique(tf.concat([tf.reshape(ids, [-1]), labels], 0))
    word_place = tf.reshape(place[: tf.size(ids)], tf.shape(ids))
    label_place = place[tf.size(ids) :]
    shift, label_shift = 0.0, 0.0
    if corrected:
        shift, label_shift = candidates.log_expected, candidates.log_expected_labels

    @custom_gradient
    def differentiable(hidden, kernel_rows, biases):
        wide = tf.cast(hidden, tf.float32)

        def score(place):
            return tf.reduce_sum(wide * tf.gather(kernel_rows, place), axis=1)

        by_sample = in_turn(lambda i, _: (score(word_place[i]), []), candidates.ids.shape[1])[0]
        scores = tf.transpose(by_sample)
        word_biases = tf.transpose(tf.gather(biases, word_place))
        label_scores = score(label_place) + tf.gather(biases, label_place) - label_shift
        if hits != Hits.KEEP:
            scores = tf.where(candidates.ids == labels[:, None], LEFT_OUT, scores)
        ones = tf.ones([candidates.ids.shape[1]])
        words = Words(scores, word_biases, shift, ones)
        losses, slopes = criterion(label_scores, words)
        every = tf.concat([label_scores[:, None], words.corrected()], axis=1)

        def gradient(upstream, _):
            by_word = tf.transpose(slopes.words * (upstream * slopes.rows)[:, None])
            by_label = weighted(slopes.label, upstream)

            places = tf.concat([label_place[None], word_place], 0)  # (S + 1, N)
            factors = tf.concat([by_label[None], by_word], 0)
            d_hidden, d_rows = _sparse_products(places, factors, wide, kernel_rows)
            d_biases = tf.math.unsorted_segment_sum(by_label, label_place, tf.size(rows))
            d_biases += tf.math.unsorted_segment_sum(by_word, word_place, tf.size(rows))
            return tf.cast(d_hidden, hidden.dtype), d_rows, d_biases

        return (losses, every), gradient

    losses, every = differentiable(hidden, *rows_and_biases(rows))
    return losses, tf.stop_gradient(every)


def _sparse_products(places, factors, hidden, rows):
    """F rows (N, D) and Fᵀ hidden (U, D), where F (N, U) sums factors[s, n] at [n, places[s, n]].

    Args:
        places: (S, N) int32.
        factors: (S, N) float32.
        hidden: (N, D) float32.
        rows: (U, D) float32.
    """
    samples, count = tf.shape(places)[0], tf.shape(hidden)[0]
    places, factors = (tf.reshape(tf.transpose(t), [-1]) for t in (places, factors))
    positions = tf.repeat(tf.range(count), samples)
    order = tf.argsort(places, stable=True)
    by_row = [tf.gather(t, order) for t in (places, positions, factors)]
    return (
        sparse_product(positions, places, factors, rows, count),
        sparse_product(*by_row, hidden, tf.shape(rows)[0]),
    )
