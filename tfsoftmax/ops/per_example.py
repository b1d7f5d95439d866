"""The losses of `sampled`, with samples of its own for each position.

Each position multiplies other rows, so there is no matrix product. The rows are gathered sample
by sample, so that the memory beyond scores and rows is that of (N, D).
"""

import tensorflow as tf

from tfsoftmax.ops.sampled import LEFT_OUT, Hits, Words
from tfsoftmax.ops.unique import static_unique
from tfsoftmax.ops.xla import under_xla


def per_example_loss(
    criterion, hidden, rows_and_biases, labels, candidates, corrected=True, hits=Hits.KEEP
):
    """Loss of each position over its label and its own sampled words.

    Args:
        candidates: `Candidates` with ids and log_expected (N, S).
        criterion, hidden, rows_and_biases, labels, corrected: as in `sampled_loss`.
        hits: a `Hits`, `KEEP` or `REMOVE`.

    Returns:
        (N,) float32, nats. Differentiable with respect to hidden, rows and biases.
    """
    ids = tf.transpose(candidates.ids)  # (S, N)
    unique = static_unique if under_xla() else tf.unique
    rows, place = unique(tf.concat([tf.reshape(ids, [-1]), labels], 0))
    word_place = tf.reshape(place[: tf.size(ids)], tf.shape(ids))
    label_place = place[tf.size(ids) :]
    shift, label_shift = 0.0, 0.0
    if corrected:
        shift, label_shift = candidates.log_expected, candidates.log_expected_labels

    @tf.custom_gradient
    def differentiable(hidden, kernel_rows, biases):
        wide = tf.cast(hidden, tf.float32)

        def score(place):
            return tf.reduce_sum(wide * tf.gather(kernel_rows, place), axis=1)

        scores = tf.map_fn(score, word_place, parallel_iterations=1, fn_output_signature=tf.float32)
        scores = tf.transpose(scores)
        word_biases = tf.transpose(tf.gather(biases, word_place))
        label_scores = score(label_place) + tf.gather(biases, label_place) - label_shift
        if hits != Hits.KEEP:
            scores = tf.where(candidates.ids == labels[:, None], LEFT_OUT, scores)
        ones = tf.ones([candidates.ids.shape[1]])
        words = Words(scores, word_biases, shift, ones)
        losses, slopes = criterion(label_scores, words)

        def gradient(upstream):
            by_word = tf.transpose(slopes.words * (upstream * slopes.rows)[:, None])
            by_label = upstream * slopes.label

            def add(place, slope, d_hidden, d_rows):
                d_hidden += slope[:, None] * tf.gather(kernel_rows, place)
                update = slope[:, None] * wide
                return d_hidden, tf.tensor_scatter_nd_add(d_rows, place[:, None], update)

            start = add(label_place, by_label, tf.zeros_like(wide), tf.zeros_like(kernel_rows))
            _, d_hidden, d_rows = tf.while_loop(
                lambda i, *_: i < tf.shape(by_word)[0],
                lambda i, *sums: (i + 1, *add(word_place[i], by_word[i], *sums)),
                (0, *start),
                parallel_iterations=1,
            )
            d_biases = tf.math.unsorted_segment_sum(by_label, label_place, tf.size(rows))
            d_biases += tf.math.unsorted_segment_sum(by_word, word_place, tf.size(rows))
            return tf.cast(d_hidden, hidden.dtype), d_rows, d_biases

        return losses, gradient

    return differentiable(hidden, *rows_and_biases(rows))
