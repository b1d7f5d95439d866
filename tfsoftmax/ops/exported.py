"""Graphs that may leave this process, for a runtime that knows plain operations only.

Converters to LiteRT, ONNX and OpenVINO know neither the reads nor the functions by which the
package spares a step work, and take every tensor that a graph captures for one more input.
"""

import tensorflow as tf

from tfsoftmax.support._compat import in_inference_call


def may_be_exported() -> bool:
    """Whether the graph that is being built may become a file for another runtime.

    It may if it is the call of a layer for inference. It does not if it is a step of `fit`,
    `evaluate` or `predict`, which Keras runs by `tf.distribute.Strategy.run`, under any strategy.
    """
    return not tf.executing_eagerly() and in_inference_call() and not _in_step()


def held(constants):
    """Eager tensors in any structure, which a graph that may be exported holds itself.

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
