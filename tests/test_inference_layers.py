"""`TopK` and `LogProb`: models for serving that share the weights of the trained one."""

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from cases import CASES, ONE_OF_EACH, UNITS, assert_all_close, built, positions, randomise
from keras_helper import B, T, V, data
from tfsoftmax.heads import FullSoftmax, LogProb, TopK
from tfsoftmax.ngrams.previous_word import PreviousWord

LOAD = """
import sys, keras, numpy as np, tfsoftmax
model = keras.saving.load_model(sys.argv[1])
np.savez(sys.argv[2], *model(np.arange(10).reshape(2, 5) % 13))
"""


def tied_models(seed=0):
    """A model for training, and one for serving with the same tied head."""
    words = keras.Input((T,), dtype="int32")
    embedding = keras.layers.Embedding(V, UNITS)
    hidden = keras.layers.Dense(UNITS)(embedding(words))
    head = FullSoftmax(V, tied_to=embedding)
    training, serving = keras.Model(words, head(hidden)), keras.Model(words, TopK(head, 3)(hidden))
    randomise(training, seed)
    return training, serving


@pytest.mark.parametrize("case", ONE_OF_EACH)
def test_results_are_the_heads(case):
    head, (hidden, labels) = built(case, V), positions(V, 6)
    inputs, following = keras.Input((UNITS,)), keras.Input((), dtype="int32")
    top_k = keras.Model(inputs, TopK(head, 3)(inputs))
    log_prob = keras.Model([inputs, following], LogProb(head)(inputs, following))
    assert [t.dtype for t in top_k.outputs] == ["int32", "float32"]
    assert_all_close(top_k.predict(hidden, verbose=0), head.top_k(hidden, 3), atol=1e-6)
    ours = log_prob.predict([hidden, labels], verbose=0)
    np.testing.assert_allclose(ours, head.log_prob(hidden, labels), rtol=1e-5, atol=1e-6)


def test_labels_keep_their_values_under_mixed_precision():
    labels = np.array([257, 600], np.float32)  # bfloat16 does not hold 257
    head = FullSoftmax(601, dtype="mixed_bfloat16")
    hidden = positions(601, 2)[0]
    np.testing.assert_array_equal(LogProb(head)(hidden, labels), head.log_prob(hidden, labels))


def test_a_saved_model_serves_in_another_process(tmp_path):
    _, serving = tied_models()
    wanted = serving(np.arange(10).reshape(2, 5) % V)
    serving.save(tmp_path / "serving.keras")
    command = [sys.executable, "-c", LOAD, tmp_path / "serving.keras", tmp_path / "out.npz"]
    subprocess.run(command, check=True, capture_output=True)
    assert_all_close(np.load(tmp_path / "out.npz").values(), wanted, rtol=1e-6, atol=0)


def test_a_served_model_knows_what_training_learns():
    training, serving = tied_models()
    words, labels, _ = data(1)
    before = serving.predict(words, verbose=0)[1]
    training.compile("sgd", "mse")
    training.set_weights([w + 0.5 for w in training.get_weights()])
    after = serving.predict(words, verbose=0)
    assert not np.allclose(before, after[1])
    logits = training.predict(words, verbose=0)
    np.testing.assert_array_equal(after[0], np.argsort(-logits, axis=-1)[..., :3])


def test_a_copied_model_is_tied_in_itself():
    _, serving = tied_models()
    copy = keras.models.clone_model(serving)
    embedding = next(x for x in copy.layers if isinstance(x, keras.layers.Embedding))
    assert copy.layers[-1].head.tied_to is embedding
    assert len(copy.weights) == len(serving.weights)


def test_export_and_masks(tmp_path):
    words = keras.Input((T,), dtype="int32")
    hidden = keras.layers.Embedding(V, UNITS, mask_zero=True)(words)
    model = keras.Model(words, TopK(CASES["tree"](V), 2)(hidden))
    model.export(tmp_path / "served", verbose=False)
    inputs = data(1)[0]
    served = tf.saved_model.load(str(tmp_path / "served"))
    assert_all_close(served.serve(inputs), model.predict(inputs, B, verbose=0), atol=0)


class MaskOf(keras.layers.Layer):
    def call(self, inputs, mask=None):
        return tf.cast(mask, tf.int32)


def test_masks_pass_layers_with_two_inputs():
    words, following = (keras.Input((T,), dtype="int32") for _ in range(2))
    hidden = keras.layers.Embedding(V, UNITS, mask_zero=True)(words)
    carried = PreviousWord()([hidden, words])
    scored = LogProb(CASES["full"](V))(hidden, following)
    model = keras.Model([words, following], [MaskOf()(carried), MaskOf()(scored)])
    real = np.eye(2, T, dtype=np.int32)
    for mask in model([real, np.ones((2, T), np.int32)]):
        np.testing.assert_array_equal(mask, real)


def test_errors_name_the_argument():
    with pytest.raises(ValueError, match="`head` must be a SoftmaxHead. Received: head=<Dense"):
        TopK(keras.layers.Dense(3), 2)
    with pytest.raises(ValueError, match=r"`k` must be an integer in \[1, 13\]. Received: k=14"):
        TopK(CASES["full"](V), 14)
