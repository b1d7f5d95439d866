"""Positions with several labels: every head, exact and sampled."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from cases import ONE_OF_EACH, UNITS, built, positions, rewind
from refusals import refused
from tfsoftmax import FullSoftmax, HardNegatives, Perplexity, SampledSoftmax, SoftmaxLoss
from tfsoftmax.metrics import Accuracy, RecallAtK, TopKAccuracy

V = 13
SETS = np.array([[3, 5, -1], [0, -1, -1], [12, 1, 7], [-1, -1, -1], [2, 2, -1]])
WEIGHTS = np.array([[1, 0.5, 9], [2, 9, 9], [0.2, 0.3, 0], [9, 9, 9], [1, 1, 1]], np.float32)


def wanted(nats, weights):
    """The loss of each position, by loops: `nats` (5, V) of each word."""
    losses = np.zeros(len(SETS))
    for position, labels in enumerate(SETS):
        known = [place for place, label in enumerate(labels) if label >= 0]
        for place in known:
            weight = 1 / len(known) if weights is None else weights[position, place]
            losses[position] += weight * nats[position, labels[place]]
    return losses


@pytest.mark.parametrize("case", ONE_OF_EACH)
def test_the_loss_of_a_position_is_the_mean_or_weighted_sum_over_its_labels(case):
    head, (hidden, _) = built(case, V), positions(V, 5)
    if not head.is_distribution:
        pytest.skip("the head has no log-probabilities")
    nats = -head.log_probs(hidden).numpy()
    for weights in (None, WEIGHTS):
        losses = wanted(nats, weights)
        for reduction, value in (
            ("none", losses), ("sum", losses.sum()), ("sum_over_batch_size", losses.sum() / 4)
        ):
            loss = SoftmaxLoss(reduction=reduction, multi_label=True)
            np.testing.assert_allclose(loss(SETS, head(hidden), weights), value, rtol=1e-4)


@pytest.mark.parametrize("case", ["full", "sampled", "nce", "adaptive", "tree"])
def test_training_is_that_of_positions_with_one_label_each(case):
    head, (hidden, _) = built(case, V), positions(V, 5)
    known = SETS >= 0
    shares = (known / np.maximum(known.sum(1, keepdims=True), 1)).astype(np.float32)
    tensor, variables = tf.constant(hidden), [w.value for w in head.trainable_weights]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(tensor)
        ours = SoftmaxLoss(reduction="sum", multi_label=True)(SETS, head(tensor, training=True))
        rewind(head)
        repeated = head(tf.repeat(tensor[:, None], 3, axis=1), training=True)
        apart = SoftmaxLoss(reduction="sum")(np.maximum(SETS, 0), repeated, shares)
    np.testing.assert_allclose(ours, apart, rtol=1e-6)
    for one, other in zip(*(tape.gradient(x, [tensor, *variables]) for x in (ours, apart))):
        np.testing.assert_allclose(*map(tf.convert_to_tensor, (one, other)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_fit_finds_the_distribution_of_the_labels(jit_compile):
    model = keras.Sequential([keras.Input((1,)), FullSoftmax(4)])
    model.compile(keras.optimizers.Adam(0.1), SoftmaxLoss(multi_label=True),
                  metrics=[RecallAtK(1)], jit_compile=jit_compile)
    sets = np.array([[0, 1, -1], [0, -1, -1], [0, 1, 2]])
    steps = 250
    model.fit(np.ones((3 * steps, 1)), np.tile(sets, (steps, 1)), 3, verbose=0, shuffle=False)
    found = np.exp(model.layers[-1].log_probs(np.ones((1, 1))))[0]
    np.testing.assert_allclose(found, [11 / 18, 5 / 18, 2 / 18, 0], atol=0.01)
    assert model.evaluate(np.ones((3, 1)), sets, verbose=0)[1] == pytest.approx(11 / 18)


def test_ragged_labels_sequences_masks_and_ignored_labels():
    head, (hidden, _) = built("full", V), positions(V, 6)
    loss = SoftmaxLoss(reduction="none", multi_label=True)
    sets = tf.ragged.constant([[3, 5], [0], [12, 1, 7], [], [2, 2], [4]])
    padded = loss(sets.to_tensor(-1), head(hidden))
    for dtype in tf.int32, tf.int64, tf.uint8, tf.uint16:
        found = loss(tf.cast(sets, dtype), head(hidden))
        np.testing.assert_allclose(found, padded, rtol=1e-6)
    in_time = hidden.reshape(2, 3, UNITS)
    logits = head(in_time)
    logits._keras_mask = tf.constant([[True, True, False], [True, True, True]])
    steps = SoftmaxLoss(multi_label=True)(sets.to_tensor(-1).numpy().reshape(2, 3, 3), logits)
    kept = padded.numpy()[[0, 1, 4, 5]]  # one is masked, another empty
    np.testing.assert_allclose(steps, kept.sum() / 4, rtol=1e-6)
    weighted = loss(sets, head(hidden), np.arange(6.0))
    np.testing.assert_allclose(weighted, np.arange(6.0) * padded, rtol=1e-6)
    ignoring = SoftmaxLoss(0, reduction="none", multi_label=True)
    zeros = tf.where(sets.to_tensor(-1) < 0, 0, sets.to_tensor(-1))
    np.testing.assert_allclose(
        ignoring(zeros, head(hidden)), np.where(np.arange(6) == 1, 0, padded), rtol=1e-6
    )


def test_hard_negatives_go_with_several_labels():
    query, number = keras.Input((UNITS,)), keras.Input((), dtype="int32")
    head = SampledSoftmax(V, 5, "uniform", seed=1)
    model = keras.Model([query, number], head(query, hard_negatives=HardNegatives(5, 2)(number)))
    model.compile("sgd", SoftmaxLoss(multi_label=True))
    history = model.fit([positions(V, 5)[0], np.arange(5)], SETS, verbose=0).history
    assert np.isfinite(history["loss"]).all()


def test_the_option_is_in_the_configuration_and_shapes_are_named():
    loss = SoftmaxLoss(multi_label=True)
    assert SoftmaxLoss.from_config(loss.get_config()).multi_label
    head, (hidden, labels) = built("full", V), positions(V, 5)
    refused(r"`y_true` must be integers \(..., M\).*shape \(5,\)", loss, labels, head(hidden))
    with pytest.raises(ValueError, match="`sample_weight` must have the shape of the labels"):
        loss(SETS, head(hidden), np.ones((5, 2)))
    refused("`multi_label` must be", SoftmaxLoss, multi_label="yes")
    refused("shape", Perplexity().update_state, SETS, head(hidden))


@pytest.mark.parametrize("metric", [
    Perplexity(ignore_class=-1), Accuracy(ignore_class=-1), TopKAccuracy(3, ignore_class=-1),
    TopKAccuracy(3),
])
def test_metrics_of_one_label_refuse_several_and_name_those_that_take_them(metric):
    model = keras.Sequential([keras.Input((UNITS,)), FullSoftmax(V)])
    model.compile("sgd", SoftmaxLoss(multi_label=True), metrics=[metric])
    hidden, labels = np.ones((4, UNITS), np.float32), np.array([[1, 2], [3, -1], [1, -1], [-1, -1]])
    rule = "`y_true` must have one label at each of .*RecallAtK"
    refused(rule, model.evaluate, hidden, labels, verbose=0)
    with pytest.raises(ValueError, match="one-hot: pass keras.ops.argmax"):
        metric.update_state(np.eye(V, dtype=int)[:4], model(hidden))
    with pytest.raises(ValueError, match="must have one label at each of the positions"):
        metric.update_state(np.array([1, 2, 3]), model(hidden))
