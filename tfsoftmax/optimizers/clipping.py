"""Clipping by norms, which are summed over replicas if each holds only a part of a variable."""

import keras
import tensorflow as tf

from tfsoftmax.sharding.shards import sharded_words


def squared_norm(gradient: tf.Tensor) -> tf.Tensor:
    """Σ g² of a tensor, a float32 scalar, without a tensor of the squares."""
    return 2 * tf.nn.l2_loss(tf.cast(gradient, tf.float32))


def clipped(
    gradients: list[tf.Tensor], variables: list[keras.Variable], most: float, each: bool
) -> list[tf.Tensor]:
    """Gradients clipped as Keras does, by norms over all shards of a variable.

    The gradients are scaled in place if nothing else reads them. If variables are sharded, all
    replicas call this function together.

    Args:
        gradients: tensors, the gradients of each variable, or of this replica's part of it.
        variables: the variables, of which some may be sharded.
        most: the norm above which gradients are scaled down to it.
        each: whether to bound the norm of each gradient instead of that of all together.

    Returns:
        List of tensors of the same shapes and dtypes; NaN if the norm of all is not finite.
    """
    squares = [squared_norm(gradient) for gradient in gradients]
    sharded = [i for i, variable in enumerate(variables) if sharded_words(variable)]
    if sharded:
        sums = tf.distribute.get_replica_context().all_reduce(
            "SUM", tf.stack([squares[i] for i in sharded])
        )
        for place, i in enumerate(sharded):
            squares[i] = sums[place]
    norms = [tf.sqrt(s) for s in (squares if each else [tf.add_n(squares)] * len(squares))]
    scales = [most / tf.maximum(norm, most) for norm in norms]
    if not each:  # The difference is 0, or NaN where the norm is infinite.
        scales = [scale + (norm - norm) for scale, norm in zip(scales, norms)]
    return [g * tf.cast(scale, g.dtype) for g, scale in zip(gradients, scales)]
