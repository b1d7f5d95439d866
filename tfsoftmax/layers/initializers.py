"""Adds weights to layers, each with random values of its own."""

from collections.abc import Callable, Sequence

import keras

from tfsoftmax.support.arguments import expect

Initializer = str | keras.initializers.Initializer | Callable


def add_weight(
    layer: keras.layers.Layer, name: str, shape: Sequence[int], initializer: Callable, **options
) -> keras.Variable:
    """Adds a weight to a layer, in the variable dtype of its policy; autocast does not change it.

    Keras's initializers draw the same values at every call, so that several weights would be
    equal at first. Each weight takes a copy, which draws values of its own unless the
    initializer has a seed. A plain function of shape and dtype is called as it is.

    Args:
        layer: the layer that owns the weight.
        name: name of the weight.
        shape: shape of the weight.
        initializer: what `keras.initializers.get` returns.
        **options: `regularizer` and `constraint`, as in `keras.layers.Layer.add_weight`.
    """
    return layer.add_weight(
        name=name, shape=shape, initializer=own_initializer(initializer), autocast=False, **options
    )


def own_initializer(initializer: Callable) -> Callable:
    """A copy of an initializer of Keras, or a plain function as it is."""
    of_keras = isinstance(initializer, keras.initializers.Initializer)
    return initializer.clone() if of_keras else initializer


def check_float_policy(layer: keras.layers.Layer) -> None:
    """Raises ValueError unless a layer computes, and keeps its weights, in floats."""
    types = {layer.compute_dtype, layer.variable_dtype}
    expect(all("float" in name for name in types), "dtype",
           "be a type or a policy of floating-point numbers", layer.dtype_policy.name)
