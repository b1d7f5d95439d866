"""Keras's options with sparse gradients, against Keras on the dense gradient and float64 loops."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import optimizer_helper
from optimizer_helper import (
    LAZY,
    OF_KERAS,
    RULES,
    D,
    V,
    assert_states_equal,
    densified,
    gradients,
    make,
    step_of_row,
    variables,
)

OVERWRITTEN = {"use_ema": True, "ema_momentum": 0.7, "ema_overwrite_frequency": 3}
OPTIONS = {
    "decay": {"weight_decay": 0.3},
    "scaled loss": {"loss_scale_factor": 8.0},
    "accumulated": {"gradient_accumulation_steps": 3},  # clipping would hide a factor
    "averaged": {"use_ema": True, "ema_momentum": 0.7},
    "overwritten": OVERWRITTEN,
    "all": {**OVERWRITTEN, "gradient_accumulation_steps": 2, "weight_decay": 0.3, "clipnorm": 0.7},
}
# Where only touched rows decay, a step has to touch all of them to equal Keras.
DECAYS = [name for name, options in OPTIONS.items() if "weight_decay" in options]


def results(optimizer, weights):
    """The weights, the slots of the rule and the averages."""
    found = [*weights, *[v for slot in optimizer.slots() for v in slot]]
    if optimizer.use_ema:
        found += optimizer._model_variables_moving_average
    return [v.numpy() for v in found]


trained = functools.partial(optimizer_helper.trained, states=results)


def keras_counterpart(rule, **options):
    """Keras's optimiser, with our list of its slots."""
    ours = make(rule)
    base = next(cls for cls in type(ours).mro() if cls.__module__.startswith("keras.src"))
    kind = type("Counterpart", (base,), {"slots": type(ours).slots})
    config = {**ours.get_config(), **options, "name": "keras"}
    return kind.from_config({k: v for k, v in config.items() if k != "accumulator"})


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("rule", OF_KERAS)
def test_equals_keras_on_the_dense_gradient(rule, options):
    every_row = rule in LAZY or options in DECAYS
    steps = [gradients(step, every_row) for step in range(8)]
    wanted = trained(keras_counterpart(rule, **OPTIONS[options]), [densified(g) for g in steps])
    assert_states_equal(trained(make(rule, **OPTIONS[options]), steps), wanted, 4e-6)


def loop(rule, steps, *, decay=0.0, cycle=1, momentum=0.0, lr=0.1):
    """Float64 weights and averages of the first variable: only touched rows move and decay."""
    weights = variables()[0].numpy().astype(float)
    rows = [[{"w": w} for w in row] for row in weights]
    averages, total = None, {}
    for step, grads in enumerate(steps):
        for row, values in zip(grads[0].indices.numpy(), grads[0].values.numpy().astype(float)):
            total[row] = total.get(row, 0.0) + values
        if (step + 1) % cycle == 0:
            for row, mean in ((row, values / cycle) for row, values in total.items()):
                step_of_row(rule, rows[row], mean, (step + 1) // cycle, lr, decay)
            total = {}
        weights = np.array([[cell["w"] for cell in row] for row in rows])
        # Keras averages at every step, and begins anew until the first update is done.
        begins = step // cycle == 0
        averages = weights if begins else momentum * averages + (1 - momentum) * weights
    return weights, averages


def shifted_gradients(step):
    """Gradients that touch other rows in other cycles."""
    return [
        tf.IndexedSlices(g.values, (g.indices + 3 * step) % V, g.dense_shape)
        if isinstance(g, tf.IndexedSlices) else g
        for g in gradients(step, every_row=False)
    ]


@pytest.mark.parametrize("cycle", [1, 3])
@pytest.mark.parametrize("rule", RULES)
def test_equals_a_float64_loop_in_which_only_touched_rows_move(rule, cycle):
    steps = [shifted_gradients(step) for step in range(10)]
    wanted = loop(rule, steps, decay=0.2, cycle=cycle, momentum=0.8)
    options = {"gradient_accumulation_steps": cycle} if cycle > 1 else {}
    optimizer = make(rule, weight_decay=0.2, use_ema=True, ema_momentum=0.8, **options)
    got = trained(optimizer, steps)
    np.testing.assert_allclose(got[0], wanted[0], rtol=4e-6, atol=4e-6)
    np.testing.assert_allclose(got[-3], wanted[1], rtol=4e-6, atol=4e-6)


@pytest.mark.parametrize("momentum", [0.0, 1.0])
def test_averages_with_the_extreme_momenta(momentum):
    steps = [gradients(step, every_row=False) for step in range(5)]
    optimizer = make("sgd", use_ema=True, ema_momentum=momentum)
    *weights, average, _, _ = trained(optimizer, steps)
    first = trained(make("sgd"), steps[:1])[0]
    np.testing.assert_array_equal(average, first if momentum else weights[0])


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("options", ["scaled loss", "all"])
@pytest.mark.parametrize("rule", ["adagrad in place", "adagrad by row", "adamw"])
def test_compiled_update_equals_the_eager_one(rule, options, jit_compile):
    steps = [gradients(step, every_row=False, dtype=tf.int64) for step in range(6)]
    compiled = tf.function(jit_compile=jit_compile)
    got = trained(make(rule, **OPTIONS[options]), steps, compiled)
    assert_states_equal(got, trained(make(rule, **OPTIONS[options]), steps), 4e-6)


def outputs(graph):
    """The outputs of all operations of a graph and of the branches within it."""
    for op in graph.get_operations():
        yield from op.outputs
        for branch in {"then_branch", "else_branch"} & set(op.node_def.attr):
            yield from outputs(graph._get_function(op.get_attr(branch).name).graph)


def whole_variable_ops(optimizer, embedding):
    """Types of the ops of a training step that put out something of the variable's size."""
    weights = variables()
    optimizer.build(weights)

    @tf.function
    def step(*grads):
        optimizer.apply(list(grads), weights)

    grads = gradients(0, every_row=False)
    if not embedding:
        grads = densified(grads)
    found = outputs(step.get_concrete_function(*grads).graph)
    return {out.op.type for out in found if out.shape.is_compatible_with((V, D)) and
            out.shape.rank == 2 and out.shape[0] == V}


NOT_OVERWRITTEN = {**OPTIONS["all"], "ema_overwrite_frequency": None}


@pytest.mark.parametrize("rule", RULES)
def test_a_sparse_step_has_no_op_of_the_size_of_the_variable(rule):
    assert whole_variable_ops(make(rule, **NOT_OVERWRITTEN), embedding=True) == set()


def test_the_search_for_whole_variable_ops_finds_those_of_a_dense_step():
    found = whole_variable_ops(make("adagrad", **NOT_OVERWRITTEN), embedding=False)
    assert "ReadVariableOp" in found


@pytest.mark.parametrize("options", ["accumulated", "overwritten"])
def test_sparse_and_dense_gradients_of_one_variable_may_alternate(options):
    steps = [gradients(step, every_row=False) for step in range(9)]
    mixed = [densified(grads) if step % 2 else grads for step, grads in enumerate(steps)]
    wanted = trained(
        keras_counterpart("adagrad", **OPTIONS[options]), [densified(grads) for grads in steps]
    )
    assert_states_equal(trained(make("adagrad", **OPTIONS[options]), mixed), wanted, 4e-6)
