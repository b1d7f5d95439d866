"""The sums of gradients over a cycle of steps, of the rows that the cycle touched."""

import tensorflow as tf

from tfsoftmax.optimizers.rows import (
    aligned,
    marked_rows,
    read_rows,
    rows_and_values,
    write_rows,
)


class RowAccumulation:
    """Mixin of `SparseRows` for `gradient_accumulation_steps`.

    A row has a sum, and the number of the last cycle that touched it: a sum of an earlier cycle
    counts as zero, so that no cycle begins with a pass over the variable.

    Example:
        optimizer = tfsoftmax.optimizers.Adagrad(0.1, gradient_accumulation_steps=4)
        assert isinstance(optimizer, tfsoftmax.optimizers.accumulation.RowAccumulation)
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
