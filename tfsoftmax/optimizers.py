"""Keras optimisers that keep sparse gradients sparse, and right.

The gradient of a gather is a `tf.IndexedSlices`: some rows of the variable, a row as often as
it was gathered. Keras's own optimisers take it as it is: they square rows before summing the
duplicates, which is another algorithm than on the dense gradient, and compute over the whole
variable. The optimisers here sum duplicate rows first, clip what is left, and read and write
the touched rows of the variable and of its slots, nothing else. Dense gradients go to Keras.

Where the rule leaves a row without gradient alone (`Adagrad`, `SGD` without momentum) the
result is Keras's on the dense gradient. Rules with memory (`SGD` with momentum, `Adam`) are
lazy: the moments of an untouched row wait, where Keras would decay them and move the row.

What still reads a variable whole, because Keras asks for it outside the update: a constraint
on the variable, and the finite test of `LossScaleOptimizer` (policy "mixed_float16";
"mixed_bfloat16" needs none).
"""

import keras
import tensorflow as tf

from tfsoftmax.ops.unique import static_unique
from tfsoftmax.ops.xla import under_xla

_PACKAGE = "tfsoftmax"
_DENSE_OPTIONS = ("weight_decay", "use_ema", "gradient_accumulation_steps", "loss_scale_factor")


def sum_duplicates(gradient):
    """Adds up the rows of a sparse gradient that belong to the same row of the variable.

    Args:
        gradient: `tf.IndexedSlices` with `values` (R, ...) and `indices` (R,) int32 or int64.

    Returns:
        `tf.IndexedSlices` of the same dense value, each index once, in order of appearance;
        under XLA in rising order, and R of them: those too many are zeros behind the variable,
        where XLA writes nothing.
    """
    if under_xla():
        rows, segments = static_unique(gradient.indices, fill=tf.int32.max)
        values = tf.math.unsorted_segment_sum(gradient.values, segments, tf.size(rows))
        return tf.IndexedSlices(values, rows, gradient.dense_shape)
    rows, segments = tf.unique(gradient.indices)
    values = tf.cond(
        tf.size(rows) == tf.size(segments),
        lambda: gradient.values,  # no duplicates: a copy spared
        lambda: tf.math.unsorted_segment_sum(gradient.values, segments, tf.size(rows)),
    )
    values.set_shape([None, *gradient.values.shape[1:]])
    return tf.IndexedSlices(values, rows, gradient.dense_shape)


def _map_sparse(function, gradients):
    return [function(g) if isinstance(g, tf.IndexedSlices) else g for g in gradients]


class SparseRows:
    """Mixin before a Keras optimiser: sparse gradients update rows by the rule of `row_step`.

    Raises:
        ValueError: for the options of Keras that compute over whole variables at every step
            (`weight_decay`, `use_ema`, `gradient_accumulation_steps`) or that Keras does not
            define for sparse gradients (`loss_scale_factor`).
    """

    gradient_norms = None

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        for option in _DENSE_OPTIONS:
            value = getattr(self, option)
            if value is not None and value is not False:
                raise ValueError(
                    f"`{option}` must be unset, as it needs dense gradients (use "
                    f"keras.optimizers.{type(self).__name__} for it). Received: {option}={value}"
                )

    def slots(self):
        """Lists of slot variables, parallel to the trainable variables, in `row_step`'s order."""
        raise NotImplementedError

    def row_step(self, gradient, learning_rate, *slot_rows):
        """The update rule on the touched rows.

        Args:
            gradient: (R, ...) tensor of the variable's dtype, each row of the variable once.
            learning_rate: scalar tensor of the same dtype.
            *slot_rows: (R, ...) tensors, the same rows of each slot.

        Returns:
            Tuple: what to subtract from the rows (R, ...), then the new rows of each slot.
        """
        raise NotImplementedError

    def update_step(self, gradient, variable, learning_rate):
        if not isinstance(gradient, tf.IndexedSlices):
            return super().update_step(gradient, variable, learning_rate)
        rows = gradient.indices
        index = self._get_variable_index(variable)
        slots = [slot[index].value for slot in self.slots()]  # `.value` gathers without a copy
        step, *new_rows = self.row_step(
            tf.cast(gradient.values, variable.dtype),
            keras.ops.cast(learning_rate, variable.dtype),
            *[tf.gather(slot, rows) for slot in slots],
        )
        for slot, new in zip(slots, new_rows, strict=True):
            slot.scatter_update(tf.IndexedSlices(new, rows))
        variable.scatter_sub(tf.IndexedSlices(step, rows))

    def record_gradient_norms(self):
        """Makes every update leave the norms of its gradients, before clipping, behind.

        They are in `gradient_norms`, a `tf.Variable` float32 with an entry for each trainable
        variable, which is no variable of the optimiser: it is not saved. To be called when the
        optimiser is built, before a step is traced, and not under a strategy with replicas.
        """
        if self.gradient_norms is None:
            self.gradient_norms = tf.Variable(tf.zeros(len(self._trainable_variables)))

    def _backend_apply_gradients(self, grads, trainable_variables):
        # With each row once, the norm of the values is the norm of the dense gradient.
        grads = _map_sparse(sum_duplicates, grads)
        if self.gradient_norms is not None:
            self._leave_norms(grads, trainable_variables)
        super()._backend_apply_gradients(grads, trainable_variables)

    def _leave_norms(self, grads, trainable_variables):
        norms = [tf.constant(0.0)] * len(self._trainable_variables)
        for gradient, variable in zip(_map_sparse(lambda g: g.values, grads), trainable_variables):
            # In Keras's words for clipping by the global norm: the graph computes it once.
            norm = tf.sqrt(keras.ops.sum(keras.ops.square(gradient)))
            norms[self._get_variable_index(variable)] = tf.cast(norm, tf.float32)
        self.gradient_norms.assign(tf.stack(norms))

    def _clip_gradients(self, grads):
        clipped = super()._clip_gradients(_map_sparse(lambda g: g.values, grads))
        return [
            tf.IndexedSlices(c, g.indices, g.dense_shape) if isinstance(g, tf.IndexedSlices) else c
            for g, c in zip(grads, clipped)
        ]

    def _all_reduce_sum_gradients(self, grads_and_vars):
        reduced = super()._all_reduce_sum_gradients(grads_and_vars)
        if tf.distribute.get_strategy().num_replicas_in_sync == 1:
            return reduced
        # The replicas' rows come joined end to end, so a row may appear once per replica.
        grads, variables = zip(*reduced)
        return list(zip(_map_sparse(sum_duplicates, grads), variables))


@keras.saving.register_keras_serializable(package=_PACKAGE)
class Adagrad(SparseRows, keras.optimizers.Adagrad):
    """`keras.optimizers.Adagrad` for sparse gradients: equal to it on the dense gradient.

    Args: those of `keras.optimizers.Adagrad`, less the options that `SparseRows` refuses.
    Source: Duchi, Hazan, Singer 2011; epsilon under the root, as in Keras.
    """

    def slots(self):
        return (self._accumulators,)

    def update_step(self, gradient, variable, learning_rate):
        # No accumulator is less than at the start: what epsilon changes is lost in rounding.
        without_epsilon = self.epsilon < 2e-6 * self.initial_accumulator_value
        if not isinstance(gradient, tf.IndexedSlices) or under_xla() or not without_epsilon:
            return super().update_step(gradient, variable, learning_rate)
        # In place: 0.7 of the time of the rule below, and none of its five (R, D) temporaries
        # (R = 43,000, D = 512, two CPU cores).
        slot = self._accumulators[self._get_variable_index(variable)]
        tf.raw_ops.ResourceSparseApplyAdagradV2(
            var=variable.handle, accum=slot.value.handle,
            lr=keras.ops.cast(learning_rate, variable.dtype),
            epsilon=tf.zeros([], variable.dtype),
            grad=tf.cast(gradient.values, variable.dtype), indices=gradient.indices,
        )

    def row_step(self, gradient, learning_rate, accumulator):
        accumulator += tf.square(gradient)
        return learning_rate * gradient / tf.sqrt(accumulator + self.epsilon), accumulator


@keras.saving.register_keras_serializable(package=_PACKAGE)
class SGD(SparseRows, keras.optimizers.SGD):
    """`keras.optimizers.SGD` for sparse gradients: lazy where `momentum` is not 0.

    Args: those of `keras.optimizers.SGD`, less the options that `SparseRows` refuses.
    Source: Keras. Departure: the velocity of an untouched row neither decays nor moves the row.
    """

    def slots(self):
        return (self.momentums,) if self.momentum else ()

    def row_step(self, gradient, learning_rate, velocity=None):
        step = learning_rate * gradient
        if velocity is None:
            return (step,)
        velocity = self.momentum * velocity - step
        return (step - self.momentum * velocity if self.nesterov else -velocity), velocity


@keras.saving.register_keras_serializable(package=_PACKAGE)
class Adam(SparseRows, keras.optimizers.Adam):
    """`keras.optimizers.Adam` for sparse gradients: lazy.

    Args: those of `keras.optimizers.Adam`, less the options that `SparseRows` refuses.
    Source: Kingma, Ba 2015; epsilon as in Keras. Departure: the moments of an untouched row
        do not decay and the row stays; the bias correction counts all steps, not the row's.
    """

    def slots(self):
        moments = (self._momentums, self._velocities)
        return (*moments, self._velocity_hats) if self.amsgrad else moments

    def row_step(self, gradient, learning_rate, momentum, velocity, *velocity_hat):
        count = tf.cast(self.iterations + 1, gradient.dtype)
        correction = tf.sqrt(1 - self.beta_2**count) / (1 - self.beta_1**count)
        momentum += (gradient - momentum) * (1 - self.beta_1)
        velocity += (tf.square(gradient) - velocity) * (1 - self.beta_2)
        velocity_hat = [tf.maximum(hat, velocity) for hat in velocity_hat]
        scale = tf.sqrt(velocity_hat[0] if velocity_hat else velocity) + self.epsilon
        return learning_rate * correction * momentum / scale, momentum, velocity, *velocity_hat
