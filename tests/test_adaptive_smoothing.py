"""Label smoothing of adaptive softmax, whose uniform part is estimated by drawn words."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from cases import UNITS, positions, prepared, with_gradients
from tfsoftmax import AdaptiveSoftmax, Perplexity, SoftmaxLoss, TwoLevelSoftmax

V, N, SMOOTHING = 29, 10, 0.25
DRAWS = 4000


def head_of(cls=AdaptiveSoftmax, cutoffs=(6, 15), **options):
    return prepared(cls(V, cutoffs, **{"label_smoothing": SMOOTHING, "seed": 3, **options}))


def smoothed_nats(head, hidden, labels):
    """(1 - ε) nats(y) + ε / V Σ_w nats(w) of each position, float64."""
    log_probs = head.log_probs(hidden).numpy().astype(np.float64)
    of_labels = np.array([row[label] for row, label in zip(log_probs, labels)])
    return -(1 - SMOOTHING) * of_labels - SMOOTHING * log_probs.mean(axis=1)


@pytest.mark.parametrize("cls, cutoffs", [(AdaptiveSoftmax, (6, 15)), (TwoLevelSoftmax, (6,))])
def test_the_mean_over_draws_is_the_loss_of_smoothed_labels(cls, cutoffs):
    head, (hidden, labels) = head_of(cls, cutoffs), positions(V, N)
    draw = tf.function(lambda: head.training_loss(hidden, labels))
    losses = np.array([draw().numpy() for _ in range(DRAWS)], np.float64)
    errors = losses.std(axis=0) / DRAWS**0.5
    assert np.all(errors > 0)
    gaps = losses.mean(axis=0) - smoothed_nats(head, hidden, labels)
    assert np.all(np.abs(gaps) < 5 * errors)


def test_the_mean_gradient_is_that_of_smoothed_labels():
    head, (hidden, labels) = head_of(), positions(V, N)
    hidden = tf.Variable(hidden)
    weights = np.linspace(0.0, 1.0, N, dtype=np.float32)

    @tf.function
    def drawn():
        return with_gradients(head.loss_and_nats, [hidden], hidden, labels, weights)[1][0]

    def exact():
        log_probs = head.log_probs(hidden)
        nats = -(1 - SMOOTHING) * tf.gather(log_probs, labels, batch_dims=1)
        return weights * (nats - SMOOTHING * tf.reduce_mean(log_probs, axis=1))

    _, (expected,) = with_gradients(exact, [hidden])
    gradients = np.array([drawn().numpy() for _ in range(DRAWS)], np.float64)
    errors = gradients.std(axis=0) / DRAWS**0.5 + 1e-6
    assert np.all(np.abs(gradients.mean(axis=0) - expected) < 5 * errors)


def test_perplexities_are_those_of_the_labels_alone():
    head, (hidden, labels) = head_of(), positions(V, N)
    _, nats = head.loss_and_nats(hidden, labels, np.ones(N, np.float32))
    np.testing.assert_allclose(nats, -head.log_prob(hidden, labels), rtol=1e-5)
    model = keras.Sequential([keras.Input((UNITS,)), head])
    model.compile(keras.optimizers.SGD(0.0), SoftmaxLoss(), weighted_metrics=[Perplexity()])
    history = model.fit(hidden, labels, batch_size=N, verbose=0).history
    expected = np.exp(np.mean(-head.log_prob(hidden, labels)))
    np.testing.assert_allclose(history["perplexity"], expected, rtol=1e-4)
    np.testing.assert_allclose(
        model.evaluate(hidden, labels, verbose=0)[0], np.log(expected), rtol=1e-4
    )


@pytest.mark.parametrize("xla", [False, True])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_every_batch_draws_one_word_for_each_position_whose_label_is_given_up(count, xla):
    head, (hidden, labels) = head_of(), positions(V, count)
    kept = -(1 - SMOOTHING) * head.log_prob(hidden, labels).numpy()
    for shape in ([count, UNITS], [None, UNITS]):
        compiled = tf.function(head.training_loss, jit_compile=xla, input_signature=[
            tf.TensorSpec(shape), tf.TensorSpec(shape[:1], tf.int32)
        ])
        losses = compiled(hidden, labels)
        assert losses.shape == (count,) and np.isfinite(losses).all()
        assert np.sum(losses.numpy() > kept + 1e-4) == min(1, count)  # ⌈0.25 · 3⌉
