"""Sparse optimisers under `MirroredStrategy`: rows and values differ between the replicas.

No case compares with Keras, which clips the gradient of each replica before it sums them.
"""


import keras
import numpy as np
import pytest
import tensorflow as tf

import optimizer_helper as base
import replicas_helper
from replicas_helper import strategy_here

AVERAGED = {"use_ema": True, "ema_momentum": 0.7, "ema_overwrite_frequency": 2}
CASES = [
    ("adagrad", {"clipnorm": 0.9}),
    ("adagrad by row", {"clipnorm": 0.9}),
    ("momentum", {"clipvalue": 0.3}),
    ("adam", {"global_clipnorm": 0.9}),
    ("adamw", {"global_clipnorm": 0.9, "gradient_accumulation_steps": 2, **AVERAGED}),
]
IN_FIT = "adagrad", {"global_clipnorm": 0.05, "gradient_accumulation_steps": 2, **AVERAGED}


def steps():
    return [base.gradients(step, every_row=False) for step in range(4)]


def of_replica(gradient, replica):
    """Other values and other rows for the second replica."""
    factor = 1.0 + tf.cast(replica, "float32")
    if not isinstance(gradient, tf.IndexedSlices):
        return factor * gradient
    rows = (gradient.indices + 5 * replica) % base.V
    return tf.IndexedSlices(factor * gradient.values, rows, gradient.dense_shape)


def joint(gradients, others):
    """The gradient of the batches of both replicas."""
    return [
        tf.IndexedSlices(
            tf.concat([a.values, b.values], 0), tf.concat([a.indices, b.indices], 0), a.dense_shape
        ) if isinstance(a, tf.IndexedSlices) else a + b
        for a, b in zip(gradients, others)
    ]


def trained_alone(optimizer):
    grads_and_others = [(grads, [of_replica(g, 1) for g in grads]) for grads in steps()]
    return base.trained(optimizer, [joint(*pair) for pair in grads_and_others])


def trained_by_two(strategy, optimizer):
    weights = base.variables()
    optimizer.build(weights)

    def replica_step(grads):
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        optimizer.apply([of_replica(g, replica) for g in grads], weights)

    update = tf.function(lambda grads: strategy.run(replica_step, args=(grads,)))
    for grads in steps():
        update(grads)
    for variable in [*weights, *optimizer.variables]:
        one, other = strategy.experimental_local_results(variable.value)
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    return base.states(optimizer, weights)


def check_two_replicas():
    strategy = strategy_here()
    for rule, options in CASES:
        wanted = trained_alone(base.make(rule, **options))
        with strategy.scope():
            got = trained_by_two(strategy, base.make(rule, **options))
        base.assert_states_equal(got, wanted, 4e-6)
    for policy, tolerance in (("float32", 2e-6), ("bfloat16", 1e-2)):
        keras.config.set_dtype_policy(policy)
        with strategy.scope():
            together = base.bag_of_words()
            together.compile(base.make(IN_FIT[0], **IN_FIT[1]), loss="mse")
        alone = base.bag_of_words()
        alone.compile(base.make(IN_FIT[0], **IN_FIT[1]), loss="mse")
        for model in (together, alone):
            base.fit(model)
        weights = [[w.astype(np.float32) for w in m.get_weights()] for m in (together, alone)]
        base.assert_states_equal(*weights, tolerance)


def test_two_replicas_equal_one_with_the_joint_batch():
    replicas_helper.run(check_two_replicas, devices=2)


def scaled_steps():
    """Each replica's weights and loss scales: a step, two that overflow in one replica, a step."""
    strategy, results = strategy_here(), []
    with strategy.scope():
        weights = base.variables()
        optimizer = keras.optimizers.LossScaleOptimizer(
            base.make("adagrad", global_clipnorm=0.9), initial_scale=32.0
        )
        optimizer.build(weights)

    def step(grads, overflow):
        here = tf.distribute.get_replica_context().replica_id_in_sync_group == overflow
        factor = tf.where(here, np.inf, 1.0) * optimizer.dynamic_scale.value
        optimizer.apply([keras.ops.multiply(g, factor) for g in grads], weights)

    update = tf.function(lambda *args: strategy.run(step, args))
    local = strategy.experimental_local_results
    for overflow in (-1, 1, 0, -1):
        update(base.gradients(0, every_row=False), tf.constant(overflow))
        parts = zip(*(local(v.value) for v in [*weights, optimizer.dynamic_scale]))
        results.append([[part.numpy() for part in of_replica] for of_replica in parts])
    return results


def scaled_steps_of_keras_itself():
    scaling = keras.optimizers.LossScaleOptimizer
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scaling, "check_finite", scaling.check_finite.__wrapped__)
        return scaled_steps()


def test_keras_still_applies_a_step_that_is_not_finite_in_the_second_replica():
    """If it does not any more, what `mend_keras` does about it can go."""
    ((_, second, *_),) = replicas_helper.run(scaled_steps_of_keras_itself, devices=2, seconds=60)
    assert not all(np.isfinite(part).all() for part in second[0])


@pytest.mark.parametrize("workers, devices", [(1, 2), (2, 1)])
def test_a_step_that_is_not_finite_in_one_replica_is_skipped_by_all(workers, devices):
    by_worker = replicas_helper.run(scaled_steps, workers, devices, seconds=60)
    replicas = [steps for results in by_worker for steps in zip(*results)]
    for steps in replicas:
        *weights, scales = zip(*steps)
        assert scales == (32.0, 16.0, 8.0, 8.0)
        for (first, second, third, fourth), of_first in zip(weights, replicas[0][0]):
            np.testing.assert_array_equal(first, of_first)
            np.testing.assert_array_equal([second, third], [first, first])
            assert np.isfinite(fourth).all() and not np.array_equal(fourth, first)
