"""Which kind of graph is being built, and how it may read constants and variables.

Converters to LiteRT, ONNX and OpenVINO know neither the reads nor the functions by which the
package spares a step work, and take every tensor that a graph captures for one more input.
TensorFlow copies a whole variable when it is read after its rows were gathered or updated.
"""

import tensorflow as tf

from tfsoftmax.support._compat import in_inference_call, in_xla_context


def under_xla() -> bool:
    """Whether XLA will compile the graph that is being built, as in `jit_compile=True`."""
    return in_xla_context(tf.compat.v1.get_default_graph())


def may_be_exported() -> bool:
    """Whether the graph that is being built may become a file for another runtime.

    It may if it is the call of a layer for inference. It does not if it is a step of `fit`,
    `evaluate` or `predict`, which Keras runs by `tf.distribute.Strategy.run`, under any strategy.
    """
    return not tf.executing_eagerly() and in_inference_call() and not _in_step()


def can_read(tensor: tf.Tensor) -> bool:
    """Whether the code that is running can read a tensor, which it cannot if a branch made it.

    A branch of `tf.cond`, or of an `if` in a `tf.function`, is a graph of its own.
    """
    graph, of_tensor = tf.compat.v1.get_default_graph(), getattr(tensor, "graph", None)
    while graph not in (None, of_tensor):
        graph = getattr(graph, "outer_graph", None)
    return of_tensor is None or graph is of_tensor


def held(constants):
    """Eager tensors in any structure, copied into the graph as constants if it may be exported.

    Any other graph captures them, so that it does not grow with V.
    """
    if not may_be_exported():
        return constants
    return tf.nest.map_structure(
        lambda value: tf.constant(value.numpy()) if tf.is_tensor(value) else value, constants
    )


def _in_step():
    """Whether `Strategy.run` is running, which replaces TensorFlow's context by one of its own."""
    here = tf.distribute.get_replica_context()
    return here is not None and here is not _outside()


def _outside():
    with tf.Graph().as_default():  # in which no strategy is running
        return tf.distribute.get_replica_context()


def whole(variable: tf.Variable | tf.Tensor) -> tf.Variable | tf.Tensor:
    """The value of a variable without a copy of it; what has no such read is returned as it is.

    A variable whose rows an embedding gathers, or an optimiser updates, is copied by each later
    read of all of it. For one position at V = 300,000 and D = 64 the copy takes longer than the
    logits. Later gathers and updates copy the variable if this value is still in use by then.

    Losses and searches read so. Logits do not, because TFLite cannot convert such a read.
    """
    if under_xla() or may_be_exported() or not hasattr(variable, "read_value_no_copy"):
        return variable
    return variable.read_value_no_copy()
