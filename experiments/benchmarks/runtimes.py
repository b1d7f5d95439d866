"""Keras models as functions of other runtimes: SavedModel, LiteRT, ONNX Runtime and OpenVINO.

Each function takes a model that was called, a list of arrays that it takes, and a folder for the
files. It returns a function of such arrays to a list of arrays. `pip install '.[serving]'`
brings what TensorFlow does not have.
"""

import numpy as np


def saved_model(model, arrays, folder):
    import tensorflow as tf

    model.export(folder / "model", verbose=False)
    loaded = tf.saved_model.load(str(folder / "model"))
    return lambda arrays: [x.numpy() for x in tf.nest.flatten(loaded.serve(list(arrays)))]


def litert(model, arrays, folder):
    from ai_edge_litert.interpreter import Interpreter

    return interpreted(Interpreter, flat_buffer(model, arrays), arrays)


def onnx(model, arrays, folder):
    import onnxruntime

    model.export(str(folder / "model.onnx"), format="onnx", verbose=False)
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"))
    given = session.get_inputs()
    order = places([x.shape for x in given], arrays)
    return lambda arrays: session.run(None, {x.name: arrays[i] for x, i in zip(given, order)})


def openvino(model, arrays, folder):
    import openvino

    model.export(str(folder / "model.xml"), format="openvino", verbose=False)
    options = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    compiled = openvino.Core().compile_model(str(folder / "model.xml"), "CPU", options)
    order = places([x.partial_shape for x in compiled.inputs], arrays)
    # What no one uses of a condition becomes an output too; those of the model are "Identity:0",
    # "Identity_1:0" and so on.
    outputs = [x for x in compiled.outputs if x.any_name.startswith("Identity")]

    def run(arrays):
        found = compiled([arrays[i] for i in order])
        return [np.array(found[output]) for output in outputs]

    return run


RUNTIMES = {
    "SavedModel": saved_model, "LiteRT": litert, "ONNX Runtime": onnx, "OpenVINO": openvino,
}


def flat_buffer(model, arrays):
    """The model as a LiteRT file of built-in operations, for a batch as large as the arrays'."""
    import tensorflow as tf

    specs = [tf.TensorSpec(x.shape, x.dtype) for x in arrays]
    function = tf.function(lambda *x: model(list(x)), autograph=False)
    concrete = function.get_concrete_function(*specs)
    return tf.lite.TFLiteConverter.from_concrete_functions([concrete]).convert()


def interpreted(interpreter, content, arrays):
    """A function of the class of a LiteRT interpreter, for a file and arrays as large as these."""
    interpreter = interpreter(model_content=content)
    given = [d["index"] for d in interpreter.get_input_details()]
    order = places([d["shape"] for d in interpreter.get_input_details()], arrays)
    interpreter.allocate_tensors()

    def run(arrays):
        for index, i in zip(given, order):
            interpreter.set_tensor(index, arrays[i])
        interpreter.invoke()
        return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]

    return run


def places(shapes, arrays):
    """For each input of a file, the place of the array of as many axes, of which there is one.

    Raises:
        ValueError: if the file has other inputs than the arrays, as where constants became some.
    """
    ranks, wanted = [x.ndim for x in arrays], [len(shape) for shape in shapes]
    if sorted(ranks) != sorted(wanted):
        raise ValueError(f"The file must have inputs of {ranks} axes. Received: {wanted}")
    return [ranks.index(rank) for rank in wanted]
