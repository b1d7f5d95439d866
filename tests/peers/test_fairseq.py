"""What fairseq's adaptive softmax promises: tied weights and projections, factors, padding."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from cases import UNITS, positions, randomise
from references import adaptive_log_probs
from tfsoftmax import AdaptiveEmbedding, AdaptiveSoftmax, SoftmaxLoss

V, N, CUTOFFS, PAD = 13, 11, [4, 9], 1
COUNTS = np.random.default_rng(2).permutation(100)[:V]


def tied(factor, tie_projections, cutoffs=CUTOFFS):
    embedding = AdaptiveEmbedding(V, UNITS, cutoffs, projection_factor=factor, counts=COUNTS)
    head = AdaptiveSoftmax(V, tied_to=embedding, tie_projections=tie_projections)
    embedding.build()
    head.build((None, UNITS))
    for layer in (embedding, head):
        randomise(layer)
    return embedding, head


def plain_log_probs(embedding, head, hidden):
    """From the rows of the tables, word by word, as if nothing were tied."""
    kernels = [t.numpy() for t in embedding.tables]
    kernels[0] = np.concatenate([kernels[0], head.kernels[0].numpy()])
    projections = (head if head.projections else embedding).projections
    projections = [None, *(p.numpy() for p in projections)]
    biases = [np.zeros(len(kernel)) for kernel in kernels]
    order = np.argsort(embedding.bands.order.ranks)
    return adaptive_log_probs(hidden, kernels, biases, projections, order)


@pytest.mark.parametrize("cutoffs", [CUTOFFS, [12], [1, 2, 12]], ids=str)
@pytest.mark.parametrize("tie_projections", [True, False])
@pytest.mark.parametrize("factor", [1.0, 2.0, 4.0])
def test_tied_log_probs_are_plain_ones_and_sum_to_one(factor, tie_projections, cutoffs):
    embedding, head = tied(factor, tie_projections, cutoffs)
    hidden, labels = positions(V, N)
    wanted = plain_log_probs(embedding, head, hidden)
    np.testing.assert_allclose(head.log_probs(hidden), wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.exp(wanted).sum(-1), 1, rtol=1e-6)
    chosen = np.take_along_axis(wanted, labels[:, None], 1)[:, 0]
    np.testing.assert_allclose(head.training_loss(hidden, labels), -chosen, rtol=1e-4, atol=1e-5)
    shapes = [tuple(t.shape) for t in embedding.tables]
    assert shapes == [
        (size, max(1, int(UNITS / factor**k))) for k, size in enumerate(np.diff([0, *cutoffs, V]))
    ]


@pytest.mark.parametrize("tie_projections", [True, False])
def test_a_tied_table_gets_the_gradients_of_both_uses(tie_projections):
    embedding, head = tied(2.0, tie_projections)
    rng = np.random.default_rng(1)
    words, labels = rng.integers(0, V, (2, N))
    sources = [w.value for w in embedding.trainable_weights]

    def gradients(hidden_of, scores_of):
        """Through the input, through the scores, or through both."""
        with tf.GradientTape() as tape:
            hidden = hidden_of(embedding(words))
            hidden_of_head = hidden
            nats = tf.reduce_sum(head.training_loss(hidden_of_head, labels))
            total = scores_of(nats, hidden)
        zeros = tf.UnconnectedGradients.ZERO
        return list(map(tf.convert_to_tensor, tape.gradient(total, sources, None, zeros)))

    hidden = embedding(words)
    with tf.GradientTape() as tape:
        tape.watch(hidden)
        nats = tf.reduce_sum(head.training_loss(hidden, labels))
    slope = tape.gradient(nats, hidden)
    both = gradients(tf.identity, lambda nats, _: nats)
    scores = gradients(tf.stop_gradient, lambda nats, _: nats)
    inputs = gradients(tf.identity, lambda _, hidden: tf.reduce_sum(slope * hidden))
    for total, first, second in zip(both, scores, inputs):
        assert np.any(first.numpy()) or first.shape[0] == UNITS
        assert np.any(second.numpy())
        np.testing.assert_allclose(total, first + second, rtol=1e-4, atol=1e-5)


def test_padding_costs_nothing_even_if_it_is_all_of_a_cluster():
    head = AdaptiveSoftmax(V, CUTOFFS, permutation=[PAD, *np.delete(np.arange(V), PAD)][::-1])
    hidden, _ = positions(V, N)
    head.build(hidden.shape)
    randomise(head)
    labels = np.array([PAD, 5, PAD, 12, 9, PAD, 11, 12, PAD, 8, 10], np.int32)
    source = tf.Variable(hidden)
    with tf.GradientTape() as tape:
        logits = head(source, training=True)
        total = SoftmaxLoss(ignore_class=PAD, reduction="sum")(labels, logits)
    kept = labels != PAD
    wanted = -np.sum(head.log_prob(hidden[kept], labels[kept]))
    np.testing.assert_allclose(total, wanted, rtol=1e-5)
    gradients = tape.gradient(total, [source, head.kernels[2].value])
    assert not np.any(gradients[0].numpy()[~kept]) and np.all(np.any(gradients[0].numpy()[kept], 1))
    assert not np.any(gradients[1])  # PAD and the other rarest words, none of which occurs


def test_a_tied_model_of_keras_counts_shared_weights_once():
    embedding = AdaptiveEmbedding(V, UNITS, CUTOFFS, projection_factor=2.0)
    words = keras.Input((3,), dtype="int32")
    logits = AdaptiveSoftmax(V, tied_to=embedding)(embedding(words))
    model = keras.Model(words, logits)
    of_embedding = 4 * 7 + 5 * 3 + 4 * 1 + 7 * 3 + 7 * 1
    assert model.count_params() == of_embedding + 2 * UNITS + sum(
        int(np.prod(w.shape)) for w in model.layers[-1].trainable_weights if w.path.count("bias")
    )
