"""What a softmax in several shards cannot do says so, instead of taking one shard for all."""

import os

import keras
import numpy as np
import pytest
import tensorflow as tf

import replicas_helper
from cases import assert_all_close
from replicas_helper import strategy_here
from test_sharded import D, V, local_rows, problem
from tfsoftmax import SampledSoftmax, ShardedSoftmax, SoftmaxLoss, optimizers
from tfsoftmax.ops.replicas import of_all_replicas
from tfsoftmax.sharding.weights import shards_of
from tfsoftmax.support import budgets


def compiled(strategy, **options):
    with strategy.scope():
        model = keras.Sequential([keras.Input((D,)), ShardedSoftmax(V)])
        model.compile(optimizers.Adagrad(0.2), SoftmaxLoss(), **options)
        model.optimizer.build(model.trainable_variables)
    return model


def whole_weights(folder):
    model, path = compiled(strategy_here()), os.path.join(folder, "file")
    slots = [v for v in model.optimizer.variables if "accumulator" in v.path]
    before = [local_rows(variable) for variable in [*model.weights, *slots]]
    zeros = [np.zeros(weight.shape) for weight in model.weights]
    for use, name in [
        (model.get_weights, "kernel"),
        (lambda: model.set_weights(zeros), "kernel"),
        (lambda: np.asarray(model.weights[1]), "bias"),
        (lambda: slots[0].assign(zeros[0]), "accumulator"),
        (lambda: tf.train.Checkpoint(head=model.layers[-1]).write(path), "kernel"),
        (lambda: tf.train.Checkpoint(optimizer=model.optimizer).write(path), "accumulator"),
        (lambda: model.export(path, verbose=False), ""),
        (lambda: model.save_weights(f"{path}.weights.h5"), "kernel"),
    ]:
        with pytest.raises(ValueError, match=f"tfsoftmax.sharded_checkpoints.*{name} in 2 shards"):
            use()
    for variable, rows in zip([*model.weights, *slots], before, strict=True):
        np.testing.assert_equal(local_rows(variable), rows)


def test_weights_are_not_read_or_assigned_as_if_one_shard_were_all(tmp_path):
    replicas_helper.run(whole_weights, devices=2, seconds=100, folder=str(tmp_path))


def logits_that_are_read():
    strategy = strategy_here()
    hidden, _, _, labels, _ = problem(8)
    eager = compiled(strategy, run_eagerly=True)
    with pytest.raises(ValueError, match="`run_eagerly` must be False.* 61 words in 2 shards"):
        eager.fit(hidden, labels, verbose=0)
    foreign = compiled(strategy, metrics=["sparse_top_k_categorical_accuracy"])
    with pytest.raises(tf.errors.InvalidArgumentError, match="nothing must read .*sparse_top_k_ca"):
        foreign.predict(hidden, verbose=0)


def loops_of_ones_own():
    """What a training loop without `fit` moves, by an optimiser of ours and by others."""
    strategy = strategy_here()
    hidden, _, _, labels, _ = problem(8)
    model = compiled(strategy)

    def step(optimizer, raw=False):
        head = model.layers[-1]
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(head.training_loss(hidden, labels))
        variables = [v.value if raw else v for v in model.trainable_variables]
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))

    before, errors = [local_rows(weight) for weight in model.weights], []
    for optimizer in (
        keras.optimizers.Adagrad, lambda: keras.optimizers.LossScaleOptimizer(model.optimizer),
        lambda: keras.optimizers.SGD(0.1),
    ):
        for raw in (False, True):
            with strategy.scope():
                new = optimizer()
            with pytest.raises(ValueError) as error:
                strategy.run(tf.function(step), args=(new, raw))
            errors.append(str(error.value))
        for weight, rows in zip(model.weights, before, strict=True):
            np.testing.assert_equal(local_rows(weight), rows)
    strategy.run(tf.function(step), args=(model.optimizer,))
    moved = [local_rows(weight) for weight in model.weights]
    for weight, rows in zip(model.weights, before, strict=True):
        for shard, part in shards_of(weight):
            part[: shard.words].assign(rows[shard.first])
    with strategy.scope():
        raw = optimizers.Adagrad(0.2)
        raw.build([v.value for v in model.trainable_variables])
    strategy.run(tf.function(step), args=(raw, True))
    return errors, before, moved, [local_rows(weight) for weight in model.weights]


def test_a_loop_of_ones_own_cannot_take_an_optimiser_that_sums_over_shards():
    (results,) = replicas_helper.run(loops_of_ones_own, devices=2, seconds=100)
    errors, before, moved, by_raw = results
    for error in errors:
        assert "`optimizer` must be one of tfsoftmax.optimizers" in error and "2 shards" in error
    np.testing.assert_equal(by_raw, moved)  # of `variable.value` in place of `variable`
    for one, other in zip(before, moved, strict=True):
        for part in one:
            assert np.abs(other[part] - one[part]).max() > 0.01


def test_a_head_is_not_in_shards_before_it_is_built():
    assert not ShardedSoftmax(V).in_shards and not SampledSoftmax(V, 9, shard=True).in_shards


def test_logits_that_no_device_holds_are_refused_with_the_reason():
    replicas_helper.run(logits_that_are_read, devices=2, seconds=100)


def gathered_and_empty():
    strategy = strategy_here()
    same = tf.constant([[1.0, 2.0]])
    values = [same, tf.cast(same, tf.bfloat16)]
    one = strategy.run(tf.function(lambda: [of_all_replicas(value) for value in values]))
    results = [strategy.experimental_local_results(value)[1].numpy().tolist() for value in one]
    with strategy.scope():
        head = ShardedSoftmax(V)
        head.build((None, D))
    hidden, _, _, labels, _ = problem(7)
    in_function = tf.function(lambda hidden: head.top_k(hidden, 3))
    assert_all_close(in_function(hidden), head.top_k(hidden, 3), rtol=1e-6, atol=0)
    none = hidden[:0]
    assert [result.shape for result in head.top_k(none, 3)] == [(0, 3), (0, 3)]
    assert head.log_probs(none).shape == (0, V)
    assert head.log_prob(none, labels[:0]).shape == (0,)
    return results


def log_probs_in_pieces(rows):
    with strategy_here().scope():
        head = ShardedSoftmax(V)
        head.build((None, D))
    hidden = tf.constant(problem(7)[0])
    whole = head.log_probs(hidden)
    budgets.LOGITS_BYTES = 4 * V * rows
    unknown = tf.function(head.log_probs, input_signature=[tf.TensorSpec((None, D))])
    return [found.numpy() for found in (whole, head.log_probs(hidden), unknown(hidden))]


@pytest.mark.parametrize("rows", [1, 3, 7])
def test_log_probs_of_more_positions_than_a_device_holds_come_in_pieces(rows):
    ((whole, *pieces),) = replicas_helper.run(log_probs_in_pieces, devices=2, rows=rows)
    np.testing.assert_allclose(np.exp(whole).sum(1), 1, rtol=1e-5)
    for found in pieces:
        np.testing.assert_allclose(found, whole, rtol=1e-5)


def test_replicas_gather_the_same_object_and_no_positions():
    (results,) = replicas_helper.run(gathered_and_empty, devices=2, seconds=100)
    assert results == [[[1.0, 2.0]] * 2] * 2
