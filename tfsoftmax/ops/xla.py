"""Whether XLA will compile what is being traced."""

import tensorflow as tf
from tensorflow.python.ops.control_flow_util import GraphOrParentsInXlaContext


def under_xla():
    """Whether the graph being built is one that XLA will compile.

    That is what `tf.function(jit_compile=True)` enters when it is called; TensorFlow has no
    public name for it.
    """
    return GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())
