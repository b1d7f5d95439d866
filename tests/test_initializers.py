"""Every head and layer takes any initializer, and all weights start out different."""

import itertools

import keras
import numpy as np
import pytest

from cases import CASES, ONE_OF_EACH, UNITS
from tfsoftmax import AdaptiveEmbedding, Embedding

V = 20
LAYERS = {
    "embedding": (lambda: Embedding(V, UNITS)),
    "adaptive embedding": (lambda: AdaptiveEmbedding(V, UNITS, [4, 9], projection_factor=2.0)),
}


def rebuilt(case, make):
    """A built layer of the case with make(index) for each of its initializers."""
    layer = LAYERS[case]() if case in LAYERS else CASES[case](V)
    config = layer.get_config()
    names = sorted(name for name in config if name.endswith("initializer"))
    again = type(layer).from_config({**config, **{n: make(i) for i, n in enumerate(names)}})
    again.build((None, UNITS))
    return again, len(names)


@pytest.mark.parametrize("case", [*LAYERS, *ONE_OF_EACH])
def test_functions_initialise_every_weight(case):
    layer, count = rebuilt(case, lambda i: lambda shape, dtype: keras.ops.full(shape, i + 1, dtype))
    for weight in layer.trainable_weights:
        (value,) = np.unique(weight.numpy())
        assert value in range(1, count + 1), weight.path


@pytest.mark.parametrize("case", [*LAYERS, *ONE_OF_EACH])
def test_weights_of_one_initializer_start_apart(case):
    one = keras.initializers.RandomUniform(-1, 1)
    layer, _ = rebuilt(case, lambda _: one)
    for first, second in itertools.combinations(layer.trainable_weights, 2):
        assert not np.isin(first.numpy(), second.numpy()).any(), (first.path, second.path)
