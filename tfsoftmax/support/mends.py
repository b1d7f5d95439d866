"""Fixes faults of Keras with replicas, loss scales and large files, if a program asks for it."""

import functools
import math
import warnings

import keras
import tensorflow as tf

from tfsoftmax.support._compat import has_several_workers, saving_lib, strategy_of, trainer

# Models of fewer bytes are saved as Keras does it.
LARGE_BYTES = 1 << 26


def mend_keras() -> None:
    """Fixes six faults of Keras, for all models of this process; a second call does nothing.

    Call it once, where a program makes its strategy, or before it trains under the policy
    "mixed_float16" or saves a large model. No other part of tfsoftmax changes Keras. Keras 3.13 to
    3.15 have these faults:

    - With several replicas, `fit` builds a model from the mean of the replicas' first batches,
      which does not exist for batches of several workers or of different sizes.
    - With several workers, it reduces the results of their steps, which are scalars, along axis 0
      (Keras issue 20585).
    - With `steps_per_execution`, it runs steps in a loop of the graph, in which the replicas of a
      `MirroredStrategy` cannot synchronise to update or to add.
    - `LossScaleOptimizer` asks the first replica of each worker whether the gradients are finite,
      and they are not summed yet. So an overflow in another replica is applied, or workers wait for
      each other.
    - If a batch gathers a row several times, `LossScaleOptimizer` asks only whether the last of the
      row's gradients is finite, on one device too. An overflow in another one is applied, and the
      row is lost. It also makes a tensor of the variable's size.
    - A `.keras` file is built in memory, and copied once more, if the weights fit into half of the
      free memory. They and an optimiser's slots are then in memory three times. With a temporary
      file in the target's folder instead, memory holds a copy of one variable at a time.

    Example:
        import tensorflow as tf
        tfsoftmax.mend_keras()
        strategy = tf.distribute.get_strategy()  # or tf.distribute.MirroredStrategy()
        with strategy.scope():
            head = tfsoftmax.FullSoftmax(1000)
    """
    for owner, name, mended in _MENDS:
        method = getattr(owner, name)
        if not is_mended(method):
            setattr(owner, name, functools.wraps(method)(mended(method)))


def is_mended(method) -> bool:
    """Whether a method of Keras is one that `mend_keras` has replaced."""
    return hasattr(method, "__wrapped__")


def warn_of_faults() -> None:
    """Warns where Keras's faults lose weights: with several replicas, or under mixed_float16."""
    several = tf.distribute.get_strategy().num_replicas_in_sync > 1
    scales = keras.config.dtype_policy().compute_dtype == "float16"
    if (several or scales) and not is_mended(trainer.reduce_per_replica):
        warnings.warn(
            "Keras's `fit` has faults under a strategy with several replicas, and its "
            "`LossScaleOptimizer` overlooks overflows. Call `tfsoftmax.mend_keras()` once, before "
            "you make the strategy or the model, to mend them in this process.", stacklevel=3,
        )


def _built_from_first_replica(maybe_symbolic_build):
    def mended(self, iterator=None, data_batch=None):
        strategy = strategy_of(self)
        if strategy is not None and iterator is not None and strategy.num_replicas_in_sync > 1:
            for _, _, batches in iterator:
                data_batch = next(batches)
                break
            iterator, data_batch = None, keras.tree.map_structure(
                lambda value: strategy.experimental_local_results(value)[0], data_batch
            )
        return maybe_symbolic_build(self, iterator, data_batch)

    return mended


def _reduced_scalars(reduce_per_replica):
    def mended(values, strategy, reduction):
        several = has_several_workers(strategy)
        if not several or reduction not in ("auto", "mean"):
            return reduce_per_replica(values, strategy, reduction)
        return keras.tree.map_structure(
            lambda value: strategy.reduce("MEAN", value, axis=None), values
        )

    return mended


def _looping_outside(make_function):
    def mended(self, step_function):
        function = make_function(self, step_function)
        if self.steps_per_execution == 1 or self.distribute_strategy.num_replicas_in_sync == 1:
            return function

        def steps(iterator):
            if not isinstance(iterator, tf.distribute.DistributedIterator):
                return function(iterator)
            batch = iterator.get_next_as_optional()
            if not batch.has_value():
                raise StopIteration

            def batches(batch):
                while batch.has_value():
                    yield batch.get_value()
                    batch = iterator.get_next_as_optional()

            return function(batches(batch))  # which takes `steps_per_execution` of them

        return steps

    return mended


def _finite_in_all_replicas(check_finite):
    def mended(self, grads):
        grads = [g.values if isinstance(g, tf.IndexedSlices) else g for g in grads]
        finite, replica = check_finite(self, grads), tf.distribute.get_replica_context()
        if replica is None or replica.num_replicas_in_sync == 1:
            return finite
        return replica.all_reduce("SUM", tf.cast(~finite, tf.float32)) == 0

    return mended


def _by_way_of_the_disk(save):
    def mended(model, *args):
        optimizer = getattr(model, "optimizer", None)
        variables = [*model.variables, *(optimizer.variables if optimizer else [])]
        size = sum(math.prod(v.shape) * tf.as_dtype(v.dtype).size for v in variables)
        bound = saving_lib._MEMORY_UPPER_BOUND  # the share of the free memory that may be used
        try:
            saving_lib._MEMORY_UPPER_BOUND = bound if size <= LARGE_BYTES else 0
            return save(model, *args)
        finally:
            saving_lib._MEMORY_UPPER_BOUND = bound

    return mended


_MENDS = (
    (trainer.TensorFlowTrainer, "_maybe_symbolic_build", _built_from_first_replica),
    (trainer, "reduce_per_replica", _reduced_scalars),
    (trainer.TensorFlowTrainer, "_make_function", _looping_outside),
    (keras.optimizers.LossScaleOptimizer, "check_finite", _finite_in_all_replicas),
    (saving_lib, "_save_model_to_fileobj", _by_way_of_the_disk),
)
