"""Lists of the likeliest words: `top_k` of every head, in blocks, and without excluded words."""

import numpy as np
import pytest
import tensorflow as tf

from cases import ONE_OF_EACH, UNITS, built, positions
from refusals import refuses
from tfsoftmax.support import budgets

V = 40


@pytest.mark.parametrize("case", ONE_OF_EACH)
def test_top_k_without_excluded_items_is_that_of_the_others(case):
    head, (hidden, _) = built(case, V), positions(V, 6)
    exclude = np.random.default_rng(5).integers(-1, V, (6, 11)).astype(np.int64)
    exclude[0] = head.top_k(hidden, 11)[0][0]
    exclude[1] = -1
    ids, log_probs = head.top_k(hidden, V)

    @tf.function(input_signature=[tf.TensorSpec([None, UNITS]), tf.TensorSpec(None, "int64")])
    def of_any_width(hidden, exclude):
        return head.top_k(hidden, 5, exclude=tf.ensure_shape(exclude, [None, None]))

    def of_ragged(hidden, exclude):
        ragged = tf.RaggedTensor.from_tensor(exclude, padding=-1)
        return head.top_k(hidden, 5, exclude=ragged)

    def of_width(hidden, exclude):
        return head.top_k(hidden, 5, exclude=exclude)

    wide = np.tile(exclude, 7)  # wider than V
    cases = [(of_width, exclude), (tf.function(of_width), exclude), (of_any_width, wide),
             (of_any_width, exclude), (of_ragged, wide), (of_any_width, exclude[:, :0])]
    for call, exclude in cases:
        got_ids, got_log_probs = call(hidden, exclude)
        for row in range(6):
            kept = ~np.isin(ids[row], exclude[row])
            np.testing.assert_array_equal(got_ids[row], ids[row][kept][:5])
            np.testing.assert_allclose(got_log_probs[row], log_probs[row][kept][:5], rtol=1e-5)


def test_places_without_items_are_empty():
    head, (hidden, _) = built("full", V), positions(V, 2)
    exclude = np.stack([np.arange(3, V), np.repeat(-1, V - 3)])
    ids, log_probs = head.top_k(hidden, V, exclude=exclude)
    assert sorted(ids[0, :3].numpy()) == [0, 1, 2]
    assert (ids[0, 3:] == -1).numpy().all() and np.isneginf(log_probs[0, 3:]).all()
    assert sorted(ids[1].numpy()) == list(range(V))
    steps = np.stack([hidden, hidden[::-1]], axis=1)  # (2, 2, D)
    for call in (head.top_k, tf.function(head.top_k)):
        same = call(steps, 5, exclude=exclude[:, None])[0]
        each = head.top_k(steps, 5, exclude=np.repeat(exclude[:, None], 2, axis=1))[0]
        np.testing.assert_array_equal(same, each)
    none = head.top_k(hidden, 3, exclude=np.zeros((2, 0), np.int32))
    blocks = tf.function(lambda e: head.top_k(hidden, V, exclude=e))
    budgets.TOP_K_WORDS, whole = 10, budgets.TOP_K_WORDS
    try:
        np.testing.assert_array_equal(blocks(exclude)[0], ids)
    finally:
        budgets.TOP_K_WORDS = whole
    np.testing.assert_array_equal(none[0], head.top_k(hidden, 3)[0])


@pytest.mark.parametrize("bias", [True, False])
def test_words_in_blocks_give_the_same_list_with_ties_by_rising_id(monkeypatch, bias):
    head = built("full" if bias else "full without bias", 103)
    hidden = positions(103, 11)[0]
    head.kernel.assign(np.round(head.kernel.numpy(), 0))  # many ties
    for k in (1, 7, 50, 103):
        exact = np.argsort(-head(hidden).numpy(), axis=1, kind="stable")[:, :k]
        monkeypatch.setattr(budgets, "TOP_K_WORDS", 1000)
        whole = head.top_k(hidden, k)
        for size in (10, 34, 102):  # the last block may have fewer words than k, or than one
            monkeypatch.setattr(budgets, "TOP_K_WORDS", size)
            for call in (head.top_k, tf.function(head.top_k)):
                blocks = call(hidden, k)
                np.testing.assert_array_equal(blocks[0], exact)
                np.testing.assert_allclose(blocks[1], whole[1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", ["full", "adaptive"])  # the second scores some positions alone
def test_excluding_compiles(case):
    head, (hidden, _) = built(case, V), positions(V, 6)
    exclude = np.random.default_rng(5).integers(-1, V, (6, 11))
    compiled = tf.function(lambda h, e: head.top_k(h, 5, exclude=e), jit_compile=True)
    np.testing.assert_array_equal(
        compiled(hidden, exclude)[0], head.top_k(hidden, 5, exclude=exclude)[0]
    )


@pytest.mark.parametrize("exclude, rule, error", [
    (np.zeros((6, 2)), "be integers", TypeError),
    (np.zeros((5, 2), int), "have the shape (6, 'E')", ValueError),
    (tf.ragged.constant([[1], [2, 3]]), "have the shape (6, 'E')", ValueError),
])
def test_excluded_items_of_another_form_are_named(exclude, rule, error):
    with refuses("exclude", rule, error):
        built("full", V).top_k(positions(V, 6)[0], 3, exclude=exclude)
