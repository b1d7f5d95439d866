"""Sparse optimisers under `MirroredStrategy`: rows and values differ between the replicas."""

import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import optimizer_helper as base


def of_replica(gradient, replica):
    """Other values and other rows for the second replica."""
    factor = 1.0 + tf.cast(replica, "float32")
    if not isinstance(gradient, tf.IndexedSlices):
        return factor * gradient
    rows = (gradient.indices + 5 * replica) % base.V
    return tf.IndexedSlices(factor * gradient.values, rows, gradient.dense_shape)


def trained_by_two(strategy, optimizer, every_row, convert):
    weights = base.variables()
    optimizer.build(weights)

    def replica_step(step):
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        grads = [of_replica(g, replica) for g in base.gradients(step, every_row)]
        optimizer.apply(convert(grads), weights)

    for step in range(3):
        tf.function(strategy.run)(replica_step, args=(step,))
    for variable in [*weights, *optimizer.variables]:
        one, other = strategy.experimental_local_results(variable.value)
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    return base.states(optimizer, weights)


def check_two_replicas():
    """Run in a process of its own, as logical devices are set before TensorFlow starts."""
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        for rule in ("adagrad", "momentum", "adam"):
            every_row = rule in base.LAZY
            keras_optimizer = base.make(rule, keras.optimizers, clipnorm=0.9)
            wanted = trained_by_two(strategy, keras_optimizer, every_row, base.densified)
            got = trained_by_two(strategy, base.make(rule, clipnorm=0.9), every_row, list)
            base.assert_states_equal(got, wanted, 2e-6)
        together = base.bag_of_words()
        together.compile(base.make("adagrad"), loss="mse")
    alone = base.bag_of_words()
    alone.compile(base.make("adagrad"), loss="mse")
    for model in (together, alone):
        base.fit(model)
    base.assert_states_equal(together.get_weights(), alone.get_weights(), 2e-6)


def test_two_replicas_equal_keras_on_dense_gradients_and_one_device_in_fit():
    command = [sys.executable, "-c", "import test_optimizers_replicas as t; t.check_two_replicas()"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent)
    assert done.returncode == 0, done.stderr[-3000:]
