"""Grown catalogues where they are used: other processes, LiteRT, and several replicas."""

import numpy as np
import pytest
import tensorflow as tf

import replicas_helper
import tfsoftmax
from items_helper import BEFORE, HEADS, KEPT, D, V, data, features, made, trained, with_tower
from replicas_helper import strategy_here
from serving_helper import retrieved


def test_another_process_serves_the_grown_catalogue(tmp_path, through_a_file):
    new = tfsoftmax.with_items(with_tower(), [*range(V), -1, -1], features(V + 2))
    hidden = np.random.default_rng(4).normal(size=(6, D)).astype(np.float32)
    wanted = new.layers[-1].top_k(hidden, V + 2)[0].numpy()
    again = through_a_file(new).layers[-1]
    np.testing.assert_array_equal(again.top_k(hidden, V + 2)[0], wanted)
    names = [f"item {i}" for i in range(V + 2)]
    tfsoftmax.export_retrieval(new, str(tmp_path / "served"), k=V + 2, ids=names)
    request = {new.inputs[0].name: (hidden.tolist(), "float32"), "exclude": ([[""]] * 6, "string")}
    ((ids, _),) = retrieved((tmp_path / "served", request))
    assert ids == [[names[item] for item in row] for row in wanted]


@pytest.mark.parametrize("head", HEADS)
def test_the_grown_model_converts_to_lite_rt(head):
    new = tfsoftmax.with_items(trained(head), BEFORE, not_items=[1])
    converted = tf.lite.TFLiteConverter.from_keras_model(new).convert()
    interpreter = tf.lite.Interpreter(model_content=converted)
    (given,), (output,) = interpreter.get_input_details(), interpreter.get_output_details()
    words = np.arange(len(BEFORE), dtype=np.int32)
    interpreter.resize_tensor_input(given["index"], words.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(given["index"], words)
    interpreter.invoke()
    logits, wanted = interpreter.get_tensor(output["index"]), new.predict(words, verbose=0)
    np.testing.assert_allclose(logits, wanted, rtol=1e-5, atol=1e-5)


def grown_in_replicas():
    """What `with_items` gives under a strategy, and after an epoch, in each replica's copy."""
    with strategy_here().scope():
        new = tfsoftmax.with_items(made("in_batch"), BEFORE)
    moved = [weight.numpy() for weight in new.trainable_variables]
    new.fit(*data(len(BEFORE)), batch_size=8, verbose=0)
    after = [tf.nest.map_structure(np.asarray, weight.value.values)
             for weight in new.trainable_variables]
    return moved, after


def test_replicas_move_the_same_rows_and_stay_equal():
    ((moved, after),) = replicas_helper.run(grown_in_replicas, devices=2)
    alone = tfsoftmax.with_items(made("in_batch"), BEFORE)
    for of_replicas, weight in zip(moved, alone.trainable_variables, strict=True):
        rows = KEPT if len(weight.shape) and weight.shape[0] == len(BEFORE) else slice(None)
        np.testing.assert_array_equal(of_replicas[rows], weight.numpy()[rows])
    for first, second in after:
        np.testing.assert_array_equal(first, second)
    assert any((first != before).any() for (first, _), before in zip(after, moved, strict=True))
