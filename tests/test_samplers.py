"""Draws from the proposal distributions: what they claim is what they draw, on any device."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from cases import assert_all_close, assert_all_equal
from sampler_helper import LABELS, NAMES, make, probabilities, zipf_counts
from tf_candidates import OPERATIONS, TensorFlows
from tfsoftmax.ops.random import uniform
from tfsoftmax.samplers import SAMPLERS, LearnedUnigram, Uniform, Unigram, audit, audit_sampler
from tfsoftmax.samplers.poisson_race import poisson_race, tries_needed

IN_TENSORFLOW = [name for name in NAMES if SAMPLERS[name] in OPERATIONS]


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


@pytest.mark.slow  # it says nothing of our own samplers
@pytest.mark.parametrize("unique", [False, True])
@pytest.mark.parametrize("name", IN_TENSORFLOW)
def test_tensorflow_is_honest_with_replacement_and_not_without(name, unique):
    tf.random.set_seed(1)
    small = audit_sampler(TensorFlows(make(name, unique=unique)), 5, draws=60000)
    assert small.honest is not unique
    large = TensorFlows(make(name, 1000, unique=unique))
    assert audit_sampler(large, 50, draws=4000).honest


def test_the_audit_finds_claims_that_are_wrong_by_five_per_cent():
    class Boastful(Uniform):
        def log_q(self, ids):
            return super().log_q(ids) + tf.math.log(1.05)

    assert not audit_sampler(Boastful(10), 5, draws=20000).honest


@pytest.mark.parametrize("odds", [False, True])
def test_the_audit_calls_honest_samplers_dishonest_as_rarely_as_it_says(odds):
    """Words of any probability, also near certainty: one of ten thousand audits may fail."""
    rng, audits, draws, alarms = np.random.default_rng(0), 20_000, 300, 0
    chance = np.concatenate([np.geomspace(1e-4, 0.5, 20), 1 - np.geomspace(1e-4, 0.5, 20)])
    if odds:
        chance = chance[[3, 20, 22]]  # a pool of one word
    for counts in rng.binomial(draws, chance, (audits, len(chance))):
        claims, variances = draws * chance, draws * chance * (1 - chance)
        alarms += not audit._judged(counts, claims, variances, draws)[2]
    assert alarms <= 10


def test_the_audit_of_a_sampler_with_words_that_are_nearly_certain_is_honest():
    sampler = Unigram(100, 1000 / np.arange(1, 101) ** 1.3, unique=True)
    assert audit_sampler(sampler, 40, 300, seed=19).honest


@pytest.mark.parametrize("factor, words", [(0.9, slice(0, 10)), (3.0, slice(70, 100))])
def test_the_audit_finds_wrong_claims_for_words_that_it_pools(factor, words):
    class Wrong(Unigram):
        def sample(self, labels, num_samples, seed):
            drawn, shift = super().sample(labels, num_samples, seed), np.zeros(100, np.float32)
            shift[words] = np.log(factor)
            return drawn._replace(
                log_expected=drawn.log_expected + tf.gather(shift, drawn.ids),
                log_expected_labels=drawn.log_expected_labels + tf.gather(shift, labels),
            )

    counts = 1000 / np.arange(1, 101) ** 1.8
    assert not audit_sampler(Wrong(100, counts, unique=True), 20, draws=1000).honest
    assert audit_sampler(Unigram(100, counts, unique=True), 20, draws=1000).honest


def test_a_distribution_that_gets_steep_is_drawn_from_without_all_words():
    sampler, sizes = LearnedUnigram(50_000, unique=True), []
    sampler.update(np.repeat(np.arange(300), (3e6 / np.arange(1, 301) ** 2.2).astype(int)))
    log_q = sampler.log_q
    sampler.log_q = lambda ids: sizes.append(int(tf.size(ids))) or log_q(ids)
    for seed in range(20):
        assert len(set(sampler.sample([3], 50, seed).ids.numpy())) == 50
    assert max(sizes) == 50


@pytest.mark.parametrize("jit_compile", [False, True])
def test_claims_are_honest_where_the_race_goes_on(jit_compile):
    sampler = LearnedUnigram(400, unique=True)
    sampler.update(np.repeat(np.arange(50), (3e6 / np.arange(1, 51) ** 2.2).astype(int)))
    sampler._tries_for = lambda num_samples: 12  # 12, 96, and then all words
    assert audit_sampler(sampler, 10, 4000, jit_compile=jit_compile).honest


def test_the_audit_refuses_different_claims_for_samples_and_labels():
    class TwoTongued(Uniform):
        def sample(self, labels, num_samples, seed):
            drawn = super().sample(labels, num_samples, seed)
            return drawn._replace(log_expected=drawn.log_expected - 0.1)

    with pytest.raises(ValueError, match="must claim the same count .*: claims that differ by 0.1"):
        audit_sampler(TwoTongued(10), 5, draws=3)


@pytest.mark.parametrize("shift, unique, message", [
    (7, False, r"must draw ids in \[0, 10\)\. Received: 15 of 15 ids outside"),
    (0, True, "must draw different words, .* Received: a word 5 times in one sample"),
])
@pytest.mark.parametrize("jit_compile", [False, True])
def test_the_audit_refuses_words_that_cannot_be_in_a_sample(shift, unique, message, jit_compile):
    class Stuck(Uniform):
        def sample(self, labels, num_samples, seed):
            drawn = super().sample(labels, num_samples, seed)
            return drawn._replace(ids=tf.fill([num_samples], 3 + shift))

    with pytest.raises(ValueError, match=message):
        audit_sampler(Stuck(10, unique=unique), 5, draws=3, jit_compile=jit_compile)


def test_tensorflows_claim_of_tries_equal_to_samples_is_corrected():
    sampler = TensorFlows(Uniform(10, unique=True))
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
        assert_all_close(eager, graph(tf.constant([4, 9])), atol=1e-6)
        assert np.any(eager.ids != graph(tf.constant([4, 10])).ids)


@pytest.mark.parametrize("name", NAMES)
def test_half_precision_changes_nothing(name, set_policy):
    set_policy("mixed_float16")
    half = make(name, 997, unique=True).sample(LABELS, 31, 2)
    set_policy("float32")
    assert_all_equal(half, make(name, 997, unique=True).sample(LABELS, 31, 2))


def test_tries_suffice_nearly_always():
    q = 1 / np.arange(1, 5001)
    q /= q.sum()
    tries, rng = tries_needed(q, 200), np.random.default_rng(0)
    found = [len(np.unique(rng.choice(5000, tries, p=q))) for _ in range(200)]
    assert min(found) >= 201 and tries < 5000
    assert tries_needed(q, 5000) == 5000


def test_the_race_keeps_the_order_of_arrival():
    stream = tf.constant([4, 4, 2, 4, 0, 2, 1])
    ids, inside, outside = poisson_race(
        lambda count, seed: stream[:count], None, 5, 3, 7, tf.constant([1, 2])
    )
    assert ids.numpy().tolist() == [4, 2, 0]
    assert 0 < outside < inside


def test_a_word_that_is_hardly_ever_drawn_has_a_finite_claim_without_replacement():
    class Steep(Uniform):
        """q(w) = 2^-(w + 1), which float32 holds as a logarithm only."""

        def log_q(self, ids):
            return -np.float32(np.log(2)) * (tf.cast(ids, tf.float32) + 1)

        def _draw(self, count, seed):
            height = tf.cast(uniform([count], seed), tf.float64)
            return tf.cast(tf.math.floor(-tf.math.log(1 - height) / np.log(2)), tf.int32)

    drawn = Steep(1000, unique=True).sample_others(tf.constant([0, 100, 999]), 9, 1)
    assert np.isfinite(drawn.log_expected_labels).all()
    gap = np.diff(drawn.log_expected_labels.numpy())[1]
    np.testing.assert_allclose(gap, -899 * np.log(2), rtol=1e-5)
