"""Metrics of the best items in models: by the output of a head, or by a list beside it."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfsoftmax
from cases import CASES, ONE_OF_EACH, UNITS, assert_all_close, built, language_model, positions
from graph_helper import largest_tensor
from keras_helper import B, T, data
from ranking_helper import METRICS, K, N, V, graded, lists, wanted
from tfsoftmax.metrics import MRR, NDCG, Coverage, RecallAtK
from tfsoftmax.support import budgets


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


@pytest.mark.parametrize("case", ONE_OF_EACH)
def test_the_output_of_a_head_stands_for_its_list(case):
    head, (hidden, _) = built(case, V), positions(V, N)
    _, relevant, weights = lists(3)
    for metric in (*METRICS, functools.partial(Coverage, V)):
        of_list = metric(K)(relevant, head.top_k(hidden, K)[0], weights)
        assert metric(K)(relevant, head(hidden), weights) == of_list > 0


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


def test_queries_may_have_an_axis_of_one_that_labels_lack():
    inputs, (hidden, labels) = keras.Input((1, UNITS)), positions(V, N)
    head = built("full", V)
    model = keras.Model(inputs, head(inputs))
    model.compile("sgd", tfsoftmax.SoftmaxLoss(), metrics=[RecallAtK(K)])
    found = model.evaluate(hidden[:, None], labels, verbose=0)[1]
    np.testing.assert_allclose(found, RecallAtK(K)(labels, head(hidden)), rtol=1e-6)
    got, wanted = (RecallAtK(K)(labels, head(h), np.arange(N)) for h in (hidden[:, None], hidden))
    assert got == wanted


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
