"""The base of the optimisers: Keras's options, over the touched rows of a sparse gradient."""

import math

import keras
import tensorflow as tf

from tfsoftmax.ops.graphs import under_xla
from tfsoftmax.ops.replicas import merges_replicas
from tfsoftmax.ops.saved_arrays import array_of
from tfsoftmax.optimizers.averages import RowAverages
from tfsoftmax.optimizers.clipping import clipped, squared_norm
from tfsoftmax.optimizers.rows import (
    RowAccumulation,
    map_sparse,
    read_rows,
    rows_and_values,
    sum_duplicates,
    write_rows,
)
from tfsoftmax.sharding.shards import knowing_shards, mark_as, sharded_words
from tfsoftmax.support import budgets
from tfsoftmax.support.arguments import check_hint
from tfsoftmax.support.mends import warn_of_faults

_NUMBERS = {
    "clipnorm": float, "clipvalue": float, "global_clipnorm": float, "weight_decay": float,
    "loss_scale_factor": float, "ema_momentum": float, "gradient_accumulation_steps": int,
}



class _Divisible(tf.IndexedSlices):
    """Rows that `loss_scale_factor` can divide, as Keras writes it."""

    def __truediv__(self, divisor):
        return tf.IndexedSlices(self.values / divisor, self.indices, self.dense_shape)


class SparseRows(RowAccumulation, RowAverages):
    """Mixin for a Keras optimiser that updates rows by `row_step` if a gradient is sparse.

    List it before the Keras class among the bases, and write `slots` and `row_step`. The options
    of Keras then work as `tfsoftmax.optimizers` describes.

    Attributes:
        gradient_norms: None, or the variable that `record_gradient_norms` made.

    Example:
        optimizer = tfsoftmax.optimizers.Adagrad(0.1)
        assert isinstance(optimizer, tfsoftmax.optimizers.SparseRows)
        optimizer.build([keras.Variable(keras.ops.ones((1000, 8)))])
        optimizer.record_gradient_norms()
    """

    gradient_norms = None
    _records_norms = False

    def __init__(self, *args, **kwargs):
        rate, *_ = args or [kwargs.get("learning_rate", 0.0)]
        if not callable(rate):  # schedules are
            check_hint("learning_rate", rate, float)
        for name, kind in _NUMBERS.items():
            check_hint(name, kwargs.get(name), kind | None)
        super().__init__(*args, **kwargs)

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

    def update_rows(
        self, gradient: tf.IndexedSlices | tf.Tensor, variable: tf.Variable,
        learning_rate: tf.Tensor,
    ) -> None:
        """Applies `row_step` to the touched rows of a variable and of its slots.

        Args:
            gradient: `tf.IndexedSlices` with each row at most once, or a tensor for all rows.
            variable: the variable (V, ...).
            learning_rate: scalar tensor.
        """
        index = self._get_variable_index(variable)
        slots = [slot[index].value for slot in self.slots()]  # `.value` gathers without a copy
        touched, values = rows_and_values(gradient)
        values = tf.cast(values, variable.dtype)
        rate = keras.ops.cast(learning_rate, variable.dtype)

        def update(rows, values):
            step, *new = self.row_step(values, rate, *[read_rows(slot, rows) for slot in slots])
            new.append(read_rows(variable, rows) - step)
            for target, updated in zip([*slots, variable], new, strict=True):
                write_rows(target, rows, updated)

        if touched is None or under_xla():
            update(touched, values)
            return
        most = _chunk_rows(variable)

        def update_chunk(first):
            chunk = slice(first, first + most)
            update(touched[chunk], values[chunk])
            return first + most

        tf.while_loop(
            lambda first: first < tf.size(touched), lambda first: (update_chunk(first),),
            (0,), parallel_iterations=1,
        )

    def update_all(
        self, gradient: tf.Tensor, variable: tf.Variable, learning_rate: tf.Tensor
    ) -> None:
        """Applies a dense gradient to a variable and its slots, as Keras does."""
        super().update_step(gradient, variable, learning_rate)

    def operands(self, gradient: tf.Tensor, variable: tf.Variable, *slot_names: str) -> dict:
        """The tensors that TensorFlow's own update rules take, which work in place.

        Args:
            gradient: tensor of the variable's shape.
            variable: the variable.
            *slot_names: the rule's names of the slots that `slots` lists; others are left out.
        """
        index = self._get_variable_index(variable)
        handles = {name: slot[index].value.handle for name, slot in zip(slot_names, self.slots())}
        return {"var": variable.handle, "grad": tf.cast(gradient, variable.dtype), **handles}

    def record_gradient_norms(self) -> None:
        """Makes every update store the norms of its gradients, before clipping.

        They go to `gradient_norms`, a `tf.Variable` float32 with an entry for each trainable
        variable. An update that ends a cycle of `gradient_accumulation_steps` stores those of the
        means. The variable does not belong to the optimiser's, is not saved, and is made when the
        optimiser is built. Call this method before a step is traced, and not under a strategy with
        replicas.
        """
        self._records_norms = True
        if self.built and self.gradient_norms is None:
            self._make_norms()

    @tf.__internal__.tracking.no_automatic_dependency_tracking  # `tf.train.Checkpoint` would save
    def _make_norms(self):
        with tf.init_scope():  # Keras may build a model while it traces the first step.
            self.gradient_norms = tf.Variable(tf.zeros(len(self._trainable_variables)))

    def build(self, variables):
        if self.built:
            return
        warn_of_faults()
        with knowing_shards():
            super().build(variables)
        if self.use_ema:
            # The number of steps that each row's average counts; 0 before the first.
            self._averaged_steps = self._row_counters(self._averages, "steps")
        if self.gradient_accumulation_steps:
            # The last cycle, from 1, that touched each row. Its sum there belongs to this cycle.
            self._touched_cycles = self._row_counters(self._accumulated_gradients, "cycles")
        if self._records_norms:
            self._make_norms()

    def _row_counters(self, slot, name):
        return [
            None if s is None else self.row_slot(s, f"{s.name}_{name}", "int64") for s in slot
        ]

    def row_slot(
        self, variable: keras.Variable, name: str, dtype: str,
        initializer: str | keras.Initializer = "zeros",
    ) -> keras.Variable:
        """Adds a slot with one number for each row of a variable or of another slot.

        Args:
            variable: the variable (V, ...).
            name: of the slot.
            dtype: of the slot.
            initializer: its first values.
        """
        slot = self.add_variable(variable.shape[:1], initializer, dtype, name=name)
        return mark_as(variable, slot)

    def apply(self, grads, trainable_variables=None):
        if self.loss_scale_factor is not None:
            grads = map_sparse(lambda g: _Divisible(g.values, g.indices, g.dense_shape), grads)
        with knowing_shards():
            super().apply(grads, trainable_variables)

    def _backend_apply_gradients(self, grads, trainable_variables):
        grads = self._summed(grads, trainable_variables)
        if self.gradient_accumulation_steps:
            for gradient, variable in zip(grads, trainable_variables, strict=True):
                self._accumulate(gradient, variable)
            sparse = [isinstance(g, tf.IndexedSlices) for g in grads]
            _in_every_replica_if(
                lambda: (self._iterations + 1) % self.gradient_accumulation_steps == 0,
                lambda: self._clip_and_update(
                    [self._mean_of_cycle(*pair) for pair in zip(trainable_variables, sparse)],
                    trainable_variables,
                ),
            )
        else:
            self._clip_and_update(grads, trainable_variables)
        if self.use_ema and self.ema_overwrite_frequency:
            _in_every_replica_if(
                lambda: (self.iterations + 1) % self.ema_overwrite_frequency == 0,
                lambda: self._catch_up(self._iterations + 1, overwrite=True),  # this step counts
            )

    def save_own_variables(self, store):
        for index, variable in enumerate(self.variables):
            store[str(index)] = array_of(variable)

    def add_variable_from_reference(self, reference_variable, *args, **kwargs):
        slot = super().add_variable_from_reference(reference_variable, *args, **kwargs)
        return mark_as(reference_variable, slot)

    def _summed(self, grads, variables):
        """Sums each row over its duplicates and, unless it is in one only, over the replicas."""
        # With each row once, the norm of the values is the norm of the dense gradient.
        grads = map_sparse(sum_duplicates, grads)
        if tf.distribute.get_strategy().num_replicas_in_sync == 1:
            return grads
        # Collectives lack bfloat16.
        grads = [tf.cast(g, tf.float32) if g.dtype == tf.bfloat16 else g for g in grads]
        pairs = list(zip(grads, variables, strict=True))
        mirrored = [pair for pair in pairs if not sharded_words(pair[1])]
        sums = iter(super()._all_reduce_sum_gradients(mirrored) if mirrored else [])
        grads = [g if sharded_words(v) else next(sums)[0] for g, v in pairs]
        # The rows of the replicas are concatenated, so that a row may appear once per replica.
        return map_sparse(sum_duplicates, grads)

    def _all_reduce_sum_gradients(self, grads_and_vars):
        return grads_and_vars  # `_summed` has done it, before the clipping

    def _store_norms(self, grads, trainable_variables):
        norms = [tf.constant(0.0)] * len(self._trainable_variables)
        values = map_sparse(lambda g: g.values, grads)
        for gradient, variable in zip(values, trainable_variables, strict=True):
            norms[self._get_variable_index(variable)] = tf.sqrt(squared_norm(gradient))
        self.gradient_norms.assign(tf.stack(norms))

    def _clip_gradients(self, grads, variables=()):
        values = map_sparse(lambda g: g.values, grads)
        most = self.clipnorm or self.global_clipnorm
        if most and most > 0:
            values = clipped(values, variables, most, bool(self.clipnorm))
        else:
            values = super()._clip_gradients(values)
        return [
            tf.IndexedSlices(v, g.indices, g.dense_shape) if isinstance(g, tf.IndexedSlices) else v
            for g, v in zip(grads, values, strict=True)
        ]

    def _clip_and_update(self, grads, variables):
        if self.gradient_norms is not None:
            self._store_norms(grads, variables)
        grads = self._clip_gradients(grads, variables)
        self._backend_update_step(grads, variables, self.learning_rate)

    def update_step(self, gradient, variable, learning_rate):
        rows, _ = rows_and_values(gradient)
        decays = self.weight_decay and self._use_weight_decay(variable)
        before = read_rows(variable, rows) if decays or self.use_ema else None
        if decays:
            decay = tf.cast(self.weight_decay, variable.dtype)
            decay = before * decay * keras.ops.cast(learning_rate, variable.dtype)
            write_rows(variable, rows, before - decay)
        if rows is None:
            self.update_all(gradient, variable, learning_rate)
        else:
            self.update_rows(gradient, variable, learning_rate)
        if self.use_ema:
            self._average_rows(variable, rows, before)


def _in_every_replica_if(condition, update):
    """Calls `update` in every replica if `condition()`, the same in all, is true."""
    if not merges_replicas():
        tf.cond(condition(), update, lambda: None)
        return

    def decide(strategy):
        def in_every_replica():
            strategy.extended.call_for_each_replica(update)

        tf.cond(condition(), in_every_replica, lambda: None)

    # A branch within a replica could not sum over the replicas or update all of them.
    tf.distribute.get_replica_context().merge_call(decide)


def _chunk_rows(variable):
    """How many rows of a variable are updated at a time."""
    on_cpu = "CPU" in variable.device
    most = budgets.UPDATE_BYTES if on_cpu else budgets.UPDATE_BYTES_ELSEWHERE
    return max(1, most // (variable.dtype.size * max(1, math.prod(variable.shape[1:]))))
