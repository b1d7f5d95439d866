"""What Keras's tests of its optimisers assert, with gradients that are sparse."""

import contextlib
import pickle

import keras
import numpy as np
import pytest
import tensorflow as tf

from cases import assert_all_close, assert_all_equal
from optimizer_helper import V, bag_of_words, bags, fit, make, states
from refusals import refused
from tfsoftmax import optimizers

CLASSES = ("Adagrad", "SGD", "Adam", "AdamW")
OPTIONS = {
    "weight_decay": 0.05, "use_ema": True, "ema_momentum": 0.8, "ema_overwrite_frequency": 4,
    "gradient_accumulation_steps": 3, "loss_scale_factor": 16.0, "clipnorm": 2.0,
}


def weight(*rows, name=None):
    return keras.Variable(rows, dtype="float32", name=name)


def sparse(*rows, ids=None):
    """A gradient with these rows, which belong to the first rows if there are no `ids`."""
    ids = range(len(rows)) if ids is None else ids
    return tf.IndexedSlices(tf.constant(rows), tf.constant(list(ids)), tf.constant([2, 2]))


ONES = [1.0, 1.0], [1.0, 1.0]


def assert_close(variable, wanted):
    np.testing.assert_allclose(variable.numpy(), wanted, rtol=1e-6, atol=1e-6)


def test_fit_ends_with_the_averages_in_the_model():
    models = [bag_of_words() for _ in range(2)]
    # Keras does not sum duplicates, so that no word may appear twice in a step.
    ids, y = np.arange(5, 29).reshape(6, 4), bags(0, V)[1][:6]
    for model, module in zip(models, (optimizers, keras.optimizers)):
        optimizer = module.Adagrad(0.1, use_ema=True, ema_momentum=0.9)
        model.compile(optimizer, "mse")
        model.fit(ids, y, batch_size=2, epochs=4, shuffle=False, verbose=0)
        assert_close(model.weights[0], optimizer._model_variables_moving_average[0].numpy())
    assert_all_close(*[model.get_weights() for model in models], atol=1e-6)


def test_evaluation_with_swapped_averages_sees_those_of_untouched_rows():
    model = bag_of_words()
    model.compile(optimizers.SGD(0.5, use_ema=True, ema_momentum=0.75), "mse")
    average = None
    for low in (0, 0, 10, 20):
        model.train_on_batch(*bags(low, low + 10))
        weights = model.get_weights()
        average = [0.75 * a + 0.25 * w for a, w in zip(average or weights, weights)]
    swap = keras.callbacks.SwapEMAWeights()
    loss = model.evaluate(*bags(0, 30), callbacks=[swap], verbose=0)
    assert_all_close(model.get_weights(), weights, atol=1e-6)
    unswapped = model.evaluate(*bags(0, 30), verbose=0)
    model.set_weights(average)
    np.testing.assert_allclose(loss, model.evaluate(*bags(0, 30), verbose=0), rtol=1e-5)
    assert abs(loss - unswapped) > 1e-3 * loss


@pytest.mark.parametrize("decay", [0.004, 0.0])
@pytest.mark.parametrize("name", CLASSES)
def test_touched_rows_decay_unless_their_variable_is_excluded(name, decay):
    decayed, by_name, by_variable = weight(*ONES), weight(*ONES, name="spared"), weight(*ONES)
    optimizer = getattr(optimizers, name)(1.0, weight_decay=decay)
    optimizer.exclude_from_weight_decay([by_variable], ["spared"])
    gradient = sparse([0.0, 0.0], ids=[1])
    optimizer.apply([gradient] * 3, [decayed, by_name, by_variable])
    assert_close(decayed, [[1.0, 1.0], [1.0 - decay, 1.0 - decay]])
    assert_close(by_name, ONES)
    assert_close(by_variable, ONES)


def test_arguments_that_keras_refuses_are_refused():
    refused("`weight_decay` must be a float", optimizers.AdamW, weight_decay=None)
    refused("Only one of `clipnorm`, `clipvalue`", optimizers.Adagrad, clipnorm=0.1, clipvalue=0.1)
    with pytest.raises(ValueError, match="`gradient_accumulation_steps` must be an integer >= 2"):
        optimizers.SGD(gradient_accumulation_steps=1)
    refused("`ema_momentum` must be in the range", optimizers.Adam, use_ema=True, ema_momentum=1.1)


def test_variables_without_gradient_stay_and_warn():
    v, w = weight(*ONES), weight(*ONES)
    refused("No gradients provided", optimizers.SGD(1.0).apply, [None], [v])
    optimizer = optimizers.SGD(1.0, use_ema=True, gradient_accumulation_steps=2)
    for _ in range(2):
        with pytest.warns(UserWarning, match="Gradients do not exist"):
            optimizer.apply([None, sparse(*ONES)], [v, w])
    assert_close(v, ONES)
    assert_close(w, np.zeros((2, 2)))
    assert_close(optimizer._model_variables_moving_average[0], ONES)


def test_constraints_hold_after_the_step_and_in_the_average():
    v = weight([-1.0, 2.0], [3.0, 4.0])
    v.constraint = keras.constraints.NonNeg()
    optimizer = optimizers.SGD(1.0, use_ema=True, ema_momentum=0.5)
    optimizer.apply([sparse([0.0, 3.0], ids=[0])], [v])
    assert_close(v, [[0.0, 0.0], [3.0, 4.0]])
    optimizer.apply([sparse([0.0, 1.0], ids=[1])], [v])
    # Keras averages before the constraint: (-1, -1), then half of it.
    assert_close(optimizer._model_variables_moving_average[0], [[-0.5, -0.5], [3.0, 3.5]])


def test_a_callable_learning_rate_is_called_at_each_step():
    rates = iter([0.1, 0.5])
    v, optimizer = weight([1.0, 2.0], [3.0, 4.0]), optimizers.SGD(lambda: next(rates))
    for _ in range(2):
        optimizer.apply([sparse(*ONES)], [v])
    assert_close(v, [[0.4, 1.4], [2.4, 3.4]])


def test_a_schedule_counts_the_steps_within_a_cycle_too():
    rate = keras.optimizers.schedules.PiecewiseConstantDecay([0, 1, 2], [8.0, 4.0, 2.0, 1.0])
    v, optimizer = weight(*ONES), optimizers.SGD(rate, gradient_accumulation_steps=2)
    for _ in range(4):
        optimizer.apply([sparse(*ONES)], [v])
    assert_close(v, np.full((2, 2), 1.0 - 4.0 - 1.0))


@pytest.mark.parametrize("name", CLASSES)
def test_config_and_pickle_keep_the_options(name):
    optimizer = getattr(optimizers, name)(0.25, **OPTIONS)
    config = optimizer.get_config()
    assert {**config, **OPTIONS} == config
    loaded = [pickle.loads(pickle.dumps(optimizer)), type(optimizer).from_config(config)]
    for other in loaded:
        assert type(other) is type(optimizer) and other.get_config() == config


@pytest.mark.parametrize("name", CLASSES)
def test_variables_are_those_of_keras_and_counters_of_rows(name):
    found = []
    for module in (optimizers, keras.optimizers):
        optimizer = getattr(module, name)(name="same", **OPTIONS)
        optimizer.build([weight(*ONES, name="table")])
        found.append([(v.path, tuple(v.shape)) for v in optimizer.variables])
    ours, wanted = found
    assert [v for v in ours if v in wanted] == wanted
    assert [v for v in ours if v not in wanted] == [
        ("same/table_average_steps", (2,)), ("same/table_gradient_accumulator_cycles", (2,)),
    ]


def test_weights_can_be_set_once_the_optimizer_is_built():
    v, one = weight(*ONES), optimizers.Adam(**OPTIONS)
    one.apply([sparse([1.0, 2.0], ids=[1])], [v])
    other = optimizers.Adam(**OPTIONS)
    refused("You are calling `set_weights", other.set_weights, one.variables)
    other.build([v])
    other.set_weights(one.variables)
    assert_all_equal(one.variables, other.variables)


def test_a_variable_is_overwritten_with_its_gradient_beside_a_sparse_one():
    v, w = weight(*ONES), weight(*ONES)
    v.overwrite_with_gradient = True
    optimizer = optimizers.Adam(1.0, weight_decay=0.1, gradient_accumulation_steps=2)
    for factor in (1.0, 3.0):
        optimizer.apply([tf.constant(ONES) * factor, sparse(*ONES)], [v, w])
    assert_close(v, np.full((2, 2), 3.0))
    np.testing.assert_allclose(w.numpy(), np.full((2, 2), -0.1), atol=1e-4)


def test_variables_of_tensorflow_mix_with_those_of_keras():
    results = []
    for kinds in ((keras.Variable, keras.Variable), (keras.Variable, tf.Variable)):
        pair = [kind(tf.constant(ONES)) for kind in kinds]
        optimizer = optimizers.AdamW(**{**OPTIONS, "ema_overwrite_frequency": 1})
        for _ in range(3):
            optimizer.apply([sparse([1.0, 2.0], [3.0, 4.0])] * 2, pair)
        results.append([v.numpy() for v in pair])
    np.testing.assert_array_equal(results[0], results[1])
    assert (results[0][0] != 1.0).all()


def compiled(rule, **compile_options):
    model = bag_of_words()
    model.compile(make(rule, learning_rate=0.05, **OPTIONS), "mse", **compile_options)
    return model


@pytest.mark.parametrize("rule", ["adagrad", "adagrad by row", "nesterov", "amsgrad", "adamw"])
def test_a_model_saved_within_a_cycle_continues_as_if_it_had_not_been(rule, through_a_file):
    model = compiled(rule)
    (ids, y), batches = bags(0, V), [slice(i, i + 6) for i in (0, 6, 12, 18)]
    for batch in batches:
        model.train_on_batch(ids[batch], y[batch])
    reloaded = through_a_file(model)
    assert type(reloaded.optimizer) is type(model.optimizer)
    assert reloaded.optimizer.get_config() == model.optimizer.get_config()
    for step in range(10):
        for each in (model, reloaded):
            each.train_on_batch(ids[batches[step % 4]], y[batches[step % 4]])
    assert_all_equal(*[states(m.optimizer, m.weights) for m in (model, reloaded)])


def test_a_checkpoint_of_tensorflow_restores_the_optimizer(tmp_path):
    model = compiled("adamw")
    fit(model, epochs=1)
    checkpoint = tf.train.Checkpoint(model, optimizer=model.optimizer)
    path = checkpoint.save(tmp_path / "checkpoint")
    results = []
    for _ in range(2):
        fit(model, epochs=2)
        results.append(states(model.optimizer, model.weights))
        checkpoint.restore(path)
    assert_all_equal(*results)


@pytest.mark.parametrize("scope, options", [
    (contextlib.nullcontext, {"steps_per_execution": 3}),
    (contextlib.nullcontext, {"jit_compile": True}),
    (lambda: tf.distribute.OneDeviceStrategy("CPU:0").scope(), {}),
], ids=["in groups", "compiled", "under a strategy"])
def test_fit_in_other_ways_equals_fit_step_by_step(scope, options):
    models = [compiled("adamw", run_eagerly=True)]
    with scope():
        models.append(compiled("adamw", **options))
    for model in models:
        fit(model)
    assert_all_close(*[states(m.optimizer, m.weights) for m in models], rtol=2e-4, atol=2e-5)


def test_a_dynamic_loss_scale_wraps_all_options():
    results = []
    for wrap in (lambda o: o, lambda o: keras.optimizers.LossScaleOptimizer(o, initial_scale=4.0)):
        v, optimizer = weight(*ONES), wrap(optimizers.AdamW(**OPTIONS))
        scale = 4.0 if isinstance(optimizer, keras.optimizers.LossScaleOptimizer) else 16.0
        for step in range(6):
            if scale == 4.0 and step == 4:  # skipped, and halves the scale
                optimizer.apply([sparse([np.inf, 0.0], ids=[0])], [v])
                scale = 2.0
            optimizer.apply([sparse([scale, step * scale], ids=[step % 2])], [v])
        results.append(v.numpy())
    np.testing.assert_allclose(results[0], results[1], rtol=1e-6)
