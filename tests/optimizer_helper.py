"""Optimisers, gradients for them, and a small model of a bag of words."""

import keras
import numpy as np
import tensorflow as tf

from cases import assert_all_close
from tfsoftmax import optimizers

V, D = 37, 5
# Rules that do not change a row without gradient equal Keras for any touched rows.
EXACT = {
    "adagrad": ("Adagrad", {"epsilon": 1e-3}),
    "adagrad in place": ("Adagrad", {}),
    "sgd": ("SGD", {}),
}
# Lazy rules equal Keras only when each step touches every row.
LAZY = {
    "momentum": ("SGD", {"momentum": 0.9}),
    "nesterov": ("SGD", {"momentum": 0.9, "nesterov": True}),
    "adam": ("Adam", {"epsilon": 1e-3, "beta_2": 0.75}),
    "amsgrad": ("Adam", {"epsilon": 1e-3, "beta_2": 0.5, "amsgrad": True}),
    "adamw": ("AdamW", {"epsilon": 1e-3, "beta_2": 0.75, "weight_decay": 0.3}),
}
OF_KERAS = {**EXACT, **LAZY}
RULES = {**OF_KERAS, "adagrad by row": ("Adagrad", {"epsilon": 1e-3, "accumulator": "row"})}


def make(rule, module=optimizers, learning_rate=0.1, **kwargs):
    name, options = RULES[rule]
    return getattr(module, name)(learning_rate, **{**options, **kwargs})


def sparse_gradient(ids, *, columns=(D,), seed=0, dtype=tf.int32):
    values = np.random.default_rng(seed).normal(size=(len(ids), *columns))
    shape = tf.constant((V, *columns))
    return tf.IndexedSlices(tf.constant(values, "float32"), tf.constant(ids, dtype), shape)


def touched_ids(step, every_row):
    """13 draws with certain duplicates, after all rows if `every_row`."""
    draws = np.random.default_rng(step).integers(0, 8, 13)
    return np.concatenate([np.arange(V)[::-1], draws]) if every_row else draws


def variables():
    rng = np.random.default_rng(7)
    shapes = [(V, D), (V,), (3, 2)]  # two gathered variables, one dense
    return [keras.Variable(rng.normal(size=shape), dtype="float32") for shape in shapes]


def gradients(step, every_row, dtype=tf.int32):
    ids = touched_ids(step, every_row)
    dense = np.random.default_rng(50 + step).normal(size=(3, 2)).astype("float32")
    return [
        sparse_gradient(ids, seed=step, dtype=dtype),
        sparse_gradient(ids[:-2], columns=(), seed=step + 9, dtype=dtype),
        tf.constant(dense),
    ]


def densified(grads):
    return [tf.convert_to_tensor(g) for g in grads]


def states(optimizer, weights):
    return [v.numpy() for v in [*weights, *optimizer.variables]]


def trained(optimizer, steps, wrap=lambda function: function, states=states):
    """States after applying `steps`, a list of gradient lists, by a function that is wrapped."""
    weights = variables()
    optimizer.build(weights)
    apply = wrap(lambda grads: optimizer.apply(grads, weights))
    for grads in steps:
        apply(grads)
    return states(optimizer, weights)


def assert_states_equal(got, wanted, tolerance=1e-6):
    assert_all_close(got, wanted, rtol=tolerance, atol=tolerance)


def bag_of_words():
    keras.utils.set_random_seed(3)
    layers = [keras.layers.Embedding(V, D), keras.layers.Flatten(), keras.layers.Dense(1)]
    return keras.Sequential([keras.Input((4,), dtype="int32"), *layers])


def bags(low, high):
    rng = np.random.default_rng(low)
    ids = rng.integers(low, high, (24, 4)).astype("int32")
    return ids, (ids % 3).sum(axis=1, keepdims=True).astype("float32") / 4


def fit(model, low=0, high=V, epochs=4):
    return model.fit(*bags(low, high), epochs=epochs, batch_size=8, shuffle=False, verbose=0)


def step_of_row(rule, cells, values, t, lr=0.1, decay=0.0):
    """The update of the weights of a row."""
    mean = sum(g**2 for g in values) / len(values)
    for cell, g in zip(cells, values, strict=True):
        scalar_step(rule, cell, g, mean if "row" in rule else g**2, t, lr, decay)


def scalar_step(rule, cell, g, square, t, lr, decay):
    """One weight's update: `cell` holds the weight `w` and the slots of its rule."""
    cell["w"] *= 1 - lr * decay
    if "adagrad" in rule:
        cell["sum"] = cell.get("sum", 0.1) + square
        cell["w"] -= lr * g / np.sqrt(cell["sum"] + (1e-7 if "place" in rule else 1e-3))
    elif rule in ("sgd", "momentum", "nesterov"):
        momentum = 0.0 if rule == "sgd" else 0.9
        cell["v"] = momentum * cell.get("v", 0.0) - lr * g
        cell["w"] += momentum * cell["v"] - lr * g if rule == "nesterov" else cell["v"]
    else:
        beta_2 = 0.5 if rule == "amsgrad" else 0.75
        cell["m"] = 0.9 * cell.get("m", 0.0) + 0.1 * g
        cell["v"] = beta_2 * cell.get("v", 0.0) + (1 - beta_2) * g**2
        cell["max"] = max(cell.get("max", 0.0), cell["v"])
        second = cell["max"] if rule == "amsgrad" else cell["v"]
        rate = lr * np.sqrt(1 - beta_2**t) / (1 - 0.9**t)
        cell["w"] -= rate * cell["m"] / (np.sqrt(second) + 1e-3)
