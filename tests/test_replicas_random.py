"""What replicas draw at random: the same samples, and masks of dropout that differ."""

import threading

import keras
import numpy as np
import pytest
import tensorflow as tf

import replicas_helper
import tfsoftmax
from cases import assert_all_close, assert_all_equal
from replicas_helper import strategy_here
from tfsoftmax.layers.dropout import Dropout
from tfsoftmax.samplers import InBatch, LearnedUnigram, OnlineBigram

V, D, N = 50, 4, 6


def draws():
    """What each replica of this process draws in two steps, by name."""
    strategy = strategy_here()
    with strategy.scope():
        layers = Dropout(0.5, seed=3), keras.layers.Dropout(0.5, seed=3)
        heads = {
            synchronized: tfsoftmax.NCE(V, 9, "uniform", synchronized=synchronized, seed=1)
            for synchronized in (True, False)
        }
        each = tfsoftmax.NCE(V, 9, "uniform", shared_samples=False, seed=1)
        tiles = tfsoftmax.FullSoftmax(V, gradient_share=0.5, seed=1)
        tiles.build((None, D))
        learned, in_batch = LearnedUnigram(V), InBatch(V, None)
        seen = threading.local()  # each replica runs in a thread of its own
        for head in (*heads.values(), each):
            head.build((None, D))
            spy_on_samples(head, seen)

    @tf.function
    def step():
        def on_replica():
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            labels = tf.range(N + replica) + 10 * replica  # other labels, and more of them
            learned.update(labels)
            hidden = tf.ones([N + replica, D])
            seen.drawn = drawn = []
            losses = [head.training_loss(hidden, labels) for head in (*heads.values(), each)]
            in_batch_ids, _, in_batch_logs = in_batch.sample(labels, None, 0)
            with tf.control_dependencies(losses):
                return {
                    "dropout": layers[0](tf.ones([8, 8]), training=True),
                    "keras": layers[1](tf.ones([8, 8]), training=True),
                    "synchronized": drawn[0], "apart": drawn[1], "for each": drawn[2][:N],
                    "tiles": tiles.objective().draw.offsets(N),
                    "in batch": in_batch_ids + 0 * replica, "in batch, log": in_batch_logs,
                }

        return strategy.run(on_replica)

    steps = [step() for _ in range(2)]
    counts = tf.exp(learned.log_q(tf.range(V))) * (V + 2 * (2 * N + 1))
    local = strategy.experimental_local_results
    by_replica = [
        [{name: local(value)[i].numpy() for name, value in step.items()} for step in steps]
        for i in range(len(local(steps[0]["keras"])))
    ]
    return by_replica, counts.numpy()


def spy_on_samples(head, seen):
    draw = head._sample

    def spied(*arguments):
        candidates = draw(*arguments)
        seen.drawn.append(candidates.ids)
        return candidates

    head._sample = spied


def check(replicas, counts):
    one, other = replicas
    for first, second in zip(one, other):
        assert (first["keras"] == second["keras"]).all()  # otherwise our layer could go
        np.testing.assert_array_equal(first["synchronized"], second["synchronized"])
        np.testing.assert_array_equal(first["in batch"], [*range(N), *range(10, 11 + N)])
        np.testing.assert_array_equal(first["in batch"], second["in batch"])
        np.testing.assert_allclose(second["in batch, log"], np.log(2 * N / V), rtol=1e-6)
        for name in ("dropout", "apart", "for each", "tiles"):
            assert (first[name] != second[name]).any(), name
        np.testing.assert_array_equal(first["dropout"], first["keras"])
    for replica in replicas:
        for name in ("dropout", "synchronized", "apart", "for each", "tiles"):
            assert (replica[0][name] != replica[1][name]).any(), name
    wanted = np.ones(V)
    wanted[:N] += 2
    wanted[10 : 11 + N] += 2
    np.testing.assert_allclose(counts, wanted, rtol=1e-5)


def test_replicas_draw_the_same_samples_and_other_masks():
    ((replicas, counts),) = replicas_helper.run(draws, devices=2)
    check(replicas, counts)


def trained(steps):
    """Losses and counts of q after batches in which labels of 8 are ignored, and the weights.

    Also the weights of a head with a learned unigram, after a batch that one replica ignores.
    """
    strategy = strategy_here()
    with strategy.scope():
        x, ids = keras.Input((D,)), keras.Input((2,), dtype="int32")
        sampler = InBatch(9, "learned")
        head = tfsoftmax.SampledSoftmax(9, None, sampler, kernel_initializer="ones")
        model = keras.Model([x, ids], head(x, ids))
        model.compile(tfsoftmax.optimizers.SGD(0.3), tfsoftmax.SoftmaxLoss(ignore_class=8))
    rng, losses = np.random.default_rng(0), []
    for labels in steps:
        hard = np.where(np.array(labels)[:, None] == 8, [[6, 7]], [[5, -1]])
        data = [rng.normal(size=(len(labels), D)), hard]
        fitted = model.fit(data, np.array(labels), batch_size=len(labels), verbose=0, shuffle=False)
        losses += fitted.history["loss"]
    counts = np.exp(sampler.learned.log_q(np.arange(9))) * sampler.learned.sums.numpy()[1]
    with strategy.scope():
        other = tfsoftmax.SampledSoftmax(9, 2, kernel_initializer="ones", seed=1)
        model = keras.Sequential([keras.Input((D,)), other])
        adam = tfsoftmax.optimizers.Adam(0.3, weight_decay=0.1)
        model.compile(adam, tfsoftmax.SoftmaxLoss(ignore_class=8))
    labels = np.array([0, 1, 2, 3, 4, 5, 8, 8])
    model.fit(rng.normal(size=(8, D)), labels, batch_size=4, verbose=0, shuffle=False)
    return losses, counts.tolist(), head.kernel.numpy().tolist(), other.kernel.numpy().tolist()


IGNORED = [[1, 2, 3, 3, 8, 8, 8, 8], [8] * 8, [1, 8, 8, 8, 2, 8, 8, 2]]


def test_labels_that_a_replica_ignores_are_no_negatives():
    ((losses, counts, *kernels),) = replicas_helper.run(trained, devices=2, steps=IGNORED)
    wanted = trained(IGNORED)
    np.testing.assert_allclose(counts, [1, 3, 4, 3, 1, 1, 1, 1, 1], rtol=1e-5)
    np.testing.assert_allclose(counts, wanted[1], rtol=1e-5)
    np.testing.assert_allclose(losses, wanted[0], rtol=1e-5)
    assert_all_close(kernels, wanted[2:], rtol=1e-4)


@pytest.mark.slow
def test_workers_draw_the_same_samples_and_other_masks():
    results = replicas_helper.run(draws, workers=2)
    for _, counts in results:
        check([replica for replicas, _ in results for replica in replicas], counts)


def test_without_replicas_the_masks_are_those_of_keras():
    for seed in (3, None):
        masks = []
        for cls in (Dropout, keras.layers.Dropout):
            keras.utils.set_random_seed(7)
            layer = cls(0.5, seed=seed, dtype="float32")
            masks += [[layer(tf.ones([5, 7]), training=True).numpy() for _ in range(3)]]
            masks[-1] += [keras.random.normal((3,)).numpy(), layer.seed_generator.state.numpy()]
        assert_all_equal(*masks)


def test_dropout_loads():
    layer = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(Dropout(0.25, noise_shape=(None, 1), seed=5))
    )
    assert type(layer) is Dropout
    assert (layer.rate, layer.noise_shape, layer.seed) == (0.25, (None, 1), 5)
    assert layer(tf.ones([2, 3]), training=False).numpy().min() == 1


def test_heads_of_older_files_are_synchronized():
    config = tfsoftmax.NCE(V, 9, "uniform", synchronized=False).get_config()
    assert not tfsoftmax.NCE.from_config(config).synchronized
    del config["synchronized"]
    assert tfsoftmax.NCE.from_config(config).synchronized


def whole_reads():
    """The operations with which two replicas read whole variables of samplers that learn."""
    strategy = strategy_here()
    with strategy.scope():
        learned, bigram = LearnedUnigram(V), OnlineBigram(V, slots=3)

    @tf.function
    def step():
        def on_replica():
            labels, shares = tf.range(N), tf.ones([N, 1])
            learned.update(labels)
            bigram.observe(labels, labels[:, None], shares)
            drawn = learned.sample(labels, 5, (0, 1)).ids
            return drawn, bigram.sample_for_each(labels, 5, (0, 1), labels).ids

        return strategy.run(on_replica)

    graph = step.get_concrete_function().graph.as_graph_def()
    functions = [graph.node, *(function.node_def for function in graph.library.function)]
    return [node.op for nodes in functions for node in nodes if node.op == "ReadVariableOp"]


def test_replicas_read_only_the_rows_of_samplers_that_they_need():
    (reads,) = replicas_helper.run(whole_reads, devices=2)
    assert reads == []
