"""What the replicas of a strategy of `tf.distribute` tell each other.

Where there is one replica, or none is running, each function costs nothing.
"""

from collections.abc import Callable, Sequence

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.ops.subsets import kept_where
from tfsoftmax.support.arguments import ArrayLike, expect


def add_state(
    layer: keras.layers.Layer, name: str, shape: Sequence[int], dtype: str = "float32",
    initializer: str | Callable = "zeros",
) -> keras.Variable:
    """Adds a weight that training changes, but no gradient, in all replicas in the same way.

    Args:
        layer: the layer that owns the weight.
        name, shape, dtype: of the weight.
        initializer: as in `keras.layers.Layer.add_weight`.
    """
    return layer.add_weight(
        name=name, shape=shape, dtype=dtype, initializer=initializer, trainable=False,
        autocast=False, aggregation="only_first_replica",
    )


def _others():
    """The replica that is running if there are more of them, else None."""
    replica = tf.distribute.get_replica_context()
    return replica if replica is not None and replica.num_replicas_in_sync > 1 else None


def replica_id() -> int | tf.Tensor:
    """The number of the replica that is running: 0 for the first, and where there is one."""
    replica = _others()
    return 0 if replica is None else replica.replica_id_in_sync_group


def in_replica() -> bool:
    """Whether one of several replicas is running."""
    return _others() is not None


def merges_replicas() -> bool:
    """Whether replicas have to meet in `merge_call` to update, as under `MirroredStrategy`."""
    within = not tf.distribute.in_cross_replica_context()
    return within and not tf.__internal__.distribute.strategy_supports_no_merge_call()


def gathered_rows(table: tf.Tensor | tf.Variable, ids: tf.Tensor) -> tf.Tensor:
    """`tf.gather`, which reads the rows of some ids only, also in a replica."""
    return tf.gather(own_copy(table), ids)


def own_copy(variable: tf.Tensor | tf.Variable) -> tf.Tensor | tf.Variable:
    """In a replica, the replica's copy of a variable; elsewhere the variable itself.

    With its copy a replica reads and updates rows. TensorFlow's own gathers and scatters read, and
    after a sparse update copy, all of a variable that has a copy in each replica.
    """
    if in_replica() and isinstance(variable, tf.distribute.DistributedValues):
        copies = tf.distribute.get_strategy().experimental_local_results(variable)
        return copies[tf.get_static_value(replica_id()) % len(copies)]
    return variable


def local_replicas(strategy: tf.distribute.Strategy) -> list[int]:
    """The numbers of the replicas that this process runs."""
    numbers = strategy.experimental_distribute_values_from_function(
        lambda context: context.replica_id_in_sync_group
    )
    return list(strategy.experimental_local_results(numbers))


def of_first_worker(value: ArrayLike) -> np.ndarray:
    """A value as the first worker of the strategy in scope has it; all workers call this together.

    Args:
        value: number or array, whose shape is the same in all workers.

    Raises:
        ValueError: within a replica, where workers cannot wait for each other.
    """
    strategy = tf.distribute.get_strategy()
    size = strategy.num_replicas_in_sync
    if size == 1 or size == len(strategy.extended.worker_devices):  # those of this process
        return np.asarray(value)
    expect(
        not in_replica(), "What the workers have to agree on", "be made in the scope of the "
        "strategy, before `fit`: make a functional model or one with keras.Input, or call the "
        "layer's `build` there", received="a build within a replica",
    )
    with tf.init_scope():  # The initial values of the first worker become those of all.
        return tf.Variable(tf.constant(value), trainable=False).numpy()


def run_in_replicas(strategy: tf.distribute.Strategy, function, *tensors):
    """`function(*tensors)` in a replica; outside, of all replicas the first has the tensors.

    Args:
        strategy: the strategy whose replicas run.
        function: maps tensors (n, ...) to a structure of tensors (n, ...).
        *tensors: (n, ...), each.

    Returns:
        The structure.
    """
    if strategy.num_replicas_in_sync == 1 or in_replica():
        return function(*tensors)
    values = strategy.experimental_distribute_values_from_function
    first = local_replicas(strategy)[0]

    def given(tensor):
        # One position more, as a collective of no positions at all ends the process.
        padded = tf.pad(tensor, [[0, 1]] + [[0, 0]] * (len(tensor.shape) - 1))
        return values(lambda c: padded if c.replica_id_in_sync_group == first else tensor[:0])

    results = strategy.run(function, [given(tensor) for tensor in tensors])
    local = strategy.experimental_local_results
    return tf.nest.map_structure(lambda result: local(result)[0][:-1], results)


def sum_of_replicas(value: tf.Tensor) -> tf.Tensor:
    """The sum of a tensor, of the same shape everywhere, over all replicas, on each of them."""
    replica = _others()
    return value if replica is None else replica.all_reduce(tf.distribute.ReduceOp.SUM, value)


def of_all_replicas(tensors, axis: int = 0):
    """A structure of tensors, those of all replicas in their order along an axis, on each."""
    replica = _others()
    if replica is None:
        return tensors
    flat = tf.nest.flatten(tensors)
    # Collectives lack bfloat16, whose bits travel as those of another type of 16 bits. What is
    # the same object in all replicas, tf.distribute would take for one value and not gather.
    bits = [tf.bitcast(t, tf.float16) if t.dtype == tf.bfloat16 else tf.identity(t) for t in flat]
    gathered = replica.all_gather(bits, axis)
    gathered = [tf.bitcast(g, t.dtype) for g, t in zip(gathered, flat)]
    for one, every in zip(flat, gathered):
        every.set_shape([*one.shape[:axis], None, *one.shape[axis + 1 :]])
    return tf.nest.pack_sequence_as(tensors, gathered)


def labels_of_all_replicas(labels: tf.Tensor) -> tf.Tensor:
    """The labels (N,) of all replicas, without those below zero.

    A replica without labels passes one of these, as a collective of nothing ends the process.
    XLA, which fixes the number of labels, gets all, and has none below zero.
    """
    if not in_replica():
        return labels
    labels = of_all_replicas(labels)
    return kept_where(labels >= 0, labels)[0]


def seed_of_replica(seed: tf.Tensor) -> tf.Tensor:
    """A stateless seed (2,) for each replica, from one of all; the first keeps it as it is."""
    if _others() is None:
        return seed
    replica = tf.cast(replica_id(), tf.int32)
    own = tf.cast(tf.random.experimental.stateless_fold_in(seed, replica), seed.dtype)
    return tf.where(replica == 0, seed, own)
