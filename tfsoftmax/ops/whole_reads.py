"""Reads of whole variables, which TensorFlow copies once their rows were gathered or updated."""

import tensorflow as tf

from tfsoftmax.ops.exported import may_be_exported
from tfsoftmax.ops.xla import under_xla


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
