import functools

import numpy as np
import pytest
import tensorflow as tf

from cases import assert_all_close, with_gradients
from references import numeric_gradient
from tfsoftmax.ops import fused_rnn

B, T, D, H = 3, 7, 5, 4
STATES = {"lstm": 2, "gru": 1, "rnn": 1}
CELLS = tuple(STATES)


def random_case(cell, batch=B, steps=T, seed=0):
    """Arguments of the pure function, and the upstream gradients of what it returns, float64."""
    rng = np.random.default_rng(seed)
    states = STATES[cell] * [(batch, H)]
    gates = {"lstm": 4, "gru": 3, "rnn": 1}[cell] * H
    bias = (2, gates) if cell == "gru" else (gates,)
    arguments = [(batch, steps, D), *states, (D, gates), (H, gates), bias]
    results = [(batch, steps, H), *states]
    return [[rng.normal(size=s) for s in shapes] for shapes in (arguments, results)]


def values_and_gradients(function, arguments, upstream):
    arguments = [tf.constant(argument) for argument in arguments]

    def loss_and_results():
        results = function(*arguments)
        return sum(tf.reduce_sum(r * u) for r, u in zip(results, upstream)), results

    (_, results), gradients = with_gradients(loss_and_results, arguments)
    return results, gradients


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm_step(x, h, c, kernel, recurrent_kernel, bias):
    z = x @ kernel + h @ recurrent_kernel + bias
    i, f, g, o = (z[:, n * H : (n + 1) * H] for n in range(4))
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def gru_step(x, h, kernel, recurrent_kernel, bias):
    a, b = x @ kernel + bias[0], h @ recurrent_kernel + bias[1]
    z, r = sigmoid(a[:, :H] + b[:, :H]), sigmoid(a[:, H : 2 * H] + b[:, H : 2 * H])
    g = np.tanh(a[:, 2 * H :] + r * b[:, 2 * H :])
    return (z * h + (1 - z) * g,)


def rnn_step(x, h, kernel, recurrent_kernel, bias):
    return (np.tanh(x @ kernel + h @ recurrent_kernel + bias),)


FUSED = {"lstm": fused_rnn.lstm, "gru": fused_rnn.gru, "rnn": fused_rnn.rnn}
STEPS = {"lstm": lstm_step, "gru": gru_step, "rnn": rnn_step}


def numpy_layer(cell, x, *states_and_weights, mask=None):
    """The equations, a step at a time; a masked step leaves the states as they are."""
    states, weights = states_and_weights[:-3], states_and_weights[-3:]
    mask, ys = np.ones(x.shape[:2], bool) if mask is None else mask, []
    for t in range(x.shape[1]):
        after = STEPS[cell](x[:, t], *states, *weights)
        states = [np.where(mask[:, t, None], new, old) for new, old in zip(after, states)]
        ys.append(states[0])
    return np.stack(ys, axis=1), *states


def numeric_gradients(function, arguments, step=1e-5):
    return [
        numeric_gradient(lambda x, i=i: function(*arguments[:i], x, *arguments[i + 1 :]), x, step)
        for i, x in enumerate(arguments)
    ]


def assert_those_of_the_equations(cell, arguments, upstream, mask=None):
    """Values and gradients, which it returns."""
    def loss(*arguments):
        wanted = numpy_layer(cell, *arguments, mask=mask)
        return sum(np.sum(r * u) for r, u in zip(wanted, upstream))

    fused = functools.partial(FUSED[cell], mask=mask)
    values, gradients = values_and_gradients(fused, arguments, upstream)
    assert_all_close(values, numpy_layer(cell, *arguments, mask=mask), 1e-12, 1e-12)
    assert_all_close(gradients, numeric_gradients(loss, arguments), 1e-7, 1e-7)
    return values, gradients


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("batch,steps", [(B, T), (B, 1), (1, 2)])
def test_values_and_gradients_equal_those_of_the_equations(cell, batch, steps):
    assert_those_of_the_equations(cell, *random_case(cell, batch, steps))


@pytest.mark.parametrize("cell", CELLS)
def test_masked_steps_leave_the_states_and_have_no_gradient(cell):
    arguments, upstream = random_case(cell)
    mask = np.array([[1, 1, 1, 0, 0, 0, 0], [0, 1, 0, 1, 1, 0, 1], [1] * 7], bool)
    values, gradients = assert_those_of_the_equations(cell, arguments, upstream, mask)
    assert not gradients[0].numpy()[~mask].any()
    spoilt = [np.where(mask[..., None], arguments[0], np.nan), *arguments[1:]]
    fused = functools.partial(FUSED[cell], mask=mask)
    again, gradients_again = values_and_gradients(fused, spoilt, upstream)
    assert_all_close(again, values, 0, 0)
    assert_all_close(gradients_again, gradients, 1e-15, 1e-15)


@pytest.mark.parametrize("cell", CELLS)
def test_second_order_gradients_equal_numeric_ones(cell):
    arguments, upstream = random_case(cell, batch=2, steps=3)

    def squared_norm_of_gradients(*arguments):
        return sum(
            tf.reduce_sum(g**2) for g in values_and_gradients(FUSED[cell], arguments, upstream)[1]
        )

    tensors = [tf.constant(argument) for argument in arguments]
    with tf.GradientTape() as outer:
        outer.watch(tensors)
        with tf.GradientTape() as inner:
            inner.watch(tensors)
            results = FUSED[cell](*tensors)
            loss = sum(tf.reduce_sum(r * u) for r, u in zip(results, upstream))
        penalty = sum(tf.reduce_sum(g**2) for g in inner.gradient(loss, tensors))
    gradients = outer.gradient(penalty, tensors)
    states = slice(1, -3)  # few numbers: every difference costs a whole gradient
    expected = numeric_gradients(
        lambda *states: squared_norm_of_gradients(arguments[0], *states, *arguments[-3:]),
        arguments[states],
    )
    assert_all_close(gradients[states], expected, 1e-6, 1e-6)


@pytest.mark.parametrize("cell", CELLS)
def test_output_shape_is_static_where_the_inputs_are(cell):
    arguments, _ = random_case(cell)
    signature = [tf.TensorSpec(argument.shape, tf.float64) for argument in arguments]
    static = tf.function(FUSED[cell], input_signature=signature).get_concrete_function()
    assert static.structured_outputs[0].shape == (B, T, H)
    signature[0] = tf.TensorSpec([B, None, D], tf.float64)
    dynamic = tf.function(FUSED[cell], input_signature=signature).get_concrete_function()
    assert dynamic.structured_outputs[0].shape.as_list() == [B, None, H]


@pytest.mark.parametrize("cell", CELLS)
def test_the_optimised_graph_transposes_no_booleans(cell):
    """OneDNN prints an error where a graph does."""
    arguments, _ = random_case(cell)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        mask = tf.compat.v1.placeholder(tf.bool, (None, T))
        outputs, *_ = getattr(fused_rnn, cell)(*map(tf.constant, arguments), mask=mask)
        ran = tf.compat.v1.RunMetadata()
        session.run(
            outputs, {mask: np.ones((B, T), bool)}, run_metadata=ran,
            options=tf.compat.v1.RunOptions(output_partition_graphs=True),
        )
    nodes = [node for graph in ran.partition_graphs for node in graph.node]
    moved = [node for node in nodes if "Transpose" in node.op and "T" in node.attr]
    assert moved and not [node for node in moved if node.attr["T"].type == tf.bool.as_datatype_enum]
