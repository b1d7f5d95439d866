"""Mends Keras where a strategy of `tf.distribute` has several replicas."""

import functools

import keras
import tensorflow as tf

from tfsoftmax.support._compat import has_several_workers, strategy_of, trainer


def merges_replicas() -> bool:
    """Whether replicas have to meet in `merge_call` to update, as under `MirroredStrategy`."""
    in_replica = not tf.distribute.in_cross_replica_context()
    return in_replica and not tf.__internal__.distribute.strategy_supports_no_merge_call()


def mend_fit_of_replicas() -> None:
    """Mends `fit`, `evaluate` and `predict` of Keras where the present strategy has replicas.

    Keras 3.15 builds a model from the mean of the replicas' first batches, which batches of
    several workers, or of different sizes, do not have. It reduces the results of several
    workers' steps, which are scalars, along axis 0 (Keras issue 20585). With `steps_per_execution`
    it runs steps in a loop of the graph, in which the replicas of a `MirroredStrategy` cannot meet
    to update or to add. Called in the scope of a strategy with one replica, or again, this function
    does nothing.
    """
    fit = trainer.TensorFlowTrainer
    if tf.distribute.get_strategy().num_replicas_in_sync == 1:
        return
    if not hasattr(fit._maybe_symbolic_build, "__wrapped__"):
        fit._maybe_symbolic_build = _built_from_first_replica(fit._maybe_symbolic_build)
    if not hasattr(trainer.reduce_per_replica, "__wrapped__"):
        trainer.reduce_per_replica = _reduced_scalars(trainer.reduce_per_replica)
    if not hasattr(fit._make_function, "__wrapped__"):
        fit._make_function = _looping_outside(fit._make_function)
    mend_loss_scale_of_replicas()


def mend_loss_scale_of_replicas() -> None:
    """Mends `LossScaleOptimizer` of Keras where the present strategy has replicas.

    Keras 3.15 asks the first replica of each worker whether the gradients are finite, and they
    are not summed yet. An overflow in another replica is applied, or workers wait for each other.
    """
    scaling, strategy = keras.optimizers.LossScaleOptimizer, tf.distribute.get_strategy()
    if strategy.num_replicas_in_sync > 1 and not hasattr(scaling.check_finite, "__wrapped__"):
        scaling.check_finite = _finite_in_all_replicas(scaling.check_finite)


def _built_from_first_replica(maybe_symbolic_build):
    @functools.wraps(maybe_symbolic_build)
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
    @functools.wraps(reduce_per_replica)
    def mended(values, strategy, reduction):
        several = has_several_workers(strategy)
        if not several or reduction not in ("auto", "mean"):
            return reduce_per_replica(values, strategy, reduction)
        return keras.tree.map_structure(
            lambda value: strategy.reduce("MEAN", value, axis=None), values
        )

    return mended


def _looping_outside(make_function):
    @functools.wraps(make_function)
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
    @functools.wraps(check_finite)
    def mended(self, grads):
        finite, replica = check_finite(self, grads), tf.distribute.get_replica_context()
        if replica is None or replica.num_replicas_in_sync == 1:
            return finite
        return replica.all_reduce("SUM", tf.cast(~finite, tf.float32)) == 0

    return mended
