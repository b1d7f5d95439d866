"""Graphs of inference consist of operations that converters know; steps keep their short cuts."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from cases import ONE_OF_EACH, UNITS, assert_all_close, built, positions
from experiments.benchmarks.runtimes import flat_buffer, interpreted, saved_model
from exporters_helper import RESULTS, assert_as_predicted, model_and_inputs
from tfsoftmax import FullSoftmax, LogProb, TopK
from tfsoftmax.ops.graphs import may_be_exported
from tfsoftmax.support import budgets

# At least one converter to LiteRT, ONNX or OpenVINO has no rule for these.
UNKNOWN = {
    "DenseBincount", "DisableCopyOnRead", "IdentityN", "LowerBound", "PartitionedCall",
    "SparseTensorDenseAdd", "TensorListReserve", "TensorScatterAdd", "UniqueWithCounts",
}
# Heads whose rows a layer computes keep their table in variables, which the graph assigns.
CASES = [case for case in ONE_OF_EACH if case != "char_cnn"]
VARIANTS = ["adaptive, the last tail of one word", "differentiated, projected",
            "shortlist without its node", "tree, a level at a time", "spherical, exact update"]
EXACT = ["full", "spherical", "tree", "adaptive", "differentiated", "shortlist", "class",
         "class-unigram", "nary", "self-organised"]  # the others compute what `full` does
QUICK = ["full", "adaptive", "tree", "class"]


def operations(graph):
    """Types of the operations of a graph and of its loops and branches."""
    definition = graph.as_graph_def()
    functions = [node.op for f in definition.library.function for node in f.node_def]
    return {node.op for node in definition.node}.union(functions)


@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("case", [*CASES, *VARIANTS])
def test_graphs_hold_known_operations_and_their_constants(case, result):
    model, arrays = model_and_inputs(case, result)
    specs = [tf.TensorSpec([None, *x.shape[1:]], x.dtype) for x in arrays]
    function = tf.function(lambda *x: model(list(x)), autograph=False)
    function = function.get_concrete_function(*specs)
    assert operations(function.graph) & UNKNOWN == set()
    assert {tensor.dtype for tensor in function.captured_inputs} <= {tf.resource}  # no constants


@pytest.mark.parametrize("result", ["TopK", "LogProb"])
@pytest.mark.parametrize("case", [
    case if case in QUICK else pytest.param(case, marks=pytest.mark.slow) for case in EXACT
])
def test_converted_models_agree_with_predict(case, result):
    model, arrays = model_and_inputs(case, result)
    run = interpreted(tf.lite.Interpreter, flat_buffer(model, arrays), arrays)
    assert_as_predicted(model, arrays, run(arrays))


@pytest.mark.parametrize("case", QUICK)
def test_converted_models_leave_words_out(case):
    test_graphs_hold_known_operations_and_their_constants(case, "exclude")
    test_converted_models_agree_with_predict(case, "exclude")


@pytest.mark.parametrize("case", ["full", "adaptive"])
def test_a_converted_search_by_runs_agrees_with_predict(case, monkeypatch):
    monkeypatch.setattr(budgets, "RUN_COLUMNS", 4)
    test_converted_models_agree_with_predict(case, "TopK")


@pytest.mark.parametrize("case", ["char_cnn", "tree", "class"])
def test_saved_models_agree_with_predict(case, tmp_path):
    """Those of the other heads are in tests/exporters."""
    model, arrays = model_and_inputs(case, "TopK")
    assert_as_predicted(model, arrays, saved_model(model, arrays, tmp_path)(arrays))


SAID = []


def test_computed_rows_convert_as_those_of_a_full_softmax():
    """As docs/serving.md says."""
    model, arrays = model_and_inputs("char_cnn", "TopK")
    head = model.layers[-1].head
    softmax = head.plain_softmax()
    plain = FullSoftmax(
        head.vocab_size, use_bias=softmax.bias is not None, soft_cap=softmax.soft_cap
    )
    plain.build(softmax.kernel.shape)
    plain.set_weights([x for x in (softmax.kernel, softmax.bias) if x is not None])
    same = keras.Model(model.inputs, TopK(plain, model.layers[-1].k)(*model.inputs))
    run = interpreted(tf.lite.Interpreter, flat_buffer(same, arrays), arrays)
    assert_as_predicted(model, arrays, run(arrays))


class Asked(keras.layers.Layer):
    """Passes its inputs on, and writes down whether the graph may be exported."""

    def call(self, inputs):
        SAID.append(may_be_exported())
        return inputs


@pytest.mark.parametrize("strategy", [None, tf.distribute.OneDeviceStrategy("/cpu:0")])
def test_only_calls_for_inference_outside_of_steps_may_be_exported(strategy, tmp_path):
    with (strategy or tf.distribute.get_strategy()).scope():
        model = keras.Sequential([keras.Input((2,)), Asked(), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    inputs = np.ones((4, 2), np.float32)

    def answer(function):
        SAID.clear()
        function()
        return SAID[-1]  # under a strategy, Keras calls a model before its first step

    assert answer(lambda: model.fit(inputs, inputs[:, :1], verbose=0)) is False
    assert answer(lambda: model.evaluate(inputs, inputs[:, :1], verbose=0)) is False
    assert answer(lambda: model.predict(inputs, verbose=0)) is False
    assert answer(lambda: model(inputs)) is False
    assert answer(lambda: tf.function(lambda x: model(x, training=True))(inputs)) is False
    assert answer(lambda: tf.function(lambda x: model(x))(inputs)) is True
    assert answer(lambda: model.export(tmp_path / "model", verbose=False)) is True
    assert not tf.function(may_be_exported)()


def test_steps_still_read_without_copies_and_compute_logits_only_if_used():
    """As test_whole_reads.py and test_computed_if_used.py say of methods and of training."""
    strategy = tf.distribute.get_strategy()

    def step(layer, *shapes):
        function = tf.function(lambda *x: strategy.run(layer, x), autograph=False)
        return function.get_concrete_function(*shapes).graph

    hidden, labels = tf.TensorSpec((4, UNITS)), tf.TensorSpec((4,), tf.int32)
    head = built("full", 150)
    assert "DisableCopyOnRead" in operations(step(TopK(head, 5), hidden))
    assert "DisableCopyOnRead" in operations(step(LogProb(head), hidden, labels))
    assert "PartitionedCall" in operations(step(built("tree", 150), hidden))


@pytest.mark.parametrize("case", EXACT)
def test_gradients_through_an_exported_graph_are_those_of_the_method(case):
    """TensorFlow's own, as the graph does without ours."""
    head, (hidden, labels) = built(case, 41), positions(41, 5)
    layer, weights = LogProb(head), [w.value for w in head.trainable_weights]

    def gradients(function):
        with tf.GradientTape() as tape:
            watched = tf.constant(hidden)
            tape.watch(watched)
            total = tf.reduce_sum(function(watched, labels))
        return [tf.convert_to_tensor(g) for g in tape.gradient(total, [watched, *weights])]

    ours = tf.function(lambda: gradients(layer), autograph=False)()
    assert_all_close(ours, gradients(head.log_prob), rtol=1e-4)
