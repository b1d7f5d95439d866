"""Metrics of the best items, with and without items that were excluded."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import references
import tfsoftmax
from cases import (
    CASES,
    ONE_OF_EACH,
    UNITS,
    assert_all_close,
    built,
    language_model,
    positions,
)
from graph_helper import largest_tensor
from keras_helper import B, T, data
from refusals import refuses
from tfsoftmax.metrics import MAP, MRR, NDCG, Coverage, PrecisionAtK, RecallAtK
from tfsoftmax.ops.ranking import NOT_SEARCHED
from tfsoftmax.support import budgets

METRICS = (RecallAtK, NDCG, MRR, PrecisionAtK, MAP)
V, N, K = 40, 30, 9


def lists(seed=0):
    """Lists (N, K) of distinct items, relevant items (N, 6) with -1 among them, weights (N,)."""
    rng = np.random.default_rng(seed)
    found = np.stack([rng.permutation(V)[:K] for _ in range(N)])
    relevant = np.stack([rng.permutation(V)[:6] for _ in range(N)])
    relevant[rng.random(relevant.shape) < 0.4] = -1
    relevant[:, 0] = np.maximum(relevant[:, 0], 0)
    return found, relevant, rng.uniform(size=N).astype(np.float32)


def wanted(found, relevant, k=K):
    """(N, 5): what the loops of `references` say of each query."""
    return np.array([references.ranking(f, r, k) for f, r in zip(found, relevant)])


@pytest.mark.parametrize("k", [1, 4, K])
def test_metrics_are_those_of_the_equations(k):
    found, relevant, weights = lists()
    every = wanted(found.tolist(), relevant.tolist(), k)
    for column, metric in zip(every.T, METRICS):
        metric = metric(k)
        for part in np.array_split(np.arange(N), 4):
            metric.update_state(relevant[part], found[part], weights[part])
        np.testing.assert_allclose(metric.result(), np.average(column, weights=weights), rtol=1e-6)


def graded(relevant, seed=6):
    """Grades of 0 to 4 for relevant items (N, R), as pairs (N, R, 2), and [{item: grade}]."""
    grades = np.random.default_rng(seed).integers(0, 5, relevant.shape)
    grades[:, 0] = np.maximum(grades[:, 0], 1)
    pairs = np.stack([relevant, grades], -1)
    return pairs, [{i: g for i, g in query if i >= 0 and g > 0} for query in pairs.tolist()]


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


def test_graded_relevance_in_a_model_that_lists_beside_its_head():
    inputs, (hidden, labels) = keras.Input((UNITS,)), positions(V, N)
    head = built("full", V)
    best, _ = tfsoftmax.TopK(head, K, name="best")(inputs)
    model = keras.Model(inputs, {"next": head(inputs), "best": best})
    model.compile("sgd", {"next": tfsoftmax.SoftmaxLoss()}, metrics={"best": NDCG(K)})
    pairs, _ = graded(lists()[1])
    found = model.evaluate(hidden, {"next": labels, "best": pairs}, verbose=0, return_dict=True)
    wanted = NDCG(K)(pairs, head.top_k(hidden, K)[0])
    np.testing.assert_allclose(found["best_ndcg_at_9"], wanted, rtol=1e-6)


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


@pytest.mark.parametrize("case", ONE_OF_EACH)
def test_the_output_of_a_head_stands_for_its_list(case):
    head, (hidden, _) = built(case, V), positions(V, N)
    _, relevant, weights = lists(3)
    for metric in (*METRICS, functools.partial(Coverage, V)):
        of_list = metric(K)(relevant, head.top_k(hidden, K)[0], weights)
        assert metric(K)(relevant, head(hidden), weights) == of_list > 0


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


def test_relevant_items_may_be_ragged():
    """As the labels of a loss with `multi_label` are, in a data set of Keras."""
    hidden, sets = positions(V, 4)[0], [[3, 5], [0], [], [1, 2, 7]]
    model = keras.Sequential([keras.Input((UNITS,)), CASES["full"](V)])
    model.compile("sgd", tfsoftmax.SoftmaxLoss(multi_label=True), metrics=[RecallAtK(3)])
    ragged = tf.ragged.constant(sets)
    results = [
        model.evaluate(tf.data.Dataset.from_tensor_slices((hidden, labels)).batch(2), verbose=0)
        for labels in (ragged, ragged.to_tensor(-1))
    ]
    np.testing.assert_allclose(*results)


def test_labels_whose_shape_a_pipeline_has_lost_are_one_for_each_query():
    """As the loss takes them."""
    hidden, labels = positions(V, 4)
    model = keras.Sequential([keras.Input((UNITS,)), CASES["full"](V)])
    model.compile("sgd", tfsoftmax.SoftmaxLoss(), metrics=[RecallAtK(3)])
    known = tf.data.Dataset.from_tensor_slices((hidden, labels)).batch(2)
    lost = known.map(lambda x, y: (x, tf.py_function(lambda y: y, [y], y.dtype)))
    assert model.evaluate(lost, verbose=0) == model.evaluate(known, verbose=0)


def test_an_item_that_a_list_repeats_counts_at_its_first_place():
    found, relevant, _ = lists(7)
    found[:, 3] = found[:, 1]
    found[:, -2:] = found[:, :1]
    once = found.copy()
    once[:, [3, -2, -1]] = -1
    for column, metric in zip(wanted(once.tolist(), relevant.tolist()).T, METRICS):
        np.testing.assert_allclose(metric(K)(relevant, found), column.mean(), rtol=1e-6)


def test_queries_may_have_an_axis_of_one_that_labels_lack():
    inputs, (hidden, labels) = keras.Input((1, UNITS)), positions(V, N)
    head = built("full", V)
    model = keras.Model(inputs, head(inputs))
    model.compile("sgd", tfsoftmax.SoftmaxLoss(), metrics=[RecallAtK(K)])
    found = model.evaluate(hidden[:, None], labels, verbose=0)[1]
    np.testing.assert_allclose(found, RecallAtK(K)(labels, head(hidden)), rtol=1e-6)
    got, wanted = (RecallAtK(K)(labels, head(h), np.arange(N)) for h in (hidden[:, None], hidden))
    assert got == wanted


def test_no_column_of_relevant_items_is_no_relevant_item():
    found, relevant, _ = lists()
    for metric in METRICS:
        metric = metric(K)
        tf.function(metric.update_state)(relevant[:, :0], found)
        assert np.isnan(metric.result())
        metric.update_state(relevant, found)
        assert np.isfinite(metric.result())


def two_outputs():
    """A model with logits to train by and a list to judge by, its inputs, and its targets."""
    hidden, seen = keras.Input((UNITS,)), keras.Input((4,), dtype="int32")
    head = tfsoftmax.SampledSoftmax(V, 9, counts=np.arange(V, 0, -1), seed=1, name="head")
    best, _ = tfsoftmax.TopK(head, K, name="best")(hidden, exclude=seen)
    model = keras.Model([hidden, seen], {"next": head(hidden), "best": best})
    loss = {"next": tfsoftmax.SoftmaxLoss()}
    model.compile("sgd", loss, weighted_metrics={"best": [metric(K) for metric in METRICS]})
    hidden, relevant = positions(V, N)[0], lists(6)[1]
    inputs = [hidden, np.random.default_rng(6).integers(-1, V, (N, 4)).astype(np.int32)]
    return model, inputs, {"next": relevant[:, 0], "best": relevant}


@pytest.mark.parametrize("eagerly", [False, True])
def test_fit_evaluate_and_a_plain_loop(eagerly, through_a_file):
    """In batches of uneven size, with weights, and after loading."""
    model, inputs, targets = two_outputs()
    model.run_eagerly = eagerly
    trained = model.fit(inputs, targets, batch_size=7, verbose=0).history
    assert all(np.isnan(trained[f"best_{m(K).name}"][0]) for m in METRICS)
    weights = {"next": np.ones(N), "best": lists()[2]}
    options = {"batch_size": 7, "sample_weight": weights, "verbose": 0, "return_dict": True}
    got = model.evaluate(inputs, targets, **options)
    found = model.get_layer("head").top_k(inputs[0], K, exclude=inputs[1])[0].numpy()
    every = wanted(found.tolist(), targets["best"].tolist())
    again = through_a_file(model).evaluate(inputs, targets, **options)
    for column, metric in zip(every.T, METRICS):
        name = f"best_{metric(K).name}"
        np.testing.assert_allclose(
            [got[name], again[name]], np.average(column, weights=weights["best"]), rtol=1e-5
        )


@pytest.mark.parametrize("case", ["full", "sampled", "adaptive", "tree"])
def test_a_head_that_is_called_with_exclude_is_judged_without_these(case, through_a_file):
    """In `fit` and `evaluate`, in batches of uneven size, and after loading."""
    hidden, seen = keras.Input((UNITS,)), keras.Input((None,), dtype="int32")
    head = CASES[case](V)
    model = keras.Model([hidden, seen], head(hidden, exclude=seen))
    model.compile("sgd", tfsoftmax.SoftmaxLoss(), weighted_metrics=[m(K) for m in METRICS])
    inputs = [positions(V, N)[0], np.random.default_rng(6).integers(-1, V, (N, 4))]
    labels, weights = lists(6)[1][:, 0], lists()[2]
    weights[3] = 0
    options = {"batch_size": 7, "sample_weight": weights, "verbose": 0}
    history = model.fit(
        inputs, labels, validation_data=(inputs, labels, weights), **options
    ).history
    got = model.evaluate(inputs, labels, return_dict=True, **options)
    again = through_a_file(model)
    found = head.top_k(inputs[0], K, exclude=inputs[1])[0].numpy()
    for column, metric in zip(wanted(found.tolist(), labels[:, None].tolist()).T, METRICS):
        name = metric(K).name
        values = [got[name], history[f"val_{name}"][0],
                  again.evaluate(inputs, labels, return_dict=True, **options)[name]]
        np.testing.assert_allclose(values, np.average(column, weights=weights), rtol=1e-5)
    assert_all_close([model.predict(inputs, verbose=0)], [head(inputs[0])], atol=1e-5)


def test_nothing_is_searched_in_training(monkeypatch):
    model, (hidden, _), targets = two_outputs()
    search = keras.Sequential([keras.Input((UNITS,)), model.get_layer("head")])
    search.compile("sgd", tfsoftmax.SoftmaxLoss(), metrics=[RecallAtK(K)])
    inputs = [hidden, np.zeros((N, 4), np.int32)]

    def fail(*args, **kwargs):
        raise AssertionError("a search")

    monkeypatch.setattr(tfsoftmax.SampledSoftmax, "top_k", fail)
    assert "recall_at_9" not in search.fit(hidden, targets["next"], verbose=0).history
    model.fit(inputs, targets, verbose=0)
    for one, args in ((search, (hidden, targets["next"])), (model, (inputs, targets))):
        with pytest.raises(AssertionError, match="a search"):
            one.evaluate(*args, verbose=0)


def test_metrics_of_one_head_search_once(monkeypatch):
    head, (hidden, _) = built("full", V), positions(V, N)
    asked, search = [], head.top_k
    monkeypatch.setattr(head, "top_k", lambda h, k, **_: asked.append(k) or search(h, k))
    logits = head(hidden)
    relevant = lists()[1]
    results = {k: RecallAtK(k)(relevant, logits) for k in (K, 1, 4, K)}
    assert asked == [K]
    assert results[4] == RecallAtK(4)(relevant, head(hidden))


def test_one_item_at_each_position_of_a_sequence():
    """With a mask, and a label that the loss ignores."""
    model, (words, labels, weights) = language_model(CASES["full"](13), masked=True), data(1)
    words[1, 3:] = 0
    labels[2, 1] = -5
    model.compile(
        "sgd", tfsoftmax.SoftmaxLoss(ignore_class=-5), weighted_metrics=[RecallAtK(3), MRR(3)]
    )
    got = model.evaluate(words, labels, B, sample_weight=weights, verbose=0, return_dict=True)
    best = np.argsort(-model.predict(words, batch_size=B, verbose=0), kind="stable")[..., :3]
    hits = best == labels[..., None]
    weights = weights * (words != 0) * (labels != -5)
    assert 0 < np.count_nonzero(weights) < B * T
    ranks = [hits.any(-1), (hits / np.arange(1, 4)).max(-1)]
    for name, value in zip(("recall_at_3", "mrr_at_3"), ranks):
        np.testing.assert_allclose(got[name], np.average(value, weights=weights), rtol=1e-5)


def test_memory_of_a_metric_does_not_grow_with_the_number_of_items(monkeypatch):
    monkeypatch.setattr(budgets, "TOP_K_WORDS", 64)
    sizes = []
    for words in (500, 2000):
        head = tfsoftmax.FullSoftmax(words)
        head.build((None, 2))
        metric = RecallAtK(20)

        @tf.function(jit_compile=True)  # where the number of positions is fixed
        def update(hidden, relevant, head=head, metric=metric):
            metric.update_state(relevant, head(hidden))

        shapes = tf.TensorSpec([128, 2]), tf.TensorSpec([128, 3], "int64")
        traced = update.get_concrete_function(*shapes)
        sizes.append(largest_tensor(traced, pruned=True))
    assert sizes == [128 * 64, 128 * 64]


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
