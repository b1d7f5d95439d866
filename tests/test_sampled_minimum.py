"""At the true distribution the expected gradient of the sampled softmax is zero: it is the minimum.

The true distribution P has one context. The scores are ln P, so that an exact loss has no
expected slope in any word's bias when labels are drawn from P.
"""

import numpy as np
import pytest
import tensorflow as tf

import tfsoftmax

DRAWS = 20_000


def scores_of_slopes(head, truth):
    """Mean slope of the loss in each bias over many samples, in its standard deviations: (V,)."""
    size = len(truth)
    hidden, labels = tf.zeros([size, 1]), tf.range(size)
    head.build((None, 1))
    head.bias.assign(np.log(truth))

    @tf.function
    def moments():
        total, squares = tf.zeros([size], tf.float64), tf.zeros([size], tf.float64)
        for _ in tf.range(DRAWS):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(truth * head.training_loss(hidden, labels))
            slope = tf.cast(tf.convert_to_tensor(tape.gradient(loss, head.bias.value)), tf.float64)
            total, squares = total + slope, squares + slope**2
        return total / DRAWS, squares / DRAWS

    mean, square = (moment.numpy() for moment in moments())
    return mean / np.sqrt(np.maximum(square - mean**2, 1e-10) / DRAWS)


def truth_of(vocab_size):
    weights = np.random.default_rng(3).gamma(0.7, size=vocab_size) + 0.02
    return (weights / weights.sum()).astype(np.float32)


def head_of(vocab_size, num_samples, uniform):
    counts = np.ones(vocab_size) if uniform else np.arange(1, vocab_size + 1) ** 2.0
    return tfsoftmax.SampledSoftmax(
        vocab_size, num_samples, "unigram", counts=counts, sampler_options={"unique": True}, seed=1
    )


FIRST, SECOND = (4, 1, False), pytest.param(4, 2, False, marks=pytest.mark.slow)
CASES = [FIRST, SECOND, pytest.param(4, 3, False, marks=pytest.mark.slow), (4, 4, False),
         (30, 5, True)]


@pytest.mark.parametrize("vocab_size, num_samples, uniform", CASES)
def test_the_true_distribution_is_the_minimum_without_replacement(vocab_size, num_samples, uniform):
    scores = scores_of_slopes(head_of(vocab_size, num_samples, uniform), truth_of(vocab_size))
    assert np.abs(scores).max() < 4.5


@pytest.mark.parametrize("vocab_size, num_samples, uniform", [FIRST, SECOND])
def test_with_a_threshold_for_each_word_it_would_not_be(vocab_size, num_samples, uniform):
    head = head_of(vocab_size, num_samples, uniform)
    head.sampler.sample_others = head.sampler.sample
    assert np.abs(scores_of_slopes(head, truth_of(vocab_size))).max() > 5.5


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
