"""Clipping by norms to which all replicas add, because each has a part of a variable only."""

import keras
import tensorflow as tf

from tfsoftmax.ops.shards import sharded_words


def clipped_across_shards(
    gradients: list[tf.Tensor], variables: list[keras.Variable], most: float, each: bool
) -> list[tf.Tensor]:
    """Gradients clipped as Keras does, by norms over all shards of a variable.

    All replicas call it together.

    Args:
        gradients: tensors, the gradients of this replica's part of each variable.
        variables: the variables, of which some are sharded.
        most: the norm above which gradients are scaled down to it.
        each: whether it bounds the norm of each gradient, or else that of all together.

    Returns:
        List of tensors of the same shapes and dtypes.
    """
    squares = [tf.reduce_sum(tf.square(gradient)) for gradient in gradients]
    sharded = [i for i, variable in enumerate(variables) if sharded_words(variable)]
    sums = tf.distribute.get_replica_context().all_reduce(
        "SUM", tf.stack([tf.cast(squares[i], tf.float32) for i in sharded])
    )
    for place, i in enumerate(sharded):
        squares[i] = tf.cast(sums[place], squares[i].dtype)
    if not each:
        total = tf.add_n([tf.cast(square, tf.float32) for square in squares])
        squares = [tf.cast(total, square.dtype) for square in squares]
    return [g * (most / tf.maximum(tf.sqrt(s), most)) for g, s in zip(gradients, squares)]
