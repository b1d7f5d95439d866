"""Whether XLA will compile what is being traced."""

import tensorflow as tf

from tfsoftmax.support._compat import in_xla_context


def under_xla() -> bool:
    """Whether XLA will compile the graph that is being built, as in `jit_compile=True`."""
    return in_xla_context(tf.compat.v1.get_default_graph())
