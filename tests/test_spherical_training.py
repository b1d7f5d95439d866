"""Spherical heads in models: fit, files, several losses and replicas, and what is refused."""

import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from cases import UNITS, assert_all_equal, positions
from references import spherical_descent
from refusals import refuses
from spherical_helper import KINDS, V, every_kind, made, rows_of, step
from tfsoftmax import Perplexity, SoftmaxLoss, SphericalSoftmax


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
    nats = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model.predict(words, verbose=0))
    assert exact["loss"] == pytest.approx(np.mean(nats), rel=1e-4)


def test_fit_may_build_the_head_of_a_model_of_ones_own():
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.head = SphericalSoftmax(V, sgd_learning_rate=1.0)

        def call(self, hidden, training=None):
            return self.head(hidden, training=training)

    model = Own()
    model.compile("adam", SoftmaxLoss())
    hidden, labels = positions(V, 9)
    model.fit(hidden, labels, epochs=2, verbose=0)
    factors = model.head.factors
    assert int(factors.steps) == 2
    rows = rows_of(model.head)
    np.testing.assert_allclose(factors.moments, rows.T @ rows, rtol=1e-4, atol=1e-4)


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


def test_a_saved_model_goes_on_as_if_it_had_not_stopped(through_a_file):
    schedule = keras.optimizers.schedules.ExponentialDecay(1.0, 2, 0.5)
    keras.utils.set_random_seed(1)
    model = model_of(SphericalSoftmax(V, sgd_learning_rate=schedule))
    model.compile("adam", SoftmaxLoss())
    model.fit(*data(), batch_size=8, shuffle=False, verbose=0)
    again = through_a_file(model)
    for each in (model, again):
        each.fit(*data(), batch_size=8, shuffle=False, verbose=0)
    assert int(again.layers[-1].factors.steps) == 6
    assert_all_equal(again.get_weights(), model.get_weights())


def test_a_schedule_counts_the_steps_of_the_head():
    boundaries = keras.optimizers.schedules.PiecewiseConstantDecay([0], [0.1, 1e-9])
    head = made(SphericalSoftmax(V, sgd_learning_rate=boundaries))
    hidden, labels = positions(V, 4)
    states = [rows_of(head)]
    for _ in range(2):
        step(head, hidden, labels)
        states.append(rows_of(head))
    first, second = (np.abs(b - a).max() for a, b in zip(states, states[1:]))
    assert first > 1e-3 and second < 1e-6


@pytest.mark.parametrize("optimizer, policy", [
    (lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD()), "float32"),
    (lambda: keras.optimizers.SGD(loss_scale_factor=1024.0), "float32"),
    (lambda: "sgd", "mixed_float16"),
])
def test_an_optimiser_that_scales_the_loss_is_refused(optimizer, policy, set_policy):
    """Its factor would reach the head's own step, and only the optimiser divides by it."""
    set_policy(policy)
    model = model_of(SphericalSoftmax(V, sgd_learning_rate=0.1, dtype="float32"))
    model.compile(optimizer(), SoftmaxLoss())
    with refuses(None, "`optimizer` must not scale the loss"):
        model.fit(*data(), verbose=0)
    model.evaluate(*data(), verbose=0)


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
    step(head, hidden, labels)  # so that U is not the identity
    head.assign_kernel(plain.kernel, plain.bias if use_bias else None)
    np.testing.assert_allclose(
        head.log_probs(hidden), plain.log_probs(hidden), rtol=1e-4, atol=1e-5
    )
    nats = np.exp(np.stack([head.log_prob(hidden, np.full(4, v)) for v in range(V)]))
    np.testing.assert_allclose(nats.sum(0), 1, rtol=1e-5)


NO_SCHEDULE = {"class_name": "None", "config": {}}
WRONG_RATES = [0, -1.0, "fast", float("nan"), True, NO_SCHEDULE]


@pytest.mark.parametrize("name, rule, options", [
    *(("sgd_learning_rate", "be", {"sgd_learning_rate": rate}) for rate in WRONG_RATES),
    *(("epsilon", "be", {"epsilon": epsilon}) for epsilon in (0.0, -1.0, float("nan"))),
    *(("sgd_learning_rate", "be None for a head with", {"sgd_learning_rate": 0.1, **options})
      for options in (
          {"kernel_regularizer": "l2"}, {"bias_constraint": "non_neg"},
          {"dtype": "mixed_float16"}, {"tied_to": keras.layers.Embedding(V, UNITS)},
      )),
])
def test_wrong_options_and_what_the_exact_update_cannot_do_are_refused(name, rule, options):
    with refuses(name, f"must {rule}"):
        SphericalSoftmax(V, **options)


@pytest.mark.parametrize("name, rule, build, options, rows, biases", [
    ("bias", "be None for a head without biases", True, {"use_bias": False}, V, V),
    ("kernel", f"have the shape ({V}, {UNITS})", True, {"use_bias": False}, V + 1, None),
    ("bias", f"have the shape ({V},)", True, {}, V, V - 1),
    ("head", "be built before `assign_kernel`", False, {}, V, None),
    ("sgd_learning_rate", "be set", True, {"sgd_learning_rate": None}, V, None),
])
def test_a_kernel_that_cannot_be_assigned_is_named(name, rule, build, options, rows, biases):
    head = SphericalSoftmax(V, **{"sgd_learning_rate": 0.1, **options})
    if build:
        made(head)
    with refuses(name, f"must {rule}"):
        head.assign_kernel(np.ones((rows, UNITS)), biases and np.ones(biases))


def test_several_replicas_are_refused_when_the_head_is_built(monkeypatch):
    head = SphericalSoftmax(V, sgd_learning_rate=0.1)
    two = types.SimpleNamespace(num_replicas_in_sync=2)
    monkeypatch.setattr(tf.distribute, "get_strategy", lambda: two)
    with refuses("sgd_learning_rate", "be None where several replicas"):
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
        step(head, hidden, labels)
    assert not np.isfinite(head.training_loss(hidden, labels)).all()
