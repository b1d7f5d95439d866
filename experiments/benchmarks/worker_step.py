"""Workers of `experiments.benchmarks.workers`: time training steps of a head, count bytes.

    python -m experiments.benchmarks.worker_step '{"head": "full", "vocab_size": 1000, ...}'

The request says how many processes there are, or how many simulated devices one process has. The
first process prints a JSON line with the median seconds of a step, the bytes that the loopback
interface carried in a step, and the bytes of each device's variables.
"""

import json
import math
import os
import statistics
import sys
import time
from pathlib import Path

import tfsoftmax_command  # noqa: F401  (imported before the package, which then skips TensorFlow)

from tfsoftmax.commands import program
from tfsoftmax.sharding.local_workers import become_workers

LOOPBACK = Path("/sys/class/net/lo/statistics/rx_bytes")


def main(request):
    if request["processes"] > 1:
        become_workers(request["processes"])
    program.load_tensorflow()
    strategy = strategy_of(request["devices"])
    replicas = strategy.num_replicas_in_sync
    positions = request["positions"] // replicas
    with strategy.scope():
        head, optimizer = head_and_optimizer(request)
    data = strategy.experimental_distribute_values_from_function(
        lambda context: batch(request, positions, context.replica_id_in_sync_group)
    )
    step = training_step(head, optimizer, strategy, request["positions"])
    for _ in range(2):
        step(data)
    seconds, before = [], carried_bytes()
    for _ in range(request["steps"]):
        start = time.perf_counter()
        strategy.reduce("SUM", step(data), axis=None).numpy()
        seconds.append(time.perf_counter() - start)
    after = carried_bytes()
    variables = [*head.trainable_variables, *optimizer.variables]
    print(json.dumps({
        "seconds": statistics.median(seconds),
        "bytes": None if before is None else (after - before) / request["steps"],
        "held": sum(math.prod(v.shape) * v.value.dtype.size for v in variables),
    }), flush=True)


def strategy_of(devices):
    """The strategy of the processes that TF_CONFIG lists, or of simulated devices."""
    import tensorflow as tf

    from tfsoftmax.support.mends import mend_keras

    mend_keras()
    if "TF_CONFIG" in os.environ:
        return tf.distribute.MultiWorkerMirroredStrategy()
    if devices == 1:
        return tf.distribute.get_strategy()
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * devices
    )
    return tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(devices)])


def head_and_optimizer(request):
    """A built head and a built optimiser, whose rows of sparse gradients stay sparse."""
    import keras

    from tfsoftmax.lm.head_options import HEADS
    from tfsoftmax.optimizers import Adagrad

    keras.utils.set_random_seed(1)
    head = HEADS[request["head"]](request["vocab_size"], **request["options"])
    head.build((None, request["units"]))
    optimizer = Adagrad(0.1)
    optimizer.build(head.trainable_variables)
    return head, optimizer


def batch(request, positions, replica):
    """The hidden states (n, D) and labels (n,) of a replica."""
    import numpy as np
    import tensorflow as tf

    rng = np.random.default_rng(replica)
    hidden = rng.standard_normal((positions, request["units"]), np.float32)
    ranks = request["vocab_size"] ** rng.random(positions)  # labels by Zipf's law
    return tf.constant(hidden), tf.constant(ranks.astype(np.int32) - 1)


def training_step(head, optimizer, strategy, positions):
    """A function of distributed data that takes a step, and gives each replica's part of the loss.

    The gradient by the hidden states is computed, too, as a model below the head needs it.
    """
    import tensorflow as tf

    def of_replica(data):
        hidden, labels = data
        with tf.GradientTape() as tape:
            tape.watch(hidden)
            loss = tf.reduce_sum(head.training_loss(hidden, labels)) / positions
        variables = [v.value for v in head.trainable_variables]
        *gradients, of_hidden = tape.gradient(loss, [*variables, hidden])
        optimizer.apply(gradients, head.trainable_variables)
        return loss + 0.0 * tf.reduce_sum(of_hidden)

    return tf.function(lambda data: strategy.run(of_replica, args=(data,)), autograph=False)


def carried_bytes():
    """What the loopback interface has carried since the machine started; None where unknown."""
    try:
        return int(LOOPBACK.read_text(encoding="ascii"))
    except OSError:
        return None


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
