"""Sampled softmax whose sum has no term of the label's own: self-normalised importance sampling."""

import numpy as np
import pytest
import tensorflow as tf

import references
from cases import assert_all_close, counts, positions, ready, rewind, with_gradients
from tfsoftmax import SampledSoftmax, samplers

V, S, N = 13, 8, 6


def without_label(vocab_size, num_samples, **options):
    options = {"counts": counts(vocab_size), **options}
    return ready(SampledSoftmax, vocab_size, num_samples, label_in_sum=False, **options)


@pytest.mark.parametrize("unique", [False, True])
@pytest.mark.parametrize("jit_compile", [False, True])
def test_loss_and_gradients_are_the_equations(unique, jit_compile):
    head = without_label(V, S, sampler_options={"unique": unique})
    hidden, labels = positions(V, N)
    seed = head.random_state.next()
    rewind(head)
    ids = head.sampler.sample(labels, S, seed).ids.numpy()
    labels[:2] = ids[:2]
    expected = head.sampler.sample(tf.range(V), S, seed).log_expected_labels
    weights = [w.numpy() for w in head.trainable_weights]
    count = np.exp(expected.numpy().astype(np.float64))
    losses, gradients = references.importance_sampling(hidden, *weights, labels, ids, count)

    @tf.function(jit_compile=jit_compile)
    def computed(hidden):
        sources = [hidden, *head.trainable_weights]
        return with_gradients(head.training_loss, sources, hidden, labels)

    ours, our_gradients = computed(tf.constant(hidden))
    np.testing.assert_allclose(ours, losses, rtol=2e-5, atol=1e-5)
    assert_all_close(our_gradients, gradients, rtol=1e-4)


def test_the_estimate_of_the_cross_entropy_and_its_gradient_is_biased_but_for_many_samples():
    """At one context: E[loss] < cross-entropy, and E[share of v in the sample] is not P(v)."""
    hidden, labels = np.ones((1, 1), np.float32), np.array([2])
    scores = np.random.default_rng(0).normal(size=V).astype(np.float32)
    p = np.exp(scores) / np.exp(scores).sum()

    def mean_of_draws(num_samples, draws):
        head = SampledSoftmax(V, num_samples, counts=counts(V), label_in_sum=False, seed=1)
        head.build((None, 1))
        head.kernel.assign(np.zeros((V, 1)))
        head.bias.assign(scores)

        @tf.function
        def draw(_):
            loss, slopes = with_gradients(head.training_loss, [head.bias], hidden, labels)
            return tf.concat([loss, *slopes], 0)

        drawn = np.stack([draw(0).numpy() for _ in range(draws)])
        return drawn.mean(0), drawn.std(0) / np.sqrt(draws)

    wanted = np.concatenate([-np.log(p[2:3]), p - np.eye(V)[2]])
    few, error = mean_of_draws(2, 3000)
    z = (few - wanted) / error
    assert z[0] < -10 and np.abs(z[1:]).max() > 10  # biased, and the loss too low
    many, error = mean_of_draws(2000, 50)
    assert np.abs(many - wanted).max() < 0.1 * np.abs(few - wanted).max()
    assert np.all(np.abs(many - wanted) < 5 * error + 0.002)


def test_the_score_of_a_word_that_the_sample_lacks_rises_at_no_cost():
    counts_of = np.ones(V) * 1e6
    counts_of[0] = 1  # hardly ever drawn
    hidden, labels = np.ones((1, 1), np.float32), np.array([0])
    losses = {}
    for label_in_sum in (True, False):
        head = SampledSoftmax(V, S, counts=counts_of, label_in_sum=label_in_sum, seed=1)
        head.build((None, 1))
        losses[label_in_sum] = []
        for score in (0.0, 40.0, 400.0):
            head.bias.assign(np.eye(V)[0] * score)
            losses[label_in_sum].append(float(rewind(head).training_loss(hidden, labels)[0]))
    np.testing.assert_allclose(np.diff(losses[False]), [-40, -360], rtol=1e-4)
    assert min(losses[True]) >= 0


@pytest.mark.parametrize("options", [
    {"remove_accidental_hits": True},
    {"sampler": samplers.InBatch(V, counts(V)), "num_samples": None},
])
def test_options_that_take_the_label_from_the_sample_are_refused(options):
    with pytest.raises(ValueError, match="`label_in_sum` must be True (with|for)"):
        SampledSoftmax(V, **{"num_samples": S, **options}, label_in_sum=False)


def test_a_label_outside_the_chunk_is_nan_as_with_it():
    sampler = samplers.TargetSampling(V, [[1, 2, 4]], [1])
    head = SampledSoftmax(V, 3, sampler, label_in_sum=False)
    both = SampledSoftmax(V, 3, samplers.TargetSampling(V, [[1, 2, 4]], [1]))
    hidden, labels = positions(V, 2)
    labels[:] = 4, 1
    for each in (head, both):
        each.build(hidden.shape)
        each.set_weights([*[0.1 * np.ones(w.shape) for w in each.trainable_weights],
                          *[w.numpy() for w in each.non_trainable_weights]])
    wanted = both.training_loss(hidden, labels)
    np.testing.assert_allclose(head.training_loss(hidden, labels), wanted, rtol=1e-5)
    loss = tf.function(head.training_loss, jit_compile=True)(hidden, np.array([4, 3]))
    np.testing.assert_array_equal(np.isnan(loss), [False, True])
