"""Spherical and Taylor softmax: loops of the equations, and gradient descent in factors."""

import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from cases import UNITS, positions, randomise
from references import family_log_probs, numeric_gradient, spherical_descent
from tfsoftmax import Perplexity, SoftmaxLoss, SphericalSoftmax, TaylorSoftmax
from tfsoftmax.ops import factored_rows

V = 13
KINDS = {
    "spherical": (lambda **options: SphericalSoftmax(V, 0.5, **options), lambda x: x**2 + 0.5),
    "taylor": (lambda **options: TaylorSoftmax(V, **options), lambda x: 1 + x + x**2 / 2),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def made(head, units=UNITS):
    keras.utils.set_random_seed(4)
    head.build((None, units))
    randomise(head)
    return head


def rows_of(head):
    """[W, b] of factors, float64 (V, D + 1), where b includes the shift of a Taylor softmax."""
    factors = head.factors
    return factors.rows.numpy().astype(np.float64) @ factors.mixer.numpy().astype(np.float64)


def step(head, hidden, labels, weights):
    with tf.GradientTape() as tape:
        total, _ = head.loss_and_nats(hidden, labels, weights)
    return tape.gradient(total, head.trainable_weights)


@every_kind
@pytest.mark.parametrize("count", [3, 40])  # fewer and more than two thirds of D
@pytest.mark.parametrize("use_bias", [True, False])
def test_log_prob_is_that_of_the_equation(kind, count, use_bias):
    make, function = KINDS[kind]
    head, (hidden, labels) = made(make(use_bias=use_bias)), positions(V, count)
    bias = head.bias.numpy() if use_bias else np.zeros(V)
    expected = family_log_probs(hidden, head.kernel.numpy(), bias, function)
    np.testing.assert_allclose(head.log_probs(hidden), expected, rtol=1e-4, atol=1e-5)
    chosen = expected[np.arange(count), labels]
    np.testing.assert_allclose(head.log_prob(hidden, labels), chosen, rtol=1e-4, atol=1e-5)


def test_the_likeliest_words_have_scores_of_either_sign():
    head = SphericalSoftmax(3, use_bias=False)
    head.build((None, 1))
    head.kernel.assign([[1.0], [-3.0], [2.0]])
    np.testing.assert_array_equal(head.top_k([[1.0]], 3)[0], [[1, 2, 0]])


@every_kind
@pytest.mark.parametrize("words, units, count", [(1, 1, 1), (1, 5, 9), (6, 1, 9), (2, 3, 2)])
@pytest.mark.parametrize("rate", [None, 0.1])
def test_one_word_and_one_unit(kind, words, units, count, rate):
    options = {"sgd_learning_rate": rate}
    head = TaylorSoftmax(words, **options) if kind == "taylor" else SphericalSoftmax(
        words, 0.5, **options
    )
    made(head, units)
    hidden = np.random.default_rng(0).normal(size=(count, units)).astype(np.float32)
    labels = np.arange(count, dtype=np.int32) % words
    for _ in range(2):
        step(head, hidden, labels, np.ones(count, np.float32))
        expected = np.take_along_axis(head.log_probs(hidden).numpy(), labels[:, None], 1)[:, 0]
        np.testing.assert_allclose(head.log_prob(hidden, labels), expected, rtol=1e-5, atol=1e-5)
    assert words > 1 or not np.any(np.abs(expected) > 1e-5)


@every_kind
@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("count", [2, 11])
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
    expected = family_log_probs(
        hidden, wanted[:, :-1], wanted[:, -1], lambda x: x**2 + epsilon
    )
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
    step(head, hidden, labels, np.ones(4, np.float32))
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
        step(head, hidden, labels, np.ones(4, np.float32))
    assert np.isfinite(head.log_prob(hidden, labels)).all()
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(head.factors.rows).any(axis=1)), [7])


@pytest.mark.parametrize("limit", [0.0, 1.2])
def test_renewed_factors_are_the_same_rows(limit, monkeypatch):
    monkeypatch.setattr(factored_rows, "LIMIT", limit)
    monkeypatch.setattr(factored_rows, "FOLD_ROWS", 5)
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
    hidden, labels, weight = np.ones((1, 1), np.float32), np.zeros(1, np.int32), 3.0 - 1e-6
    wanted = spherical_descent(
        np.array([[1.0, 0.0], [2.0, 0.0]]), hidden, labels, [weight], 0.5, 1.0, False
    )
    step(head, hidden, labels, np.array([weight], np.float32))
    np.testing.assert_allclose(rows_of(head), wanted, rtol=1e-5, atol=1e-5)


def test_a_factor_that_is_exactly_singular_is_renewed():
    """T = 0: U' has no inverse, and A must become A U' before one is asked for."""
    options = {"use_bias": False, "kernel_initializer": "zeros", "sgd_learning_rate": 1.0}
    head = SphericalSoftmax(2, **options)
    head.build((None, 1))
    for _ in range(2):
        step(head, np.ones((1, 1), np.float32), np.zeros(1, np.int32), np.ones(1, np.float32))
    np.testing.assert_array_equal(rows_of(head), np.zeros((2, 2)))
    np.testing.assert_array_equal(head.factors.mixer, np.eye(2))


def model_of(head, frozen=False):
    words = keras.Input((3,), dtype="int32")
    embedding = keras.layers.Embedding(V, UNITS, "random_normal", trainable=not frozen)
    embedding.embeddings_initializer.stddev = 1.0
    return keras.Model(words, head(embedding(words)))


def data(count=24):
    words = np.random.default_rng(3).integers(0, V, (count, 4)).astype(np.int32)
    return words[:, :-1], (words[:, :-1] * 3 + 1) % V


@every_kind
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("options", [{}, {"steps_per_execution": 3}, {"run_eagerly": True}])
def test_fit_makes_one_step_for_each_batch_and_learns(kind, frozen, options):
    keras.utils.set_random_seed(1)
    model = model_of(KINDS[kind][0](sgd_learning_rate=1.0), frozen)
    model.compile("adam", SoftmaxLoss(), weighted_metrics=[Perplexity()], **options)
    words, labels = data()
    history = model.fit(words, labels, batch_size=8, epochs=10, verbose=0).history
    assert int(model.layers[-1].factors.steps) == 30
    assert history["perplexity"][-1] < 0.8 * history["perplexity"][0]
    exact = model.evaluate(words, labels, verbose=0, return_dict=True)
    assert int(model.layers[-1].factors.steps) == 30  # evaluation makes none
    logs = tf.nn.log_softmax(model.predict(words, verbose=0)).numpy()
    nats = -np.take_along_axis(logs, labels[..., None], -1).mean()
    assert exact["loss"] == pytest.approx(nats, rel=1e-4)


def test_weights_of_the_loss_scale_the_step():
    """`loss_weights` and the sample weights reach the rows as they reach other gradients."""
    moved = []
    for weight in (1.0, 3.0):
        keras.utils.set_random_seed(1)
        model = model_of(SphericalSoftmax(V, sgd_learning_rate=1e-3), frozen=True)
        model.compile("sgd", SoftmaxLoss(), loss_weights=weight)
        before = rows_of(model.layers[-1])
        model.fit(*data(), batch_size=24, verbose=0)
        moved.append(rows_of(model.layers[-1]) - before)
    np.testing.assert_allclose(moved[1], 3 * moved[0], rtol=0.02, atol=1e-6)


def test_a_head_that_is_not_trained_makes_no_step():
    model = model_of(SphericalSoftmax(V, sgd_learning_rate=1.0))
    model.layers[-1].trainable = False
    model.compile("sgd", SoftmaxLoss())
    before = rows_of(model.layers[-1])
    model.fit(*data(), verbose=0)
    np.testing.assert_array_equal(rows_of(model.layers[-1]), before)


def test_a_saved_model_goes_on_as_if_it_had_not_stopped(tmp_path):
    schedule = keras.optimizers.schedules.ExponentialDecay(1.0, 2, 0.5)
    keras.utils.set_random_seed(1)
    model = model_of(SphericalSoftmax(V, sgd_learning_rate=schedule))
    model.compile("adam", SoftmaxLoss())
    model.fit(*data(), batch_size=8, shuffle=False, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    for each in (model, again):
        each.fit(*data(), batch_size=8, shuffle=False, verbose=0)
    assert int(again.layers[-1].factors.steps) == 6
    for ours, wanted in zip(again.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, wanted)


def test_a_schedule_counts_the_steps_of_the_head():
    boundaries = keras.optimizers.schedules.PiecewiseConstantDecay([0], [0.1, 1e-9])
    head = made(SphericalSoftmax(V, sgd_learning_rate=boundaries))
    hidden, labels = positions(V, 4)
    states = [rows_of(head)]
    for _ in range(2):
        step(head, hidden, labels, np.ones(4, np.float32))
        states.append(rows_of(head))
    first, second = (np.abs(b - a).max() for a, b in zip(states, states[1:]))
    assert first > 1e-3 and second < 1e-6


@pytest.mark.parametrize("options", [
    {"kernel_regularizer": "l2"}, {"bias_constraint": "non_neg"}, {"dtype": "mixed_float16"},
    {"tied_to": True},
])
def test_what_the_exact_update_cannot_do_is_refused(options):
    if "tied_to" in options:
        options = {"tied_to": keras.layers.Embedding(V, UNITS)}
    with pytest.raises(ValueError, match="`sgd_learning_rate` must be None for a head with"):
        SphericalSoftmax(V, sgd_learning_rate=0.1, **options)


@pytest.mark.parametrize("optimizer", [
    lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD()),
    lambda: keras.optimizers.SGD(loss_scale_factor=1024.0),
])
def test_an_optimiser_that_scales_the_loss_is_refused(optimizer):
    """Its factor would reach the head's own step, and only the optimiser divides by it."""
    model = model_of(SphericalSoftmax(V, sgd_learning_rate=0.1))
    model.compile(optimizer(), SoftmaxLoss())
    with pytest.raises(ValueError, match="`optimizer` must not scale the loss"):
        model.fit(*data(), verbose=0)
    model.evaluate(*data(), verbose=0)


def test_the_scaled_loss_of_a_global_policy_is_refused():
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        model = model_of(SphericalSoftmax(V, sgd_learning_rate=0.1, dtype="float32"))
        model.compile("sgd", SoftmaxLoss())
        with pytest.raises(ValueError, match="`optimizer` must not scale the loss"):
            model.fit(*data(), verbose=0)
    finally:
        keras.mixed_precision.set_global_policy("float32")


def test_two_losses_of_one_tape_are_two_steps():
    head, (hidden, labels) = made(SphericalSoftmax(V, 0.5, sgd_learning_rate=0.5)), positions(V, 8)
    before, hidden, halves = rows_of(head), tf.constant(hidden), [slice(0, 4), slice(4, 8)]
    with tf.GradientTape() as tape:
        tape.watch(hidden)
        total = tf.add_n([tf.reduce_sum(head.training_loss(hidden[h], labels[h])) for h in halves])
    tape.gradient(total, hidden)
    assert int(head.factors.steps) == 2

    def descended(*parts):
        rows = before
        for part in parts:
            count = len(labels[part])
            rows = spherical_descent(
                rows, hidden.numpy()[part], labels[part], np.ones(count), 0.5, 0.5, True
            )
        return rows

    errors = [np.abs(rows_of(head) - descended(*order)).max() for order in (halves, halves[::-1])]
    assert min(errors) < 1e-4 < 0.01 < np.abs(rows_of(head) - descended(slice(0, 8))).max()


@every_kind
@pytest.mark.parametrize("use_bias", [True, False])
def test_assigned_rows_are_those_of_a_head_that_the_optimiser_trains(kind, use_bias):
    make, _ = KINDS[kind]
    head = made(make(sgd_learning_rate=0.1, use_bias=use_bias))
    plain, (hidden, labels) = made(make(use_bias=use_bias)), positions(V, 4)
    step(head, hidden, labels, np.ones(4, np.float32))  # so that U is not the identity
    head.assign_kernel(plain.kernel, plain.bias if use_bias else None)
    np.testing.assert_allclose(
        head.log_probs(hidden), plain.log_probs(hidden), rtol=1e-4, atol=1e-5
    )
    nats = np.exp(np.stack([head.log_prob(hidden, np.full(4, v)) for v in range(V)]))
    np.testing.assert_allclose(nats.sum(0), 1, rtol=1e-5)


def test_a_kernel_that_cannot_be_assigned_is_named():
    head = made(SphericalSoftmax(V, sgd_learning_rate=0.1, use_bias=False))
    with pytest.raises(ValueError, match="`bias` must be None for a head without biases"):
        head.assign_kernel(np.ones((V, UNITS)), np.ones(V))
    with pytest.raises(ValueError, match=rf"`kernel` must have the shape \({V}, {UNITS}\)"):
        head.assign_kernel(np.ones((V + 1, UNITS)))
    with pytest.raises(ValueError, match="`sgd_learning_rate` must be set"):
        made(SphericalSoftmax(V)).assign_kernel(np.ones((V, UNITS)))


@pytest.mark.parametrize("rate", [0, -1.0, "fast", float("nan"), True])
def test_a_rate_that_is_none_is_named(rate):
    with pytest.raises(ValueError, match="`sgd_learning_rate` must be"):
        SphericalSoftmax(V, sgd_learning_rate=rate)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, float("nan")])
def test_epsilon_is_positive(epsilon):
    with pytest.raises(ValueError, match="`epsilon` must be"):
        SphericalSoftmax(V, epsilon)


def test_several_replicas_are_refused_when_the_head_is_built(monkeypatch):
    head = SphericalSoftmax(V, sgd_learning_rate=0.1)
    two = types.SimpleNamespace(num_replicas_in_sync=2)
    monkeypatch.setattr(tf.distribute, "get_strategy", lambda: two)
    with pytest.raises(ValueError, match="`sgd_learning_rate` must be None where several replicas"):
        head.build((None, UNITS))


def test_one_replica_trains_as_no_strategy_does():
    results = []
    for strategy in (tf.distribute.get_strategy(), tf.distribute.MirroredStrategy(["CPU:0"])):
        keras.utils.set_random_seed(1)
        with strategy.scope():
            model = model_of(SphericalSoftmax(V, sgd_learning_rate=1.0))
            model.compile("adam", SoftmaxLoss())
        model.fit(*data(), batch_size=8, shuffle=False, verbose=0)
        results.append(rows_of(model.layers[-1]))
    np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-6)


def test_a_rate_that_is_too_large_shows_as_a_loss_that_is_not_finite():
    head, (hidden, labels) = made(SphericalSoftmax(V, sgd_learning_rate=1e30)), positions(V, 9)
    for _ in range(4):
        step(head, hidden, labels, np.ones(9, np.float32))
    assert not np.isfinite(head.training_loss(hidden, labels)).all()
