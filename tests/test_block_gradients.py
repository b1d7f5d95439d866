"""Attention and gelu with gradients by hand, against Keras's functions and their gradients."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfsoftmax.ops.attention import attention
from tfsoftmax.ops.gelu import gelu

B, T, S, H, D = 2, 5, 9, 3, 6


def drawn(*shapes, dtype="float64"):
    rng = np.random.default_rng(4)
    return [tf.cast(2 * rng.normal(size=shape), dtype) for shape in shapes]


def cases(dtype="float64"):
    """(ours, Keras's, inputs) of each function."""
    sees = np.random.default_rng(5).random((B, 1, T, S)) < 0.5
    sees[..., 0] = True

    def theirs(*inputs):
        return keras.ops.dot_product_attention(*inputs, mask=tf.constant(sees))

    yield (lambda *inputs: attention(*inputs, tf.constant(sees))), theirs, drawn(
        (B, T, H, D), (B, S, H, D), (B, S, H, D), dtype=dtype)
    yield gelu, lambda x: keras.activations.gelu(x, approximate=False), drawn((4, 50), dtype=dtype)


def derivatives(function, inputs):
    """The result, its gradient in a direction, and the gradient of that gradient's square."""
    with tf.GradientTape() as outer:
        outer.watch(inputs)
        with tf.GradientTape() as inner:
            inner.watch(inputs)
            result = function(*inputs)
            total = tf.reduce_sum(tf.sin(result))
        first = inner.gradient(total, inputs)
        squares = tf.add_n([tf.reduce_sum(tf.square(each)) for each in first])
    return [result, *first, *outer.gradient(squares, inputs)]


@pytest.mark.parametrize("jit_compile", [None, False, True])
@pytest.mark.parametrize("number", [0, 1])
def test_results_and_both_derivatives_are_kerass(number, jit_compile):
    ours, theirs, inputs = list(cases())[number]
    call = derivatives
    if jit_compile is not None:
        call = tf.function(derivatives, jit_compile=jit_compile)
    expected = derivatives(theirs, inputs)
    for found, wanted in zip(call(ours, inputs), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype, close", [("float32", 1e-5), ("bfloat16", 0.06), ("float16", 6e-3)])
@pytest.mark.parametrize("number", [0, 1])
def test_other_dtypes_are_close_to_float64(number, dtype, close):
    ours, _, inputs = list(cases(dtype))[number]
    exact = [tf.cast(each, "float64") for each in inputs]

    def first(inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            result = ours(*inputs)
        return [result, *tape.gradient(result, inputs)]

    for found, wanted in zip(first(inputs), first(exact), strict=True):
        assert found.dtype == dtype
        scale = np.abs(wanted).max()
        np.testing.assert_allclose(tf.cast(found, "float64"), wanted, atol=close * scale)


def test_no_tensor_is_as_large_as_the_products_but_the_weights():
    """The gradient keeps one tensor (B, H, T, S) of the first pass; Keras's keeps four."""
    def kept(function, inputs):
        graph = tf.function(lambda *inputs: function(*inputs)).get_concrete_function(*inputs)
        _, backward = graph._delayed_rewrite_functions.forward_backward()
        return sum(tuple(x.shape) == (B, H, T, S) for x in backward.captured_inputs)

    ours, theirs, inputs = next(cases("float32"))
    assert kept(ours, inputs) <= 2 < kept(theirs, inputs)
