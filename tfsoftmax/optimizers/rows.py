"""Sparse gradients with each row once, some rows of variables, and their sums over a cycle."""

import tensorflow as tf

from tfsoftmax.ops.graphs import under_xla
from tfsoftmax.ops.subsets import distinct, places_where
from tfsoftmax.support.arguments import checks_arguments


@checks_arguments
def sum_duplicates(gradient: tf.IndexedSlices) -> tf.IndexedSlices:
    """Sums the rows of a sparse gradient that belong to the same row of the variable.

    Args:
        gradient: `tf.IndexedSlices` with `values` (R, ...) and `indices` (R,) int32 or int64.

    Returns:
        `tf.IndexedSlices` of the same dense value with each index once, in order of appearance.
        Under XLA there are always R rows, in increasing order of their indices; the surplus rows
        are zeros with an index beyond the variable, where XLA writes nothing.
    """
    rows, segments = distinct(gradient.indices, fill=tf.int32.max)
    if under_xla():  # which sorts them
        values = _segment_sum(gradient.values, segments, tf.size(rows))
        return tf.IndexedSlices(values, rows, gradient.dense_shape)
    values = tf.cond(
        tf.size(rows) == tf.size(segments),
        lambda: gradient.values,  # without duplicates no copy is needed
        lambda: _segment_sum(gradient.values, segments, tf.size(rows)),
    )
    values.set_shape([None, *gradient.values.shape[1:]])
    return tf.IndexedSlices(values, rows, gradient.dense_shape)


def _segment_sum(values, segments, count):
    """The sums of segments. Those of half precision grow in float32: in bfloat16 256 + 1 is 256."""
    wide = tf.cast(values, tf.float32) if values.dtype.size < 4 else values
    return tf.cast(tf.math.unsorted_segment_sum(wide, segments, count), values.dtype)


def marked_rows(marks: tf.Tensor, values: tf.Variable) -> tf.IndexedSlices:
    """The marked rows of a variable.

    Args:
        marks: (V,) bool.
        values: (V, ...) variable.

    Returns:
        `tf.IndexedSlices` of the marked rows. Under XLA there are always V rows; those that are
        not marked are zeros with an index beyond the variable.
    """
    rows = places_where(marks)
    if rows is not None:
        return tf.IndexedSlices(tf.gather(values, rows), rows)
    rows = tf.where(marks, tf.range(tf.size(marks)), tf.int32.max)
    kept = tf.where(aligned(marks, values), values, tf.zeros_like(values))
    return tf.IndexedSlices(kept, rows)


def map_sparse(function, gradients: list) -> list:
    """Applies a function to the sparse gradients of a list, and leaves the dense ones."""
    return [function(g) if isinstance(g, tf.IndexedSlices) else g for g in gradients]


def rows_and_values(gradient) -> tuple[tf.Tensor | None, tf.Tensor]:
    """The rows of a gradient, None for all of them, and its values in these rows."""
    if isinstance(gradient, tf.IndexedSlices):
        return gradient.indices, gradient.values
    return None, gradient


def read_rows(variable: tf.Variable, rows: tf.Tensor | None) -> tf.Tensor:
    """The rows (R,) of a variable; all rows if `rows` is None."""
    return variable.read_value() if rows is None else tf.gather(variable, rows)


def write_rows(variable: tf.Variable, rows: tf.Tensor | None, values: tf.Tensor) -> None:
    """Assigns values to the rows (R,) of a variable; to all rows if `rows` is None."""
    if rows is None:
        variable.assign(values)
    else:
        variable.scatter_update(tf.IndexedSlices(values, rows))


def aligned(per_row: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Appends axes of size 1 to a tensor (R,), so that it broadcasts against `values` (R, ...)."""
    axes = values.shape.rank - per_row.shape.rank
    return tf.reshape(per_row, tf.concat([tf.shape(per_row), tf.ones([axes], tf.int32)], 0))


class RowAccumulation:
    """Mixin of `SparseRows` for `gradient_accumulation_steps`.

    A row has a sum, and the number of the last cycle that touched it: a sum of an earlier cycle
    counts as zero, so that no cycle begins with a pass over the variable.

    Example:
        optimizer = tfsoftmax.optimizers.Adagrad(0.1, gradient_accumulation_steps=4)
        assert isinstance(optimizer, tfsoftmax.optimizers.rows.RowAccumulation)
        optimizer.build([keras.Variable(keras.ops.ones((1000, 8)))])
    """

    def _accumulate(self, gradient, variable):
        index = self._get_variable_index(variable)
        cycles = self._touched_cycles[index].value
        self._distribution_strategy.extended.update(
            self._accumulated_gradients[index].value, self._add_to_rows, args=(gradient, cycles)
        )

    def _add_to_rows(self, total, gradient, cycles):
        rows, values = rows_and_values(gradient)
        cycle = tf.cast(self.iterations, tf.int64) + 1
        before = read_rows(cycles, rows)
        values = tf.cast(values, total.dtype)
        so_far = tf.where(aligned(before == cycle, values), read_rows(total, rows), 0)
        write_rows(total, rows, so_far + values)
        write_rows(cycles, rows, tf.fill(tf.shape(before), cycle))

    def _mean_of_cycle(self, variable, sparse):
        index = self._get_variable_index(variable)
        total = self._accumulated_gradients[index].value
        if not sparse:
            return total / self.gradient_accumulation_steps
        cycle = tf.cast(self.iterations, tf.int64) + 1
        marked = marked_rows(self._touched_cycles[index].value == cycle, total)
        values = marked.values / self.gradient_accumulation_steps
        return tf.IndexedSlices(values, marked.indices)
