"""Proposal distributions: their equations, states, configurations and errors."""


import keras
import numpy as np
import pytest
import tensorflow as tf

import replicas_helper
from cases import assert_all_equal
from replicas_helper import strategy_here
from sampler_helper import LABELS, NAMES, make, probabilities, zipf_counts
from tfsoftmax.samplers import (
    Interpolated,
    LearnedUnigram,
    LogUniform,
    TargetSampling,
    Uniform,
    Unigram,
    get_sampler,
)
from tfsoftmax.samplers.alias_table import alias_table, cells, integer_weights


@pytest.mark.parametrize("name", NAMES)
def test_probabilities_sum_to_one(name):
    assert probabilities(make(name, 997)).sum() == pytest.approx(1, abs=1e-5)


def test_probabilities_are_those_of_the_equations():
    counts, ranks = zipf_counts(97), np.arange(97)
    unigram = np.where(counts > 0, counts, counts[counts > 0].min())
    distorted = unigram**0.75 / np.sum(unigram**0.75)
    unigram = unigram / unigram.sum()
    expected = {
        Uniform(97): np.full(97, 1 / 97),
        LogUniform(97): np.log((ranks + 2) / (ranks + 1)) / np.log(98),
        Unigram(97, counts): unigram,
        Unigram(97, counts, alpha=0.75): distorted,
        Interpolated(97, counts, 0.8): 0.8 * unigram + 0.2 / 97,
    }
    for sampler, q in expected.items():
        np.testing.assert_allclose(probabilities(sampler), q, rtol=1e-5)


def test_learned_unigram_counts_the_labels_it_is_shown():
    sampler = LearnedUnigram(11)
    np.testing.assert_allclose(probabilities(sampler), 1 / 11, rtol=1e-6)
    sampler.update(tf.constant([[3, 3, 10], [3, 0, 10]]))
    expected = np.ones(11)
    expected[[0, 3, 10]] += [1, 3, 2]
    np.testing.assert_allclose(probabilities(sampler), expected / 17, rtol=1e-6)


def test_interpolation_follows_its_schedule():
    schedule = keras.optimizers.schedules.PolynomialDecay(0.8, 4, end_learning_rate=1.0)
    sampler = Interpolated(10, zipf_counts(10), schedule)
    weights = []
    for _ in range(6):
        weights.append(float(sampler.weight()))
        sampler.update(LABELS)
    np.testing.assert_allclose(weights, [0.8, 0.85, 0.9, 0.95, 1, 1], rtol=1e-6)


@pytest.mark.parametrize("size", [1, 2, 3, 10, 37, 1000])
def test_the_alias_table_holds_each_weight_to_the_last_bit(size):
    scaled = integer_weights(np.random.default_rng(size).pareto(0.7, size) + 1e-9)
    threshold, alias = alias_table(scaled)
    kept = threshold.astype(np.int64) + 2**31
    kept[alias == np.arange(len(alias))] = 2**32
    drawn = np.zeros(cells(size), np.int64)
    for cell, word in enumerate(alias):
        drawn[cell] += kept[cell]
        drawn[word] += 2**32 - kept[cell]
    assert drawn.tolist() == scaled.tolist() + [0] * (cells(size) - size)


def test_rare_words_among_millions_keep_their_share():
    counts = 1 / np.arange(1, 3_000_001)
    counts[-1] = 1e-12  # 6e-14 of the mass; a running sum in float32 steps by 6e-8
    scaled = integer_weights(counts)
    q = scaled[[0, 12345, -2, -1]] / (cells(3_000_000) * 2.0**32)
    np.testing.assert_allclose(q, counts[[0, 12345, -2, -1]] / counts.sum(), rtol=1e-3)
    ids = Unigram(3_000_000, counts).sample([0], 100_000, 3).ids.numpy()
    thirds = np.searchsorted(np.cumsum(counts) / counts.sum(), [1 / 3, 2 / 3])
    found = np.histogram(ids, [0, *(thirds + 1), 3_000_000])[0] / 100_000
    cumulative = np.concatenate([[0], (np.cumsum(counts) / counts.sum())[thirds], [1]])
    np.testing.assert_allclose(found, np.diff(cumulative), atol=0.007)  # 4.5 deviations


@pytest.mark.parametrize("name", NAMES)
def test_samplers_survive_serialisation(name):
    sampler = make(name, unique=True)
    config = keras.saving.serialize_keras_object(sampler)
    again = keras.saving.deserialize_keras_object(config)
    assert type(again) is type(sampler) and again.get_config() == sampler.get_config()
    again.set_weights(sampler.get_weights())
    assert_all_equal(sampler.sample(LABELS, 4, 0), again.sample(LABELS, 4, 0))


@pytest.mark.filterwarnings("error")
def test_counts_that_fall_do_not_warn():
    assert LogUniform(4, [6, 5, 1, 1]).get_config()["vocab_size"] == 4


@pytest.mark.parametrize("build, message", [
    (lambda: Uniform(0), "`vocab_size` must lie .*vocab_size=0"),
    (lambda: Unigram(3, [1, 2]), r"`counts` must be .* 3 words.*\(2,\)"),
    (lambda: Unigram(3, [1, -2, 4]), "`counts` must .*not negative.*-2 for word 1"),
    (lambda: Unigram(3, [1, np.inf, 4]), "`counts` must be finite"),
    (lambda: Unigram(3, [0, 0, 0]), "`counts` must be .*Received: all zero"),
    (lambda: Unigram(3, [1, 2, 4], alpha=1.5), r"`alpha` must lie in \[0, 1\].*alpha=1.5"),
    (lambda: Interpolated(2, [1, 1], 2), "`unigram_weight` must lie .*unigram_weight=2"),
    (lambda: Uniform(9, unique=True).sample([1], 10, 0), "at most 9.*num_samples=10"),
    (
        lambda: Uniform(9).sample([1], 0, 0),
        "`num_samples` must be a positive integer.*num_samples=0",
    ),
    (lambda: get_sampler("zipf", 9), "`sampler` must be one of .*sampler='zipf'"),
    (lambda: get_sampler("unigram", 9), "`counts` must be given for sampler='unigram'"),
    (lambda: get_sampler(Uniform(8), 9), "`sampler` must be made for 9 words.*8 words"),
])
def test_errors_name_the_argument_the_expectation_and_the_value(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def check_two_replicas():
    strategy = strategy_here()
    schedule = keras.optimizers.schedules.PolynomialDecay(0.8, 4, end_learning_rate=1.0)
    with strategy.scope():
        learned = LearnedUnigram(10)
        interpolated = Interpolated(10, zipf_counts(10), schedule, unique=True)
        target = TargetSampling(10, [[0, 3, 5, 7, 9], [1, 2, 4, 6, 8]], [1, 2])

    @tf.function
    def step():
        for sampler in learned, interpolated, target:
            sampler.update(LABELS)
        return [sampler.sample(LABELS, 5, 3).log_expected for sampler in (learned, interpolated)]

    for drawn in strategy.run(step):
        first, second = strategy.experimental_local_results(drawn)
        np.testing.assert_array_equal(first, second)
    # Each of the ten words counts once at first; word 3 is twice among the six labels of a replica.
    assert probabilities(learned)[3] == pytest.approx((1 + 2 * 2) / (10 + 2 * 6))
    assert float(interpolated.weight()) == pytest.approx(0.85)
    assert target.step.numpy() == target.chunk() == 1


def test_replicas_share_one_state():
    replicas_helper.run(check_two_replicas, devices=2)
