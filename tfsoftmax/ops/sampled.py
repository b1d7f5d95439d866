"""Losses over a sample of the vocabulary that all positions share, with hand-written gradients.

With the labels' scores t (N,) and the scores u (N, M) of the sampled words, of which word j
was drawn m_j times, a criterion gives each position's loss and its slopes

    ∂loss/∂u = r ⊗ c ∘ E,    ∂loss/∂t = a,

where the row factors r (N,) and the column factors c (M,) are left out of E (N, M). They fall on
matrices with D columns, dh = r (E (c W)) + a W_y and dW = c (Eᵀ (r h)). The rows of labels and
sampled words are gathered together, each once, so that the gradient of a variable is one
`IndexedSlices` of unique rows; nothing else of the variable is read.

Shapes: N positions, D hidden units, S samples, M <= S sampled words, U <= S + N rows.
"""

import collections
import enum
import typing

import tensorflow as tf

from tfsoftmax.ops import products
from tfsoftmax.ops.custom_gradients import differentiable
from tfsoftmax.ops.logits import full_logits, label_logits
from tfsoftmax.ops.unique import static_unique
from tfsoftmax.ops.weighting import weighted
from tfsoftmax.ops.xla import under_xla

Slopes = collections.namedtuple("Slopes", "label words rows columns")


class Words(typing.NamedTuple):
    """The sampled words, as a criterion gets them.

    Attributes:
        products: (N, M), their scores without biases.
        biases: (M,) or (N, M).
        log_expected: (M,) or (N, M), the logarithms of their expected counts, or zeros.
        copies: (M,), m, how often each was drawn.
    """

    products: tf.Tensor
    biases: tf.Tensor
    log_expected: tf.Tensor
    copies: tf.Tensor

    def corrected(self, shift=0.0):
        """Scores u (N, M), from which the logarithms of the expected counts are subtracted.

        `shift`, (M,), is added to them in the same pass.
        """
        return self.products + (self.biases - self.log_expected + shift)


_Layout = collections.namedtuple("_Layout", "rows word_place label_place copies log_expected")
_CLOSEST_TO_ONE = 1 - 1e-6  # The largest probability whose complement is divided by.
LEFT_OUT = -1e30  # The score of a word that is left out. With -inf, a row without others is NaN.


class Hits(enum.Enum):
    """What happens to the samples that equal a position's label."""

    KEEP = "keep"  # They stay in the loss of the position.
    REMOVE = "remove"  # They are left out of it.
    REMOVE_ONE = "remove one"  # One of them is left out, and the others stay.


def sampled_loss(
    criterion, hidden, rows_and_biases, labels, candidates, corrected=True, hits=Hits.KEEP,
    is_certain=None,
):
    """Loss of each position over its label and the sampled words.

    A word that was drawn twice is computed once, except under XLA, where no shape may depend on
    the sample.

    Args:
        criterion: `softmax`, `self_normalised`, `logistic`, `logistic_of_batch` or `blackout`.
        hidden: (N, D) float; its dtype is the dtype of the matmuls.
        rows_and_biases: function of ids (U,) to their rows of the kernel (U, D) and their biases
            (U,), float32.
        labels: (N,) int32.
        candidates: `Candidates` of S ids for these labels, whose log_expected may be (S,) or, for
            words that differ, (N, S).
        corrected: whether the logarithms of the expected counts are subtracted from the scores.
        hits: a `Hits`. `Hits.REMOVE_ONE` is for `softmax` only.
        is_certain: (N,), whether each label is in the sample for certain, so that all hits of the
            position are left out, or None.

    Returns:
        (N,) float32, nats. Differentiable with respect to hidden, rows and biases.
    """
    separate = under_xla() or candidates.log_expected.shape.rank == 2
    layout = (_separate if separate else _distinct)(candidates, labels)
    label_shift = candidates.log_expected_labels if corrected else 0.0

    def function(hidden, kernel_rows, biases):
        narrow = tf.cast(kernel_rows, hidden.dtype)
        word_rows = tf.gather(narrow, layout.word_place)
        scores = _without_hits(full_logits(hidden, word_rows, None), layout, hits, is_certain)
        log_expected = layout.log_expected if corrected else tf.zeros_like(layout.log_expected)
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
    return tf.where(equal, scores + _share_without_one(equal, layout.copies), scores)


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


def softmax(label, words):
    """-ln of the label's share, exp t / (exp t + Σ m exp u): sampled softmax.

    Args:
        label: (N,), scores t of the labels, complete.
        words: `Words`.

    Source: Müller 2017, equations 2.29 and 3.2.
    """
    scores = words.corrected(tf.math.log(words.copies))
    shares = tf.nn.softmax(scores)  # Faster than the subtraction, exp and sum.
    log_sum = tf.reduce_max(scores, axis=1) - tf.math.log(tf.reduce_max(shares, axis=1))
    log_total = tf.maximum(log_sum, label) + tf.nn.softplus(-tf.abs(log_sum - label))
    slopes = Slopes(
        tf.math.expm1(label - log_total), shares, tf.exp(log_sum - log_total), None
    )
    return log_total - label, slopes


def self_normalised(label, words):
    """ln Σ m exp u - t: importance sampling, whose sum has no term of the label's own.

    Args: those of `softmax`.
    Source: Müller 2017, equations 2.25 to 2.27 (Bengio and Senécal 2003).
    """
    scores = words.corrected(tf.math.log(words.copies))
    ones = tf.ones_like(label)
    losses = tf.reduce_logsumexp(scores, axis=1) - label
    return losses, Slopes(-ones, tf.nn.softmax(scores), ones, None)


def logistic(label, words):
    """-ln σ(t) - Σ m ln σ(-u): noise contrastive estimation, negative sampling.

    Args: those of `softmax`.
    Source: Müller 2017, equations 2.37 and 2.38.
    """
    scores, copies = words.corrected(), words.copies
    losses = tf.nn.softplus(-label) + tf.linalg.matvec(_softplus(scores), copies)
    return losses, Slopes(-tf.sigmoid(-label), tf.sigmoid(scores), tf.ones_like(label), copies)


def logistic_of_batch(label, words):
    """`logistic` without one of the samples that equal the label: -t - Σ m ln σ(-u).

    For samples that hold each label once, undrawn. That one's term, -ln σ(-t), is left out.

    Args: those of `softmax`.
    """
    losses, slopes = logistic(label, words)
    return losses - _softplus(label), slopes._replace(label=-tf.ones_like(label))


def blackout(label, words):
    """-ln p_y - Σ m ln(1 - p_j), where p are the shares of `softmax` for one copy of a word.

    Shares of sampled words are clipped at 1 - 1e-6.

    Args: those of `softmax`.
    Source: Müller 2017, equations 2.40 and 2.41 (Ji et al. 2016).
    """
    losses, multinomial = softmax(label, words)
    copies = words.copies
    shares = multinomial.words * (multinomial.rows[:, None] / copies)
    shares = tf.minimum(shares, _CLOSEST_TO_ONE)
    losses -= tf.linalg.matvec(tf.math.log1p(-shares), copies)
    odds = shares / (1 - shares)
    excess = tf.linalg.matvec(odds, copies) - 1
    slopes = odds - shares * excess[:, None]
    label_share = multinomial.label + 1
    return losses, Slopes(-1 - excess * label_share, slopes, tf.ones_like(label), copies)


def effective_sizes(label, words):
    """(Σ ω)² / Σ ω² with ω = exp u, as a criterion without slopes: a number, and no loss.

    Args: those of `softmax`.
    Source: Müller 2017, equation 2.30.
    """
    scores, log_copies = words.corrected(), tf.math.log(words.copies)
    log_sum = tf.reduce_logsumexp(scores + log_copies, axis=1)
    return tf.exp(2 * log_sum - tf.reduce_logsumexp(2 * scores + log_copies, axis=1)), None


def keep_highest(count, by, criterion):
    """`criterion` over only `count` sampled words at each position, the highest ones (TAPAS).

    Args:
        count: number of words.
        by: "score", or "corrected_score" for what remains of it once the logarithm of the word's
            expected count is subtracted.
        criterion: as in `sampled_loss`.

    Source: Müller 2017, section 2.2.3.5 (Yu et al. 2017), by "score".
    """

    def kept(label, words):
        corrected = words.corrected()
        ranked = corrected
        if by == "score":  # words that are left out stay behind all others
            left_out = corrected < LEFT_OUT / 2
            ranked = tf.where(left_out, LEFT_OUT, words.products + words.biases)
        lowest = tf.math.top_k(ranked, tf.minimum(count, tf.shape(ranked)[1])).values[:, -1:]
        corrected = tf.where(ranked >= lowest, corrected, LEFT_OUT)
        none = tf.zeros_like(words.biases)
        return criterion(label, Words(corrected, none, none, words.copies))

    return kept


def _softplus(scores):
    """ln(1 + eˣ), faster than TensorFlow's on a CPU."""
    return tf.nn.relu(scores) - tf.math.log(tf.sigmoid(tf.abs(scores)))


def _share_without_one(hits, copies):
    """ln (m - 1) / m of the m samples that equal each position's label, (N, 1)."""
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
    unique = static_unique if under_xla() else tf.unique
    rows, place = unique(tf.concat([candidates.ids, labels], 0))
    count, copies = tf.size(candidates.ids), tf.ones(tf.shape(candidates.ids))
    return _Layout(rows, place[:count], place[count:], copies, candidates.log_expected)
