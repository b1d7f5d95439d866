"""Regularisers and constraints of the heads' weights, which are Dense's."""

import keras
import numpy as np
import pytest

from cases import UNITS, WITH_A_KERNEL, needed, prepared
from keras_helper import V
from tfsoftmax import HEADS, SoftmaxLoss


def head_with(case, **options):
    name = case.replace("-", "_")
    return HEADS[name](V, use_bias=True, **needed(name, V), **options)


def weights(head, word):
    return [w for w in head.trainable_weights if word in w.name]


@pytest.mark.parametrize("case", WITH_A_KERNEL)
def test_regularizers_are_added_to_the_loss(case):
    of_kernel = keras.regularizers.L2(0.1)
    head = prepared(head_with(case, kernel_regularizer=of_kernel, bias_regularizer="l1"))
    wanted = 0.1 * sum(np.sum(w.numpy() ** 2) for w in weights(head, "kernel"))
    wanted += 0.01 * sum(np.sum(np.abs(w.numpy())) for w in weights(head, "bias"))
    assert weights(head, "bias")
    np.testing.assert_allclose(sum(head.losses), wanted, rtol=1e-5)


@pytest.mark.parametrize("case", WITH_A_KERNEL)
def test_options_survive_the_config(case):
    options = {
        "kernel_regularizer": keras.regularizers.L1(0.3), "bias_regularizer": "l2",
        "kernel_constraint": keras.constraints.MaxNorm(3.0, axis=1), "bias_constraint": "non_neg",
    }
    config = keras.saving.serialize_keras_object(head_with(case, **options))
    again = keras.saving.deserialize_keras_object(config)
    for name in options:
        assert type(getattr(again, name)).__module__.startswith("keras")
    assert keras.saving.serialize_keras_object(again) == config


@pytest.mark.parametrize("case", ["full", "adaptive", "tree"])
def test_constraints_hold_after_each_step(case):
    head = head_with(case, kernel_constraint=keras.constraints.NonNeg(), bias_constraint="non_neg")
    model = keras.Sequential([keras.Input((UNITS,)), head])
    model.compile(keras.optimizers.SGD(1.0), SoftmaxLoss())
    hidden = np.random.default_rng(0).normal(size=(8, UNITS)).astype(np.float32)
    model.fit(hidden, np.arange(8), 4, verbose=0)
    for weight in [*weights(head, "kernel"), *weights(head, "bias")]:
        assert weight.numpy().min() >= 0


@pytest.mark.parametrize("option", ["kernel_regularizer", "kernel_constraint"])
def test_a_tied_kernel_takes_its_options_from_the_embedding(option):
    embedding = keras.layers.Embedding(V, UNITS)
    value = {"kernel_regularizer": "l2", "kernel_constraint": "non_neg"}[option]
    with pytest.raises(ValueError, match=f"`{option}` must be unset .*embeddings_regularizer"):
        HEADS["full"](V, tied_to=embedding, **{option: value})
