"""What samplers learn in training: when, what freezes it, and how it is loaded."""

import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from cases import counts, positions, ready
from tfsoftmax import NegativeSampling, SampledSoftmax, samplers

V, S, N = 13, 8, 6


def test_a_learning_sampler_learns_from_training_alone():
    head = ready(SampledSoftmax, V, S)
    assert isinstance(head.sampler, samplers.LearnedUnigram)
    hidden, labels = positions(V, N)
    before = head.sampler.log_q(tf.range(V)).numpy()
    head.log_prob(hidden, labels)
    head.effective_sample_size(hidden)
    np.testing.assert_array_equal(head.sampler.log_q(tf.range(V)), before)
    head.training_loss(hidden, np.full(N, 5, np.int32))
    assert np.argmax(head.sampler.log_q(tf.range(V))) == 5


def test_weights_load_where_another_sampler_was(tmp_path):
    schedule = keras.optimizers.schedules.PolynomialDecay(0.2, 4, 1.0)
    others = {  # one without state, and two whose state has another shape
        "counts": {"counts": counts(V)},
        "interpolated": {
            "sampler": "interpolated", "counts": counts(V),
            "sampler_options": {"unigram_weight": schedule},
        },
        "in batch": {"sampler": samplers.InBatch(V, "learned"), "num_samples": None},
    }
    hidden, labels = positions(V, N)
    learned = ready(SampledSoftmax, V, S)
    learned.training_loss(hidden, labels)
    source = keras.Sequential([keras.Input(hidden.shape[1:]), learned])
    source.save_weights(tmp_path / "a.weights.h5")
    for name, options in {"same": {}, **others}.items():
        head = ready(SampledSoftmax, V, **{"num_samples": S, **options})
        target = keras.Sequential([keras.Input(hidden.shape[1:]), head])
        before = [weight.numpy() for weight in head.sampler.weights]
        head.kernel.assign(tf.zeros_like(head.kernel))
        warns = pytest.warns(UserWarning, match="keeps its own state")
        with contextlib.nullcontext() if name == "same" else warns:
            target.load_weights(tmp_path / "a.weights.h5")
        np.testing.assert_array_equal(head.kernel, learned.kernel, err_msg=name)
        if name == "same":
            before = learned.sampler.weights
        for old, new in zip(before, head.sampler.weights, strict=True):
            np.testing.assert_array_equal(old, new, err_msg=name)
        target.save_weights(tmp_path / "b.weights.h5")
        other = name == "interpolated"  # which alone has state of its own, but for "same"
        with warns if other else contextlib.nullcontext():
            source.load_weights(tmp_path / "b.weights.h5")  # the other way round


@pytest.mark.parametrize("sampler", ["learned_unigram", "interpolated"])
def test_a_frozen_sampler_does_not_learn(sampler):
    options = {}
    if sampler == "interpolated":
        schedule = keras.optimizers.schedules.PolynomialDecay(0.2, 4, 1.0)
        options = {"counts": counts(V), "sampler_options": {"unigram_weight": schedule}}
    head = NegativeSampling(V, S, sampler, **options)
    hidden, labels = positions(V, N)
    head.build(hidden.shape)
    for frozen, layer in ((True, head), (False, head), (True, head.sampler), (False, head.sampler)):
        layer.trainable = not frozen
        before = [weight.numpy().copy() for weight in head.sampler.weights]
        logits = head(hidden).numpy()
        head.training_loss(hidden, labels)
        same = [np.array_equal(old, new) for old, new in zip(before, head.sampler.weights)]
        assert before and all(same) == frozen
        assert np.array_equal(logits, head(hidden)) == frozen  # q is part of them
    born_frozen = NegativeSampling(V, S, sampler, trainable=False, **options)
    born_frozen.build(hidden.shape)
    logits = born_frozen(hidden).numpy()
    born_frozen.training_loss(hidden, labels)
    np.testing.assert_array_equal(born_frozen(hidden), logits)


@pytest.mark.parametrize("frozen", ["learned", "extra", "both"])
def test_a_frozen_part_of_in_batch_negatives_does_not_learn(frozen):
    extra = samplers.LearnedUnigram(V)
    sampler = samplers.InBatch(V, "learned", extra, trainable=frozen != "both")
    if frozen != "both":
        getattr(sampler, frozen).trainable = False
    head = SampledSoftmax(V, 4, sampler, seed=1)
    head.training_loss(np.ones((3, 2), np.float32), [1, 2, 2])
    learned = {"learned": sampler.learned.sums.numpy()[1] > V, "extra": extra.sums[1] > V}
    assert learned == {name: frozen not in (name, "both") for name in learned}
