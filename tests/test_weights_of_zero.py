"""Positions of weight zero, whose hidden states and losses may be anything."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from cases import CASES, UNITS, assert_all_close, built, positions, rewind, with_gradients
from tfsoftmax import AdaptiveSoftmax, FullSoftmax, SampledSoftmax, SoftmaxLoss
from tfsoftmax.losses import REDUCTIONS
from tfsoftmax.metrics import Accuracy, Perplexity, RecallAtK

V, COUNT = 13, 6
WEIGHTS = np.array([0.5, 0.0, 1.0, 0.0, 2.0, 1.0], np.float32)
every_head = pytest.mark.parametrize("case", CASES)


def states(*values):
    """Hidden states, which have two values in them where the weights are zero; and labels."""
    hidden, labels = positions(V, COUNT)
    hidden[1], hidden[3, 2] = values
    return hidden, labels


def results(head, loss_of, *values):
    """A loss, and its gradients with respect to the hidden states and the weights."""
    hidden, labels = states(*values)
    hidden = tf.Variable(hidden)
    sources = [hidden, *head.trainable_weights]
    (loss, *others), gradients = with_gradients(loss_of, sources, rewind(head), hidden, labels)
    return [loss, *gradients], others


@every_head
def test_they_have_no_part_in_the_loss_and_its_gradients(case):
    def loss_of(head, hidden, labels):
        return head.loss_and_nats(hidden, labels, WEIGHTS)

    head = built(case, V)
    expected, _ = results(head, loss_of, 0.0, 0.0)
    found, (nats,) = results(head, loss_of, np.nan, np.inf)
    assert_all_close(found, expected, atol=1e-6)
    assert not np.any(found[1].numpy()[[1, 3]])
    assert nats is None or np.isnan(nats.numpy()[[1, 3]]).all()


@every_head
def test_the_other_positions_alone_give_the_same(case):
    """The loss, its gradients, what a sampler learns, and nats; exactly the same products."""
    head, (hidden, labels) = built(case, V), positions(V, COUNT)
    kept = WEIGHTS != 0
    state = head.get_weights()

    def loss_of(hidden, labels, weights):
        head.set_weights(state)
        hidden = tf.Variable(hidden)
        (total, nats), gradients = with_gradients(
            rewind(head).loss_and_nats, [hidden, *head.trainable_weights], hidden, labels, weights
        )
        return [total, *gradients[1:], *head.get_weights()], gradients[0].numpy(), nats

    found, of_hidden, nats = loss_of(hidden, labels, WEIGHTS)
    expected, of_kept, kept_nats = loss_of(hidden[kept], labels[kept], WEIGHTS[kept])
    assert_all_close(found, expected, atol=1e-6)
    assert_all_close([of_hidden[kept]], [of_kept], atol=1e-6)
    assert not of_hidden[~kept].any()
    if nats is not None:
        assert_all_close([nats.numpy()[kept]], [kept_nats], atol=1e-6)


@every_head
@pytest.mark.parametrize("method", ["training_loss", "log_prob"])
def test_a_mask_leaves_positions_out(case, method):
    head, (hidden, labels) = built(case, V), positions(V, COUNT)
    if method == "log_prob" and not head.is_distribution:
        pytest.skip("its scores are no probabilities")
    mask, computed = WEIGHTS != 0, getattr(head, method)
    rewind(head)
    found = computed(hidden, labels, mask=mask).numpy()
    rewind(head)
    assert_all_close([found[mask]], [computed(hidden[mask], labels[mask])], atol=1e-6)
    assert not found[~mask].any()


@every_head
def test_they_are_left_out_before_the_first_product(case, monkeypatch):
    """In the loss of `fit`, in that of `evaluate`, and in metrics, which share what they know."""
    head, (hidden, labels) = built(case, V), positions(V, COUNT)
    seen = []

    def counts(name, method):
        def counting(rows, *args, **kwargs):
            seen.append((name, rows.shape[0]))
            return method(rows, *args, **kwargs)

        return counting

    log_prob, objective, run = head._log_prob, head.objective, head.top_k

    def counted_objective():
        found = objective()
        object.__setattr__(found, "weighted_nats", counts("loss", found.weighted_nats))
        return found

    monkeypatch.setattr(head, "objective", counted_objective)
    monkeypatch.setattr(head, "_log_prob", counts("log_prob", log_prob))
    monkeypatch.setattr(head, "top_k", counts("top_k", run))
    kept = np.count_nonzero(WEIGHTS)
    metrics = [Perplexity()] * head.is_distribution + [Accuracy(), RecallAtK(2)]
    for training in (True, False):
        logits = head(hidden, training=training)
        SoftmaxLoss()(labels, logits, WEIGHTS)
        for metric in metrics:
            metric.update_state(labels, logits, WEIGHTS)
    own = [] if head.is_distribution else [("loss", kept)]
    of_evaluate = [("log_prob", kept)] * head.is_distribution
    assert seen == [("loss", kept), *own, *of_evaluate, ("top_k", kept), ("top_k", kept)]


def test_a_metric_of_more_positions_is_computed_anew():
    """In evaluation; in training it is NaN if the loss has left out some that it counts."""
    head, (hidden, labels) = built("full", V), positions(V, COUNT)
    exact = -head.log_prob(hidden, labels).numpy()
    for training, wanted in ((False, np.exp(exact.mean())), (True, np.nan)):
        logits, metric, weighted = head(hidden, training=training), Perplexity(), Perplexity()
        SoftmaxLoss()(labels, logits, WEIGHTS)
        metric.update_state(labels, logits)
        weighted.update_state(labels, logits, WEIGHTS)
        np.testing.assert_allclose(metric.result(), wanted, rtol=1e-5)
        np.testing.assert_allclose(
            weighted.result(), np.exp(np.average(exact, weights=WEIGHTS)), rtol=1e-5
        )
    logits, metric = head(hidden, training=True), Perplexity()
    SoftmaxLoss()(labels, logits, WEIGHTS + 1)
    metric.update_state(labels, logits)
    np.testing.assert_allclose(metric.result(), np.exp(exact.mean()), rtol=1e-5)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("case", ["full", "adaptive", "sampled", "tree", "nary", "spherical"])
def test_no_reduction_of_the_loss_counts_them(case, reduction):
    def loss_of(head, hidden, labels):
        return (SoftmaxLoss(reduction=reduction)(labels, head(hidden, training=True), WEIGHTS),)

    head, (hidden, labels) = built(case, V), states(np.nan, np.inf)
    expected, _ = results(head, loss_of, 0.0, 0.0)
    found, _ = results(head, loss_of, np.nan, np.inf)
    assert_all_close(found, expected, atol=1e-6)
    value = SoftmaxLoss(reduction=reduction)(labels, head(hidden, training=False), WEIGHTS)
    assert np.isfinite(value).all()


@pytest.mark.parametrize("make", [
    lambda: FullSoftmax(V), lambda: AdaptiveSoftmax(V, [4], use_bias=True),
    lambda: FullSoftmax(V, shard=True),
    lambda: SampledSoftmax(V, 5, "unigram", counts=[0] + [1] * (V - 1), label_in_sum=False, seed=1),
])
def test_a_label_that_has_no_probability_may_have_weight_zero(make):
    """As a padding id whose bias is -inf, or that a sampler never draws."""
    head, (hidden, labels) = make(), positions(V, COUNT)
    labels[:] = np.where(WEIGHTS == 0, 0, np.maximum(labels, 1))
    head.build((None, UNITS))
    bias = head.biases[0] if isinstance(head, AdaptiveSoftmax) else head.bias
    bias.assign(np.where(np.arange(bias.shape[0]) == 0, -np.inf, 0.0))
    (total, _), gradients = with_gradients(
        head.loss_and_nats, head.trainable_weights, hidden, labels, WEIGHTS
    )
    assert all(np.isfinite(g).all() for g in [total, *gradients])
    logits = head(hidden, training=True)
    for loss in (SoftmaxLoss(reduction="sum"), SoftmaxLoss(reduction="none")):
        assert np.isfinite(loss(labels, logits, WEIGHTS)).all()
        assert np.isfinite(loss(labels, head(hidden), WEIGHTS)).all()


def test_fit_trains_where_positions_of_weight_zero_are_not_finite():
    model = keras.Sequential([keras.Input((3, UNITS)), FullSoftmax(V)])
    model.compile("sgd", SoftmaxLoss(), weighted_metrics=[])
    hidden, labels = positions(V, 6)
    hidden[5] = np.nan
    weights = np.array([[1, 1, 1], [1, 1, 0]], np.float32)
    model.fit(hidden.reshape(2, 3, UNITS), labels.reshape(2, 3), sample_weight=weights, verbose=0)
    assert all(np.isfinite(w).all() for w in model.get_weights())
