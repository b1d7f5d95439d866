"""Functions of many positions, computed on some of them at a time.

Shapes: N positions.
"""

import tensorflow as tf

BYTES = 1 << 28  # of the intermediate results of a chunk


def rows_within(bytes_per_row):
    """Positions in a chunk: as many as `BYTES` hold, 16 to 512."""
    return max(16, min(512, BYTES // bytes_per_row))


def map_chunks(function, hidden, most):
    """Applies a function of each position to chunks of positions, and joins the results.

    Args:
        function: takes (n, D), returns a structure of tensors (n, ...).
        hidden: (N, D).
        most: positions in a chunk, at most.

    Returns:
        The structure with tensors (N, ...).
    """
    return sum_over_chunks(lambda rows, _: (function(rows), []), most, hidden)[0]


def sum_over_chunks(chunk, most, *tensors):
    """Joins what `chunk` returns for each position, and adds up what it totals.

    Args:
        chunk: takes a chunk (n, ...) of each of the tensors and the totals of those before, or
            None; returns a structure of tensors (n, ...) and a structure of new totals.
        most: positions in a chunk, at most. The chunks are even, and zero-padded at the end.
        *tensors: (N, ...).

    Returns:
        The structure with tensors (N, ...); the last totals.
    """
    length = tensors[0].shape[0]
    length = tf.shape(tensors[0])[0] if length is None else length
    count = _at_least_one((length + most - 1) // most)
    rows = (length + count - 1) // count
    chunks = [_chunked(tensor, length, count, rows) for tensor in tensors]

    def visit(i, totals):
        return chunk(*(t[i] for t in chunks), totals)

    # The first chunk stands outside the loop: zeros to start from would cost the totals' size.
    first, totals = visit(0, None)
    if chunks[0].shape[0] == 1:
        return first, totals
    flat = tf.nest.flatten(first)
    with tf.control_dependencies([*flat, *tf.nest.flatten(totals)]):
        start = tf.identity(1)  # lest the second chunk's tensors join the first's
    arrays = [tf.TensorArray(t.dtype, count, element_shape=t.shape).write(0, t) for t in flat]

    def body(i, arrays, totals):
        by_row, totals = visit(i, totals)
        written = [a.write(i, t) for a, t in zip(arrays, tf.nest.flatten(by_row))]
        return i + 1, written, totals

    _, arrays, totals = tf.while_loop(
        lambda i, *_: i < count, body, (start, arrays, totals), parallel_iterations=1
    )
    joined = [_joined(array.stack(), count * rows)[:length] for array in arrays]
    return tf.nest.pack_sequence_as(first, joined), totals


def _at_least_one(count):
    return max(count, 1) if isinstance(count, int) else tf.maximum(count, 1)


def _chunked(tensor, length, count, rows):
    """(count, rows, ...) for (length, ...)."""
    padding = [[0, count * rows - length]] + [[0, 0]] * (len(tensor.shape) - 1)
    shape = tf.concat([tf.stack([count, rows]), tf.shape(tensor)[1:]], 0)
    static = [s if isinstance(s, int) else None for s in (count, rows)]
    result = tf.reshape(tf.pad(tensor, padding), shape)
    return tf.ensure_shape(result, static + tensor.shape[1:].as_list())


def _joined(chunks, length):
    """(length, ...) for (count, rows, ...)."""
    shape = tf.concat([[length], tf.shape(chunks)[2:]], 0)
    static = [length if isinstance(length, int) else None, *chunks.shape[2:]]
    return tf.ensure_shape(tf.reshape(chunks, shape), static)
