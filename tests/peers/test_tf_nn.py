"""What TensorFlow's tests ask of `sampled_softmax_loss` and `nce_loss`, asked of ours.

The samples and their expected counts are given, so that nothing is random. Positions have one
label each: TensorFlow's `num_true` is 1.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from cases import UNITS, positions, ready
from tfsoftmax.heads import NCE, FullSoftmax, SampledSoftmax
from tfsoftmax.samplers.base import Candidates

V, N = 13, 6
IDS = np.array([1, 0, 7, 3, 12, 9, 7, 0], np.int32)  # 0 and 12 are labels, 7 and 0 come twice
EXPECTED = np.linspace(0.1, 2.5, V)  # of each word, some above one


def problem():
    rng = np.random.default_rng(2)
    hidden, labels = positions(V, N)
    kernel, bias = rng.normal(size=(V, UNITS)), rng.normal(size=V)
    return hidden, labels, kernel.astype(np.float32), bias.astype(np.float32)


def candidates(labels, ids=IDS):
    log_expected = np.log(EXPECTED).astype(np.float32)
    return Candidates(*map(tf.constant, (ids, log_expected[ids], log_expected[labels])))


@pytest.mark.parametrize("head, function, removed", [
    (SampledSoftmax, tf.nn.sampled_softmax_loss, False),
    (SampledSoftmax, tf.nn.sampled_softmax_loss, True), (NCE, tf.nn.nce_loss, False),
])
def test_heads_and_their_gradients_are_those_of_tensorflow(head, function, removed):
    hidden, labels, *weights = problem()
    # Of several samples that equal a label TensorFlow removes one; all of them are hits.
    ids = np.unique(IDS) if removed else IDS
    head = ready(
        head, V, len(ids), "uniform", remove_accidental_hits=removed,
        **({"Z": 1} if head is NCE else {}),
    )
    head.set_weights([*weights, *head.get_weights()[2:]])
    given = candidates(labels, ids)
    head.sampler.sample = head.sampler.sample_others = lambda *_: given
    source, upstream = tf.Variable(hidden), np.linspace(-1, 2, N).astype(np.float32)
    sources = [source, head.kernel.value, head.bias.value]
    with tf.GradientTape(persistent=True) as tape:
        ours = head.training_loss(source, labels)
        theirs = function(
            *sources[1:], labels[:, None], source, len(ids), V, remove_accidental_hits=removed,
            sampled_values=(
                ids.astype(np.int64), tf.exp(given.log_expected_labels)[:, None],
                tf.exp(given.log_expected),
            ),
        )
        totals = [tf.reduce_sum(upstream * nats) for nats in (ours, theirs)]
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    for mine, wanted in zip(*(tape.gradient(total, sources) for total in totals)):
        dense = map(tf.convert_to_tensor, (mine, wanted))
        np.testing.assert_allclose(*dense, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
def test_label_smoothing_is_that_of_keras(smoothing):
    hidden, labels, *weights = problem()
    head = FullSoftmax(V, label_smoothing=smoothing)
    head.build(hidden.shape)
    head.set_weights(weights)
    wanted = keras.losses.categorical_crossentropy(
        tf.one_hot(labels, V), head(hidden), from_logits=True, label_smoothing=smoothing
    )
    np.testing.assert_allclose(head.training_loss(hidden, labels), wanted, rtol=1e-5)
    plain = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, head(hidden))
    np.testing.assert_allclose(head.log_prob(hidden, labels), -plain, rtol=1e-5)
