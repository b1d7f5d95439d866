"""Full softmax over a vocabulary whose rows lie on several devices."""

import keras

from tfsoftmax.heads.full import FullSoftmax


@keras.saving.register_keras_serializable(package="tfsoftmax")
class ShardedSoftmax(FullSoftmax):
    """`FullSoftmax(shard=True)`: replicas divide the kernel, the bias and their slots.

    The replicas exchange hidden states instead of gradients of the kernel, as
    `sharding.rows` says. `heads.shards.Shards` says what several replicas offer.

    Args:
        vocab_size: V, the number of words.
        shard: whether replicas divide the rows.
        **kwargs: arguments of `FullSoftmax`.

    Example:
        import tensorflow as tf
        with tf.distribute.get_strategy().scope():  # or tf.distribute.MirroredStrategy()
            model = keras.Sequential([keras.Input((16,)), tfsoftmax.ShardedSoftmax(1000)])
            model.compile(tfsoftmax.optimizers.Adagrad(0.2), tfsoftmax.SoftmaxLoss())

    Source: Shoeybi et al. 2019, section 3; departures are in `sharding.rows`.
    """

    def __init__(self, vocab_size: int, *args, shard: bool = True, **kwargs):
        super().__init__(vocab_size, *args, shard=shard, **kwargs)
