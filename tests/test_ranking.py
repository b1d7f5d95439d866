"""The k best of a row are those of a stable sort, however the search goes about it."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfsoftmax
from tfsoftmax.ops.ranking import columns_of_best
from tfsoftmax.support import budgets

ROWS = 9


def scores_of(width, values):
    """Scores (ROWS, width), many of which are equal if there are few values."""
    rng = np.random.default_rng(width)
    drawn = rng.choice(np.asarray(values, np.float32), (ROWS, width))
    drawn[0], drawn[1, : width // 2] = -np.inf, -np.inf
    return drawn


VALUES = {
    "distinct": np.random.default_rng(0).normal(size=5000), "ties": [-1, 0, 1],
    "excluded": [-np.inf, -np.inf, 1, 2], "equal": [3],
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("width, k", itertools.product([64, 65, 200, 207], [1, 2, 7, 25, 64]))
def test_the_best_are_those_of_a_stable_sort(name, width, k, monkeypatch):
    monkeypatch.setattr(budgets, "RUN_COLUMNS", 4)
    scores = scores_of(width, VALUES[name])
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    for jit in (False, True):
        found = tf.function(lambda s: columns_of_best(s, k), jit_compile=jit)(scores)
        np.testing.assert_array_equal(found[0], np.take_along_axis(scores, order, 1))
        np.testing.assert_array_equal(found[1], order)


@pytest.mark.parametrize("k, widths", [(1, [50, 1 * 4 + 3]), (7, [50, 7 * 4 + 3]), (26, [203])])
def test_few_of_many_are_found_without_a_search_of_all(k, widths, monkeypatch):
    """Of the maxima of 50 runs, then of the k runs and the columns that are left."""
    monkeypatch.setattr(budgets, "RUN_COLUMNS", 4)
    searched, top_k = [], tf.math.top_k
    monkeypatch.setattr(tf.math, "top_k", lambda scores, *args, **kwargs: (
        searched.append(scores.shape[1]) or top_k(scores, *args, **kwargs)))
    columns_of_best(tf.constant(scores_of(203, VALUES["ties"])), k)
    assert searched == widths


def test_rows_of_fewer_scores_are_filled_up():
    values, columns = columns_of_best(tf.constant([[1.0, 2.0]]), 3)
    np.testing.assert_array_equal(values, [[2, 1, -np.inf]])
    np.testing.assert_array_equal(columns, [[1, 0, 0]])


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16", "float64"])
@pytest.mark.parametrize("name", ["full", "adaptive"])
def test_a_search_by_runs_in_predict_gives_what_an_exported_model_gives(name, policy, tmp_path):
    """Both search the runs with the greatest maxima; the head's log-probabilities are all there."""
    keras.utils.set_random_seed(1)
    if name == "full":
        head = tfsoftmax.FullSoftmax(700, not_items=[0], dtype=policy)
    else:
        head = tfsoftmax.AdaptiveSoftmax(700, [200, 500], dtype=policy)
    inputs = keras.Input((3, 16), dtype="float32")
    model = keras.Model(inputs, tfsoftmax.TopK(head, 5)(inputs))
    hidden = np.random.default_rng(0).normal(size=(4, 3, 16)).astype(np.float32)
    ids, log_probs = model.predict(hidden, verbose=0)
    expected = -np.sort(-head.log_probs(hidden).numpy(), axis=-1)[..., :5]
    np.testing.assert_allclose(log_probs, expected, atol=1e-5)
    model.export(tmp_path / "model", verbose=False)
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    served = tf.nest.flatten(loaded.serve(hidden))
    np.testing.assert_array_equal(served[0], ids)
    np.testing.assert_allclose(served[1], log_probs, atol=1e-6)
