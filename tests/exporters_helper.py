"""Models that end in a head, as files of other runtimes, and what these compute."""

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
    layers = {
        "logits": lambda: head, "TopK": lambda: TopK(head, K), "LogProb": lambda: LogProb(head),
    }
    model = keras.Model(inputs, layers[result]()(*inputs))
    randomise(model)
    return model, arrays


def concrete(model, arrays, batch=None):
    """The graph of a model's call as converters trace it."""
    specs = [tf.TensorSpec([batch, *x.shape[1:]], x.dtype) for x in arrays]
    return tf.function(lambda *x: model(list(x)), autograph=False).get_concrete_function(*specs)


def flat_buffer(model, arrays):
    """The model as a LiteRT file of built-in operations, for a batch as large as the arrays'."""
    function = concrete(model, arrays, batch=B)
    return tf.lite.TFLiteConverter.from_concrete_functions([function]).convert()


def of_interpreter(interpreter, arrays):
    """What a LiteRT interpreter computes."""
    given = interpreter.get_input_details()
    order = matched([(d["shape"], d["dtype"]) for d in given], arrays)
    for details, place in zip(given, order):
        interpreter.resize_tensor_input(details["index"], arrays[place].shape)
    interpreter.allocate_tensors()
    for details, place in zip(given, order):
        interpreter.set_tensor(details["index"], arrays[place])
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


def matched(shapes, arrays):
    """For each input of a file, the place of the array of as many axes; no file wants more."""
    ranks = [x.ndim for x in arrays]
    assert sorted(ranks) == sorted(len(shape) for shape, *_ in shapes)
    return [ranks.index(len(shape)) for shape, *_ in shapes]


def assert_as_predicted(model, arrays, outputs):
    """The outputs, in any order, are those of `predict`: the same ids, and close numbers."""
    for wanted in tf.nest.flatten(model.predict(arrays, verbose=0)):
        kind = wanted.dtype.kind
        (same,) = [x for x in map(np.asarray, outputs) if x.dtype.kind == kind]
        np.testing.assert_allclose(same, wanted, rtol=1e-5, atol=1e-5 if kind == "f" else 0)
