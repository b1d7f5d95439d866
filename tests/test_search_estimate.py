"""Exact scores of candidates, and ln Z from them and a sample, against loops and over draws."""

import numpy as np
import pytest
import tensorflow as tf

import references
from tfsoftmax.ops.inclusion import inclusion_probabilities
from tfsoftmax.retrieval.found_words import Sample, estimated_log_z, sample_of, scores_of

V, D, N, FOUND = 2000, 12, 40, 50


def head_like(words=V, units=D, positions=N, seed=0):
    """Kernel, bias and hidden states: few words are likely in a context, and rare ones seldom."""
    rng = np.random.default_rng(seed)
    topics = rng.normal(size=(20, units))
    kernel = topics[rng.integers(20, size=words)] + 0.7 * rng.normal(size=(words, units))
    bias = -np.log(np.arange(1, words + 1))
    hidden = 0.5 * topics[rng.integers(20, size=positions)] + 0.3 * rng.normal(
        size=(positions, units)
    )
    return [t.astype(np.float32) for t in (kernel, bias, hidden)]


def found_by(logits, count):
    return np.argsort(-logits, axis=1)[:, :count].astype(np.int32)


KERNEL, BIAS, HIDDEN = head_like()
LOGITS = HIDDEN.astype(np.float64) @ KERNEL.T.astype(np.float64) + BIAS
IDS = found_by(LOGITS, FOUND)
COUNTS = 1e6 / np.arange(1, V + 1)


def estimates(size, seed, counts=None, ids=IDS):
    sizes = np.ones(V) if counts is None else counts**0.5
    sample = sample_of(inclusion_probabilities(sizes, size), seed)
    return estimated_log_z(HIDDEN, KERNEL, BIAS, ids, scores_of(HIDDEN, KERNEL, BIAS, ids), sample)


@pytest.mark.parametrize("soft_cap", [None, 2.0])
@pytest.mark.parametrize("bias", [None, BIAS])
def test_scores_and_log_z_are_those_of_the_loops(bias, soft_cap):
    rng = np.random.default_rng(3)
    ids = np.array([rng.permutation(V)[:7] for _ in range(N)], np.int32)
    ids[3, 2] = ids[5, 0] = -1
    sample = sample_of(inclusion_probabilities(COUNTS**0.5, 90), 4)
    assert np.isin(ids, sample.ids).any() and (sample.inclusion == 1).any()
    scores = scores_of(HIDDEN, KERNEL, bias, ids, soft_cap)
    np.testing.assert_allclose(
        scores, references.scores_of(HIDDEN, KERNEL, bias, ids, soft_cap), rtol=1e-4, atol=1e-4
    )
    log_z, error = estimated_log_z(HIDDEN, KERNEL, bias, ids, scores, sample, soft_cap)
    expected = references.estimated_log_z(HIDDEN, KERNEL, bias, ids, sample, soft_cap)
    np.testing.assert_allclose(log_z, expected[0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(error, expected[1], rtol=1e-3)


def test_a_sample_has_each_word_as_often_as_its_probability_says():
    inclusion = inclusion_probabilities(1 / np.arange(1, 31), 8).numpy()
    draws, seen = 1000, np.zeros(30)
    for seed in range(draws):
        sample = sample_of(inclusion, seed)
        assert len(sample.ids) == len(set(sample.ids)) == 8
        np.testing.assert_array_equal(sample.inclusion, inclusion[sample.ids])
        seen[sample.ids] += 1
    deviation = np.sqrt(inclusion * (1 - inclusion) / draws)
    assert np.all(np.abs(seen / draws - inclusion) <= 4 * deviation)


@pytest.mark.parametrize("counts", [None, COUNTS])
def test_the_mean_of_the_estimates_is_z(counts):
    """Of Z, not of ln Z; the words found are counted once, though samples have some of them."""
    ids, z = IDS[:, :10], np.exp(LOGITS).sum(1)
    draws = np.array([np.exp(estimates(60, seed, counts, ids)[0]) for seed in range(150)])
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert np.all(error < 0.06 * z)
    deviations = (draws.mean(axis=0) - z) / error
    assert np.abs(deviations).max() < 4.5
    assert np.abs(deviations.mean()) < 1


@pytest.mark.parametrize("counts", [None, COUNTS])
def test_the_interval_covers_log_z_at_its_rate(counts):
    exact = np.log(np.exp(LOGITS).sum(1))
    covered, errors, true = [], [], []
    for seed in range(100):
        log_z, error = estimates(400, seed, counts)
        covered.append(np.abs(log_z - exact) < 1.96 * error)
        errors.append(error)
        true.append(log_z - exact)
    assert 0.92 < np.mean(covered) < 0.97
    # The stated error is that of the estimates.
    assert np.mean(np.square(errors)) == pytest.approx(np.mean(np.square(true)), rel=0.1)


def test_a_draw_by_counts_has_the_smaller_error():
    alike, by_counts = (
        np.mean([estimates(400, seed, counts, IDS[:, :10])[1] ** 2 for seed in range(5)])
        for counts in (None, COUNTS)
    )
    assert by_counts < 0.8 * alike


@pytest.mark.parametrize("found", [1, FOUND])
def test_a_sample_of_all_words_gives_z_itself(found):
    log_z, error = estimates(V, 0, ids=IDS[:, :found])
    np.testing.assert_allclose(log_z, np.log(np.exp(LOGITS).sum(1)), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(error, 0)


def test_one_word_in_all():
    sample = sample_of(inclusion_probabilities([3.0], 1), 0)
    ids = np.zeros((2, 1), np.int32)
    scores = scores_of(HIDDEN[:2], KERNEL[:1], None, ids)
    log_z, error = estimated_log_z(HIDDEN[:2], KERNEL[:1], None, ids, scores, sample)
    np.testing.assert_allclose(log_z, scores[:, 0], rtol=1e-6)
    np.testing.assert_array_equal(error, 0)


def test_large_scores_do_not_overflow():
    sample = Sample(np.array([1, 2], np.int32), np.array([0.5, 0.5]))
    kernel = np.array([[300.0], [200.0], [100.0], [50.0]], np.float32)
    ids, hidden = np.array([[0]], np.int32), tf.ones([1, 1])
    log_z, error = estimated_log_z(
        hidden, kernel, None, ids, scores_of(hidden, kernel, None, ids), sample
    )
    assert log_z[0] == 300 and error[0] == 0
