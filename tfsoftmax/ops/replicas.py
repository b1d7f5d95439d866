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


def sum_of_replicas(value: tf.Tensor) -> tf.Tensor:
    """The sum of a tensor, of the same shape everywhere, over all replicas, on each of them."""
    replica = _others()
    return value if replica is None else replica.all_reduce(tf.distribute.ReduceOp.SUM, value)


def of_all_replicas(value: tf.Tensor) -> tf.Tensor:
    """The rows of all replicas, in their order, on each of them: (Σ n, ...) for (n, ...)."""
    replica = _others()
    return value if replica is None else replica.all_gather(value, axis=0)


def seed_of_replica(seed: tf.Tensor) -> tf.Tensor:
    """A stateless seed (2,) for each replica, from one of all; the first keeps it as it is."""
    if _others() is None:
        return seed
    replica = tf.cast(replica_id(), tf.int32)
    own = tf.cast(tf.random.experimental.stateless_fold_in(seed, replica), seed.dtype)
    return tf.where(replica == 0, seed, own)
