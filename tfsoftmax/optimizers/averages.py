"""Moving averages of variables, of which a step touches only some rows."""

import keras
import tensorflow as tf

from tfsoftmax.optimizers.rows import aligned, read_rows, write_rows


class RowAverages:
    """Mixin for a Keras optimiser with `use_ema`: it averages rows when they are touched or read.

    The average of an untouched row approaches the row at a known pace. `_averages` has a variable
    for each trainable one, and `_averaged_steps` the number of steps that each row of it counts.

    Example:
        optimizer = tfsoftmax.optimizers.Adagrad(0.1, use_ema=True)
        assert isinstance(optimizer, tfsoftmax.optimizers.averages.RowAverages)
        optimizer.build([keras.Variable(keras.ops.ones((1000, 8)))])
    """

    @property
    def _model_variables_moving_average(self):
        """The averages, which Keras and its callbacks read here, up to date in all rows."""
        self._catch_up(self._iterations)
        return self._averages

    @_model_variables_moving_average.setter
    def _model_variables_moving_average(self, averages):
        self._averages = averages

    def _average_rows(self, variable, rows, before):
        """Averages rows in, after an update from the values `before`."""
        index = self._get_variable_index(variable)
        average, steps = self._averages[index].value, self._averaged_steps[index].value
        now, counted = tf.cast(self._iterations, tf.int64), read_rows(steps, rows)
        mean = self._caught_up(read_rows(average, rows), counted, before, now)
        # The average begins as the variable after the first step.
        momentum = self.ema_momentum * keras.ops.cast(self.iterations != 0, variable.dtype)
        mean = momentum * mean + (1 - momentum) * read_rows(variable, rows)
        write_rows(average, rows, mean)
        write_rows(steps, rows, tf.fill(tf.shape(counted), now + 1))

    def _caught_up(self, average, counted, values, now):
        """The averages of rows that kept their values since the steps `counted`."""
        # After k steps a - w is m^k (a - w). A row without an average has always been the same.
        missed = tf.cast(tf.maximum(now - counted, 0), tf.float64)
        kept = tf.where(counted == 0, tf.zeros_like(missed), self.ema_momentum**missed)
        kept = tf.cast(aligned(kept, values), values.dtype)
        return kept * average + (1 - kept) * values

    def _catch_up(self, now, overwrite=False):
        """Brings all averages up to date at step `now`, and may write them to the variables."""

        def catch_up(average, variable, steps):
            step = tf.cast(now, tf.int64)
            average.assign(self._caught_up(average, steps, variable, step))
            steps.assign(tf.maximum(steps, step))
            if overwrite:
                variable.assign(average)

        for triple in zip(self._averages, self._trainable_variables, self._averaged_steps):
            if triple[0] is not None:
                average, *others = [v.value if isinstance(v, keras.Variable) else v for v in triple]
                self._distribution_strategy.extended.update(average, catch_up, args=tuple(others))
