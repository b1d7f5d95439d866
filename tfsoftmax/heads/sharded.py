"""Full softmax over a vocabulary whose rows lie on several devices."""

from typing import Unpack

import keras

from tfsoftmax.heads.full import FullSoftmax
from tfsoftmax.heads.options import TiedItemOptions


@keras.saving.register_keras_serializable(package="tfsoftmax")
class ShardedSoftmax(FullSoftmax):
    """`FullSoftmax(shard=True)`: replicas divide the kernel, the bias and their slots.

    The replicas exchange hidden states instead of gradients of the kernel, as
    `sharding.rows` says. `heads.shards.Shards` says what works with several replicas.

    Args:
        vocab_size: V, the number of words.
        label_smoothing, z_loss, soft_cap, gradient_share, seed: as in `FullSoftmax`.
        shard: whether replicas divide the rows.
        **kwargs: options of the weights and of the layer, `heads.options.ItemOptions`.

    Example:
        import tensorflow as tf
        with tf.distribute.get_strategy().scope():  # or tf.distribute.MirroredStrategy()
            model = keras.Sequential([keras.Input((16,)), tfsoftmax.ShardedSoftmax(1000)])
            model.compile(tfsoftmax.optimizers.Adagrad(0.2), tfsoftmax.SoftmaxLoss())

    Source: Shoeybi et al. 2019, section 3; departures are in `sharding.rows`.
    """

    def __init__(
        self, vocab_size: int, label_smoothing: float = 0.0, z_loss: float = 0.0,
        soft_cap: float | None = None, gradient_share: float | None = None,
        seed: int | None = None, *, shard: bool = True, **kwargs: Unpack[TiedItemOptions],
    ):
        super().__init__(
            vocab_size, label_smoothing, z_loss, soft_cap, gradient_share, seed, shard=shard,
            **kwargs,
        )
