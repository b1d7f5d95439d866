"""Every head, for logits, the likeliest words and labels, in every runtime: `make test-exporters`.

Skipped where the packages are missing, as in `make test`; tests/test_exported_graphs.py has the
part that needs none.
"""

import keras
import numpy as np
import pytest

import tfsoftmax
from cases import ONE_OF_EACH
from experiments.benchmarks.runtimes import RUNTIMES
from exporters_helper import RESULTS, B, K, T, V, assert_as_predicted, model_and_inputs
from tfsoftmax.support import budgets

for package in ("ai_edge_litert", "onnxruntime", "openvino", "tf2onnx"):
    pytest.importorskip(package)

VARIANTS = [  # whose graphs have constants or operations that the others have not
    "adaptive, the last tail of one word", "differentiated, projected", "full capped",
    "shortlist without its node", "tree, a level at a time", "spherical, exact update",
]
ROWS_COMPUTED = {("char_cnn", "LiteRT"), ("char_cnn", "ONNX Runtime")}  # see docs/serving.md


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("case", [*ONE_OF_EACH, *VARIANTS])
def test_exported_models_agree_with_predict(case, result, runtime, tmp_path):
    if (case, runtime) in ROWS_COMPUTED:
        pytest.skip("Rows that are computed are exported through a FullSoftmax.")
    model, arrays = model_and_inputs(case, result)
    assert_as_predicted(model, arrays, RUNTIMES[runtime](model, arrays, tmp_path)(arrays))


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("case", ["full", "adaptive", "tree", "class"])
def test_words_that_an_input_names_are_left_out(case, runtime, tmp_path):
    test_exported_models_agree_with_predict(case, "exclude", runtime, tmp_path)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("case", ["full", "adaptive", "class"])
def test_a_search_by_runs_of_columns(case, runtime, tmp_path, monkeypatch):
    monkeypatch.setattr(budgets, "RUN_COLUMNS", 4)
    model, arrays = model_and_inputs(case, "TopK")
    assert_as_predicted(model, arrays, RUNTIMES[runtime](model, arrays, tmp_path)(arrays))


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_language_model_with_a_recurrent_layer_and_a_tied_head(runtime, tmp_path):
    words = keras.Input((T,), B, dtype="int32")
    embedding = tfsoftmax.Embedding(V, 8)
    hidden = tfsoftmax.LSTM(8, return_sequences=True)(embedding(words))
    head = tfsoftmax.FullSoftmax(V, tied_to=embedding)
    model = keras.Model([words], tfsoftmax.TopK(head, K)(hidden))
    arrays = [np.random.default_rng(1).integers(0, V, (B, T)).astype(np.int32)]
    model(arrays)
    assert_as_predicted(model, arrays, RUNTIMES[runtime](model, arrays, tmp_path)(arrays))


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_rows_that_are_no_items_are_in_no_list(runtime, tmp_path):
    head = tfsoftmax.FullSoftmax(V, not_items=[0, 7, V - 1])
    hidden = keras.Input((T, 8), B)
    model = keras.Model([hidden], tfsoftmax.TopK(head, V - 3)(hidden))
    arrays = [np.random.default_rng(1).normal(size=(B, T, 8)).astype(np.float32)]
    assert set(np.unique(model.predict(arrays, verbose=0)[0])) == {*range(V)} - {0, 7, V - 1}
    assert_as_predicted(model, arrays, RUNTIMES[runtime](model, arrays, tmp_path)(arrays))
