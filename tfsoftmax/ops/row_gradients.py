"""Rows of a variable that are read piece by piece, and gradients that have each row once."""

import tensorflow as tf

from tfsoftmax.ops.logits import rows_of
from tfsoftmax.ops.replicas import local_copy


class DistinctRows(tf.IndexedSlices):
    """A sparse gradient that has each row once, so that an optimiser has no duplicates to sum."""

    def in_this_graph(self):
        """The same in the graph that is being built.

        The backward pass of a `tf.function` cannot return tensors of the forward pass.
        """
        return DistinctRows(*map(tf.identity, (self.values, self.indices, self.dense_shape)))


def row_source(table):
    """What `custom_gradients.differentiable` takes for a variable of which it reads some rows.

    Args:
        table: (V, ...) tensor or variable.

    Returns:
        The variable's handle, or the tensor itself, and a function from it and ids (n,) to the
        rows (n, ...) float32. The gradient of either is `DistinctRows`.
    """
    table = local_copy(table)
    if not hasattr(table, "handle"):
        return tf.convert_to_tensor(table), rows_of
    tf.gather(table, tf.zeros([0], tf.int32))  # so that gradient tapes watch the variable

    def rows(handle, ids):
        found = tf.raw_ops.ResourceGather(resource=handle, indices=ids, dtype=table.dtype)
        found.set_shape([*ids.shape, *table.shape[1:]])
        return tf.cast(found, tf.float32)

    return table.handle, rows
