"""Metrics of the best items: numbers of lists, and errors."""

import numpy as np
import pytest
import tensorflow as tf

from cases import built, positions
from ranking_helper import METRICS, K, N, V, graded, lists, wanted
from refusals import refuses
from tfsoftmax.metrics import MAP, MRR, NDCG, Accuracy, PrecisionAtK, RecallAtK
from tfsoftmax.ops.ranking import NOT_SEARCHED


@pytest.mark.parametrize("k", [1, 4, K])
def test_metrics_are_those_of_the_equations(k):
    found, relevant, weights = lists()
    every = wanted(found.tolist(), relevant.tolist(), k)
    for column, metric in zip(every.T, METRICS):
        metric = metric(k)
        for part in np.array_split(np.arange(N), 4):
            metric.update_state(relevant[part], found[part], weights[part])
        np.testing.assert_allclose(metric.result(), np.average(column, weights=weights), rtol=1e-6)


@pytest.mark.parametrize("gain, of_grade", [
    ("exponential", lambda g: 2.0**g - 1), ("linear", float),
])
@pytest.mark.parametrize("k", [1, 4, K])
def test_ndcg_of_graded_relevance_is_that_of_the_equation(k, gain, of_grade):
    found, relevant, weights = lists()
    pairs, by_query = graded(relevant)

    def dcg(grades):
        return sum(of_grade(g) / np.log2(2 + place) for place, g in enumerate(grades))

    values = [
        dcg(grades.get(i, 0) for i in row[:k]) / dcg(sorted(grades.values(), reverse=True)[:k])
        for row, grades in zip(found.tolist(), by_query)
    ]
    for y_true in (pairs, pairs.astype(np.float32), np.concatenate([pairs, pairs[:, :2]], 1)):
        metric = NDCG(k, gain=gain)
        for part in np.array_split(np.arange(N), 3):
            metric.update_state(y_true[part], found[part], weights[part])
        np.testing.assert_allclose(metric.result(), np.average(values, weights=weights), rtol=1e-6)


def test_ndcg_of_grades_whose_gains_no_float_holds_is_that_of_their_differences():
    found, (low, high) = [[3, 1, 2]], ([[[1, 3], [2, 5]]], [[[1, 5003], [2, 5005]]])
    expected = (1 / np.log2(3) + 2**2 / np.log2(4)) / (2**2 + 1 / np.log2(3))
    np.testing.assert_allclose(NDCG(3)(high, found), expected, rtol=1e-6)
    assert NDCG(3)(low, found) != NDCG(3)(high, found)  # 2^g - 1 is not 2^g for small grades


def test_metrics_but_ndcg_take_grades_above_zero_as_relevant():
    found, relevant, _ = lists()
    pairs, by_query = graded(relevant)
    every = wanted(found.tolist(), [list(grades) for grades in by_query])
    for metric, column in ((RecallAtK, 0), (MRR, 2), (PrecisionAtK, 3), (MAP, 4)):
        np.testing.assert_allclose(metric(K)(pairs, found), every[:, column].mean(), rtol=1e-6)


@pytest.mark.parametrize("gain", ["exponential", "linear"])
def test_grades_of_one_are_binary_relevance_and_queries_without_grades_do_not_count(gain):
    found, relevant, _ = lists()
    ones = np.stack([relevant, np.ones_like(relevant)], -1)
    binary = NDCG(K)(relevant, found)
    np.testing.assert_allclose(NDCG(K, gain=gain)(ones, found), binary, rtol=1e-6)
    more = np.concatenate([ones, ones[:4] * [1, 0]])
    repeated = np.concatenate([found, found[:4]])
    np.testing.assert_allclose(NDCG(K, gain=gain)(more, repeated), binary, rtol=1e-6)


@pytest.mark.parametrize("k", [3, K])
def test_a_capped_map_is_1_for_the_best_list_of_more_relevant_items_than_k(k):
    found, relevant, weights = lists()
    counts = [len({i for i in row if i >= 0}) for row in relevant.tolist()]
    assert min(counts) < 3 < max(counts)
    values = wanted(found.tolist(), relevant.tolist(), k)[:, 4] * counts / np.minimum(counts, k)
    np.testing.assert_allclose(
        MAP(k, capped=True)(relevant, found, weights), np.average(values, weights=weights),
        rtol=1e-6,
    )
    best = MAP(2, capped=True)([[1, 2, 3]], [[3, 1]]), MAP(2)([[1, 2, 3]], [[3, 1]])
    np.testing.assert_allclose(best, [1, 2 / 3], rtol=1e-6)


@pytest.mark.slow  # numba compiles for two minutes
def test_metrics_are_those_of_ranx():
    ranx = pytest.importorskip("ranx")
    found, relevant, _ = lists(1)
    run = {str(q): {str(i): float(K - r) for r, i in enumerate(f)} for q, f in enumerate(found)}
    qrels = {str(q): {str(i): 1 for i in r if i >= 0} for q, r in enumerate(relevant)}
    names = [f"{name}@{K}" for name in ("recall", "ndcg", "mrr", "precision", "map")]
    theirs = ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), names)
    for name, metric in zip(names, METRICS):
        np.testing.assert_allclose(metric(K)(relevant, found), theirs[name], rtol=1e-6)


def test_metrics_are_those_of_keras_rs():
    """Whose lists are the scores of all items."""
    keras_rs = pytest.importorskip("keras_rs")
    relevant, weights = lists(2)[1:]
    head, (hidden, _) = built("full", V), positions(V, N)
    pairs, by_query = graded(relevant)
    labels, grades_of = np.zeros((2, N, V), np.float32)
    for row, graded_row, items, grades in zip(labels, grades_of, relevant, by_query):
        row[items[items >= 0]] = 1
        graded_row[list(grades)] = list(grades.values())
    theirs = keras_rs.metrics
    for their, our, of_all, of_relevant in [
        (theirs.RecallAtK, RecallAtK, labels, relevant), (theirs.NDCG, NDCG, labels, relevant),
        (theirs.MeanReciprocalRank, MRR, labels, relevant), (theirs.NDCG, NDCG, grades_of, pairs),
        (theirs.PrecisionAtK, PrecisionAtK, labels, relevant),
        (theirs.MeanAveragePrecision, MAP, labels, relevant),
    ]:
        wanted = their(k=K)(of_all, head(hidden), weights)
        np.testing.assert_allclose(our(K)(of_relevant, head(hidden), weights), wanted, rtol=1e-5)


def test_what_does_not_count():
    """Repetitions, padding, ids that are ignored, and queries without relevant items."""
    found, relevant, _ = lists(4)
    recall = RecallAtK(K)(relevant, found)
    np.testing.assert_allclose(RecallAtK(K)(np.tile(relevant, 2), found), recall)
    negative = np.where(relevant < 0, -100, relevant)
    np.testing.assert_allclose(RecallAtK(K)(negative, found), recall)
    ignored = np.where(relevant < 0, V, relevant)
    np.testing.assert_allclose(RecallAtK(K, ignore_class=V)(ignored, found), recall)
    more = np.concatenate([relevant, np.full((5, 6), -1)])
    np.testing.assert_allclose(RecallAtK(K)(more, np.concatenate([found, found[:5]])), recall)
    empty = np.concatenate([found[:, :3], np.full((N, K - 3), -1)], 1)
    np.testing.assert_allclose(RecallAtK(K)(relevant, empty), RecallAtK(3)(relevant, found))


def test_an_item_that_a_list_repeats_counts_at_its_first_place():
    found, relevant, _ = lists(7)
    found[:, 3] = found[:, 1]
    found[:, -2:] = found[:, :1]
    once = found.copy()
    once[:, [3, -2, -1]] = -1
    for column, metric in zip(wanted(once.tolist(), relevant.tolist()).T, METRICS):
        np.testing.assert_allclose(metric(K)(relevant, found), column.mean(), rtol=1e-6)


def test_no_column_of_relevant_items_is_no_relevant_item():
    found, relevant, _ = lists()
    for metric in METRICS:
        metric = metric(K)
        tf.function(metric.update_state)(relevant[:, :0], found)
        assert np.isnan(metric.result())
        metric.update_state(relevant, found)
        assert np.isfinite(metric.result())


@pytest.mark.parametrize("build, name, rule", [
    (lambda: NDCG(gain="no"), "gain", "'linear'"), (lambda: RecallAtK(0), "k", "lie in [1"),
    (lambda: RecallAtK(2.5), "k", "be an integer"),
])
def test_wrong_options_are_named(build, name, rule):
    with refuses(name, rule):
        build()


RELEVANT = np.zeros((6, 2), int)


@pytest.mark.parametrize("y_true, y_pred, weights, name, rule", [
    (RELEVANT, np.zeros((6, 3), int), None, "y_pred", "K >= k = 4"),
    (RELEVANT[None], None, None, "y_true", "have the shape of the queries"),
    (RELEVANT, None, np.ones((6, 2)), "sample_weight", "have one weight for each"),
    (RELEVANT, np.zeros((6, 5), np.float32), None, "y_pred", "be the output"),
])
def test_arrays_that_are_no_queries_are_named(y_true, y_pred, weights, name, rule):
    y_pred = built("full", V)(positions(V, 6)[0]) if y_pred is None else y_pred
    with refuses(name, rule):
        RecallAtK(4).update_state(y_true, y_pred, weights)


def test_items_that_are_none_and_more_items_than_there_are_are_named():
    logits = built("full", V)(positions(V, 6)[0])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"`y_true` must lie in \[0, 40\)"):
        RecallAtK(4).update_state(RELEVANT + V, logits)
    with refuses("k", "be an integer in [1, 40]"):
        RecallAtK(V + 1).update_state(RELEVANT, logits)


@pytest.mark.parametrize("metric, relevant, found", [
    (lambda: RecallAtK(1), np.float32([[2**24 + 1]]), np.int32([[2**24]])),
    (lambda: NDCG(1), np.float32([[[2**24 + 1, 2.0]]]), np.int32([[2**24]])),
    (Accuracy, np.float16([4001]), None),
])
def test_floats_that_hold_another_id_than_was_meant_are_named(metric, relevant, found):
    if found is None:
        found = built("full", 5000)(positions(5000, 1)[0])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\), in whole numbers of float\d\d"):
        metric().update_state(relevant, found)


def test_a_list_that_was_not_searched_does_not_count():
    found, relevant, _ = lists()
    metric = RecallAtK(K)
    metric.update_state(relevant, np.full_like(found, NOT_SEARCHED))
    assert np.isnan(metric.result())
    metric.update_state(relevant, found)
    np.testing.assert_allclose(metric.result(), wanted(found, relevant)[:, 0].mean(), rtol=1e-6)


def test_weights_may_be_a_list():
    found, relevant = (ids.tolist() for ids in lists()[:2])
    weights = lists()[2]
    one, other = (RecallAtK(K)(relevant, found, given) for given in (weights, weights.tolist()))
    assert float(one) == pytest.approx(float(other))
