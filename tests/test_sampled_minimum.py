"""Where the docstrings say that a sampled objective has its minimum, its expected gradient is zero.

The true distribution P has one context. The scores are those that are said to be the minimum, so
that the loss has no expected slope in any word's bias when labels are drawn from P.
For in-batch negatives, all batches of a small distribution are enumerated.
"""

import itertools

import numpy as np
import pytest
import tensorflow as tf

import tfsoftmax
from cases import with_gradients
from tfsoftmax import NCE, SampledSoftmax
from tfsoftmax.samplers import InBatch, Unigram

DRAWS = 20_000


def scores_of_slopes(head, truth, scores=None, draws=DRAWS):
    """Mean slope of the loss in each bias over many samples, in its standard deviations: (V,)."""
    size = len(truth)
    hidden, labels = tf.zeros([size, 1]), tf.range(size)
    head.build((None, 1))
    head.bias.assign(np.log(truth) if scores is None else scores)

    @tf.function
    def moments():
        total, squares = tf.zeros([size], tf.float64), tf.zeros([size], tf.float64)
        for _ in tf.range(draws):
            _, (slope,) = with_gradients(
                lambda: truth * head.training_loss(hidden, labels), [head.bias]
            )
            slope = tf.cast(slope, tf.float64)
            total, squares = total + slope, squares + slope**2
        return total / draws, squares / draws

    mean, square = (moment.numpy() for moment in moments())
    return mean / np.sqrt(np.maximum(square - mean**2, 1e-10) / draws)


def truth_of(vocab_size):
    weights = np.random.default_rng(3).gamma(0.7, size=vocab_size) + 0.02
    return (weights / weights.sum()).astype(np.float32)


def head_of(vocab_size, num_samples, uniform):
    counts = np.ones(vocab_size) if uniform else np.arange(1, vocab_size + 1) ** 2.0
    return tfsoftmax.SampledSoftmax(
        vocab_size, num_samples, "unigram", counts=counts, sampler_options={"unique": True}, seed=1
    )


CASES = [(4, 1, False), *(
    pytest.param(*case, marks=pytest.mark.slow)
    for case in [(4, 2, False), (4, 3, False), (4, 4, False), (30, 5, True)]
)]


@pytest.mark.parametrize("vocab_size, num_samples, uniform", CASES)
def test_the_true_distribution_is_the_minimum_without_replacement(vocab_size, num_samples, uniform):
    scores = scores_of_slopes(head_of(vocab_size, num_samples, uniform), truth_of(vocab_size))
    assert np.abs(scores).max() < 4.5


@pytest.mark.parametrize("vocab_size, num_samples, uniform", CASES[:2])
def test_with_a_threshold_for_each_word_it_would_not_be(vocab_size, num_samples, uniform):
    head = head_of(vocab_size, num_samples, uniform)
    head.sampler.sample_others = head.sampler.sample
    assert np.abs(scores_of_slopes(head, truth_of(vocab_size))).max() > 5.5


TRUTH = np.array([0.6, 0.25, 0.1, 0.05], np.float32)
Q = np.array([1, 2, 3, 4]) / 10
LOG_KQ, LOG_ODDS = np.log(3 * Q), np.log(TRUTH / (1 - TRUTH))
UNIQUE, NO_HITS = {"sampler_options": {"unique": True}}, {"remove_accidental_hits": True}
STATEMENTS = {
    "sampled": (tfsoftmax.SampledSoftmax, {}, np.log(TRUTH)),
    "sampled, smoothed": (
        tfsoftmax.SampledSoftmax, {"label_smoothing": 0.2}, np.log(0.8 * TRUTH + 0.2 / 4)),
    "sampled for each position": (
        tfsoftmax.SampledSoftmax, {"shared_samples": False}, np.log(TRUTH)),
    "nce": (tfsoftmax.NCE, {"log_z": 0.5}, np.log(TRUTH) + 0.5),
    "nce for each position": (tfsoftmax.NCE, {"Z": 1, "shared_samples": False}, np.log(TRUTH)),
    "nce without replacement": (tfsoftmax.NCE, {"Z": 1, **UNIQUE}, np.log(TRUTH)),
    "negative": (tfsoftmax.NegativeSampling, {}, np.log(TRUTH) - LOG_KQ),
    "negative without hits": (
        tfsoftmax.NegativeSampling, {"restore_proposal": False, **NO_HITS}, LOG_ODDS - LOG_KQ),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_scores_that_are_said_to_be_the_minimum_have_no_expected_slope(name):
    cls, options, minimum = STATEMENTS[name]

    def slopes(scores):
        head = cls(4, 3, counts=[1, 2, 3, 4], seed=1, **options)
        return np.abs(scores_of_slopes(head, TRUTH, scores, draws=4000)).max()

    assert slopes(minimum) < 4.5
    assert slopes(minimum + [0.2, 0, -0.2, 0]) > 5.5


def test_objectives_that_would_report_other_probabilities_are_refused():
    options = {"num_samples": 3, "remove_accidental_hits": True}
    with pytest.raises(ValueError, match=r"`remove_accidental_hits` must not be True for NCE"):
        tfsoftmax.NCE(4, **options)
    with pytest.raises(ValueError, match="`restore_proposal` must be False if accidental hits"):
        tfsoftmax.NegativeSampling(4, **options)
    older = {**tfsoftmax.NCE(4, 3).get_config(), "remove_accidental_hits": True}
    with pytest.warns(UserWarning, match="NCE keeps accidental hits from now on"):
        assert tfsoftmax.NCE.from_config(older).remove_accidental_hits is None


def test_the_sample_without_the_label_has_as_many_words_as_asked_for():
    sampler = tfsoftmax.samplers.Uniform(9, unique=True)
    for seed in range(20):
        ids, log_expected, log_expected_labels = sampler.sample_others(tf.range(9), 4, seed)
        assert len(set(ids.numpy())) == 5
        takes_part = (log_expected.numpy() < 1e29) & (ids.numpy() != np.arange(9)[:, None])
        np.testing.assert_array_equal(takes_part.sum(axis=1), 4)
        # Uniform words have one expected count, that of the label.
        same = np.where(takes_part, log_expected - log_expected_labels[:, None], 0)
        np.testing.assert_allclose(same, 0, atol=1e-6)


def slope_in_batches(
    counts, size=3, num_samples=None, extra=None, repeats=1, head=SampledSoftmax, scores=np.log,
    **options,
):
    """The largest slope, at scores of the true distribution, of the loss of all batches."""
    rng = np.random.default_rng(0)
    contexts, words = 2, 4
    joint = rng.dirichlet(np.ones(contexts * words)).reshape(contexts, words)
    sampler = InBatch(words, counts(joint.sum(0)), extra and extra(joint.sum(0)))
    head = head(words, num_samples, sampler, use_bias=False, seed=1, **options)
    head.build((None, contexts))
    if getattr(head, "label_smoothing", 0):  # all replacements are enumerated with the labels
        joint = 0.7 * joint + 0.3 * joint.sum(1, keepdims=True) / words
        head._smoothed = lambda labels: labels
    head.kernel.assign(scores(joint / joint.sum(1, keepdims=True)).T)
    pairs = itertools.product(range(contexts), range(words))
    batches = np.array([*itertools.product(pairs, repeat=size)] * repeats)
    weights = joint[batches[..., 0], batches[..., 1]].prod(1) / repeats

    def gradient(batch):
        hidden = tf.one_hot(batch[:, 0], contexts)
        loss = tf.reduce_sum(head.training_loss(hidden, batch[:, 1]))
        return tf.convert_to_tensor(tf.gradients(loss, head.kernel.value)[0])

    @tf.function
    def gradients():
        return tf.map_fn(gradient, batches, tf.float32, parallel_iterations=1)

    return np.abs(np.einsum("b,bvd->vd", weights, gradients().numpy())).max()


def test_labels_of_the_batch_have_it_if_all_count_and_q_is_theirs():
    assert slope_in_batches(lambda q: q) < 1e-6
    for counts, hits in ((np.ones_like, None), (lambda q: None, None), (lambda q: q, True)):
        assert slope_in_batches(counts, remove_accidental_hits=hits) > 1e-2


def test_nce_with_labels_of_the_batch_has_it_at_its_normaliser():
    nce = {"counts": lambda q: q, "head": NCE, "log_z": 0.7, "scores": lambda p: np.log(p) + 0.7}
    assert slope_in_batches(**nce) < 1e-6
    assert slope_in_batches(**{**nce, "scores": lambda p: np.log(p / (1 - p)) + 0.7}) > 1e-2
    drawn = {"num_samples": 8, "extra": lambda q: Unigram(4, q[::-1]), "repeats": 4}
    assert slope_in_batches(**nce, **drawn) < 0.04  # the statistical error


def test_a_mixed_sample_has_it_near_the_true_distribution():
    popular = {"num_samples": 8, "extra": lambda q: Unigram(4, q), "repeats": 4}
    mixed = slope_in_batches(lambda q: q, **popular)
    apart = slope_in_batches(lambda q: q, **{**popular, "extra": lambda q: Unigram(4, q[::-1])})
    wrong = slope_in_batches(lambda q: None, **popular)
    # The statistical error is about 0.01. From a popular sample without ln q the minimum is far.
    assert mixed < 0.04 and apart < 0.15 < wrong


def test_label_smoothing_of_batches_has_it_at_the_smoothed_distribution():
    assert slope_in_batches(lambda q: q, label_smoothing=0.3) < 1e-6
    wrong = {"counts": lambda q: 0.7 * q + 0.3 / 4, "label_smoothing": 0.3}  # smoothed twice
    assert slope_in_batches(**wrong) > 1e-2
