"""Class-based heads without scores of words, and with factors trained by NCE."""

import numpy as np
import pytest
import tensorflow as tf

import references
from cases import UNITS, counts, positions, rewind
from cases import prepared as built
from refusals import refuses
from test_sampling_limits import learn
from tfsoftmax import ClassNCE, ClassSoftmax, ClassUnigram
from tfsoftmax.samplers.rows import cumulative, draw

V, C = 13, 4
CLASSES = np.array([0, 3, 1, 1, 0, 2, 0, 1, 3, 3, 0, 1, 0])  # class 2 has one word


@pytest.mark.parametrize("classes", [CLASSES, np.arange(V)])
def test_unigram_words_follow_the_equation(classes):
    given = counts(V).copy()
    given[4] = 0
    head = built(ClassUnigram(V, given, classes))
    hidden, labels = positions(V, 6)
    by_class = references.full_log_probs(hidden, *(w.numpy() for w in head.weights))
    seen = np.where(given > 0, given, given[given > 0].min())
    wanted = np.zeros((6, V))
    for w in range(V):
        share = seen[w] / sum(seen[v] for v in range(V) if classes[v] == classes[w])
        wanted[:, w] = by_class[:, classes[w]] + np.log(share)
    np.testing.assert_allclose(head.log_probs(hidden), wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        -head.training_loss(hidden, labels), wanted[np.arange(6), labels], rtol=1e-5, atol=1e-5
    )
    assert head.kernel.shape == (len(set(classes)), UNITS)


def test_rows_are_drawn_as_they_claim():
    rng = np.random.default_rng(0)
    rows = np.repeat(np.arange(6), [3, 0, 1, 40, 2, 0])
    weights = rng.gamma(0.5, size=len(rows))
    weights[-2:] = 0  # a row of zeros
    ends, q = cumulative(rows, weights, 6)
    assert (np.diff(ends) >= 0).all()
    for row in (0, 2, 3):
        inside = rows == row
        np.testing.assert_allclose(q[inside], weights[inside] / weights[inside].sum(), rtol=1e-9)
        found = draw(tf.constant(ends), tf.fill([200, 100], row), tf.constant([row, 1])).numpy()
        assert inside[found].all()
        frequencies = np.bincount(found.ravel(), minlength=len(rows))[inside] / 20_000
        error = np.sqrt(q[inside] * (1 - q[inside]) / 20_000)
        assert (np.abs(frequencies - q[inside]) < 4.5 * error + 1e-12).all()


@pytest.mark.parametrize("given", [counts(V), None])
def test_the_loss_is_nce_of_the_class_and_of_the_word_within_it(given):
    head = built(ClassNCE(V, 5, given, seed=2, classes=CLASSES))
    hidden, labels = positions(V, 7)
    labels[2] = 5  # alone in its class
    seen = np.ones(V) if given is None else given
    of_classes = np.bincount(CLASSES, seen)
    class_seed, word_seed = head.random_state.next(), head.random_state.next()
    class_ids = head._class_noise.sample([0], 5, class_seed).ids.numpy()
    beside = np.repeat(CLASSES[labels][:, None], 5, axis=1)
    words = head.tree.words[C:]
    drawn = words[draw(head._ends, tf.constant(beside, tf.int32), word_seed).numpy()]
    assert (CLASSES[drawn] == beside).all()
    kernel, bias = (w.numpy() for w in head.trainable_weights)
    by_word = np.argsort(words)
    word_kernel, word_bias = kernel[C:][by_word], bias[C:][by_word]
    wanted = references.nce(
        hidden, kernel[:C], bias[:C], CLASSES[labels], class_ids,
        5 * of_classes / of_classes.sum(), False, Z=C,
    )
    for n, label in enumerate(labels):
        size = np.sum(CLASSES == CLASSES[label])
        wanted[n] += references.nce(
            hidden[n : n + 1], word_kernel, word_bias, [label], drawn[n],
            5 * seen / of_classes[CLASSES], False, Z=size,
        )[0]
    np.testing.assert_allclose(rewind(head).training_loss(hidden, labels), wanted, rtol=1e-4)


def test_outside_training_nce_is_the_class_softmax():
    head, by_class = built(ClassNCE(V, 5, counts(V), classes=CLASSES)), ClassSoftmax(V, CLASSES)
    by_class.build((None, UNITS))
    by_class.set_weights([w.numpy() for w in head.trainable_weights])
    hidden, labels = positions(V, 9)
    np.testing.assert_array_equal(head.log_probs(hidden), by_class.log_probs(hidden))
    np.testing.assert_array_equal(head.log_prob(hidden, labels), by_class.log_prob(hidden, labels))


@pytest.mark.slow
def test_training_by_nce_finds_the_distribution():
    p = counts(V) / counts(V).sum()
    head = ClassNCE(V, 20, counts(V)[::-1], seed=1, classes=CLASSES)
    frequencies = learn(head, p, words=256, steps=250, rate=0.1)
    found = np.exp(head.log_probs(np.ones((1, 1)))[0])
    np.testing.assert_allclose(found, frequencies, atol=0.02)


def test_wrong_arguments_are_named():
    with refuses("counts"):
        ClassUnigram(V, np.ones(4))
    with refuses("num_samples", "lie in [1"):
        ClassNCE(V, 0)
