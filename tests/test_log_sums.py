"""Facts about ln Σ exp z in blocks of words."""

import numpy as np
import pytest
import tensorflow as tf

from cases import assert_all_close, with_gradients
from graph_helper import largest_tensor
from tfsoftmax.distributions.log_sums import exponentials_of_blocks, log_sum_of, log_sum_of_blocks
from tfsoftmax.distributions.rows import Rows
from tfsoftmax.ops.logits import block_words, kernel_blocks
from tfsoftmax.support.budgets import BLOCK_WORDS, MOST_BLOCKS


@pytest.mark.parametrize("offset", [0.0, 80.0, -1e4])
def test_blocks_add_up_to_the_whole(offset):
    rng = np.random.default_rng(0)
    logits = np.float32(rng.normal(0, 30, (5, 37)) + offset * (np.arange(37) < 16))
    blocks = tf.split(tf.constant(logits), [16, 16, 5], axis=1)
    wide = logits.astype(np.float64)
    expected = wide.max(1) + np.log(np.exp(wide - wide.max(1, keepdims=True)).sum(1))
    np.testing.assert_allclose(log_sum_of_blocks(blocks), expected, rtol=1e-6)


def test_a_block_whose_words_are_all_left_out_adds_nothing():
    logits = np.random.default_rng(0).normal(size=(5, 37)).astype(np.float32)
    logits[:, 16:32] = -np.inf
    logits = tf.constant(logits)
    wanted, slopes = with_gradients(lambda: tf.reduce_logsumexp(logits, axis=1), [logits])
    found, ours = with_gradients(
        lambda: log_sum_of_blocks(tf.split(logits, [16, 16, 5], axis=1)), [logits]
    )
    assert_all_close([found, *ours], [wanted, *slopes], atol=0)


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("second", [0.0, 90.0, -1e4, -np.inf])
def test_exponentials_of_blocks_are_probabilities_once_multiplied(second, jit):
    logits = np.random.default_rng(0).normal(0, 3, (5, 37)).astype(np.float32)
    logits[:, 16:32] += second
    function = tf.function(exponentials_of_blocks, jit_compile=jit)
    exps, shares, log_sum = function(tf.split(logits, [16, 16, 5], axis=1))
    found = np.concatenate([e * share[:, None] for e, share in zip(exps, shares)], axis=1)
    np.testing.assert_allclose(found, np.exp(logits - log_sum[:, None]), rtol=2e-5, atol=1e-30)
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-5)


@pytest.mark.parametrize("words", [1, 1000, 10_000, 44_370, 1_000_000])
def test_blocks_are_small_or_few_and_cut_kernels_at_views(words):
    blocks = kernel_blocks(tf.zeros((words, 1)), None, tf.float32, block_words(words))
    rows = [kernel.shape[0] for kernel, _ in blocks]
    assert sum(rows) == words and len(rows) <= MOST_BLOCKS
    assert all(size % 16 == 0 for size in rows[:-1])
    assert max(rows) <= BLOCK_WORDS or len(rows) > MOST_BLOCKS - 2


def test_the_cross_entropy_alone_holds_one_block_of_logits_in_a_tensor():
    rows, words, units = 512, 5000, 8

    @tf.function
    def nats(hidden, kernel, labels):
        return Rows(kernel).nats(hidden, labels)

    specifications = (
        tf.TensorSpec((rows, units)), tf.TensorSpec((words, units)), tf.TensorSpec((rows,), "int32")
    )
    largest = largest_tensor(nats.get_concrete_function(*specifications))
    assert largest == rows * block_words(words) < rows * words


def test_a_row_without_words_has_no_gradient_and_a_broken_one_a_broken_gradient():
    logits = tf.constant([[0.0, 1.0], [-np.inf, -np.inf], [0.0, np.nan]])
    _, (gradient,) = with_gradients(log_sum_of, [logits], logits)
    np.testing.assert_allclose(gradient[0], [1 / (1 + np.e), np.e / (1 + np.e)], rtol=1e-6)
    np.testing.assert_array_equal(gradient[1], [0, 0])
    assert np.isnan(gradient[2]).any()
