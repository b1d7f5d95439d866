"""Dropout for models that are trained on several replicas."""

import keras

from tfsoftmax.ops.replicas import seed_of_replica


@keras.saving.register_keras_serializable(package="tfsoftmax")
class Dropout(keras.layers.Dropout):
    """Keras's `Dropout`, with a separate mask for each replica of a `tf.distribute` strategy.

    Keras draws the same mask on every replica, so that P replicas drop the same units of P parts
    of the batch. The first replica, and a model without replicas, has the masks of Keras's layer.

    The arguments are those of `keras.layers.Dropout`.

    Example:
        from tfsoftmax.layers.dropout import Dropout
        model = keras.Sequential([keras.Input((16,)), Dropout(0.5), tfsoftmax.FullSoftmax(1000)])
        model.compile("sgd", tfsoftmax.SoftmaxLoss())
        model.fit(keras.random.normal((8, 16)), keras.random.randint((8,), 0, 1000))
    """

    def call(self, inputs, training=False):
        if not training or self.rate == 0:
            return inputs
        seeds = _SeedsOfReplica(self.seed_generator)
        return keras.random.dropout(inputs, self.rate, self.noise_shape, seeds)


class _SeedsOfReplica(keras.random.SeedGenerator):
    """The seeds of a generator, other ones on each replica."""

    def __init__(self, generator):
        self.generator = generator

    def next(self, ordered=True):
        return seed_of_replica(self.generator.next(ordered))
