"""Functions of many positions, computed on some at a time."""

import tensorflow as tf

BYTES = 1 << 28  # of the intermediate results of a chunk


def rows_within(bytes_per_row):
    """Positions in a chunk: as many as `BYTES` hold, 16 to 512."""
    return max(16, min(512, BYTES // bytes_per_row))


def map_chunks(function, hidden, rows, signature):
    """Applies a function to `rows` positions at a time and joins the results.

    Args:
        function: takes (rows, D), returns a structure of tensors (rows, ...).
        hidden: (N, D).
        rows: positions in a chunk; the last is padded with zeros.
        signature: the structure of the results' `tf.TensorSpec` (...), without the rows.

    Returns:
        The structure with tensors (N, ...).
    """
    if hidden.shape[0] is not None and hidden.shape[0] <= rows:
        return function(hidden)
    length = tf.shape(hidden)[0]
    count = (length + rows - 1) // rows
    padded = tf.pad(hidden, [[0, count * rows - length], [0, 0]])
    chunks = tf.reshape(padded, [-1, rows, hidden.shape[1]])
    of_chunk = tf.nest.map_structure(
        lambda spec: tf.TensorSpec([rows, *spec.shape], spec.dtype), signature
    )
    stacked = tf.map_fn(function, chunks, parallel_iterations=1, fn_output_signature=of_chunk)
    return tf.nest.map_structure(
        lambda t: tf.reshape(t, [-1, *t.shape[2:]])[:length], stacked
    )
