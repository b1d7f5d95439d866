"""Heads under every dtype policy: weights as the policy says, results in float32."""


import keras
import numpy as np
import pytest
import tensorflow as tf

from cases import CASES, UNITS, WITH_A_KERNEL, positions, prepared, with_gradients
from keras_helper import B, V, data
from tfsoftmax import NCE, SoftmaxLoss
from tfsoftmax.optimizers import Adagrad

# Mixed policies are those of the contract.
TOLERANCES = {"bfloat16": 0.05, "float16": 0.01, "float64": 1e-5}


def small_model(case):
    return keras.Sequential([
        keras.Input((5,), dtype="int32"), keras.layers.Embedding(V, UNITS), CASES[case](V)
    ])


def head_of(case, policy):
    head = CASES[case](V)
    head.dtype_policy = keras.dtype_policies.get(policy)
    return prepared(head)


@pytest.mark.parametrize("case", WITH_A_KERNEL)
@pytest.mark.parametrize("policy", TOLERANCES)
def test_results_are_those_in_float32_and_of_that_type(case, policy):
    hidden, labels = positions(V, 6)
    head, exact = head_of(case, policy), head_of(case, "float32")
    assert {w.dtype for w in head.trainable_weights} == {policy}
    logits = head(hidden)
    results = {
        "logits": (logits, exact(hidden)),
        "log_prob": (head.log_prob(hidden, labels), exact.log_prob(hidden, labels)),
        "top_k": (head.top_k(hidden, 2)[1], exact.top_k(hidden, 2)[1]),
    }
    for ours, wanted in results.values():
        assert ours.dtype == tf.float32
        np.testing.assert_allclose(ours, wanted, atol=TOLERANCES[policy] * np.abs(wanted).max())
    assert np.isfinite(head.training_loss(hidden, labels)).all()
    assert head.compute_output_spec(keras.KerasTensor(hidden.shape)).dtype == "float32"


@pytest.mark.parametrize("case", ["full", "adaptive", "sampled", "tree"])
@pytest.mark.parametrize("policy", ["bfloat16", "float64", "mixed_float16"])
def test_training_learns_and_predicts_in_float32(case, policy, set_policy):
    set_policy(policy)
    model, (words, labels, _) = small_model(case), data()
    model.compile("adagrad" if "mixed" in policy else Adagrad(0.5), SoftmaxLoss())
    model.optimizer.learning_rate = 0.5
    before = model.evaluate(words, labels, B, verbose=0)
    model.fit(words, labels, B, epochs=6, verbose=0)
    assert model.evaluate(words, labels, B, verbose=0) < before
    assert model.predict(words, verbose=0).dtype == np.float32


@pytest.mark.parametrize("case", ["full", "adaptive", "sampled", "tree", "nary", "differentiated"])
@pytest.mark.parametrize("policy", ["bfloat16", "float64"])
def test_gradients_have_the_dtype_of_their_weights(case, policy):
    hidden, labels = positions(V, 6)
    head, exact = head_of(case, policy), head_of(case, "float32")

    def loss_of(head):
        return -tf.reduce_mean(head.log_prob(hidden, labels))

    found = [with_gradients(loss_of, each.trainable_weights, each)[1] for each in (head, exact)]
    for ours, wanted, weight in zip(*found, head.trainable_weights):
        assert ours.dtype.name == weight.dtype
        wanted = wanted.numpy()
        np.testing.assert_allclose(
            tf.cast(ours, tf.float32), wanted, atol=TOLERANCES[policy] * np.abs(wanted).max()
        )


@pytest.mark.parametrize("policy", ["bfloat16", "float64"])
def test_a_trained_log_z_of_each_context_has_the_dtype_of_the_weights(policy):
    hidden, labels = positions(V, 6)
    head, exact = (
        NCE(V, 9, "uniform", train_z="context", dtype=dtype, kernel_initializer="ones", seed=1)
        for dtype in (policy, "float32")
    )
    for method in ("training_loss", "self_normalised_log_prob"):
        ours, wanted = (getattr(each, method)(hidden, labels) for each in (head, exact))
        np.testing.assert_allclose(ours, wanted, rtol=0.05)


@pytest.mark.parametrize("policy", ["bfloat16", "float64"])
@pytest.mark.parametrize("case", ["nary", "class"])
def test_xla_trains_hierarchical_heads_of_any_dtype(case, policy):
    hidden, labels = positions(V, 6)
    head = head_of(case, policy)

    def gradients():
        loss, found = with_gradients(
            lambda: tf.reduce_mean(head.training_loss(hidden, labels)), head.trainable_weights
        )
        return loss, [tf.cast(g, tf.float32) for g in found]

    (ours, found), (wanted, expected) = tf.function(gradients, jit_compile=True)(), gradients()
    np.testing.assert_allclose(ours, wanted, rtol=1e-4)
    for one, other in zip(found, expected):
        np.testing.assert_allclose(one, other, atol=TOLERANCES[policy] * np.abs(other).max())


def test_a_bfloat16_model_reloads(through_a_file, set_policy):
    set_policy("bfloat16")
    model = small_model("adaptive")
    set_policy("float32")
    again = through_a_file(model)
    words = data()[0]
    np.testing.assert_array_equal(model.predict(words, verbose=0), again.predict(words, verbose=0))
