"""Results that a graph computes only where something uses them, down to the variables they read.

TensorFlow prunes what nothing uses, but not the reading of a variable: an operation that has read
one must run. A variable whose rows are gathered or updated sparsely is copied whole by each such
reading: 20 to 40 ms for 400 MB, as much as the step of a tree takes.
"""

import tensorflow as tf

from tfsoftmax._compat import record


def computed_if_used(function, tensor):
    """`function(tensor)`, which nothing runs where nothing uses it.

    Where something does, the variables are read without waiting for assignments of the same
    step: a metric that looks at logits in `fit` may see weights before or after the update.

    Args:
        function: of one tensor, reads variables, returns one tensor.
        tensor: float.

    Returns:
        The result, differentiable with respect to the tensor and the variables; the gradient
        computes it a second time.
    """
    if tf.executing_eagerly():
        return function(tensor)
    inner = tf.function(function, autograph=False)
    inner = inner.get_concrete_function(tf.TensorSpec(tensor.shape, tensor.dtype))
    variables = [v for v in inner.variables if v.trainable]
    with record.stop_recording():
        # By another name a variable's handle orders nothing, and PartitionedCall, unlike the
        # StatefulPartitionedCall of tf.function, may be dropped.
        handles = [
            tf.raw_ops.Identity(input=t) if t.dtype == tf.resource else t
            for t in inner.captured_inputs
        ]
        (result,) = tf.raw_ops.PartitionedCall(
            args=[tensor, *handles], Tout=[inner.output_dtypes], f=inner
        )
        result.set_shape(inner.output_shapes)

    def gradient(upstream):
        with tf.GradientTape() as tape:
            tape.watch(tensor)
            again = function(tensor)
        return tape.gradient(again, [tensor, *variables], upstream)

    record.record_operation(
        "Prunable", [result], [tensor, *[v.handle for v in variables]], gradient
    )
    return result
