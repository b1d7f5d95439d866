"""What every head promises, for each of the cases."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from cases import (
    CASES,
    TO_COMPILE,
    UNITS,
    built,
    chosen,
    positions,
    rewind,
    slow_unless,
    with_gradients,
)
from references import numeric_gradient
from tfsoftmax.support import budgets

V = 13
every_head = pytest.mark.parametrize("case", CASES)
# To compile a head takes seconds, and its variants share most of what is compiled.
every_compiled_head = pytest.mark.parametrize("case", slow_unless(TO_COMPILE))


@every_head
@pytest.mark.parametrize("vocab_size", slow_unless([2, 3], [2, 3, 1000, 10_007]))
def test_log_probs_sum_to_one(case, vocab_size):
    """As they do for V words, where they are the softmax of the logits."""
    head = built(case, vocab_size)
    hidden, _ = positions(vocab_size, 5)
    sums = np.exp(head.log_probs(hidden).numpy().astype(np.float64)).sum(axis=-1)
    np.testing.assert_allclose(sums, 1.0, atol=2e-5)


@every_head
def test_softmax_of_logits_is_log_probs(case):
    head, (hidden, _) = built(case, V), positions(V, 5)
    np.testing.assert_allclose(
        tf.nn.log_softmax(head(hidden)), head.log_probs(hidden), rtol=1e-5, atol=1e-5
    )


@every_head
def test_log_prob_is_gathered_from_log_probs(case):
    head = built(case, V)
    for count in (1, 11, 1100):
        hidden, labels = positions(V, count)
        expected = chosen(head.log_probs(hidden), labels)
        np.testing.assert_allclose(head.log_prob(hidden, labels), expected, rtol=1e-5, atol=1e-5)


@every_head
def test_a_labels_score_is_its_log_prob_but_for_the_normaliser(case):
    """The score and ln P + ln Z differ by a constant, which is what the head takes ln Z to be."""
    head, (hidden, labels) = built(case, V), positions(V, 9)
    if not hasattr(head, "self_normalised_log_prob"):
        pytest.skip("the head has no score that stands for a log-probability")
    score = head.log_prob(hidden, labels) + head.log_normaliser(hidden)
    gap = (score - head.self_normalised_log_prob(hidden, labels)).numpy()
    if getattr(head, "train_z", False) == "context":
        gap -= hidden @ head.log_z_kernel.numpy()
    np.testing.assert_allclose(gap, gap[0], atol=1e-4)


@every_head
def test_top_k_are_the_likeliest_words(case, monkeypatch):
    head, (hidden, _) = built(case, V), positions(V, 9)
    log_probs = head.log_probs(hidden).numpy()
    order = np.argsort(-log_probs, axis=1)
    for k, run in ((1, 32), (3, 32), (V, 32), (2, 2)):
        monkeypatch.setattr(budgets, "RUN_COLUMNS", run)
        ids, values = head.top_k(hidden, k)
        np.testing.assert_array_equal(ids, order[:, :k])
        likeliest = np.take_along_axis(log_probs, order[:, :k], 1)
        np.testing.assert_allclose(values, likeliest, rtol=1e-5, atol=1e-5)


@every_head
def test_any_leading_shape(case):
    head, (hidden, labels) = built(case, V), positions(V, 6)
    shaped, shaped_labels = hidden.reshape(1, 2, 3, UNITS), labels.reshape(1, 2, 3)
    for method in ("log_prob", "training_loss"):
        flat = getattr(rewind(head), method)(hidden, labels)
        ours = getattr(rewind(head), method)(shaped, shaped_labels)
        np.testing.assert_allclose(ours, np.reshape(flat, (1, 2, 3)), rtol=1e-6)
    assert head(shaped).shape == head.log_probs(shaped).shape == (1, 2, 3, V)
    assert head.top_k(shaped, 2)[0].shape == (1, 2, 3, 2)
    assert head.compute_output_shape(shaped.shape) == (1, 2, 3, V)


@every_head
def test_training_loss_has_numeric_gradients(case):
    head, (hidden, labels) = built(case, V), positions(V, 4)
    upstream = np.array([0.3, -1.1, 2.0, 0.7], np.float32)
    variable = tf.Variable(hidden)
    sources = [variable, *[w.value for w in head.trainable_weights]]
    _, gradients = with_gradients(
        lambda: upstream * rewind(head).training_loss(variable, labels), sources
    )

    traced = tf.function(lambda: head.training_loss(variable, labels))  # runs hundreds of times

    def loss_of(source, values):
        before = source.numpy()
        source.assign(values.astype(np.float32))
        rewind(head)
        losses = traced().numpy().astype(np.float64)
        source.assign(before)
        return np.sum(upstream * losses)

    for source, gradient in zip(sources, gradients):
        numeric = numeric_gradient(functools.partial(loss_of, source), source.numpy(), step=1e-2)
        np.testing.assert_allclose(gradient, numeric, rtol=5e-3, atol=5e-3)


@every_head
@pytest.mark.parametrize("count", [5, 1100])
def test_loss_and_nats_returns_the_weighted_training_loss(case, count):
    head, (hidden, labels) = built(case, V), positions(V, count)
    weights = np.random.default_rng(3).uniform(size=count).astype(np.float32)
    weights[1] = 0
    hidden = tf.Variable(hidden)
    sources = [hidden, *[w.value for w in head.trainable_weights]]
    with tf.GradientTape(persistent=True) as tape:
        total, nats = rewind(head).loss_and_nats(hidden, labels, weights)
        total *= 3.0
        losses = rewind(head).training_loss(hidden, labels, mask=weights != 0)
        expected = 3.0 * tf.reduce_sum(weights * losses)
    np.testing.assert_allclose(total, expected, rtol=1e-5)
    if nats is not None:
        exact = np.where(weights != 0, -head.log_prob(hidden, labels), np.nan)
        np.testing.assert_allclose(nats, exact, rtol=1e-5, atol=1e-5)
    for ours, wanted in zip(tape.gradient(total, sources), tape.gradient(expected, sources)):
        np.testing.assert_allclose(
            tf.convert_to_tensor(ours), tf.convert_to_tensor(wanted), rtol=1e-4, atol=1e-4
        )


@every_head
def test_an_assignment_after_the_loss_does_not_change_its_gradient(case):
    head, (hidden, labels) = built(case, V), positions(V, 5)
    weights, found = head.get_weights(), []
    for factor in (1, -3):
        rewind(head).set_weights(weights)
        sources = [w.value for w in head.trainable_weights]
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(head.training_loss(hidden, labels))
        for weight in head.trainable_weights:
            weight.assign(factor * weight)
        found.append(tape.gradient(loss, sources))
    for ours, wanted in zip(*found):
        np.testing.assert_array_equal(*map(tf.convert_to_tensor, (ours, wanted)))


@every_compiled_head
def test_graph_equals_eager(case):
    check_that_graph_equals_eager(built(case, V), False, [5, 1100, 0])


@every_compiled_head
def test_xla_equals_eager(case):
    head = built(case, V)
    if not head.supports_jit:
        pytest.skip("the head says that it cannot be compiled")
    check_that_graph_equals_eager(head, True, [1100, 0])


def check_that_graph_equals_eager(head, jit_compile, counts):
    def everything(hidden, labels):
        (total, _), gradients = with_gradients(
            head.loss_and_nats, head.trainable_weights, hidden, labels, tf.ones(tf.shape(labels))
        )
        top = head.top_k(hidden, 2)
        return total, head(hidden), head.log_prob(hidden, labels), *top, *gradients

    # The number of positions stays open, as in a last, smaller batch.
    shapes = [tf.TensorSpec((None, UNITS)), tf.TensorSpec((None,), tf.int32)]
    graph = tf.function(everything, input_signature=shapes, jit_compile=jit_compile)
    for count in counts:
        hidden, labels = (each[:count] for each in positions(V, max(counts)))
        compiled = graph(hidden, labels)
        rewind(head)
        for ours, wanted in zip(compiled, everything(tf.constant(hidden), labels)):
            assert ours.shape == wanted.shape
            np.testing.assert_allclose(ours, wanted, rtol=2e-4, atol=2e-4)
            assert count or not np.any(ours)  # no positions, no loss and no gradients
        rewind(head)


@every_head
@pytest.mark.parametrize("policy, tolerance", [("mixed_bfloat16", 0.02), ("mixed_float16", 0.003)])
def test_mixed_precision_is_close(case, policy, tolerance):
    head, (hidden, labels) = built(case, 601), positions(601, 40)
    config = {**head.get_config(), "dtype": keras.DTypePolicy(policy), "name": "mixed"}
    if policy == "mixed_float16" and config.get("sgd_learning_rate"):
        pytest.skip("the head refuses the scaled losses of float16")
    mixed = type(head).from_config(config)
    mixed.build((None, UNITS))
    mixed.set_weights(head.get_weights())
    weights = np.full(40, 1 / 40, np.float32)
    results = []
    for layer in (head, mixed):
        (total, _), gradients = with_gradients(
            layer.loss_and_nats, layer.trainable_weights, hidden, labels, weights
        )
        results.append([total, layer.log_prob(hidden, labels), *gradients])
        assert all(g.dtype == tf.float32 for g in gradients)
    assert mixed(hidden).dtype == tf.float32
    if "char" in case:  # Keras's layers sum in half precision where the processor lacks bfloat16
        tolerance *= 3
    for wanted, ours in zip(*results):
        assert np.linalg.norm(ours - wanted) <= tolerance * np.linalg.norm(wanted)


@every_head
def test_config_round_trip(case):
    head = built(case, V)
    again = type(head).from_config(head.get_config())
    again.build((None, UNITS))
    again.set_weights(head.get_weights())
    hidden, labels = positions(V, 5)
    np.testing.assert_array_equal(
        rewind(head).training_loss(hidden, labels), again.training_loss(hidden, labels)
    )
    assert again.get_config() == head.get_config()


def assert_labels_refused(head, hidden, labels, error, message):
    weights = np.ones(labels.shape, np.float32)
    for method, *more in [head.log_prob], [head.training_loss], [head.loss_and_nats, weights]:
        with pytest.raises(error, match=message):
            method(hidden, labels, *more)


@every_head
def test_labels_outside_the_vocabulary_are_named(case):
    head, (hidden, labels) = built(case, V), positions(V, 5)
    for wrong in (-1, V, 2**31 - 1):
        labels[3] = wrong
        message = rf"`labels` must lie in \[0, {V}\)[\s\S]*{wrong}"
        assert_labels_refused(head, hidden, labels, tf.errors.InvalidArgumentError, message)


@every_compiled_head
def test_a_wrong_label_is_nan_where_xla_drops_assertions(case):
    """In the loss and in the gradients: a step that clamped the label could go unnoticed."""
    head, (hidden, labels) = built(case, V), positions(V, 5)
    if not head.supports_jit:
        pytest.skip("the head says that it cannot be compiled")
    labels[3] = V

    @tf.function(jit_compile=True)
    def both(hidden, labels):
        return head.training_loss(hidden, labels), with_gradients(
            head.loss_and_nats, head.trainable_weights[:1], hidden, labels, tf.ones(5)
        )

    nats, ((total, _), (gradient,)) = both(hidden, labels)
    np.testing.assert_array_equal(np.isnan(nats), [False, False, False, True, False])
    assert np.isnan(total) and np.any(np.isnan(gradient))


@every_head
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int8, np.int64, np.float32, np.float64])
def test_whole_numbers_of_any_type_are_labels(case, dtype):
    head, (hidden, labels) = built(case, 256), positions(256, 5)
    labels[:] %= 128
    np.testing.assert_array_equal(
        head.log_prob(hidden, labels.astype(dtype)), head.log_prob(hidden, labels)
    )


@every_head
def test_labels_of_another_shape_are_refused(case):
    hidden, labels = positions(V, 3)
    message = r"`labels` must have the shape .*\(3, 1\)"
    assert_labels_refused(built(case, V), hidden[:, None], labels, ValueError, message)
