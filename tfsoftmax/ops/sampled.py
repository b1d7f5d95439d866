"""Losses over a sample of the vocabulary that all positions share, with hand-written gradients.

With the labels' scores t (N,) and the scores u (N, M) of the sampled words, of which word j
was drawn m_j times, a criterion gives each position's loss and its slopes

    ∂loss/∂u = r ⊗ c ∘ E,    ∂loss/∂t = a,

E (N, M) left without its row factors r (N,) and column factors c (M,): they fall on matrices
with D columns, dh = r (E (c W)) + a W_y and dW = c (Eᵀ (r h)). The rows of labels and sampled
words are gathered together, each once, so that the gradient of a variable is one
`IndexedSlices` of unique rows; nothing else of the variable is read.

Shapes: N positions, D hidden units, S samples, M <= S sampled words, U <= S + N rows.
"""

import collections

import tensorflow as tf

from tfsoftmax.ops.unique import static_unique
from tfsoftmax.ops.xla import under_xla

Slopes = collections.namedtuple("Slopes", "label words rows columns")
_Layout = collections.namedtuple("_Layout", "rows word_place label_place copies log_expected")
_CLOSEST_TO_ONE = 1 - 1e-6  # of a probability whose complement is divided by
NOT_THERE = -1e30  # score of a word that is left out; -inf would make NaN of none but such


def sampled_loss(
    criterion, hidden, kernel, bias, labels, candidates, corrected=True, remove_hits=False
):
    """Loss of each position over its label and the sampled words.

    A word that was drawn twice is computed once, but under XLA, where no shape may depend on
    the sample.

    Args:
        criterion: `softmax`, `logistic` or `blackout`.
        hidden: (N, D) float; its dtype is the dtype of the matmuls.
        kernel: (V, D) float32 variable.
        bias: function of ids (U,) to their biases (U,) float32.
        labels: (N,) int32.
        candidates: `Candidates` of S ids for these labels.
        corrected: whether scores have the logarithm of their expected count subtracted.
        remove_hits: whether samples that equal a position's label are left out of its loss:
            False, True, or, of `softmax`, "once": all but one of them stay.

    Returns:
        (N,) float32, nats. Differentiable with respect to hidden, kernel and bias.
    """
    layout = (_static if under_xla() else _distinct)(candidates, labels)
    rows, word_place, label_place, copies, log_expected = layout
    shift = log_expected if corrected else tf.zeros_like(log_expected)
    label_shift = candidates.log_expected_labels if corrected else 0.0

    @tf.custom_gradient
    def differentiable(hidden, kernel_rows, biases):
        narrow = tf.cast(kernel_rows, hidden.dtype)
        word_rows, label_rows = tf.gather(narrow, word_place), tf.gather(narrow, label_place)
        scores = tf.cast(tf.matmul(hidden, word_rows, transpose_b=True), tf.float32)
        offset = tf.gather(biases, word_place) - shift
        products = tf.cast(hidden, tf.float32) * tf.cast(label_rows, tf.float32)
        label_scores = tf.reduce_sum(products, axis=1)
        label_scores += tf.gather(biases, label_place) - label_shift
        if remove_hits:
            hits = label_place[:, None] == word_place
            left = _share_without_one(hits, copies) if remove_hits == "once" else NOT_THERE
            scores = tf.where(hits, scores + left, scores)
        losses, slopes = criterion(label_scores, scores, offset, copies)

        def gradient(upstream):
            unit = 1.0
            matrix, by_row, by_label = slopes.words, slopes.rows, upstream * slopes.label
            if hidden.dtype == tf.float16:  # small weights would underflow
                unit = tf.maximum(tf.reduce_max(tf.abs(upstream)), 1e-30)
                matrix, by_row = matrix * by_row[:, None], tf.ones_like(by_row)
            by_row *= upstream / unit
            matrix = tf.cast(matrix, hidden.dtype)
            scaled = hidden * tf.cast(by_row, hidden.dtype)[:, None]
            weighted, columns = word_rows, slopes.columns
            if columns is not None:
                weighted *= tf.cast(columns, hidden.dtype)[:, None]
            d_hidden = (unit * by_row)[:, None] * tf.cast(tf.matmul(matrix, weighted), tf.float32)
            d_hidden += by_label[:, None] * tf.cast(label_rows, tf.float32)
            d_words = tf.cast(tf.matmul(matrix, scaled, transpose_a=True), tf.float32)
            d_word_biases = tf.linalg.matvec(tf.cast(matrix, tf.float32), by_row, transpose_a=True)
            if columns is not None:
                d_words *= columns[:, None]
                d_word_biases *= columns
            if hidden.dtype == tf.float16:
                d_words, d_word_biases = unit * d_words, unit * d_word_biases
            d_labels = by_label[:, None] * tf.cast(hidden, tf.float32)

            def placed(words, labels, like):  # in two steps: joining them would copy
                total = tf.tensor_scatter_nd_add(tf.zeros_like(like), label_place[:, None], labels)
                return tf.tensor_scatter_nd_add(total, word_place[:, None], words)

            return (
                tf.cast(d_hidden, hidden.dtype),
                placed(d_words, d_labels, kernel_rows),
                placed(d_word_biases, by_label, biases),
            )

        return losses, gradient

    return differentiable(hidden, tf.gather(kernel, rows), bias(rows))


def softmax(label, scores, offset, copies):
    """-ln of the label's share, exp t / (exp t + Σ m exp u): sampled softmax.

    Args:
        label: (N,), scores t of the labels, complete.
        scores: (N, M), scores of the sampled words without `offset`.
        offset: (M,) or (N, M), to be added to the scores.
        copies: (M,), m.

    Source: Müller 2017, equations 2.29 and 3.2.
    """
    scores += offset + tf.math.log(copies)
    shares = tf.nn.softmax(scores)  # a third of the time of exp, its subtraction and its sum
    log_sum = tf.reduce_max(scores, axis=1) - tf.math.log(tf.reduce_max(shares, axis=1))
    log_total = tf.maximum(log_sum, label) + tf.nn.softplus(-tf.abs(log_sum - label))
    slopes = Slopes(
        tf.math.expm1(label - log_total), shares, tf.exp(log_sum - log_total), None
    )
    return log_total - label, slopes


def logistic(label, scores, offset, copies):
    """-ln σ(t) - Σ m ln σ(-u): noise contrastive estimation, negative sampling.

    Args: those of `softmax`.
    Source: Müller 2017, equations 2.37 and 2.38.
    """
    scores += offset
    losses = tf.nn.softplus(-label) + tf.linalg.matvec(_softplus(scores), copies)
    return losses, Slopes(-tf.sigmoid(-label), tf.sigmoid(scores), tf.ones_like(label), copies)


def blackout(label, scores, offset, copies):
    """-ln p_y - Σ m ln(1 - p_j), with the shares p of `softmax`, those of one copy of a word.

    Shares of sampled words are taken for at most 1 - 1e-6.

    Args: those of `softmax`.
    Source: Müller 2017, equations 2.40 and 2.41 (Ji et al. 2016).
    """
    losses, multinomial = softmax(label, scores, offset, copies)
    shares = multinomial.words * (multinomial.rows[:, None] / copies)
    shares = tf.minimum(shares, _CLOSEST_TO_ONE)
    losses -= tf.linalg.matvec(tf.math.log1p(-shares), copies)
    odds = shares / (1 - shares)
    excess = tf.linalg.matvec(odds, copies) - 1
    slopes = odds - shares * excess[:, None]
    label_share = multinomial.label + 1
    return losses, Slopes(-1 - excess * label_share, slopes, tf.ones_like(label), copies)


def keep_highest(count, criterion):
    """`criterion` with only the `count` words of the highest scores at each position (TAPAS).

    Source: Müller 2017, section 2.2.3.5 (Yu et al. 2017).
    """

    def kept(label, scores, offset, copies):
        scores += offset
        lowest = tf.math.top_k(scores, tf.minimum(count, tf.shape(scores)[1])).values[:, -1:]
        scores = tf.where(scores >= lowest, scores, NOT_THERE)
        return criterion(label, scores, tf.zeros_like(offset), copies)

    return kept


def _softplus(scores):
    """ln(1 + eˣ) within 6e-8, in less than half of the time of TensorFlow's."""
    return tf.nn.relu(scores) - tf.math.log(tf.sigmoid(tf.abs(scores)))


def _share_without_one(hits, copies):
    """ln (m - 1) / m of the m samples that equal each position's label, (N, 1)."""
    copies = tf.reduce_sum(tf.where(hits, copies, 0.0), axis=1, keepdims=True)
    return tf.where(copies > 1, tf.math.log((copies - 1) / copies), NOT_THERE)


def _distinct(candidates, labels):
    """Which rows to gather, and where words and labels are among them: all rows differ."""
    words, copy_of = tf.unique(candidates.ids)
    count = tf.size(words)
    copies = tf.math.unsorted_segment_sum(tf.ones(tf.shape(copy_of)), copy_of, count)
    log_expected = tf.math.unsorted_segment_max(candidates.log_expected, copy_of, count)
    rows, place = tf.unique(tf.concat([words, labels], 0))
    return _Layout(rows, place[:count], place[count:], copies, log_expected)


def _static(candidates, labels):
    """The same with S words, whether they differ or not, and S + N rows."""
    rows, place = static_unique(tf.concat([candidates.ids, labels], 0))
    count, copies = tf.size(candidates.ids), tf.ones(tf.shape(candidates.ids))
    return _Layout(rows, place[:count], place[count:], copies, candidates.log_expected)
