"""Results that a graph computes only if something uses them, including reads of variables.

TensorFlow prunes operations whose results nothing uses, but never the read of a variable. Each
read copies the whole of a variable whose rows are gathered or updated sparsely, 411 MB at
V = 200,606 and D = 512, even if the step itself needs only a few rows.
"""

import tensorflow as tf

from tfsoftmax.ops.graphs import may_be_exported
from tfsoftmax.support._compat import record


def computed_if_used(function, tensor):
    """`function(tensor)`, computed only if something uses the result.

    If something does, the variables are read without waiting for assignments of the same step:
    a metric that looks at logits in `fit` may see weights before or after the update.

    Args:
        function: maps one tensor to another, and may read variables.
        tensor: float.

    Returns:
        The result, differentiable with respect to the tensor and the variables; the gradient
        computes it a second time.
    """
    if tf.executing_eagerly() or may_be_exported():
        return function(tensor)
    inner = tf.function(function, autograph=False)
    inner = inner.get_concrete_function(tf.TensorSpec(tensor.shape, tensor.dtype))
    variables = [v for v in inner.variables if v.trainable]
    with record.stop_recording():
        # TensorFlow orders the uses of a variable by its handle, which it finds behind Identity but
        # not behind IdentityN; whatever an assignment waits for, it computes, if that has a loop.
        # And it may drop a PartitionedCall, but not tf.function's StatefulPartitionedCall.
        handles = [
            tf.raw_ops.IdentityN(input=[t])[0] if t.dtype == tf.resource else t
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
