"""Losses over a sample of the vocabulary that all positions share, with hand-written gradients.

The factors r and c of the slopes of `ops.criteria` are multiplied into matrices with D columns,
dh = r (E (c W)) + a W_y and dW = c (Eᵀ (r h)). The rows of labels and
sampled words are gathered together, each once, so that the gradient of a variable is one
`IndexedSlices` of unique rows; nothing else of the variable is read.

Shapes: N positions, D hidden units, S samples, M <= S sampled words, U <= S + N rows.
"""

import collections

import tensorflow as tf

from tfsoftmax.distributions import products
from tfsoftmax.distributions.per_example import per_example_loss
from tfsoftmax.ops.criteria import LEFT_OUT, WITHOUT_ONE, Hits, Words
from tfsoftmax.ops.custom_gradients import differentiable
from tfsoftmax.ops.graphs import under_xla
from tfsoftmax.ops.logits import full_logits, label_logits
from tfsoftmax.ops.subsets import distinct
from tfsoftmax.ops.weighting import weighted

_Layout = collections.namedtuple("_Layout", "rows word_place label_place copies log_expected")


def sampled_loss(
    criterion, hidden, rows_and_biases, labels, candidates, corrected=True, hits=Hits.KEEP,
    is_certain=None,
):
    """Loss of each position over its label and the sampled words.

    A word that was drawn twice is computed once, except under XLA, where no shape may depend on
    the sample.

    Args:
        criterion: a function of `ops.criteria`.
        hidden: (N, D) float; its dtype is the dtype of the matmuls.
        rows_and_biases: function of ids (U,) to their rows of the kernel (U, D) and their biases
            (U,), float32.
        labels: (N,) int32.
        candidates: `Candidates` for these labels: of S ids for all positions, whose log_expected
            may be (S,) or, for words that differ, (N, S); or of ids (N, S), for each its own.
        corrected: whether the logarithms of the expected counts are subtracted from the scores.
        hits: a `Hits`.
        is_certain: (N,), whether each label is in the sample for certain, so that all hits of the
            position are left out, or None. Only where all positions share the words.

    Returns:
        (N,) float32, nats. Differentiable with respect to hidden, rows and biases.
    """
    if candidates.ids.shape.rank == 2:
        return per_example_loss(
            criterion, hidden, rows_and_biases, labels, candidates, corrected, hits
        )[0]
    if hits == Hits.REMOVE_ONE and criterion in WITHOUT_ONE:
        criterion, hits = WITHOUT_ONE[criterion], Hits.KEEP
    separate = under_xla() or candidates.log_expected.shape.rank == 2
    layout = (_separate if separate else _distinct)(candidates, labels)
    label_shift = candidates.log_expected_labels if corrected else 0.0

    def function(hidden, kernel_rows, biases):
        narrow = tf.cast(kernel_rows, hidden.dtype)
        word_rows = tf.gather(narrow, layout.word_place)
        scores = _without_hits(full_logits(hidden, word_rows, None), layout, hits, is_certain)
        log_expected = layout.log_expected
        if not corrected:
            log_expected = tf.where(_is_left_out(layout), log_expected, 0.0)
        words = Words(scores, tf.gather(biases, layout.word_place), log_expected, layout.copies)
        label_scores, label_rows = label_logits(hidden, narrow, biases, layout.label_place)
        losses, slopes = criterion(label_scores - label_shift, words)

        def weighted_gradients(weights):
            return (), _gradients(slopes, weights, hidden, word_rows, label_rows, layout)

        return losses, lambda upstream: products.with_unit_weights(
            weighted_gradients, upstream, hidden.dtype
        )[1]

    return differentiable(function, hidden, *rows_and_biases(layout.rows))


def _without_hits(scores, layout, hits, is_certain):
    """Scores (N, M), lowered where a sampled word equals the position's label."""
    if hits == Hits.KEEP and is_certain is None:
        return scores
    equal = layout.label_place[:, None] == layout.word_place
    if is_certain is not None:
        scores = tf.where(equal & is_certain[:, None], LEFT_OUT, scores)
    if hits == Hits.KEEP:
        return scores
    if hits == Hits.REMOVE:
        return tf.where(equal, LEFT_OUT, scores)
    of_hits = _share_without_one(equal & ~_is_left_out(layout), layout.copies)
    return tf.where(equal, scores + of_hits, scores)


def _is_left_out(layout):
    """Whether words do not count, as their expected counts are -LEFT_OUT."""
    return layout.log_expected > -LEFT_OUT / 2


def _gradients(slopes, weights, hidden, word_rows, label_rows, layout):
    """Gradients of Σ weights · loss.

    Returns:
        dh (N, D), and the gradients of the gathered rows (U, D) and of their biases (U,).
    """
    d_word_biases = products.by_biases(slopes.words, slopes.rows * weights)
    (matrix,), (factors,) = products.narrowed([slopes.words], [slopes.rows], hidden.dtype)
    factors *= weights
    columns, by_label = slopes.columns, weighted(slopes.label, weights)
    weighted_rows = word_rows
    if columns is not None:
        weighted_rows *= tf.cast(columns, hidden.dtype)[:, None]
    d_hidden = products.by_hidden(matrix, factors, weighted_rows) + by_label[:, None] * label_rows
    d_words = products.by_words(matrix, factors, hidden)
    if columns is not None:
        d_words, d_word_biases = d_words * columns[:, None], d_word_biases * columns
    d_labels = by_label[:, None] * tf.cast(hidden, tf.float32)
    return [
        d_hidden, _placed(d_words, d_labels, layout), _placed(d_word_biases, by_label, layout)
    ]


def _placed(of_words, of_labels, layout):
    """The sums (U, ...) for the gathered rows of what belongs to words and to labels."""
    # Two scatters, because joining the rows first would copy all of them.
    shape = tf.concat([tf.shape(layout.rows), tf.shape(of_words)[1:]], 0)
    total = tf.scatter_nd(layout.label_place[:, None], of_labels, shape)
    return tf.tensor_scatter_nd_add(total, layout.word_place[:, None], of_words)


def _share_without_one(hits, copies):
    """ln((m - 1) / m) of the m samples that equal each position's label, (N, 1)."""
    copies = tf.reduce_sum(tf.where(hits, copies, 0.0), axis=1, keepdims=True)
    return tf.where(copies > 1, tf.math.log((copies - 1) / copies), LEFT_OUT)


def _distinct(candidates, labels):
    """The distinct rows to gather, and the places of words and labels among them."""
    words, copy_of = tf.unique(candidates.ids)
    count = tf.size(words)
    copies = tf.math.unsorted_segment_sum(tf.ones(tf.shape(copy_of)), copy_of, count)
    log_expected = tf.math.unsorted_segment_max(candidates.log_expected, copy_of, count)
    rows, place = tf.unique(tf.concat([words, labels], 0))
    return _Layout(rows, place[:count], place[count:], copies, log_expected)


def _separate(candidates, labels):
    """The same with each of the S words by itself, and under XLA with a fixed number of rows."""
    rows, place = distinct(tf.concat([candidates.ids, labels], 0))
    count, copies = tf.size(candidates.ids), tf.ones(tf.shape(candidates.ids))
    return _Layout(rows, place[:count], place[count:], copies, candidates.log_expected)
