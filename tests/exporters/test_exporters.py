"""Every head, for logits, the likeliest words and labels, in every runtime: `make test-exporters`.

Skipped where the packages are missing, as in `make test`; tests/test_exported_graphs.py has the
part that needs none.
"""

import numpy as np
import pytest
import tensorflow as tf

from cases import ONE_OF_EACH
from exporters_helper import (
    RESULTS,
    assert_as_predicted,
    flat_buffer,
    matched,
    model_and_inputs,
    of_interpreter,
)

litert = pytest.importorskip("ai_edge_litert.interpreter")
onnxruntime = pytest.importorskip("onnxruntime")
openvino = pytest.importorskip("openvino")
pytest.importorskip("tf2onnx")

VARIANTS = [  # whose graphs have constants or operations that the others have not
    "adaptive, the last tail of one word", "differentiated, projected", "full capped",
    "shortlist without its node", "tree, a level at a time", "spherical, exact update",
]


def saved_model(model, arrays, folder):
    model.export(folder / "model", verbose=False)
    loaded = tf.saved_model.load(str(folder / "model"))
    return tf.nest.flatten(loaded.serve(arrays))


def lite(model, arrays, folder):
    return of_interpreter(litert.Interpreter(model_content=flat_buffer(model, arrays)), arrays)


def onnx(model, arrays, folder):
    model.export(str(folder / "model.onnx"), format="onnx", verbose=False)
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"))
    given = session.get_inputs()
    order = matched([(x.shape,) for x in given], arrays)
    return session.run(None, {x.name: arrays[place] for x, place in zip(given, order)})


def open_vino(model, arrays, folder):
    model.export(str(folder / "model.xml"), format="openvino", verbose=False)
    options = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.Core().compile_model(str(folder / "model.xml"), "CPU", options)
    order = matched([(x.partial_shape,) for x in compiled.inputs], arrays)
    found = compiled([arrays[place] for place in order])
    return [np.array(found[output]) for output in compiled.outputs]


EXPORTERS = {"SavedModel": saved_model, "LiteRT": lite, "ONNX": onnx, "OpenVINO": open_vino}
ROWS_COMPUTED = {("char_cnn", "LiteRT"), ("char_cnn", "ONNX")}  # see docs/serving.md


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("case", [*ONE_OF_EACH, *VARIANTS])
def test_exported_models_agree_with_predict(case, result, exporter, tmp_path):
    if (case, exporter) in ROWS_COMPUTED:
        pytest.skip("Rows that are computed are exported through a FullSoftmax.")
    model, arrays = model_and_inputs(case, result)
    model(arrays)  # Keras exports to ONNX only what was called
    assert_as_predicted(model, arrays, EXPORTERS[exporter](model, arrays, tmp_path))
