"""Facts about the proposal distributions: what they claim is what they draw."""

import itertools
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfsoftmax.samplers import (
    SAMPLERS,
    Interpolated,
    LearnedUnigram,
    LogUniform,
    Unigram,
    Uniform,
    audit_sampler,
    get_sampler,
)
from tfsoftmax.samplers.alias import alias_table, cells, integer_weights
from tfsoftmax.samplers.race import race, tries_needed

LABELS = np.array([[3, 0, 7], [9, 3, 5]])
NAMES = sorted(SAMPLERS)


def zipf_counts(vocab_size, seed=0):
    """Counts in no order, with a word that was never seen."""
    counts = (1e5 / np.arange(1, vocab_size + 1)).astype(int)
    counts = np.random.default_rng(seed).permutation(counts)
    counts[3] = 0
    return counts


def make(name, vocab_size=10, **options):
    counts = zipf_counts(vocab_size)
    if name == "log_uniform":
        counts = None
    sampler = get_sampler(name, vocab_size, counts, **options)
    if sampler.implementation == "own":
        q = zipf_counts(vocab_size) / zipf_counts(vocab_size).sum()
        sampler.update(np.random.default_rng(1).choice(vocab_size, (7, 43), p=q))
    return sampler


def probabilities(sampler):
    return np.exp(sampler.log_q(tf.range(sampler.vocab_size)).numpy().astype(np.float64))


def reference_inclusion(q, num_samples):
    """P(w among the first S different words), by every order of drawing them."""
    inclusion = np.zeros(len(q))
    for order in itertools.permutations(range(len(q)), num_samples):
        chance, left = 1.0, 1.0
        for word in order:
            chance, left = chance * q[word] / left, left - q[word]
        inclusion[list(order)] += chance
    return inclusion


@pytest.mark.parametrize("unique", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_claims_are_honest_when_half_the_words_are_drawn(name, unique):
    audit = audit_sampler(make(name, unique=unique), 5, draws=20000, jit_compile=True)
    assert audit.honest, audit.z


@pytest.mark.parametrize("unique", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_claims_are_honest_for_a_thousand_words(name, unique):
    audit = audit_sampler(make(name, 1000, unique=unique), 50, draws=4000)
    assert audit.honest, np.abs(audit.z).max()


@pytest.mark.parametrize("unique", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_tensorflow_is_honest_with_replacement_and_not_without(name, unique):
    tf.random.set_seed(1)
    small = audit_sampler(make(name, unique=unique, implementation="tf"), 5, draws=60000)
    assert small.honest is not unique
    large = make(name, 1000, unique=unique, implementation="tf")
    assert audit_sampler(large, 50, draws=4000).honest


def test_the_audit_finds_claims_that_are_wrong_by_five_per_cent():
    class Boastful(Uniform):
        def log_q(self, ids):
            return super().log_q(ids) + tf.math.log(1.05)

    assert not audit_sampler(Boastful(10), 5, draws=20000).honest


def test_the_audit_refuses_different_claims_for_samples_and_labels():
    class TwoTongued(Uniform):
        def sample(self, labels, num_samples, seed):
            drawn = super().sample(labels, num_samples, seed)
            return drawn._replace(log_expected=drawn.log_expected - 0.1)

    with pytest.raises(AssertionError, match="differ by 0.1"):
        audit_sampler(TwoTongued(10), 5, draws=3)


def test_tensorflows_claim_of_tries_equal_to_samples_is_corrected():
    sampler = Uniform(10, unique=True, implementation="tf")
    claims = [np.exp(sampler.sample(LABELS, 5, 0).log_expected.numpy()) for _ in range(60)]
    tries = np.log1p(-np.array(claims)) / np.log(0.9)
    np.testing.assert_allclose(tries, np.rint(tries), atol=1e-4)  # 0.5 = S q would be 6.58
    assert tries.min() == pytest.approx(5, abs=1e-4)


@pytest.mark.parametrize("tries", [1, 3, 40])
def test_the_race_draws_and_claims_what_drawing_without_replacement_does(tries):
    counts, size, draws = [50, 0, 9, 3, 20], 2, 20000
    sampler = Unigram(5, counts, unique=True)
    sampler._tries[size] = tries  # too few, mostly too few, enough
    audit = audit_sampler(sampler, size, draws=draws, jit_compile=True)
    exact = reference_inclusion(probabilities(sampler), size)
    assert audit.honest
    error = np.sqrt(exact * (1 - exact) / draws)
    assert np.all(np.abs(audit.empirical - exact) < 4.5 * error)


def test_weights_by_inverse_claims_are_unbiased_without_replacement():
    sampler, size, draws = Unigram(10, zipf_counts(10) ** 0.5, unique=True), 5, 20000

    @tf.function(jit_compile=True)
    def weights():
        first, second = tf.zeros([10]), tf.zeros([10])
        for draw in tf.range(draws):
            ids, log_expected, _ = sampler.sample([0], size, tf.stack([5, draw]))
            weight = tf.math.unsorted_segment_sum(tf.exp(-log_expected), ids, 10)
            first, second = first + weight / draws, second + weight**2 / draws
        return first, second

    mean, square = [m.numpy().astype(np.float64) for m in weights()]
    error = np.sqrt((square - mean**2) / draws)
    assert np.all(np.abs(mean - 1) < 4.5 * error)
    assert error.max() < 0.05


def test_all_words_without_replacement_are_certain():
    ids, log_expected, log_expected_labels = make("unigram", unique=True).sample(LABELS, 10, 1)
    assert sorted(ids.numpy()) == list(range(10))
    assert not log_expected.numpy().any() and not log_expected_labels.numpy().any()


@pytest.mark.parametrize("unique", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_seed_draws_the_same_with_and_without_jit(name, unique):
    sampler = make(name, 997, unique=unique)

    def sample(seed):
        return sampler.sample(LABELS, 31, seed)

    eager = sample(tf.constant([4, 9]))
    assert eager.ids.dtype == tf.int32 and eager.ids.shape == (31,)
    assert eager.log_expected_labels.shape == LABELS.shape
    for jit_compile in (False, True):
        graph = tf.function(sample, jit_compile=jit_compile)
        for a, b in zip(eager, graph(tf.constant([4, 9]))):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        assert np.any(eager.ids != graph(tf.constant([4, 10])).ids)


@pytest.mark.parametrize("name", NAMES)
def test_half_precision_changes_nothing(name):
    keras.config.set_dtype_policy("mixed_float16")
    try:
        half = make(name, 997, unique=True).sample(LABELS, 31, 2)
    finally:
        keras.config.set_dtype_policy("float32")
    for a, b in zip(half, make(name, 997, unique=True).sample(LABELS, 31, 2)):
        np.testing.assert_array_equal(a, b)


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


def test_tries_suffice_nearly_always():
    q = 1 / np.arange(1, 5001)
    q /= q.sum()
    tries, rng = tries_needed(q, 200), np.random.default_rng(0)
    found = [len(np.unique(rng.choice(5000, tries, p=q))) for _ in range(200)]
    assert min(found) >= 201 and tries < 5000
    assert tries_needed(q, 5000) == 5000


def test_the_race_keeps_the_order_of_arrival():
    stream = tf.constant([4, 4, 2, 4, 0, 2, 1])
    ids, inside, outside = race(
        lambda count, seed: stream[:count], None, 5, 3, 7, tf.constant([1, 2])
    )
    assert ids.numpy().tolist() == [4, 2, 0]
    assert 0 < outside < inside


@pytest.mark.parametrize("name", NAMES)
def test_samplers_survive_serialisation(name):
    sampler = make(name, unique=True)
    config = keras.saving.serialize_keras_object(sampler)
    again = keras.saving.deserialize_keras_object(config)
    assert type(again) is type(sampler) and again.get_config() == sampler.get_config()
    again.set_weights(sampler.get_weights())
    for a, b in zip(sampler.sample(LABELS, 4, 0), again.sample(LABELS, 4, 0)):
        np.testing.assert_array_equal(a, b)


@keras.saving.register_keras_serializable(package="tfsoftmax_tests")
class Holder(keras.layers.Layer):
    """A layer that holds a sampler as a head does."""

    def __init__(self, sampler, **kwargs):
        super().__init__(**kwargs)
        self.sampler = sampler

    def call(self, inputs):
        return inputs

    def get_config(self):
        sampler = keras.saving.serialize_keras_object(self.sampler)
        return {**super().get_config(), "sampler": sampler}

    @classmethod
    def from_config(cls, config):
        sampler = keras.saving.deserialize_keras_object(config["sampler"])
        return cls(**{**config, "sampler": sampler})


def test_the_state_is_saved_with_the_model(tmp_path):
    schedule = keras.optimizers.schedules.PolynomialDecay(0.8, 4, end_learning_rate=1.0)
    samplers = make("learned_unigram"), Interpolated(10, zipf_counts(10), schedule)
    for sampler in samplers:
        sampler.update(LABELS)
    inputs = keras.Input((2,))
    model = keras.Model(inputs, Holder(samplers[1])(Holder(samplers[0])(inputs)))
    model.save(tmp_path / "model.keras")
    reloaded = keras.saving.load_model(tmp_path / "model.keras")
    for layer, sampler in zip(reloaded.layers[1:], samplers):
        np.testing.assert_array_equal(probabilities(layer.sampler), probabilities(sampler))


def test_counts_out_of_order_warn_the_log_uniform_sampler():
    with pytest.warns(UserWarning, match="do not fall"):
        LogUniform(4, [5, 6, 1, 1])


@pytest.mark.filterwarnings("error")
def test_counts_that_fall_do_not_warn():
    assert LogUniform(4, [6, 5, 1, 1]).get_config()["vocab_size"] == 4


@pytest.mark.parametrize("build, message", [
    (lambda: Uniform(0), "`vocab_size` must be .*vocab_size=0"),
    (lambda: Uniform(9, implementation="c"), "`implementation` must be .*implementation='c'"),
    (lambda: Unigram(3, [1, 2]), r"`counts` must be .*\(3,\).*\(2,\)"),
    (lambda: Unigram(3, [1, -2, 4]), "`counts` must .*not negative.*-2 for word 1"),
    (lambda: Unigram(3, [1, np.inf, 4]), "`counts` must be finite"),
    (lambda: Unigram(3, [0, 0, 0]), "`counts` must not be all zero"),
    (lambda: Unigram(3, [1, 2, 4], alpha=1.5), r"`alpha` must lie in \[0, 1\].*alpha=1.5"),
    (lambda: Interpolated(2, [1, 1], 2), "`unigram_weight` must lie .*unigram_weight=2"),
    (lambda: Interpolated(2, [1, 1], abs, implementation="tf"), "`unigram_weight` must be a num"),
    (lambda: Uniform(9, unique=True).sample([1], 10, 0), "at most 9.*num_samples=10"),
    (lambda: Uniform(9).sample([1], 0, 0), "`num_samples` must be at least 1.*num_samples=0"),
    (lambda: get_sampler("zipf", 9), "`sampler` must be one of .*sampler='zipf'"),
    (lambda: get_sampler("unigram", 9), "`counts` must be given for sampler='unigram'"),
    (lambda: get_sampler(Uniform(8), 9), "`sampler` must be of 9 words.*8 words"),
])
def test_errors_name_the_argument_the_expectation_and_the_value(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_an_unseen_word_has_the_probability_of_the_rarest():
    q = probabilities(Unigram(4, [5, 0, 2, 8]))
    assert q[1] == q[2] > 0


def check_two_replicas():
    """Run in a process of its own, as logical devices are set before TensorFlow starts."""
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    schedule = keras.optimizers.schedules.PolynomialDecay(0.8, 4, end_learning_rate=1.0)
    with strategy.scope():
        learned = LearnedUnigram(10)
        interpolated = Interpolated(10, zipf_counts(10), schedule, unique=True)

    @tf.function
    def step():
        for sampler in learned, interpolated:
            sampler.update(LABELS)
        return [sampler.sample(LABELS, 5, 3).log_expected for sampler in (learned, interpolated)]

    for drawn in strategy.run(step):
        first, second = strategy.experimental_local_results(drawn)
        np.testing.assert_array_equal(first, second)
    assert probabilities(learned)[3] == pytest.approx(3 / 16)
    assert float(interpolated.weight()) == pytest.approx(0.85)


def test_replicas_share_one_state():
    command = [sys.executable, "-c", "import test_samplers as t; t.check_two_replicas()"]
    done = subprocess.run(
        command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
