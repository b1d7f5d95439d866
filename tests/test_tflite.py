"""Models that end in a head become TFLite models of built-in operations with the same logits."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from cases import CASES, UNITS, WITH_A_KERNEL, counts, randomise, slow_unless
from tfsoftmax import GRU, LSTM, FullSoftmax, SelfOrganisedSoftmax, SimpleRNN

V, T = 13, 2


def model_of(case, batch=None):
    return model_ending_in(CASES[case](V), batch)


def model_ending_in(head, batch=None, body=lambda x: x):
    inputs = keras.Input((T, UNITS), batch_size=batch)
    model = keras.Model(inputs, head(body(inputs)))
    randomise(model)
    return model


def assert_same_logits(model, flat_buffer, batch):
    """The interpreter agrees with `predict`; a converter takes built-in operations alone."""
    hidden = np.random.default_rng(1).normal(size=(batch, T, UNITS)).astype(np.float32)
    interpreter = tf.lite.Interpreter(model_content=flat_buffer)
    (given,), (output,) = interpreter.get_input_details(), interpreter.get_output_details()
    interpreter.resize_tensor_input(given["index"], hidden.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(given["index"], hidden)
    interpreter.invoke()
    logits = interpreter.get_tensor(output["index"])
    np.testing.assert_allclose(logits, model.predict(hidden, verbose=0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", WITH_A_KERNEL)
def test_converted_models_compute_the_same_logits(case):
    model = model_of(case)
    flat_buffer = tf.lite.TFLiteConverter.from_keras_model(model).convert()
    assert_same_logits(model, flat_buffer, batch=3)


@pytest.mark.parametrize("case", slow_unless(["full"], ["full", "adaptive", "tree", "nary"]))
def test_a_saved_model_of_a_fixed_batch_converts(case, tmp_path):
    model = model_of(case, batch=3)
    model.export(tmp_path / "model", verbose=False)
    flat_buffer = tf.lite.TFLiteConverter.from_saved_model(str(tmp_path / "model")).convert()
    assert_same_logits(model, flat_buffer, batch=3)


def test_more_positions_than_a_chunk_holds():
    model = model_of("class")
    flat_buffer = tf.lite.TFLiteConverter.from_keras_model(model).convert()
    assert_same_logits(model, flat_buffer, batch=700)


@pytest.mark.parametrize("activation", ["relu", "relu6"])
def test_activations_that_the_converter_joins_to_a_product(activation):
    """The other cases have smooth ones."""
    model = model_ending_in(SelfOrganisedSoftmax(V, counts(V), activation=activation))
    flat_buffer = tf.lite.TFLiteConverter.from_keras_model(model).convert()
    assert_same_logits(model, flat_buffer, batch=3)


@pytest.mark.parametrize("cell", [LSTM, GRU, SimpleRNN])
def test_recurrent_layers_with_a_fixed_batch(cell):
    model = model_ending_in(
        SelfOrganisedSoftmax(V, counts(V)), batch=3, body=cell(UNITS, return_sequences=True))
    flat_buffer = tf.lite.TFLiteConverter.from_keras_model(model).convert()
    assert_same_logits(model, flat_buffer, batch=3)


@pytest.mark.parametrize("cell", [LSTM, pytest.param(GRU, marks=pytest.mark.slow)])
def test_keras_exports_recurrent_layers_as_built_in_operations_for_a_given_batch(cell, tmp_path):
    """Without the signature Keras 3.15 exports any batch, also of inputs of a fixed one."""
    model = model_ending_in(FullSoftmax(V), batch=3, body=cell(UNITS, return_sequences=True))
    path = tmp_path / "model.tflite"
    signature = [tf.TensorSpec((3, T, UNITS))]
    model.export(str(path), format="litert", input_signature=signature, verbose=False)
    assert b"Flex" not in path.read_bytes()
    assert_same_logits(model, path.read_bytes(), batch=3)
