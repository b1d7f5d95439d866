"""Cubic scores and squared error: a head that ranks words and is no distribution."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfsoftmax
from cases import UNITS, positions, prepared, with_gradients
from references import numeric_gradient, squared_errors
from refusals import refused, refuses
from tfsoftmax import CubicScores, Perplexity, SoftmaxLoss
from tfsoftmax.metrics import Accuracy, TopKAccuracy
from tfsoftmax.survey import squared_error

V = 13
REFUSAL = "`head` must be a distribution to have probabilities and a perplexity"


def made(vocab_size=V, units=UNITS, **options):
    return prepared(CubicScores(vocab_size, 0.7, -0.1, **options), units=units)


def function(score):
    return 0.7 * score**3 - 0.1


@pytest.mark.parametrize("vocab_size, units, count", [(V, UNITS, 9), (1, 3, 4), (5, 1, 1)])
@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("rows", [2, 512])
def test_the_loss_is_that_of_the_equation(vocab_size, units, count, use_bias, rows, monkeypatch):
    monkeypatch.setattr(squared_error, "logits_rows", lambda *_: rows)
    head = made(vocab_size, units, use_bias=use_bias)
    hidden = np.random.default_rng(1).normal(size=(count, units)).astype(np.float32)
    labels = np.arange(count, dtype=np.int32) % vocab_size
    bias = head.bias.numpy() if use_bias else np.zeros(vocab_size)
    expected = squared_errors(hidden, head.kernel.numpy(), bias, labels, function)
    np.testing.assert_allclose(head.training_loss(hidden, labels), expected, rtol=1e-4)


@pytest.mark.parametrize("rows", [2, 512])
def test_numeric_gradients(rows, monkeypatch):
    monkeypatch.setattr(squared_error, "logits_rows", lambda *_: rows)
    head, (hidden, labels) = made(), positions(V, 5)
    sources = [tf.Variable(0.5 * hidden), *(w.value for w in head.trainable_weights)]
    upstream = np.array([0.3, -1.1, 2.0, 0.0, 1.0])
    _, gradients = with_gradients(
        lambda: upstream.astype(np.float32) * head.training_loss(sources[0], labels), sources
    )

    def loss_of(number, values):
        arrays = [s.numpy() for s in sources]
        arrays[number] = values
        return np.sum(upstream * squared_errors(*arrays, labels, function))

    for number, gradient in enumerate(gradients):
        numeric = numeric_gradient(functools.partial(loss_of, number), sources[number].numpy())
        np.testing.assert_allclose(gradient, numeric, rtol=2e-3, atol=1e-2)


def test_top_k_are_the_words_with_the_largest_scores():
    head, (hidden, _) = made(), positions(V, 9)
    scores = head(hidden).numpy()
    ids, values = head.top_k(hidden, 3)
    np.testing.assert_array_equal(ids, np.argsort(-scores, axis=1)[:, :3])
    np.testing.assert_allclose(values, -np.sort(-scores, axis=1)[:, :3], rtol=1e-5)


def compiled(metric, **options):
    keras.utils.set_random_seed(1)
    head = CubicScores(V, kernel_initializer=keras.initializers.RandomNormal(stddev=0.2))
    model = keras.Sequential([keras.Input((UNITS,)), head])
    model.compile(keras.optimizers.Adam(0.03), SoftmaxLoss(), weighted_metrics=[metric], **options)
    return model


@pytest.mark.parametrize("options", [
    {}, pytest.param({"jit_compile": True}, marks=pytest.mark.slow),
])
def test_fit_learns_and_evaluate_reports_the_squared_error_and_accuracy(options):
    model, (hidden, _) = compiled(Accuracy(), **options), positions(V, 30)
    labels = (hidden[:, :4] > 0) @ [1, 2, 4, 5]
    before = model.evaluate(hidden, labels, verbose=0, return_dict=True)
    model.fit(hidden, labels, epochs=100, verbose=0)
    after = model.evaluate(hidden, labels, verbose=0, return_dict=True)
    assert after["loss"] < 0.5 * before["loss"] and after["accuracy"] > before["accuracy"] + 0.3
    own = model.layers[-1].training_loss(hidden, labels).numpy().mean()
    assert after["loss"] == pytest.approx(own, rel=1e-5)
    best = np.argmax(model.predict(hidden, verbose=0), axis=1)
    assert after["accuracy"] == pytest.approx(np.mean(best == labels))


@pytest.mark.parametrize("method", ["log_prob", "log_probs", "log_normaliser",
                                    "self_normalised_log_prob"])
def test_probabilities_are_refused(method):
    head, (hidden, labels) = made(), positions(V, 5)
    given = [hidden, labels] if method.endswith("log_prob") else [hidden]
    refused(REFUSAL, getattr(head, method), *given)


@pytest.mark.parametrize("mode", ["fit", "evaluate"])
def test_perplexity_is_refused(mode):
    model, (hidden, labels) = compiled(Perplexity()), positions(V, 5)
    refused(REFUSAL, getattr(model, mode), hidden, labels, verbose=0)


def test_layers_that_serve_the_head_and_the_command_that_trains_heads():
    head, (hidden, labels) = made(), positions(V, 5)
    ids, _ = tfsoftmax.heads.TopK(head, 2)(hidden)
    np.testing.assert_array_equal(ids, head.top_k(hidden, 2)[0])
    refused(REFUSAL, tfsoftmax.heads.LogProb(head), hidden, labels)
    assert CubicScores not in tfsoftmax.HEADS.values()


def test_a_saved_model_has_the_same_scores(through_a_file):
    model, (hidden, labels) = compiled(TopKAccuracy(3)), positions(V, 30)
    model.fit(hidden, labels, verbose=0)
    again = through_a_file(model)
    ours, wanted = (each.predict(hidden, verbose=0) for each in (again, model))
    np.testing.assert_array_equal(ours, wanted)
    assert again.evaluate(hidden, labels, verbose=0) == model.evaluate(hidden, labels, verbose=0)


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("inf")])
def test_alpha_is_positive(alpha):
    with refuses("alpha"):
        CubicScores(V, alpha)


@pytest.mark.parametrize("policy, bound", [("mixed_bfloat16", 0.02), ("bfloat16", 0.03)])
def test_half_precision_is_close(policy, bound):
    head, (hidden, labels) = made(), positions(V, 9)
    config = {**head.get_config(), "dtype": policy, "name": "mixed"}
    mixed = CubicScores.from_config(config)
    mixed.build((None, UNITS))
    mixed.set_weights(head.get_weights())
    ours, wanted = (h.training_loss(hidden, labels) for h in (mixed, head))
    assert np.linalg.norm(ours - wanted) < bound * np.linalg.norm(wanted)
    gradients = []
    for each in (mixed, head):
        states = tf.Variable(0.5 * hidden)
        with tf.GradientTape() as tape:
            total = 2 * each.loss_and_nats(states, labels, np.ones(9, np.float32))[0]
        own = tape.gradient(total, [states, *(w.value for w in each.trainable_weights)])
        gradients.append([tf.cast(gradient, tf.float32) for gradient in own])
    for ours, wanted in zip(*gradients, strict=True):
        assert np.linalg.norm(ours - wanted) < 2 * bound * np.linalg.norm(wanted)
