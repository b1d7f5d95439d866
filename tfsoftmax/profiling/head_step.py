"""A training step of an output layer alone, as a function to time, and the memory that it takes."""

from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from tfsoftmax.support.arguments import ArrayLike


def head_step(
    loss: Callable, variables: Sequence[keras.Variable], hidden: ArrayLike, labels: ArrayLike,
    optimizer: Callable[[], keras.optimizers.Optimizer] | None = None, jit_compile: bool = False,
) -> Callable[[], float]:
    """A function of a step: the loss, all gradients and, with an optimiser, the update.

    The gradient of the hidden states, which the layers below need, is among them.

    Args:
        loss: function (hidden, labels) -> scalar tensor.
        variables: the trained variables of the layer.
        hidden: (..., D) float.
        labels: (...) integers.
        optimizer: function that makes the optimiser, which is built in the first step; None: the
            variables stay.
        jit_compile: whether XLA compiles the step.

    Returns:
        A function () -> the loss, in nats, which returns when the device has finished. Its first
        call traces the step.

    Example:
        from tfsoftmax.profiling.head_step import head_step
        head, loss = tfsoftmax.FullSoftmax(1000), tfsoftmax.SoftmaxLoss()
        hidden, labels = keras.random.normal((8, 64)), keras.random.randint((8,), 0, 1000)
        head.build(hidden.shape)
        step = head_step(lambda h, y: loss(y, head(h, training=True)), head.trainable_variables,
                         hidden, labels, lambda: tfsoftmax.optimizers.Adagrad(0.1))
        assert step() > step()
    """
    hidden, labels, made, compiled = tf.constant(hidden), tf.constant(labels), [], []

    @tf.function(jit_compile=jit_compile)
    def step():
        with tf.GradientTape() as tape:
            tape.watch(hidden)
            total = loss(hidden, labels)
        of_hidden, *gradients = tape.gradient(total, [hidden, *[v.value for v in variables]])
        if not made:
            return total, of_hidden, gradients
        made[0].apply(gradients, variables)
        return total, of_hidden

    def run():
        if optimizer and not made:  # the slots of an unused optimiser would count
            made.append(optimizer())
            made[0].build(variables)
        if not compiled:  # TensorFlow takes steps of several heads for one that is traced again
            compiled.append(step.get_concrete_function())
        total, of_hidden, *_ = compiled[0]()
        return float(total) + 0 * float(tf.reshape(of_hidden, [-1])[0])

    return run


class PeakMemory:
    """Bytes on a device, as TensorFlow's allocator counts them.

    Args:
        device: its name, such as "CPU:0" or "GPU:0"; None: the first GPU, or else the CPU.

    Example:
        from tfsoftmax.profiling.head_step import PeakMemory
        memory = PeakMemory()
        before = memory.begin()
        keras.random.normal((1000, 1000))
        assert before is None or memory.end() - before >= 4_000_000
    """

    def __init__(self, device: str | None = None):
        self.device = device or ("GPU:0" if tf.config.list_logical_devices("GPU") else "CPU:0")

    def begin(self) -> int | None:
        """The bytes in use now; None where the allocator does not count, as without oneDNN."""
        try:
            tf.config.experimental.reset_memory_stats(self.device)
            return tf.config.experimental.get_memory_info(self.device)["current"]
        except ValueError:
            return None

    def end(self) -> int:
        """The most bytes in use since `begin`."""
        return tf.config.experimental.get_memory_info(self.device)["peak"]
