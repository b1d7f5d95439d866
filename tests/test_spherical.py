"""Spherical and Taylor softmax: loops of the equations, and gradient descent in factors."""

import numpy as np
import pytest
import tensorflow as tf

from cases import UNITS, chosen, positions, slow_unless
from references import family_log_probs, numeric_gradient, spherical_descent
from spherical_helper import KINDS, V, every_kind, made, of_size, rows_of, step
from tfsoftmax import SphericalSoftmax
from tfsoftmax.support import budgets
from tfsoftmax.survey import descent as factored_rows


@every_kind
@pytest.mark.parametrize("count", [3, 40])  # fewer and more than two thirds of D
@pytest.mark.parametrize("use_bias", [True, False])
def test_log_prob_is_that_of_the_equation(kind, count, use_bias):
    make, function = KINDS[kind]
    head, (hidden, labels) = made(make(use_bias=use_bias)), positions(V, count)
    bias = head.bias.numpy() if use_bias else np.zeros(V)
    expected = family_log_probs(hidden, head.kernel.numpy(), bias, function)
    np.testing.assert_allclose(head.log_probs(hidden), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        head.log_prob(hidden, labels), chosen(expected, labels), rtol=1e-4, atol=1e-5
    )


def test_the_likeliest_words_have_scores_of_either_sign():
    head = SphericalSoftmax(3, use_bias=False)
    head.build((None, 1))
    head.kernel.assign([[1.0], [-3.0], [2.0]])
    np.testing.assert_array_equal(head.top_k([[1.0]], 3)[0], [[1, 2, 0]])


@every_kind
@pytest.mark.parametrize("words, units, count", [(1, 1, 1), (1, 5, 9), (6, 1, 9), (2, 3, 2)])
@pytest.mark.parametrize("rate", [None, 0.1])
def test_one_word_and_one_unit(kind, words, units, count, rate):
    head = made(of_size(kind, words, 0.5, sgd_learning_rate=rate), units)
    hidden = np.random.default_rng(0).normal(size=(count, units)).astype(np.float32)
    labels = np.arange(count, dtype=np.int32) % words
    for _ in range(2):
        step(head, hidden, labels)
        expected = chosen(head.log_probs(hidden), labels)
        np.testing.assert_allclose(head.log_prob(hidden, labels), expected, rtol=1e-5, atol=1e-5)
    assert words > 1 or not np.any(np.abs(expected) > 1e-5)


@every_kind
@pytest.mark.parametrize("use_bias, count", slow_unless(
    [(True, 2), (False, 11)], [(True, 2), (False, 11), (True, 11), (False, 2)]
))
def test_the_exact_update_is_gradient_descent(kind, use_bias, count):
    """Three hundred steps in float32 factors against as many on W itself in float64."""
    head = made(KINDS[kind][0](sgd_learning_rate=0.05, use_bias=use_bias))
    shift, epsilon, rng = head._shift, head.epsilon, np.random.default_rng(7)
    wanted, before = rows_of(head), rows_of(head)
    for _ in range(300):
        hidden = rng.normal(size=(count, UNITS)).astype(np.float32)
        labels = rng.integers(0, V, count).astype(np.int32)
        weights = rng.uniform(size=count).astype(np.float32)
        step(head, hidden, labels, weights)
        wanted = spherical_descent(wanted, hidden, labels, weights, epsilon, 0.05, use_bias)
    size = np.abs(wanted).max()
    assert np.abs(wanted - before).max() > 0.2 * size
    np.testing.assert_allclose(rows_of(head), wanted, rtol=1e-4, atol=1e-4 * size)
    np.testing.assert_allclose(
        head.factors.moments, wanted.T @ wanted, rtol=1e-4, atol=1e-4 * size**2
    )
    assert use_bias or np.allclose(rows_of(head)[:, -1], shift, atol=1e-5)
    expected = family_log_probs(hidden, wanted[:, :-1], wanted[:, -1], lambda x: x**2 + epsilon)
    np.testing.assert_allclose(head.log_probs(hidden), expected, rtol=1e-3, atol=1e-4)


def test_the_reference_descends_along_numeric_gradients():
    """The loops of `spherical_descent` against differences of the loss of the equation."""
    rng = np.random.default_rng(1)
    rows, hidden, labels = rng.normal(size=(4, 3)), rng.normal(size=(5, 2)), [0, 3, 3, 1, 0]
    weights = rng.uniform(size=5)

    def loss(rows):
        logs = family_log_probs(hidden, rows[:, :-1], rows[:, -1], lambda x: x**2 + 0.5)
        return -sum(w * logs[i, y] for i, (w, y) in enumerate(zip(weights, labels)))

    ours = spherical_descent(rows, hidden, labels, weights, 0.5, 1.0, True)
    np.testing.assert_allclose(rows - ours, numeric_gradient(loss, rows), atol=1e-5)


def test_the_exact_update_writes_no_row_but_the_labels():
    head = made(SphericalSoftmax(V, sgd_learning_rate=0.1))
    before, mixed = head.factors.rows.numpy(), head.factors.mixer.numpy()
    hidden, labels = positions(V, 4)
    labels[:] = [5, 0, 5, V - 1]
    step(head, hidden, labels)
    after = head.factors.rows.numpy()
    same = np.all(after == before, axis=1)
    np.testing.assert_array_equal(np.flatnonzero(~same), [0, 5, V - 1])
    assert np.any(head.factors.mixer.numpy() != mixed)  # which moves the rows of all words


def test_a_step_reads_no_row_but_the_labels():
    """A row of NaN that is no label spoils nothing until the rows are renewed."""
    head = made(SphericalSoftmax(V, sgd_learning_rate=0.1))
    rows = head.factors.rows.numpy()
    rows[7] = np.nan
    head.factors.rows.assign(rows)
    hidden, labels = positions(V, 4)
    labels[:] = [5, 0, 5, V - 1]
    for _ in range(3):
        step(head, hidden, labels)
    assert np.isfinite(head.log_prob(hidden, labels)).all()
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(head.factors.rows).any(axis=1)), [7])


@pytest.mark.parametrize("limit", [0.0, 1.2])
def test_renewed_factors_are_the_same_rows(limit, monkeypatch):
    monkeypatch.setattr(factored_rows, "LIMIT", limit)
    monkeypatch.setattr(budgets, "BLOCK_BYTES", 5 * 4 * (UNITS + 1))
    head = made(SphericalSoftmax(V, 0.5, sgd_learning_rate=0.3))
    wanted, rng, folds = rows_of(head), np.random.default_rng(2), 0
    for _ in range(20):
        hidden = rng.normal(size=(9, UNITS)).astype(np.float32)
        labels = rng.integers(0, V, 9).astype(np.int32)
        step(head, hidden, labels, np.full(9, 1 / 9, np.float32))
        folds += np.array_equal(head.factors.mixer, np.eye(UNITS + 1))
        wanted = spherical_descent(wanted, hidden, labels, np.full(9, 1 / 9), 0.5, 0.3, True)
    assert folds == 20 if limit == 0 else 0 < folds < 20
    np.testing.assert_allclose(rows_of(head), wanted, rtol=1e-4, atol=1e-5)


def test_a_step_that_makes_the_factor_singular_is_exact():
    """One unit and the rate at which T is zero: A must become A U T before U' is inverted."""
    head = made(SphericalSoftmax(2, 0.5, use_bias=False, sgd_learning_rate=1.0), units=1)
    head.factors.rows.assign([[1.0, 0.0], [2.0, 0.0]])
    head.factors.moments.assign([[5.0, 0.0], [0.0, 0.0]])
    data = np.ones((1, 1), np.float32), np.zeros(1, np.int32), np.array([3 - 1e-6], np.float32)
    wanted = spherical_descent(np.array([[1.0, 0.0], [2.0, 0.0]]), *data, 0.5, 1.0, False)
    step(head, *data)
    np.testing.assert_allclose(rows_of(head), wanted, rtol=1e-5, atol=1e-5)


def test_a_factor_that_is_exactly_singular_is_renewed():
    """T = 0: U' has no inverse, and A must become A U' before one is asked for."""
    options = {"use_bias": False, "kernel_initializer": "zeros", "sgd_learning_rate": 1.0}
    head = SphericalSoftmax(2, **options)
    head.build((None, 1))
    for _ in range(2):
        step(head, np.ones((1, 1), np.float32), np.zeros(1, np.int32))
    np.testing.assert_array_equal(rows_of(head), np.zeros((2, 2)))
    np.testing.assert_array_equal(head.factors.mixer, np.eye(2))


@every_kind
@pytest.mark.parametrize("rate", [None, 0.1])
def test_a_normaliser_whose_moments_cancel_keeps_its_digits(kind, rate):
    """Hidden states with a common mean of 300, which the rows do not see."""
    words, count, rng = 300, 200, np.random.default_rng(0)
    head = of_size(kind, words, 1e-3, sgd_learning_rate=rate)
    head.build((None, UNITS))
    kernel = rng.normal(size=(words, UNITS))
    kernel = (kernel - kernel.mean(axis=1, keepdims=True)).astype(np.float32)
    head.kernel.assign(kernel) if rate is None else head.assign_kernel(kernel)
    hidden = rng.normal(size=(count, UNITS)).astype(np.float32)
    hidden[:150] += 300
    hidden[5] = np.nan  # another position's matter
    labels = rng.integers(0, words, count).astype(np.int32)
    scores = np.float64(hidden) @ kernel.T + head._shift
    log_z = np.log((scores**2 + head.epsilon).sum(axis=1))
    np.testing.assert_allclose(head.log_normaliser(hidden), log_z, atol=2e-5)
    log_prob = chosen(head.log_probs(hidden), labels)
    np.testing.assert_allclose(head.log_prob(hidden, labels), log_prob, atol=2e-5)
    np.testing.assert_allclose(head.training_loss(hidden, labels), -log_prob, atol=2e-5)
    if rate is None:
        compiled = tf.function(head.log_prob, jit_compile=True)(hidden, labels)
        np.testing.assert_allclose(compiled, log_prob, atol=2e-2)  # the labels' scores cancel too
