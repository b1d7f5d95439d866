"""Models of a result of a head, to be exported, and what their files must compute."""

import keras
import numpy as np
import tensorflow as tf

from cases import CASES, UNITS, randomise
from tfsoftmax import LogProb, TopK

V, T, B, K = 150, 3, 4, 5  # TensorFlow captures constants of more than 128 elements
RESULTS = ("logits", "TopK", "LogProb")


def model_and_inputs(case, result):
    """A model from hidden states to a result of the head, and a list of its inputs."""
    head, hidden = CASES[case](V), keras.Input((T, UNITS), name="hidden")
    inputs, rng = [hidden], np.random.default_rng(1)
    arrays = [rng.normal(size=(B, T, UNITS)).astype(np.float32)]
    if result == "LogProb":
        inputs.append(keras.Input((T,), dtype="int32", name="labels"))
        arrays.append(rng.integers(0, V, (B, T)).astype(np.int32))
        arrays[1][0, :2] = [0, V - 1]
    if result == "exclude":
        seen = keras.Input((4 * T,), dtype="int32", name="seen")
        inputs.append(seen)
        arrays.append(rng.integers(-1, V, (B, 4 * T)).astype(np.int32))
    layers = {
        "logits": lambda: head, "TopK": lambda: TopK(head, K), "LogProb": lambda: LogProb(head),
        "exclude": lambda: lambda x, seen: TopK(head, K)(x, keras.layers.Reshape((T, 4))(seen)),
    }
    model = keras.Model(inputs, layers[result]()(*inputs))
    randomise(model)
    if result == "exclude":  # the best is left out, the first word, and padding
        arrays[1][:, ::4] = head.top_k(arrays[0], 1)[0][..., 0]
        arrays[1][:, 1], arrays[1][:, 2] = 0, -1
    model(arrays)  # Keras exports to ONNX only what was called
    return model, arrays


def assert_as_predicted(model, arrays, outputs):
    """The outputs, in any order, are those of `predict`: the same ids, and close numbers."""
    for wanted in tf.nest.flatten(model.predict(arrays, verbose=0)):
        kind = wanted.dtype.kind
        (same,) = [x for x in outputs if x.dtype.kind == kind]
        np.testing.assert_allclose(same, wanted, rtol=1e-5, atol=1e-5 if kind == "f" else 0)
