"""Facts about the number of operations of a training step, which must not grow with V."""

import math

import pytest
import tensorflow as tf

from cases import CASES, ONE_OF_EACH, TO_COMPILE, UNITS, slow_unless
from graph_helper import operations
from tfsoftmax.heads import AdaptiveSoftmax, FullSoftmax
from tfsoftmax.support import budgets

OF_A_LEVEL = 250  # operations that one more level of a binary tree may need


def step_of(head):
    """The traced step of a head: loss, exact log-probabilities of the labels and all gradients."""
    head.build((None, UNITS))

    @tf.function
    def step(hidden, labels, weights):
        with tf.GradientTape() as tape:
            tape.watch(hidden)
            total, _ = head.loss_and_nats(hidden, labels, weights)
        sources = [hidden, *(w.value for w in head.trainable_weights)]
        return total, head.log_prob(hidden, labels), tape.gradient(total, sources)

    return step.get_concrete_function(
        tf.TensorSpec((None, UNITS)), tf.TensorSpec((None,), tf.int32), tf.TensorSpec((None,))
    )


@pytest.mark.parametrize("case", slow_unless(
    [*TO_COMPILE, "shortlist"], [*ONE_OF_EACH, "full, drawn tiles", "shortlist without its node"]
))
def test_eight_times_the_words_need_no_more_operations_but_for_the_levels_of_trees(
    case, monkeypatch
):
    """Blocks have so few words here that these vocabularies are cut into as many as large ones."""
    monkeypatch.setattr(budgets, "MOST_BLOCKS", 3)
    monkeypatch.setattr(budgets, "BLOCK_BYTES", 1)
    monkeypatch.setattr(budgets, "TILE_WORDS", 16)
    monkeypatch.setattr(budgets, "BLOCK_WORDS", 1)
    few, many = 1100, 8800  # a table of computed rows needs a loop for either
    grown = operations(step_of(CASES[case](many))) - operations(step_of(CASES[case](few)))
    assert grown <= OF_A_LEVEL * math.log2(many / few)


@pytest.mark.slow
@pytest.mark.parametrize("head", [
    FullSoftmax, lambda words, **options: AdaptiveSoftmax(words, [4000, words // 5], **options)
])
def test_a_step_at_four_million_words_has_the_operations_of_one_at_a_million(head):
    million, more = (
        operations(step_of(head(words, kernel_initializer="zeros")))
        for words in (1_000_000, 4_000_000)
    )
    assert more == million < 10_000
