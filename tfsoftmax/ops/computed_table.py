"""A table (V, D) whose rows are computed, some at a time, in the forward and the backward pass."""

import tensorflow as tf

from tfsoftmax.ops.chunks import map_chunks, sum_over_chunks
from tfsoftmax.support._compat import record


def table_of(rows, order, most):
    """The rows of all words.

    Args:
        rows: function of ids (n,) int32 to their rows (n, D).
        order: (V,) int32, all ids, in the order in which they are computed.
        most: the largest number of rows that are computed at once.

    Returns:
        (V, D), by id.
    """
    by_place = map_chunks(rows, order, most)
    return tf.scatter_nd(order[:, None], by_place, tf.shape(by_place))


def with_recomputed_rows(table, rows, parameters, order, most):
    """A table whose gradient computes the rows again, so that those of one chunk are alive.

    Args:
        table: (V, D), the result of `table_of`, however it came about.
        rows: function of a list of tensors, the parameters, and of ids (n,) to rows (n, D).
        parameters: the tensors from which the table was computed.
        order, most: as in `table_of`.

    Returns:
        (V, D), the same numbers, differentiable with respect to the parameters.
    """

    def chunk(ids, upstream, totals):
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(parameters)
            result = rows(parameters, ids)
        terms = tape.gradient(result, parameters, upstream)
        return [], [
            _added(total, term, parameter)
            for total, term, parameter in zip(totals or [None] * len(terms), terms, parameters)
        ]

    def gradient(upstream):
        upstream = tf.gather(upstream, order)
        return sum_over_chunks(chunk, most, order, upstream)[1]

    with record.stop_recording():
        table = tf.identity(table)
    record.record_operation("ComputedTable", [table], list(parameters), gradient)
    return table


def _added(total, term, parameter):
    """total + term, where the total may be None, and the term None or some rows only."""
    if total is None and (term is None or isinstance(term, tf.IndexedSlices)):
        total = tf.zeros_like(parameter)
    if term is None:
        return total
    if isinstance(term, tf.IndexedSlices):
        return tf.tensor_scatter_nd_add(total, term.indices[:, None], term.values)
    return term if total is None else total + term
