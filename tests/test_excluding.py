"""Words that are never drawn: padding."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfsoftmax
from cases import UNITS, positions, prepared, randomise, slow_unless
from sampler_helper import NAMES, zipf_counts
from tfsoftmax.heads import NCE, BlackOut, NegativeSampling, SampledSoftmax
from tfsoftmax.samplers import (
    Excluding,
    InBatch,
    LearnedUnigram,
    LogUniform,
    TargetSampling,
    Uniform,
    audit_sampler,
    get_sampler,
)

V, PADS = 10, [0, 4, 9]
LEFT = [1, 2, 3, 5, 6, 7, 8]


def make(name, **options):
    counts = None if name == "log_uniform" else zipf_counts(V)
    return get_sampler(name, V, counts, exclude=PADS[::-1], **options)


@pytest.mark.parametrize("unique", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_claims_are_honest_and_excluded_words_are_never_drawn(name, unique):
    sampler = make(name, unique=unique)
    sampler.update(np.tile([1, 1, 5, 0, 4, 4, 9, 9], 4))  # of which a sampler learns 1 and 5
    audit = audit_sampler(sampler, 3, draws=8000, jit_compile=True)
    assert audit.honest, audit.z
    assert (audit.empirical[PADS] == 0).all() and (audit.claimed[PADS] == 0).all()
    assert (audit.empirical[LEFT] > 0).all()
    q = np.exp(sampler.log_q(tf.range(V)).numpy().astype(np.float64))
    np.testing.assert_allclose(q.sum(), 1, rtol=1e-5)
    counts = np.maximum(zipf_counts(V), zipf_counts(V)[LEFT][np.argsort(zipf_counts(V)[LEFT])][1])
    wanted = {
        "uniform": np.ones(7), "log_uniform": np.log1p(1 / np.arange(1, 8)),
        "unigram": counts[LEFT], "learned_unigram": [9, 1, 1, 5, 1, 1, 1],
    }
    if name in wanted:
        np.testing.assert_allclose(q[LEFT], wanted[name] / np.sum(wanted[name]), rtol=1e-5)


def test_samples_of_each_position_have_no_excluded_words():
    sampler = make("log_uniform")
    drawn = sampler.sample_for_each(tf.constant([3, 0, 8]), 500, 1)
    assert drawn.ids.shape == (3, 500) and set(np.unique(drawn.ids)) == set(LEFT)
    assert drawn.log_expected_labels[1] < -9e3


HEADS = {
    "sampled": lambda **options: SampledSoftmax(V, 5, "uniform", **options),
    "unique": lambda **options: SampledSoftmax(V, 7, "uniform", **options),
    "nce": lambda **options: NCE(V, 5, "uniform", **options),
    "negative": lambda **options: NegativeSampling(V, 5, "uniform", **options),
    "negative as it is": lambda **options: NegativeSampling(
        V, 5, "uniform", restore_proposal=False, **options),
    "blackout": lambda **options: BlackOut(V, 5, "uniform", use_bias=False, **options),
}


@pytest.mark.parametrize("name", HEADS)
def test_a_head_gives_excluded_words_no_probability_and_the_others_all(name):
    options = {"exclude": PADS, **({"unique": True} if name == "unique" else {})}
    head = prepared(HEADS[name](sampler_options=options, seed=1))
    hidden, _ = positions(V, 6)
    probabilities = np.exp(head.log_probs(hidden))
    assert (probabilities[:, PADS] == 0).all()
    np.testing.assert_allclose(probabilities[:, LEFT].sum(1), 1, rtol=1e-5)
    assert set(np.unique(head.top_k(hidden, 7)[0])) == set(LEFT)
    for method in (head.log_prob, head.training_loss, head.self_normalised_log_prob):
        with pytest.raises(tf.errors.InvalidArgumentError, match="must be no `not_items`"):
            method(hidden, np.full(6, 4))
    copy = type(head).from_config(head.get_config())
    copy.build((None, UNITS))
    copy.set_weights(head.get_weights())
    np.testing.assert_array_equal(copy.log_probs(hidden), head.log_probs(hidden))


@pytest.mark.parametrize("name, jit_compile", slow_unless(
    [*((name, False) for name in [*HEADS, "learned", "in-batch"]), ("sampled", True)],
    [*itertools.product([*HEADS, "learned"], [False, True]), ("in-batch", False)],
))
def test_training_with_padding_leaves_its_row_alone(name, jit_compile):
    if name == "in-batch":
        extra = Excluding(V, PADS, Uniform(7))
        head = SampledSoftmax(V, 5, InBatch(V, np.arange(1, V + 1), extra), seed=1)
    elif name == "learned":
        head = SampledSoftmax(V, 5, sampler_options={"exclude": PADS}, seed=1)
    else:
        options = {"exclude": PADS, **({"unique": True} if name == "unique" else {})}
        head = HEADS[name](sampler_options=options, seed=1)
    model = keras.Sequential([keras.Input((3, UNITS)), head])
    randomise(model)
    model.compile(keras.optimizers.SGD(0.5), tfsoftmax.SoftmaxLoss(ignore_class=0),
                  weighted_metrics=[tfsoftmax.Perplexity(ignore_class=0)], jit_compile=jit_compile)
    before = head.kernel.numpy()
    hidden = np.random.default_rng(0).normal(size=(4, 3, UNITS)).astype(np.float32)
    labels = np.array([[1, 2, 0], [3, 0, 0], [5, 6, 7], [8, 1, 0]])
    history = model.fit(hidden, labels, epochs=3, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    np.testing.assert_array_equal(head.kernel.numpy()[PADS], before[PADS])
    assert np.isfinite(model.evaluate(hidden, labels, verbose=0)).all()
    if name == "learned":
        q = np.exp(head.sampler.log_q(tf.range(V)))
        assert (q[PADS] == 0).all() and np.argmax(q) == 1


def test_a_learned_sampler_without_words_counts_only_the_others():
    sampler = Excluding(V, PADS, LearnedUnigram(7))
    tf.function(sampler.update, jit_compile=True)(tf.constant([0, 4, 5, 5, 9]))
    q = np.exp(sampler.log_q(np.array(LEFT)))
    np.testing.assert_allclose(q, np.array([1, 1, 1, 3, 1, 1, 1]) / 9, rtol=1e-6)


@pytest.mark.parametrize("make, message", [
    (lambda: get_sampler("uniform", 9, exclude=[9]), r"different ids in \[0, 9\).*exclude=\[9\]"),
    (lambda: get_sampler("uniform", 9, exclude=[1, 1]), "`exclude` must be different ids"),
    (lambda: get_sampler("uniform", 9, exclude=[]), "`exclude` must be different ids"),
    (lambda: get_sampler("uniform", 9, exclude=0), "`exclude` must be different ids"),
    (lambda: get_sampler("uniform", 9, exclude=[0.5]), "`exclude` must be different ids"),
    (lambda: get_sampler("uniform", 2, exclude=[0, 1]), "not all of them"),
    (lambda: get_sampler("in_batch", 9, np.ones(9), exclude=[0]), "exclude with InBatch"),
    (lambda: get_sampler("online_bigram", 9, exclude=[0]), "exclude with OnlineBigram"),
    (lambda: Excluding(4, [0], TargetSampling(3, [[0, 1]], [1])), "with TargetSampling"),
    (lambda: Excluding(9, [0], "uniform"), "`sampler` must be a Sampler"),
    (lambda: Excluding(9, [0], LogUniform(9)), "`sampler` must be one of the 8 words that are not"),
    (lambda: SampledSoftmax(9, 9, "uniform", sampler_options={"exclude": [0], "unique": True}),
     "`num_samples` must be a positive integer of at most 8"),
])
def test_what_cannot_be_excluded_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
