"""Losses of sampled words: sampled softmax, NCE, negative sampling, BlackOut, and sample sizes.

Müller 2017, equations 2.25 to 2.30 and 2.37 to 2.41.

With the labels' scores t (N,) and the scores u (N, M) of the sampled words, of which word j was
drawn m_j times, a criterion gives each position's loss and its `Slopes`

    ∂loss/∂u = (r cᵀ) ∘ E,    ∂loss/∂t = a,

and returns the row factors r (N,) and column factors c (M,), or None for ones, apart from E (N, M).

Shapes: N positions, M sampled words.
"""

import collections
import enum
import typing

import tensorflow as tf

Slopes = collections.namedtuple("Slopes", "label words rows columns")
_CLOSEST_TO_ONE = 1 - 1e-6  # The largest probability whose complement is divided by.
LEFT_OUT = -1e30  # The score of a word that is left out: of -inf alone, a row would be NaN.


class Hits(enum.Enum):
    """What happens to the samples that equal a position's label."""

    KEEP = "keep"  # They stay in the loss of the position.
    REMOVE = "remove"  # They are left out of it.
    REMOVE_ONE = "remove one"  # One of them is left out, and the others stay.


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


def softmax(label, words):
    """-ln of the label's share, exp t / (exp t + Σ m exp u): sampled softmax.

    Args:
        label: (N,), scores t of the labels, with biases and correction.
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

    For samples that hold each label once, undrawn. The term of the label's own copy, -ln σ(-t), is
    left out.

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


WITHOUT_ONE = {logistic: logistic_of_batch}  # criteria that leave out one hit by another formula
