"""FullSoftmax against float64 loops, naive Keras, and its memory promise."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from cases import UNITS, built, positions, prepared, with_gradients
from graph_helper import largest_tensor
from references import full_log_probs, full_objective
from refusals import refuses
from tfsoftmax import Embedding, FullSoftmax
from tfsoftmax.ops.logits import logits_rows
from tfsoftmax.support import budgets


@pytest.mark.parametrize("soft_cap", [None, 2.0])
def test_log_probs_equal_the_equation(soft_cap):
    head, (hidden, _) = prepared(FullSoftmax(13, soft_cap=soft_cap)), positions(13, 5)
    expected = full_log_probs(hidden, *head.get_weights(), soft_cap)
    np.testing.assert_allclose(head.log_probs(hidden), expected, rtol=1e-5, atol=1e-5)


def test_objective_equals_the_equation():
    options = {"soft_cap": 2.0, "label_smoothing": 0.2, "z_loss": 0.01}
    head, (hidden, labels) = prepared(FullSoftmax(13, **options)), positions(13, 5)
    expected = full_objective(hidden, *head.get_weights(), labels, **options)
    np.testing.assert_allclose(head.training_loss(hidden, labels), expected, rtol=1e-5)


def naive(hidden, kernel, bias, labels, weights):
    """What Keras users write, and its gradients by the tape."""
    def loss():
        logits = tf.matmul(hidden, kernel, transpose_b=True) + bias
        nats = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        return tf.reduce_sum(nats * weights)

    return with_gradients(loss, [hidden, kernel, bias])


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("vocab_size, count", [(1009, 1300), (17, 512), (2, 1)])
def test_loss_and_gradients_equal_naive_keras(vocab_size, count, blocks, monkeypatch):
    if blocks > 1:
        monkeypatch.setattr(budgets, "BLOCK_BYTES", 4 * UNITS * vocab_size // blocks)
    head = built("full", vocab_size)
    hidden, labels = positions(vocab_size, count)
    hidden = tf.Variable(hidden)
    weights = np.random.default_rng(5).uniform(size=count).astype(np.float32) / count
    kernel, bias = (w.value for w in head.weights)
    wanted, gradients = naive(*map(tf.convert_to_tensor, (hidden, kernel, bias)), labels, weights)
    (loss, _), found = with_gradients(
        head.loss_and_nats, [hidden, kernel, bias], hidden, labels, weights
    )
    np.testing.assert_allclose(loss, wanted, rtol=1e-5)
    for ours, expected in zip(found, gradients):
        np.testing.assert_allclose(ours, expected, atol=1e-5 * np.abs(expected).max())


def test_kernel_gradient_is_accumulated_in_float32(monkeypatch):
    """A bfloat16 sum of 2,048 equal contributions would lose most of them."""
    monkeypatch.setattr(budgets, "CHUNK_ROWS", 4)
    count = 2048 * budgets.CHUNK_ROWS
    head = FullSoftmax(2, dtype=keras.DTypePolicy("mixed_bfloat16"), use_bias=False)
    head.build((None, 1))
    data = tf.ones((count, 1)), tf.zeros(count, tf.int32), tf.ones(count)
    _, (gradient,) = with_gradients(head.loss_and_nats, head.weights, *data)
    p = tf.nn.softmax(head.weights[0].value[:, 0]).numpy()[1]
    np.testing.assert_allclose(gradient[:, 0], [-count * p, count * p], rtol=0.02)


@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1}, {"soft_cap": 30.0}])
def test_float16_neither_underflows_nor_overflows(options):
    """Averaged over 2,560 positions of a large vocabulary, with all weights of one sign."""
    vocab_size, count = 100_003, 16
    hidden, labels = positions(vocab_size, count)
    kernel = np.random.default_rng(0).uniform(size=(vocab_size, UNITS)).astype(np.float32)
    weights, gradients = np.full(count, 1 / 2560, np.float32), []

    def scaled(head, hidden):  # as a LossScaleOptimizer has it
        return 2.0**15 * head.loss_and_nats(hidden, labels, weights)[0]

    for policy in ("float32", "mixed_float16"):
        head = FullSoftmax(vocab_size, dtype=policy, use_bias=False, **options)
        head.build(hidden.shape)
        head.set_weights([kernel])
        source = tf.Variable(hidden)
        gradients.append(with_gradients(scaled, [source, head.weights[0]], head, source)[1])
    for wanted, ours in zip(*gradients):
        assert np.linalg.norm(ours - wanted) <= 0.01 * np.linalg.norm(wanted)


@pytest.mark.parametrize("vocab_size, size, rows", [(10_000, 16, 512), (10**6, 512, 512),
                                                    (10**6, 16, 134), (10**7, 16, 64)])
def test_chunks_shrink_with_the_vocabulary(vocab_size, size, rows):
    assert logits_rows(vocab_size, size) == rows


def test_no_tensor_of_all_positions_by_all_words():
    head, count = built("full", 10_007), 5 * budgets.CHUNK_ROWS

    @tf.function
    def step(hidden, labels):
        return with_gradients(head.loss_and_nats, head.weights, hidden, labels, tf.ones(count))

    @tf.function
    def naive_step(hidden, labels):
        kernel, bias = (tf.convert_to_tensor(w.value) for w in head.weights)
        return naive(hidden, kernel, bias, labels, tf.ones(count))

    shapes = tf.TensorSpec((count, UNITS)), tf.TensorSpec((count,), tf.int32)
    assert largest_tensor(step.get_concrete_function(*shapes)) <= budgets.CHUNK_ROWS * 10_007
    assert largest_tensor(naive_step.get_concrete_function(*shapes)) == count * 10_007


@pytest.mark.parametrize("vocab_size, options, name, rule", [
    (0, {}, "vocab_size", "lie in"), (5, {"label_smoothing": 1.0}, "label_smoothing", "lie in"),
    (5, {"soft_cap": 0}, "soft_cap", "be positive"),
    (5, {"tied_to": Embedding(6, 2)}, "tied_to", "be of the class Embedding, of 5 words"),
    (6, {"tied_to": Embedding(6, 2)}, "tied_to", "have as many units"),
])
def test_bad_arguments_are_named(vocab_size, options, name, rule):
    with refuses(name, rule):
        FullSoftmax(vocab_size, **options).build((None, 3))
