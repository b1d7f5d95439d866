"""The cases in which kernels of linear layer and cross-entropy in one are tested elsewhere.

Liger-kernel and Apple's ml-cross-entropy hold theirs against sizes that no block divides, options
in all combinations, batches smaller and larger than a block, and low precision.
"""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from cases import randomise, with_gradients
from references import full_step
from tfsoftmax import FullSoftmax, SoftmaxLoss
from tfsoftmax.support import budgets

OPTIONS = [
    {"use_bias": use_bias, "label_smoothing": smoothing, "z_loss": z_loss, "soft_cap": soft_cap}
    for use_bias, smoothing, z_loss, soft_cap in itertools.product(
        [True, False], [0.0, 0.1], [0.0, 0.03], [None, 3.0]
    )
]
PLAIN, ALL = OPTIONS[0], OPTIONS[7]


def problem(vocab_size, count, units, seed=0):
    """hidden, labels and weights of positions; the first two weights are zero and negative."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(count, units)).astype(np.float32)
    labels = rng.integers(0, vocab_size, count).astype(np.int32)
    weights = rng.uniform(0.5, 2, count).astype(np.float32)
    weights[:2] = [0, -0.5][:count]
    return hidden, labels, weights


def built(vocab_size, units, policy="float32", **options):
    head = FullSoftmax(vocab_size, dtype=policy, **options)
    head.build((None, units))
    randomise(head)
    return head


def reference(head, hidden, labels, weights):
    """The objective of each position, and dh, dW and db of its weighted sum, in float64."""
    kernel, *bias = head.get_weights()
    losses, _, gradients = full_step(
        hidden, kernel, bias[0] if bias else np.zeros(len(kernel)), labels, weights,
        head.soft_cap, head.label_smoothing, head.z_loss,
    )
    return losses, gradients[: 2 + len(bias)]


def both_ways(head, hidden, labels, weights):
    """Losses of positions or their total, and gradients: a later sum, and `loss_and_nats`."""
    source, scale = tf.Variable(hidden), tf.constant(weights)
    sources = [source, *(w.value for w in head.trainable_weights), scale]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(scale)
        losses = head.training_loss(source, labels)
        later = tf.reduce_sum(scale * losses)
        total, nats = head.loss_and_nats(source, labels, scale)
    return losses, total, nats, tape.gradient(later, sources), tape.gradient(total, sources)


def close(ours, wanted, tolerance):
    assert ours.dtype == tf.float32
    error = np.linalg.norm(np.asarray(ours, np.float64) - wanted)
    assert error <= tolerance * (1 + np.linalg.norm(wanted))


def check(head, hidden, labels, weights, tolerance=1e-5):
    wanted, gradients = reference(head, hidden, labels, weights)
    losses, total, nats, *ours = both_ways(head, hidden, labels, weights)
    close(losses, wanted, tolerance)
    if len(labels):
        assert abs(total - wanted @ weights) <= tolerance * (1 + np.abs(wanted * weights).sum())
    assert nats.shape == losses.shape == labels.shape and nats.dtype == total.dtype == tf.float32
    of_weights = wanted, np.where(weights == 0, 0.0, wanted)  # a later sum computes all positions
    for way, by_weight in zip(ours, of_weights, strict=True):
        for mine, theirs in zip(way, [*gradients, by_weight], strict=True):
            close(mine, theirs, tolerance)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_combination_of_options(options, monkeypatch):
    monkeypatch.setattr(budgets, "CHUNK_ROWS", 8)
    check(built(31, 7, **options), *problem(31, 19, 7))


@pytest.mark.parametrize("count", [0, 1, 2, 7, 8, 9, 16, 23])
@pytest.mark.parametrize("options", [PLAIN, ALL], ids=["plain", "all options"])
def test_batches_around_the_size_of_a_chunk(count, options, monkeypatch):
    monkeypatch.setattr(budgets, "CHUNK_ROWS", 8)
    check(built(13, 5, **options), *problem(13, count, 5))


@pytest.mark.parametrize("vocab_size", [1, 2, 15, 16, 17, 127, 257])
@pytest.mark.parametrize("units", [1, 3, 17])
def test_sizes_that_no_block_divides(vocab_size, units, monkeypatch):
    monkeypatch.setattr(budgets, "BLOCK_BYTES", 1)  # blocks of 16 words
    check(built(vocab_size, units, **PLAIN), *problem(vocab_size, 11, units))


def test_a_vocabulary_of_one_word_costs_nothing():
    head = built(1, 3)
    hidden, labels, weights = problem(1, 5, 3)
    np.testing.assert_allclose(head.training_loss(hidden, labels), 0, atol=1e-6)
    np.testing.assert_allclose(head.log_prob(hidden, labels), 0, atol=1e-6)
    assert head.top_k(hidden, 1)[0].numpy().tolist() == [[0]] * 5


@pytest.mark.parametrize("policy, tolerance", [("mixed_bfloat16", 0.01), ("mixed_float16", 2e-3)])
@pytest.mark.parametrize("options", [PLAIN, ALL], ids=["plain", "all options"])
def test_low_precision_is_within_its_rounding(policy, tolerance, options, monkeypatch):
    monkeypatch.setattr(budgets, "CHUNK_ROWS", 8)
    head = built(97, 13, policy, **options)
    # The rounding of the inputs is no error of ours.
    for weight in head.weights:
        weight.assign(tf.cast(tf.cast(weight.value, head.compute_dtype), tf.float32))
    hidden, labels, weights = problem(97, 19, 13)
    hidden = tf.cast(tf.cast(hidden, head.compute_dtype), tf.float32).numpy()
    check(head, hidden, labels, weights, tolerance)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_hidden_states_of_any_float_type(dtype):
    head, (hidden, labels, weights) = built(31, 7), problem(31, 5, 7)
    narrow = tf.cast(hidden, dtype)
    (total, nats), [gradient] = with_gradients(
        head.loss_and_nats, [narrow], narrow, labels, weights
    )
    wanted, (d_hidden, *_) = reference(head, tf.cast(narrow, "float64").numpy(), labels, weights)
    assert nats.dtype == total.dtype == tf.float32
    assert gradient.dtype == dtype  # that of the hidden states, as any layer's
    np.testing.assert_allclose(total, wanted @ weights, rtol=1e-4)
    np.testing.assert_allclose(tf.cast(gradient, "float64"), d_hidden, rtol=0.02, atol=0.02)


def test_arrays_that_are_not_contiguous():
    head, (hidden, labels, weights) = built(31, 7), problem(31, 22, 7)
    views = np.asfortranarray(hidden)[::-2], labels[::-2], weights[::-2]
    assert not views[0].flags.c_contiguous and not views[1].flags.c_contiguous
    check(head, *views)


@pytest.mark.parametrize("ignored", ["some", "all", "none"])
def test_ignored_labels_have_neither_loss_nor_gradient(ignored):
    head, (hidden, labels, _) = built(31, 7, **ALL), problem(31, 12, 7)
    kept = {"some": np.arange(12) % 3 > 0, "all": np.zeros(12, bool), "none": np.ones(12, bool)}
    kept = kept[ignored]
    source, loss = tf.constant(hidden), SoftmaxLoss(ignore_class=-100)
    total, ours = with_gradients(
        lambda: loss(np.where(kept, labels, -100), head(source, training=True)),
        [source, head.kernel],
    )
    weights = kept / max(1, kept.sum())
    wanted, (d_hidden, d_kernel, *_) = reference(head, hidden, labels, weights)
    np.testing.assert_allclose(total, wanted @ weights, rtol=1e-5)
    close(ours[0], d_hidden, 1e-5)
    close(ours[1], d_kernel, 1e-5)
    assert not np.any(ours[0].numpy()[~kept])


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_the_gradient_is_linear_in_what_comes_from_above(scale):
    head, (hidden, labels, weights) = built(31, 7, **ALL), problem(31, 5, 7)
    source = tf.constant(hidden)
    _, [ours] = with_gradients(
        lambda: scale * head.loss_and_nats(source, labels, weights)[0], [source]
    )
    _, (d_hidden, *_) = reference(head, hidden, labels, weights)
    close(ours / scale, d_hidden, 1e-5)


def test_frozen_weights_get_no_gradient_and_do_not_stop_the_others():
    head, (hidden, labels, weights) = built(31, 7), problem(31, 5, 7)
    head.kernel.trainable = False
    source = tf.constant(hidden)
    _, ours = with_gradients(head.loss_and_nats, [source, head.bias], source, labels, weights)
    _, (d_hidden, _, d_bias) = reference(head, hidden, labels, weights)
    assert head.trainable_weights == [head.bias]
    close(ours[0], d_hidden, 1e-5)
    close(ours[1], d_bias, 1e-5)


def test_a_policy_of_keras_is_found_by_the_head():
    head = built(31, 7, keras.DTypePolicy("mixed_bfloat16"))
    assert head(np.ones((2, 7))).dtype == tf.float32
    assert {w.dtype for w in head.weights} == {"float32"}
