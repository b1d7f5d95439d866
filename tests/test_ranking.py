"""The k best of a row are those of a stable sort, however the search goes about it."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

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
