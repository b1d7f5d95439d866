"""What PyTorch's tests ask of AdaptiveLogSoftmaxWithLoss and cross_entropy, asked of ours.

Three things differ, and stay as Keras has them: a mean over no position at all is 0 and not NaN;
weights of classes are weights of positions, which weigh the smoothed part of their loss like the
rest of it; and "mean_with_sample_weight" is what PyTorch calls "mean".
"""

import numpy as np
import pytest
import tensorflow as tf

from cases import UNITS, built, positions, with_gradients
from tfsoftmax import AdaptiveSoftmax, FullSoftmax, SoftmaxLoss

V, N, IGNORED = 13, 12, -100


def adaptive(cutoffs=(4, 8), **options):
    head = AdaptiveSoftmax(V, list(cutoffs), **options)
    head.build((None, UNITS))
    rng = np.random.default_rng(0)
    head.set_weights([rng.normal(size=w.shape) for w in head.weights])
    return head


# AdaptiveLogSoftmaxWithLoss


@pytest.mark.parametrize("cutoffs", [[1], [12], [1, 2], [11, 12], [4, 5, 6], list(range(1, 13))])
@pytest.mark.parametrize("projection_factor", [1.0, 2.0, 100.0])
def test_clusters_of_one_word(cutoffs, projection_factor):
    head = adaptive(cutoffs, projection_factor=projection_factor)
    hidden, labels = positions(V, 30)
    log_probs = head.log_probs(hidden).numpy().astype(np.float64)
    np.testing.assert_allclose(np.exp(log_probs).sum(-1), 1, rtol=1e-5)
    chosen = np.take_along_axis(log_probs, labels[:, None], 1)[:, 0]
    np.testing.assert_allclose(head.log_prob(hidden, labels), chosen, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(head.training_loss(hidden, labels), -chosen, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("likely", ["shortlist", "first tail", "last tail", "any"])
def test_predictions_from_every_cluster(likely):
    head = adaptive(use_bias=True)
    gates = {"shortlist": [-9, -9], "first tail": [9, -9], "last tail": [-9, 9], "any": [1, 1]}
    head.biases[0].assign(np.float32([0, 0, 0, 0, *gates[likely]]))
    head.kernels[0].assign(0.2 * head.kernels[0])
    hidden, _ = positions(V, 200)
    words = head.top_k(hidden, 1)[0].numpy()[:, 0]
    np.testing.assert_array_equal(words, np.argmax(head.log_probs(hidden), axis=1))
    ranges = {"shortlist": {0}, "first tail": {1}, "last tail": {2}, "any": {0, 1, 2}}
    assert set(np.searchsorted([4, 8], words, side="right")) == ranges[likely]


# cross_entropy


def cross_entropy(head, hidden, labels, weights, reduction):
    """The equations of PyTorch's documentation in float64, with the reductions of Keras."""
    kernel, bias = (np.asarray(w, np.float64) for w in head.get_weights())
    smoothing, losses = head.label_smoothing, np.zeros(labels.shape)
    for place, label in np.ndenumerate(labels):
        if label == IGNORED:
            continue
        scores = kernel @ hidden[place] + bias
        log_probs = scores - np.log(np.sum(np.exp(scores)))
        losses[place] = -(1 - smoothing) * log_probs[label] - smoothing * np.mean(log_probs)
    kept = labels != IGNORED
    if reduction == "none":
        return losses * weights
    divisors = {"sum_over_batch_size": kept, "mean_with_sample_weight": weights * kept}
    divisor = np.sum(divisors.get(reduction, 1.0))
    return np.sum(losses * weights) / (divisor or 1.0)


REDUCTIONS = ["none", "sum", "sum_over_batch_size", "mean_with_sample_weight"]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.15])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ignored", ["none", "some", "all"])
def test_ignored_smoothed_and_weighted(reduction, smoothing, weighted, ignored):
    head = FullSoftmax(V, label_smoothing=smoothing)
    head.build((None, UNITS))
    head.set_weights(built("full", V).get_weights())
    hidden, labels = positions(V, N)
    by_class = np.linspace(0.2, 3, V).astype(np.float32)
    weights = by_class[labels] if weighted else np.ones(N, np.float32)
    labels[{"none": [], "some": [0, 3, 4], "all": slice(None)}[ignored]] = IGNORED
    hidden, labels, weights = hidden.reshape(3, 4, -1), labels.reshape(3, 4), weights.reshape(3, 4)
    loss = SoftmaxLoss(ignore_class=IGNORED, reduction=reduction)
    source = tf.Variable(hidden)
    with tf.GradientTape() as tape:
        ours = loss(labels, head(source, training=True), weights if weighted else None)
        total = tf.reduce_sum(ours)
    wanted = cross_entropy(head, hidden, labels, weights, reduction)
    np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-7)
    gradient = tape.gradient(total, source).numpy()
    assert np.all(np.isfinite(gradient)) and not np.any(gradient[labels == IGNORED])


@pytest.mark.parametrize("scale", [1e2, 1e4, 1e30])
@pytest.mark.parametrize("case", ["full", "adaptive", "class", "nary", "tree", "shortlist"])
def test_large_scores_do_not_overflow(case, scale):
    head, (hidden, labels) = built(case, V), positions(V, N)
    source = tf.Variable(scale * hidden)
    sources, weights = [source, *head.trainable_weights], np.full(N, 1 / N)
    (total, _), gradients = with_gradients(head.loss_and_nats, sources, source, labels, weights)
    assert np.isfinite(total) and total >= 0
    assert all(np.all(np.isfinite(tf.convert_to_tensor(g))) for g in gradients)
    assert np.all(np.isfinite(head.log_prob(source, labels)))
