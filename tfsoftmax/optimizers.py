"""Keras optimisers that keep sparse gradients sparse, and apply them correctly.

The gradient of a gather is a `tf.IndexedSlices`: some rows of the variable, each as often as it
was gathered. Keras's own optimisers square these rows before they sum the duplicates, which is
not the update that the dense gradient gives, and they compute over the whole variable.
The optimisers here sum duplicate rows first, clip the sums, and read and write only the touched
rows of the variable and of its slots. Keras applies dense gradients as usual.

`Adagrad`, and `SGD` without momentum, do not change a row without a gradient, so that the result
is that of Keras on the dense gradient, up to rounding. `SGD` with momentum and `Adam` are lazy: the
moments of an untouched row stay as they are, where Keras would decay them and move the row.

Two things outside the update still read a variable whole, because Keras asks for it: a
constraint on the variable, and the test for finite gradients in `LossScaleOptimizer` (the policy
"mixed_float16" needs it; "mixed_bfloat16" does not).
"""

import keras
import tensorflow as tf

from tfsoftmax.ops.unique import static_unique
from tfsoftmax.ops.xla import under_xla

_DENSE_OPTIONS = ("weight_decay", "use_ema", "gradient_accumulation_steps", "loss_scale_factor")


def sum_duplicates(gradient: tf.IndexedSlices) -> tf.IndexedSlices:
    """Sums the rows of a sparse gradient that belong to the same row of the variable.

    Args:
        gradient: `tf.IndexedSlices` with `values` (R, ...) and `indices` (R,) int32 or int64.

    Returns:
        `tf.IndexedSlices` of the same dense value with each index once, in order of appearance.
        Under XLA there are always R rows, in increasing order of their indices; the surplus rows
        are zeros with an index beyond the variable, where XLA writes nothing.
    """
    if under_xla():
        rows, segments = static_unique(gradient.indices, fill=tf.int32.max)
        values = tf.math.unsorted_segment_sum(gradient.values, segments, tf.size(rows))
        return tf.IndexedSlices(values, rows, gradient.dense_shape)
    rows, segments = tf.unique(gradient.indices)
    values = tf.cond(
        tf.size(rows) == tf.size(segments),
        lambda: gradient.values,  # without duplicates no copy is needed
        lambda: tf.math.unsorted_segment_sum(gradient.values, segments, tf.size(rows)),
    )
    values.set_shape([None, *gradient.values.shape[1:]])
    return tf.IndexedSlices(values, rows, gradient.dense_shape)


def _map_sparse(function, gradients):
    return [function(g) if isinstance(g, tf.IndexedSlices) else g for g in gradients]


class SparseRows:
    """Mixin for a Keras optimiser that updates rows by `row_step` where a gradient is sparse.

    List it before the Keras class among the bases, and write `slots` and `row_step`.

    Attributes:
        gradient_norms: None, or the variable that `record_gradient_norms` made.

    Example:
        optimizer = tfsoftmax.optimizers.Adagrad(0.1)
        assert isinstance(optimizer, tfsoftmax.optimizers.SparseRows)
        optimizer.build([keras.Variable(keras.ops.ones((1000, 8)))])
        optimizer.record_gradient_norms()

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

    def slots(self) -> tuple[list[keras.Variable], ...]:
        """The slots in the order of `row_step`, each a list parallel to the trainable variables."""
        raise NotImplementedError

    def row_step(
        self, gradient: tf.Tensor, learning_rate: tf.Tensor, *slot_rows: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        """The update rule on the touched rows.

        Args:
            gradient: (R, ...) tensor of the variable's dtype, with each row of the variable at most
                once.
            learning_rate: scalar tensor of the same dtype.
            *slot_rows: (R, ...) tensors, the same rows of each slot.

        Returns:
            Tuple of what to subtract from the rows, (R, ...), and the new rows of each slot.
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

    def record_gradient_norms(self) -> None:
        """Makes every update store the norms of its gradients, before clipping.

        They go to `gradient_norms`, a `tf.Variable` float32 with an entry for each trainable
        variable. It does not belong to the optimiser's variables and is not saved. Call this
        method when the optimiser is built, before a step is traced, and not under a strategy
        with replicas.
        """
        if self.gradient_norms is None:
            self.gradient_norms = tf.Variable(tf.zeros(len(self._trainable_variables)))

    def _backend_apply_gradients(self, grads, trainable_variables):
        # With each row once, the norm of the values is the norm of the dense gradient.
        grads = _map_sparse(sum_duplicates, grads)
        if self.gradient_norms is not None:
            self._store_norms(grads, trainable_variables)
        super()._backend_apply_gradients(grads, trainable_variables)

    def _store_norms(self, grads, trainable_variables):
        norms = [tf.constant(0.0)] * len(self._trainable_variables)
        values = _map_sparse(lambda g: g.values, grads)
        for gradient, variable in zip(values, trainable_variables, strict=True):
            # As Keras writes it to clip by the global norm, so that the graph computes it once.
            norm = tf.sqrt(keras.ops.sum(keras.ops.square(gradient)))
            norms[self._get_variable_index(variable)] = tf.cast(norm, tf.float32)
        self.gradient_norms.assign(tf.stack(norms))

    def _clip_gradients(self, grads):
        clipped = super()._clip_gradients(_map_sparse(lambda g: g.values, grads))
        return [
            tf.IndexedSlices(c, g.indices, g.dense_shape) if isinstance(g, tf.IndexedSlices) else c
            for g, c in zip(grads, clipped, strict=True)
        ]

    def _all_reduce_sum_gradients(self, grads_and_vars):
        reduced = super()._all_reduce_sum_gradients(grads_and_vars)
        if tf.distribute.get_strategy().num_replicas_in_sync == 1:
            return reduced
        # The rows of the replicas are concatenated, so that a row may appear once per replica.
        grads, variables = zip(*reduced, strict=True)
        return list(zip(_map_sparse(sum_duplicates, grads), variables, strict=True))


@keras.saving.register_keras_serializable(package="tfsoftmax")
class Adagrad(SparseRows, keras.optimizers.Adagrad):
    """`keras.optimizers.Adagrad` for sparse gradients, with its result for the dense gradient.

    Args:
        *args, **kwargs: as in `keras.optimizers.Adagrad`, without the options that `SparseRows`
            refuses.

    Example:
        head = tfsoftmax.SampledSoftmax(1000, num_samples=50)
        model = keras.Sequential([keras.Input((16,)), head])
        model.compile(tfsoftmax.optimizers.Adagrad(0.2), tfsoftmax.SoftmaxLoss())
        model.fit(keras.random.normal((8, 16)), keras.random.randint((8,), 0, 1000))

    Source: Duchi, Hazan, Singer 2011, with epsilon under the root, as in Keras.
    """

    def slots(self):
        return (self._accumulators,)

    def update_step(self, gradient, variable, learning_rate):
        # Accumulators only grow, so that so small an epsilon is lost in rounding.
        without_epsilon = self.epsilon < 2e-6 * self.initial_accumulator_value
        if not isinstance(gradient, tf.IndexedSlices) or under_xla() or not without_epsilon:
            return super().update_step(gradient, variable, learning_rate)
        # In place, which takes less time than `row_step` and none of its five (R, D) temporaries.
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


@keras.saving.register_keras_serializable(package="tfsoftmax")
class SGD(SparseRows, keras.optimizers.SGD):
    """`keras.optimizers.SGD` for sparse gradients; lazy where `momentum` is not 0.

    Args:
        *args, **kwargs: as in `keras.optimizers.SGD`, without the options that `SparseRows`
            refuses.

    Example:
        head = tfsoftmax.SampledSoftmax(1000, num_samples=50)
        model = keras.Sequential([keras.Input((16,)), head])
        model.compile(tfsoftmax.optimizers.SGD(0.1, momentum=0.9), tfsoftmax.SoftmaxLoss())
        model.fit(keras.random.normal((8, 16)), keras.random.randint((8,), 0, 1000))

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


@keras.saving.register_keras_serializable(package="tfsoftmax")
class Adam(SparseRows, keras.optimizers.Adam):
    """`keras.optimizers.Adam` for sparse gradients; lazy.

    Args:
        *args, **kwargs: as in `keras.optimizers.Adam`, without the options that `SparseRows`
            refuses.

    Example:
        head = tfsoftmax.SampledSoftmax(1000, num_samples=50)
        model = keras.Sequential([keras.Input((16,)), head])
        model.compile(tfsoftmax.optimizers.Adam(1e-3), tfsoftmax.SoftmaxLoss())
        model.fit(keras.random.normal((8, 16)), keras.random.randint((8,), 0, 1000))

    Source: Kingma, Ba 2015, with epsilon as in Keras. Departure: the moments of an untouched row
        do not decay and the row stays, and the bias correction counts all steps, not those that
        touched the row.
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
