"""The share of all items that stand in a list, of one replica and of two."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import replicas_helper
import tfsoftmax
from cases import CASES, UNITS, built, positions
from refusals import refuses
from replicas_helper import strategy_here
from tfsoftmax.metrics import Coverage, RecallAtK
from tfsoftmax.ops.ranking import NOT_SEARCHED

V, N, K = 40, 6, 4


def lists(seed=0):
    """Lists (N, K), relevant items (N, 2) of all queries but two, weights (N,), one of zero."""
    rng = np.random.default_rng(seed)
    found = np.stack([rng.permutation(V)[:K] for _ in range(N)])
    relevant = rng.integers(0, V, (N, 2))
    relevant[1] = -1
    relevant[3, 0] = -1
    relevant[4] = -7
    weights = rng.uniform(0.5, 1, N).astype(np.float32)
    weights[2] = 0
    return found, relevant, weights


def wanted(found, relevant, weights=None, k=K):
    """The share, by loops."""
    listed = set()
    for q, (items, own) in enumerate(zip(found.tolist(), relevant.tolist())):
        if max(own) >= 0 and (weights is None or weights[q] != 0):
            listed |= {item for item in items[:k] if item >= 0}
    return len(listed) / V


@pytest.mark.parametrize("k", [1, 3, K])
def test_it_is_the_share_of_the_items_in_lists_of_queries_that_count(k):
    found, relevant, weights = lists()
    found[0, 1:3] = found[0, 0], -1
    found[5] = -1
    for given in (None, weights):
        metric = Coverage(V, k)
        for part in np.array_split(np.arange(N), 3):
            metric.update_state(relevant[part], found[part], None if given is None else given[part])
        share = wanted(found, relevant, given, k)
        np.testing.assert_allclose(metric.result(), share, rtol=1e-6)
        assert 0 < share < 1
        metric.reset_state()
        assert np.isnan(metric.result())
        np.testing.assert_allclose(
            metric(relevant[:1], found[:1]), wanted(found[:1], relevant[:1], k=k), rtol=1e-6
        )


def test_lists_without_items_cover_none_and_no_lists_are_nan():
    metric = Coverage(V, K)
    metric.update_state([[1]], [[-1] * K])
    assert metric.result() == 0
    metric = Coverage(V, K)
    for relevant, found in (([[1]], NOT_SEARCHED), ([[-1]], 3)):
        metric.update_state(relevant, np.full((1, K), found))
        assert np.isnan(metric.result())
    metric = Coverage(3, 1)
    assert metric([0, 0, 0], [[2], [1], [0]]) == 1


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_graph_counts_as_eager_calls_do(jit_compile):
    found, relevant, weights = lists()
    metric = Coverage(V, K)
    update = tf.function(metric.update_state, jit_compile=jit_compile)
    update(tf.constant(relevant), tf.constant(found), tf.constant(weights))
    np.testing.assert_allclose(metric.result(), wanted(found, relevant, weights), rtol=1e-6)


def test_xla_which_drops_errors_takes_no_wrong_id_for_an_item():
    metric = Coverage(V, 2)
    update = tf.function(metric.update_state, jit_compile=True)
    update(tf.constant([[1]]), tf.constant([[V, 3]]))
    np.testing.assert_array_equal(np.flatnonzero(metric.listed), [3])


def test_stateless_updates_are_those_of_the_metric():
    found, relevant, weights = lists()
    metric = Coverage(V, K)
    before = [variable.value for variable in metric.variables]
    after = metric.stateless_update_state(before, relevant, found, weights)
    share = metric.stateless_result(after)
    np.testing.assert_allclose(share, wanted(found, relevant, weights), rtol=1e-6)
    assert not metric.listed.numpy().any()


@pytest.mark.parametrize("eagerly", [False, True])
def test_fit_evaluate_and_loading(eagerly, through_a_file):
    """In batches of uneven size, beside another metric, without the items of `exclude`."""
    inputs, seen = keras.Input((UNITS,)), keras.Input((3,), dtype="int32")
    model = keras.Model([inputs, seen], CASES["sampled"](V)(inputs, exclude=seen))
    model.compile("sgd", tfsoftmax.SoftmaxLoss(), run_eagerly=eagerly,
                  weighted_metrics=[RecallAtK(K), Coverage(V, K)])
    rng = np.random.default_rng(1)
    x, labels = [positions(V, N)[0], rng.integers(-1, V, (N, 3))], rng.integers(0, V, N)
    weights = lists()[2]
    options = {"batch_size": 4, "sample_weight": weights, "verbose": 0}
    history = model.fit(x, labels, validation_data=(x, labels, weights), **options).history
    assert np.isnan(history.get("coverage_at_4", [np.nan])).all()
    found = model.layers[-1].top_k(x[0], K, exclude=x[1])[0].numpy()
    share = wanted(found, labels[:, None], weights)
    again = through_a_file(model)
    results = [m.evaluate(x, labels, return_dict=True, **options) for m in (model, model, again)]
    got = [history["val_coverage_at_4"][0], *(result["coverage_at_4"] for result in results)]
    np.testing.assert_allclose(got, share, rtol=1e-6)


def by_replicas():
    """The first of two replicas has items that the second has, and others."""
    found, relevant, weights = lists()
    with strategy_here().scope():
        strategy, metric = tf.distribute.get_strategy(), Coverage(V, K)

        @tf.function
        def step(relevant, found, weights):
            metric.update_state(relevant, found, weights)
            return metric.result()

        def of_each(array):
            return strategy.experimental_distribute_values_from_function(
                lambda c: tf.constant(array[c.replica_id_in_sync_group :: 2])
            )

        shares = []
        for _ in range(2):
            inside = strategy.run(step, [of_each(each) for each in (relevant, found, weights)])
            shares += [float(share) for share in strategy.experimental_local_results(inside)]
            shares.append(float(metric.result()))
            metric.reset_state()
            assert np.isnan(metric.result())
    return shares


def test_two_replicas_count_the_items_of_both():
    found, relevant, weights = lists()
    (shares,) = replicas_helper.run(by_replicas, devices=2)
    np.testing.assert_allclose(shares, wanted(found, relevant, weights), rtol=1e-6)
    assert len(shares) == 6


def test_another_number_of_items_and_ids_that_are_no_items_are_named():
    with refuses("vocab_size", "be that of the head, 40"):
        Coverage(V + 1, K).update_state(np.zeros(N, int), built("full", V)(positions(V, N)[0]))
    with refuses("vocab_size", "lie in [1"):
        Coverage(0)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"`y_pred` must lie in \[0, 40\)"):
        Coverage(V, 2).update_state([[1]], [[3, V]])
