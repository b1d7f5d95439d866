"""The loop over rows: functions of many positions, computed for a chunk of them at a time.

Shapes: N positions, n of them in a chunk.
"""

import tensorflow as tf

from tfsoftmax.ops.graphs import may_be_exported
from tfsoftmax.support import budgets


def chunk_rows(bytes_per_row, budget=None, least=16, most=None):
    """How many positions go into a chunk.

    Args:
        bytes_per_row: bytes that the intermediate results of a position take.
        budget: bytes that those of a chunk may take; None for `CHUNK_BYTES`.
        least: the fewest positions, whatever they take.
        most: the most positions, even if `least` is more; None for `CHUNK_ROWS`.

    Returns:
        int.
    """
    of_budget = (budget or budgets.CHUNK_BYTES) // bytes_per_row
    return min(most or budgets.CHUNK_ROWS, max(least, of_budget))


def map_chunks(function, hidden, most, *more):
    """Applies a function of each position to chunks of positions, and joins the results.

    Args:
        function: maps (n, D), and n rows of the others, to a structure of tensors (n, ...).
        hidden: (N, D).
        most: the largest number of positions in a chunk.
        *more: (N, ...).

    Returns:
        The structure with tensors (N, ...).
    """
    return sum_over_chunks(lambda *rows: (function(*rows[:-1]), []), most, hidden, *more)[0]


def sum_over_chunks(chunk, most, *tensors):
    """Joins the results of `chunk` for each position, and carries totals from chunk to chunk.

    Args:
        chunk: takes a chunk (n, ...) of each of the tensors, and the totals of the chunks before
            it, which are None for the first. Returns a structure of tensors (n, ...), and the
            totals with its own added.
        most: the largest number of positions in a chunk. All chunks have the same number, and
            the last is padded with zeros.
        *tensors: (N, ...).

    Returns:
        The structure with tensors (N, ...), and the totals of all chunks.
    """
    tensors = list(map(tf.convert_to_tensor, tensors))
    length = tensors[0].shape[0]
    length = tf.shape(tensors[0])[0] if length is None else length
    count = _at_least_one((length + most - 1) // most)
    # Without positions, a chunk of padding: arrays without elements crash XLA and scatters.
    rows = _at_least_one((length + count - 1) // count)
    chunks = [_chunked(tensor, length, count, rows) for tensor in tensors]

    def visit(i, totals):
        return chunk(*(t[i] for t in chunks), totals)

    by_chunk, totals = in_turn(visit, count)
    joined = tf.nest.map_structure(lambda t: _joined(t, count * rows)[:length], by_chunk)
    return joined, totals


def in_turn(visit, count):
    """Calls a function some times, one call after the other, so that one call's tensors are alive.

    The gradient goes through the calls, and keeps what it needs of each.

    Args:
        visit: takes the number of the call and the totals of those before it, which are None for
            the first. Returns a structure of tensors, and the totals with its own added.
        count: how often, an int or a scalar tensor; once if it is less than one.

    Returns:
        The structure with tensors (count, ...), and the totals of all calls.
    """
    # The first call stands outside the loop, which would need zeros of the totals' size instead.
    first, totals = visit(0, None)
    if isinstance(count, int) and count <= 1:
        return tf.nest.map_structure(lambda t: t[None], first), totals
    repeat = _repeated if tf.executing_eagerly() else _looped
    flat, totals = repeat(visit, count, tf.nest.flatten(first), totals)
    return tf.nest.pack_sequence_as(first, flat), totals


def _repeated(visit, count, first, totals):
    parts = [first]
    for i in range(1, count):
        by_row, totals = visit(i, totals)
        parts.append(tf.nest.flatten(by_row))
    return [tf.stack(results) for results in zip(*parts)], totals


def _looped(visit, count, first, totals):
    with tf.control_dependencies([*first, *tf.nest.flatten(totals)]):
        # The second call waits for the first, so that the tensors of only one are alive.
        start = tf.identity(1)

    if may_be_exported():  # Converters know no arrays of tensors. Each write copies this one.
        arrays = [
            tf.scatter_nd([[0]], t[None], tf.concat([[count], tf.shape(t)], 0)) for t in first
        ]
    else:
        arrays = [tf.TensorArray(t.dtype, count, element_shape=t.shape).write(0, t) for t in first]

    def written(array, i, value):
        if isinstance(array, tf.TensorArray):
            return array.write(i, value)
        return tf.tensor_scatter_nd_update(array, [[i]], value[None])

    def body(i, arrays, totals):
        by_row, totals = visit(i, totals)
        by_row = tf.nest.flatten(by_row)
        return i + 1, [written(a, i, t) for a, t in zip(arrays, by_row)], totals

    _, arrays, totals = tf.while_loop(
        lambda i, *_: i < count, body, (start, arrays, totals), parallel_iterations=1
    )
    return [a.stack() if isinstance(a, tf.TensorArray) else a for a in arrays], totals


def _at_least_one(number):
    return max(number, 1) if isinstance(number, int) else tf.maximum(number, 1)


def _chunked(tensor, length, count, rows):
    """(count, rows, ...) for (length, ...)."""
    padding = [[0, count * rows - length]] + [[0, 0]] * (len(tensor.shape) - 1)
    shape = tf.concat([tf.stack([count, rows]), tf.shape(tensor)[1:]], 0)
    static = [s if isinstance(s, int) else None for s in (count, rows)]
    result = tf.reshape(tf.pad(tensor, padding), shape)
    result.set_shape(static + tensor.shape[1:].as_list())
    return result


def _joined(chunks, length):
    """(length, ...) for (count, rows, ...)."""
    shape = tf.concat([[length], tf.shape(chunks)[2:]], 0)
    result = tf.reshape(chunks, shape)
    result.set_shape([length if isinstance(length, int) else None, *chunks.shape[2:]])
    return result
