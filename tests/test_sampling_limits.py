"""What sampling heads tend to: the full gradient with many samples, the data with training."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from cases import counts, positions, ready, with_gradients
from tfsoftmax.heads import NCE, FullSoftmax, NegativeSampling, SampledSoftmax
from tfsoftmax.ops.criteria import Words, logistic

V = 13


def gradient_error(head, draws=20):
    """Root mean square distance of one draw's kernel gradient from that of the full softmax."""
    hidden, labels = positions(head.vocab_size, 64)
    full = ready(lambda size, seed: FullSoftmax(size), head.vocab_size)

    def gradient(head):
        return with_gradients(head.training_loss, [head.kernel], hidden, labels)[1][0]

    wanted = gradient(full)
    compiled = tf.function(lambda: tf.norm(gradient(head) - wanted) / tf.norm(wanted))
    return np.sqrt(np.mean([compiled().numpy() ** 2 for _ in range(draws)]))


@pytest.mark.parametrize("unique, sizes", [(False, [20, 400, 8000]), (True, [20, 100, 400])])
def test_the_sampled_gradient_tends_to_the_full_one(unique, sizes):
    options = {"counts": counts(400), "sampler_options": {"unique": unique}}
    errors = [gradient_error(ready(SampledSoftmax, 400, size, **options)) for size in sizes]
    if unique:  # all words, each once, are the full softmax
        assert errors[0] > 1.5 * errors[1] and errors[2] < 1e-5
    else:  # as 1 / sqrt(S), but for the smallest
        assert errors[0] > 2 * errors[1] and 3 < errors[1] / errors[2] < 6.5


def test_removed_hits_with_replacement_miss_the_full_gradient():
    """Why hits stay when the sample is with replacement: see `SampledSoftmax`."""
    kept, removed = (
        gradient_error(ready(SampledSoftmax, V, 20_000, "uniform", remove_accidental_hits=choice))
        for choice in (None, True)
    )
    assert kept < 0.02 and removed > 10 * kept


def learn(head, p, words=4096, steps=400, rate=0.05):
    """Trains a head on words that follow p in every context; returns their frequencies."""
    words = np.random.default_rng(0).choice(V, words, p=p).astype(np.int32)
    hidden = np.ones((len(words), 1), np.float32)
    head.build((None, 1))
    schedule = keras.optimizers.schedules.CosineDecay(rate, steps)
    optimizer = keras.optimizers.Adam(schedule, beta_2=0.95)
    optimizer.build(head.trainable_weights)

    @tf.function
    def train():
        for _ in tf.range(steps):
            _, gradients = with_gradients(
                lambda: tf.reduce_mean(head.training_loss(hidden, words)), head.trainable_weights
            )
            optimizer.apply(gradients, head.trainable_weights)

    train()
    return np.bincount(words, minlength=V) / len(words)


@pytest.mark.parametrize("train_z, log_z", [(False, 1.0), (True, 0.0)])
def test_nce_makes_its_normaliser_come_true(train_z, log_z):
    head = NCE(V, 50, counts=counts(V), log_z=log_z, train_z=train_z, seed=1)
    frequencies = learn(head, counts(V) / counts(V).sum())
    one, every_word = np.ones((1, 1)), (np.ones((V, 1)), np.arange(V))
    np.testing.assert_allclose(np.exp(head.log_probs(one)[0]), frequencies, atol=0.01)
    log_z = head.log_z.numpy() if train_z else log_z
    np.testing.assert_allclose(head.log_normaliser(one), log_z, atol=0.05)
    estimates = np.exp(head.self_normalised_log_prob(*every_word))
    np.testing.assert_allclose(estimates, frequencies, atol=0.01)


@pytest.mark.parametrize("restore_proposal", [True, False])
def test_negative_sampling_finds_the_distribution_if_its_proposal_is_restored(restore_proposal):
    head = NegativeSampling(
        V, 200, counts=counts(V), restore_proposal=restore_proposal, kernel_initializer="zeros",
        seed=1,
    )
    frequencies = learn(head, counts(V)[::-1] / counts(V).sum())
    one = np.ones((1, 1))
    found = np.exp(head.log_probs(one)[0])
    assert (np.abs(found - frequencies).max() < 0.01) == restore_proposal
    if restore_proposal:
        np.testing.assert_allclose(head.log_normaliser(one), 0, atol=0.05)


def test_negative_sampling_without_accidental_hits_finds_log_odds():
    head = NegativeSampling(
        V, 200, counts=counts(V), remove_accidental_hits=True, restore_proposal=False,
        kernel_initializer="zeros", seed=1,
    )
    frequencies = learn(head, counts(V)[::-1] / counts(V).sum())
    log_expected = np.log(200 * counts(V) / counts(V).sum())
    found = tf.sigmoid(head(np.ones((1, 1)))[0] + log_expected)
    np.testing.assert_allclose(found, frequencies, atol=0.01)


def test_the_loss_of_noise_is_the_equation_for_scores_of_any_size():
    scores = np.linspace(-200, 200, 801, dtype=np.float32)[None]
    label, copies = np.float32([0.0]), np.ones(801, np.float32)
    words = Words(tf.constant(scores), 0.0, 0.0, tf.constant(copies))
    losses, slopes = logistic(tf.constant(label), words)
    wanted = np.logaddexp(0, scores.astype(np.float64))
    np.testing.assert_allclose(losses[0] - np.log(2), wanted.sum(), rtol=1e-6)
    np.testing.assert_allclose(slopes.words, np.exp(scores - wanted), rtol=2e-5, atol=1e-38)
    zeros = np.zeros(801, np.float32)
    one_by_one, _ = logistic(tf.constant(zeros), Words(tf.constant(scores.T), 0.0, 0.0, tf.ones(1)))
    np.testing.assert_allclose(one_by_one - np.log(2), wanted[0], rtol=1e-6, atol=2e-7)
