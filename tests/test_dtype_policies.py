"""Layers compute in the dtype of their policy, and keep weights in its variable dtype."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from cases import randomise, with_gradients
from tfsoftmax import GRU, LSTM, AdaptiveEmbedding, Embedding, TransformerBlock

V, D, B, T = 13, 4, 2, 3
POLICIES = {  # policy: (dtype of the results, dtype of the weights, their accuracy)
    "bfloat16": ("bfloat16", "bfloat16", 0.05),
    "float16": ("float16", "float16", 0.01),
    "float64": ("float64", "float64", 1e-12),
    "mixed_bfloat16": ("bfloat16", "float32", 0.05),
}
LAYERS = {
    "Embedding": lambda **o: Embedding(V, D, **o),
    "AdaptiveEmbedding": lambda **o: AdaptiveEmbedding(V, D, [4, 9], projection_factor=2.0, **o),
    "LSTM fused": lambda **o: LSTM(D, backend="fused", return_sequences=True, **o),
    "LSTM cell": lambda **o: LSTM(D, backend="cell", return_sequences=True, **o),
    "GRU fused": lambda **o: GRU(D, backend="fused", return_sequences=True, **o),
    "GRU cell": lambda **o: GRU(D, backend="cell", return_sequences=True, **o),
    "Transformer": lambda **o: TransformerBlock(D, 2, return_sequences=True, **o),
}


def results(layer, weights=None):
    """Outputs, and gradients of their sum of squares, in float64."""
    rng = np.random.default_rng(1)
    inputs = rng.integers(0, V, (B, T)) if "Embedding" in type(layer).__name__ else (
        tf.cast(rng.normal(size=(B, T, D)), layer.compute_dtype)
    )
    layer(inputs)
    if weights is None:
        randomise(layer)
    else:
        layer.set_weights([w.astype(v.dtype) for w, v in zip(weights, layer.weights)])
    gradients = with_gradients(lambda: layer(inputs) ** 2, layer.trainable_weights)[1]
    return layer(inputs), gradients


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", LAYERS)
def test_layers_follow_their_policy(name, policy):
    compute, variable, accuracy = POLICIES[policy]
    layer, exact = LAYERS[name](dtype=policy), LAYERS[name](dtype="float64")
    outputs, gradients = results(layer)
    assert outputs.dtype == compute and layer.compute_dtype == compute
    assert {w.dtype for w in layer.weights} == {variable} == {g.dtype.name for g in gradients}
    weights = [np.asarray(tf.cast(w.value, "float64")) for w in layer.weights]
    wanted = results(exact, weights)
    for ours, theirs in zip([outputs, *gradients], [wanted[0], *wanted[1]]):
        difference = np.linalg.norm(tf.cast(ours, "float64") - theirs)
        assert difference <= accuracy * np.linalg.norm(theirs)


@pytest.mark.parametrize("make", [LSTM, GRU])
def test_recurrent_kernels_start_orthogonal_in_bfloat16(make):
    layer = make(D, dtype="bfloat16", recurrent_initializer=keras.initializers.Orthogonal(seed=1))
    layer.build((B, T, D))
    kernel = np.asarray(tf.cast(layer.cell.recurrent_kernel.value, "float32"))
    np.testing.assert_allclose(kernel @ kernel.T, np.eye(D), atol=0.02)
    exact = make(D, recurrent_initializer=keras.initializers.Orthogonal(seed=1))
    exact.build((B, T, D))
    np.testing.assert_allclose(kernel, exact.cell.recurrent_kernel, atol=0.01)
    assert layer.get_config() == make.from_config(layer.get_config()).get_config()
