"""Gradients in float16 of the heads that scale their weights into its range."""

import numpy as np
import pytest
import tensorflow as tf

from cases import UNITS, positions, randomise
from tfsoftmax.distributions import products
from tfsoftmax.heads import AdaptiveSoftmax, DifferentiatedSoftmax, FullSoftmax, SampledSoftmax

V = 301
HEADS = {
    "full": lambda policy: FullSoftmax(V, dtype=policy),
    "differentiated": lambda policy: DifferentiatedSoftmax(V, [20, 100], dtype=policy),
    "adaptive": lambda policy: AdaptiveSoftmax(V, [20, 100], use_bias=True, dtype=policy),
    "sampled": lambda policy: SampledSoftmax(
        V, 64, "uniform", seed=3, remove_accidental_hits=True, dtype=policy
    ),
}


def gradients(name, policy):
    """Gradients of 10^-8 Σ loss with respect to hidden states and weights."""
    head, (hidden, labels) = HEADS[name](policy), positions(V, 40)
    head.build((None, UNITS))
    randomise(head)
    source = tf.Variable(hidden)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(1e-8 * head.training_loss(source, labels))
    sources = [source, *(w.value for w in head.trainable_weights)]
    return [tf.convert_to_tensor(g).numpy() for g in tape.gradient(total, sources)]


@pytest.mark.parametrize("name", HEADS)
def test_small_weights_do_not_underflow_in_float16(name):
    by_hidden, *by_weights = gradients(name, "mixed_float16")
    wanted_by_hidden, *wanted = gradients(name, "float32")
    assert len(by_weights) == len(wanted) and np.abs(wanted_by_hidden).max() < 1e-6
    for ours, expected in zip(by_weights, wanted):
        assert np.linalg.norm(ours - expected) <= 0.01 * np.linalg.norm(expected)


def test_row_factors_are_left_out_unless_sums_would_overflow():
    matrix, factors = tf.constant([[1.0, 3.0], [4.0, 2.0]]), tf.constant([0.5, 0.25])
    for dtype in (tf.float32, tf.bfloat16, tf.float16):
        (narrow,), (left,) = products.narrowed([matrix], [factors], dtype)
        assert narrow.dtype == dtype and left.dtype == tf.float32
        product = tf.cast(narrow, tf.float32) * left[:, None]
        np.testing.assert_allclose(product, matrix * factors[:, None])
    np.testing.assert_array_equal(left, [1.0, 1.0])
