"""A head whose loss over the label and samples the user writes."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfsoftmax
from cases import UNITS, assert_all_close, positions, prepared, rewind, with_gradients
from refusals import refuses
from tfsoftmax import NegativeSampling, SampledObjective, SampledSoftmax
from tfsoftmax.survey.objectives import OBJECTIVES, bpr, gbce, pairwise_softmax

V, N, S = 40, 9, 12


@keras.saving.register_keras_serializable(package="tests")
def own_softmax(label, words, copies):
    """Sampled softmax, as a user would write it."""
    scores = tf.concat([label[:, None], words + tf.math.log(copies)], axis=1)
    return tf.reduce_logsumexp(scores, axis=1) - label


def own_logistic(label, words, copies):
    return tf.math.softplus(-label) + tf.reduce_sum(tf.math.softplus(words) * copies, axis=1)


def made(objective, **options):
    return prepared(SampledObjective(V, S, objective, "uniform", seed=1, **options))


def loops(name, label, words, **options):
    """The loss of one position in float64; `words` are the scores of all S draws."""
    sigmoid = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
    if name == "bpr":
        return -sum(np.log(sigmoid(label - u)) for u in words) / len(words)
    if name == "gbce":
        beta = options.get("beta", 0.5)
        return -beta * np.log(sigmoid(label)) - sum(np.log(sigmoid(-u)) for u in words)
    tau = options.get("temperature", 1.0)
    return np.log(sum((1 + np.tanh(u - label)) ** (1 / tau) for u in words) / len(words))


@pytest.mark.parametrize("name, options", [
    ("bpr", {}), ("gbce", {}), ("gbce", {"beta": 0.2}), ("pairwise_softmax", {}),
    ("pairwise_softmax", {"temperature": 0.3}),
])
def test_losses_of_the_field_are_their_equations(name, options):
    rng = np.random.default_rng(0)
    label, words, copies = rng.normal(size=4), rng.normal(size=(4, 3)), np.array([1, 3, 2])
    found = OBJECTIVES[name](*map(tf.constant, np.float32([*label]).reshape(1, -1)),
                             tf.constant(words, tf.float32), tf.constant(copies, tf.float32),
                             **options)
    wanted = [loops(name, t, np.repeat(u, copies), **options) for t, u in zip(label, words)]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("ours, theirs", [
    (own_softmax, lambda **o: SampledSoftmax(V, S, "uniform", seed=1, **o)),
    (own_logistic, lambda **o: NegativeSampling(
        V, S, "uniform", seed=1, remove_accidental_hits=True, restore_proposal=False, **o)),
])
def test_what_heads_have_can_be_written_again(ours, theirs, shared):
    """Equal losses and gradients, with each word's gradient formed once."""
    corrected = ours is own_softmax
    options = {"shared_samples": shared}
    own = made(ours, corrected=corrected, **options)
    other = theirs(**options, **({"remove_accidental_hits": True} if corrected else {}))
    other.build((None, UNITS))
    other.set_weights(own.get_weights())
    hidden, labels = positions(V, N)
    weights = np.linspace(0, 1, N, dtype=np.float32)
    results = []
    for head in (own, other):
        source = tf.Variable(hidden)
        (total, _), gradients = with_gradients(
            rewind(head).loss_and_nats, [source, *head.trainable_weights], source, labels, weights
        )
        results.append([total, *gradients])
    assert_all_close(*results, atol=1e-5)


@pytest.mark.parametrize("objective, jit_compile", [
    *((objective, False) for objective in [*OBJECTIVES, own_softmax]), ("bpr", True),
])
def test_they_train_and_are_saved(objective, jit_compile, through_a_file):
    """Labels that follow from the hidden state rise in the list of the likeliest."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, V, 128)
    hidden = rng.normal(size=(V, 16)).astype(np.float32)[labels]
    head = SampledObjective(V, S, objective, "uniform", seed=1)
    model = keras.Sequential([keras.Input((16,)), head])
    model.compile(
        keras.optimizers.Adam(0.05), tfsoftmax.SoftmaxLoss(), jit_compile=jit_compile,
        metrics=[tfsoftmax.metrics.RecallAtK(1)],
    )
    model.fit(hidden, labels, epochs=15, verbose=0)
    result = model.evaluate(hidden, labels, verbose=0)
    assert result[1] > 0.8
    again = through_a_file(model)
    np.testing.assert_allclose(again.evaluate(hidden, labels, verbose=0), result, rtol=1e-5)
    assert again.layers[-1].get_config() == head.get_config()


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_position_without_other_words_has_a_loss_of_its_label_alone(objective):
    """As in a last batch of one position, whose sample is its own label."""
    head = prepared(SampledObjective(V, None, objective, "in_batch", range(1, V + 1)))
    hidden, labels = positions(V, 1)
    loss, (gradient,) = with_gradients(head.training_loss, [head.kernel], hidden, labels)
    assert loss.numpy() >= 0
    if objective != "gbce":
        assert loss.numpy() == 0 and not np.any(tf.convert_to_tensor(gradient))


def test_a_loss_may_use_the_highest_score_alone():
    """Whose gradient touches one word at each position."""
    head = made(lambda label, words, copies: tf.reduce_max(words, axis=1) - label)
    hidden, labels = positions(V, N)
    _, (gradient,) = with_gradients(head.training_loss, [head.kernel], hidden, labels)
    rows = tf.convert_to_tensor(gradient).numpy()
    assert 0 < np.count_nonzero(rows.any(axis=1)) <= 2 * N


def test_names_and_functions_only():
    with refuses("objective", "be a function, or one of"):
        SampledObjective(V, S, "hinge")
    with refuses("objective_options", "be a dict of arguments"):
        made("gbce", objective_options=["beta"])
    assert {bpr, gbce, pairwise_softmax} == {*OBJECTIVES.values()}
