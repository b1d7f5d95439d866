"""Heads under `MirroredStrategy`: two replicas learn what one device learns."""

import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_helper as base
from cases import CASES
from tfsoftmax.optimizers import Adagrad

RANDOM = ("sampled", "sampled TAPAS", "sampled, no hits", "nce with trained Z", "negative")


def check_two_replicas(chosen):
    """Run in a process of its own, as logical devices are set before TensorFlow starts."""
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    words, labels, weights = base.data()
    heads = {case: CASES[case](2) for case in reversed(CASES)}
    cases = {type(head): case for case, head in heads.items() if head.trains_exactly}
    for case in chosen & {*cases.values()}:  # the first of each class
        results = []
        for scope in (strategy.scope, tf.distribute.get_strategy().scope):
            keras.utils.set_random_seed(1)
            with scope():
                model = base.compiled(case, optimizer=Adagrad(0.2))  # replicas clip apart
            options = {"batch_size": base.B, "sample_weight": weights, "verbose": 0}
            history = model.fit(words, labels, epochs=2, shuffle=False, **options).history
            exact = model.evaluate(words, labels, return_dict=True, **options)
            logits = model.predict(words, verbose=0)
            results.append([history["loss"], exact["loss"], exact["perplexity"], logits])
        for ours, wanted in zip(*results):
            np.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=1e-5)
    for case in chosen & {*RANDOM}:
        check_random_head(case, strategy)


def check_random_head(case, strategy):
    """Replicas draw apart, end with the same weights, and learn."""
    words, labels, _ = base.data()
    with strategy.scope():
        model = base.compiled(case, optimizer=Adagrad(0.2))
    before = model.evaluate(words, labels, verbose=0)[0]
    model.fit(words, labels, base.B, epochs=8, verbose=0)
    assert model.evaluate(words, labels, verbose=0)[0] < before, case
    head = model.layers[-1]
    for weight in head.weights:
        one, other = (value.numpy() for value in weight.value.values)
        np.testing.assert_array_equal(one, other, err_msg=f"{case} {weight.path}")
    seeds = strategy.run(head.random_state.next)
    assert seeds.values[0].numpy().tolist() != seeds.values[1].numpy().tolist()


@pytest.mark.parametrize("chosen", [
    {"full", "adaptive", "tree", "sampled"},
    pytest.param({*CASES}, marks=pytest.mark.slow),
])
def test_two_replicas_equal_one_device(chosen):
    command = [
        sys.executable, "-c", f"import test_heads_replicas as t; t.check_two_replicas({chosen})"
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent)
    assert done.returncode == 0, done.stderr[-3000:]
