"""What the replicas of a strategy of `tf.distribute` tell each other.

Where there is one replica, or none is running, each function costs nothing.
"""

import tensorflow as tf


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


def local_replicas(strategy: tf.distribute.Strategy) -> list[int]:
    """The numbers of the replicas that this process runs."""
    numbers = strategy.experimental_distribute_values_from_function(
        lambda context: context.replica_id_in_sync_group
    )
    return list(strategy.experimental_local_results(numbers))


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


def seed_of_replica(seed: tf.Tensor) -> tf.Tensor:
    """A stateless seed (2,) for each replica, from one of all; the first keeps it as it is."""
    if _others() is None:
        return seed
    replica = tf.cast(replica_id(), tf.int32)
    own = tf.cast(tf.random.experimental.stateless_fold_in(seed, replica), seed.dtype)
    return tf.where(replica == 0, seed, own)
