"""Words whose scores are NaN are no result: not in lists, not in metrics, not in generated text."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfsoftmax
from cases import CASES, UNITS, built, positions
from generation_helper import VOCABULARY, generator
from tfsoftmax import metrics
from tfsoftmax.lm.decoding import NextWordSampler
from tfsoftmax.metrics import MRR, NDCG, Accuracy, Perplexity, RecallAtK, TopKAccuracy

V, N, BAD = 13, 6, 1  # the position whose hidden state is NaN


def hidden_with_nan():
    hidden, labels = positions(V, N)
    hidden[BAD] = np.nan
    return hidden, labels


def log_probs_of(head, hidden):
    """(N, V), word by word, as `log_probs` is NaN as a whole where one word is."""
    words = np.tile(np.arange(V), (len(hidden), 1))
    return head.log_prob(np.repeat(hidden[:, None], V, 1), words).numpy()


def wanted(scores, k):
    """Lists (N, k) of the best words by scores (N, V), without those of NaN, and their scores."""
    scores = np.where(np.isnan(scores), -np.inf, scores)
    ids = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    scores = np.take_along_axis(scores, ids, 1)
    return np.where(scores > -np.inf, ids, -1), scores


def assert_lists(found, scores, k):
    ids, log_probs = wanted(scores, k)
    np.testing.assert_array_equal(found[0], ids)
    np.testing.assert_allclose(found[1], log_probs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case", CASES)
def test_a_hidden_state_of_nan_has_no_likeliest_words(case):
    head, (hidden, _) = built(case, V), hidden_with_nan()
    log_probs = log_probs_of(head, hidden)
    assert np.isnan(log_probs[BAD]).all()
    for k in (1, V):
        assert_lists(head.top_k(hidden, k), log_probs, k)
    exclude = np.tile([[3, -1, 7]], (N, 1))
    without = np.where(np.isin(np.arange(V), exclude), np.nan, log_probs)
    assert_lists(head.top_k(hidden, 4, exclude=exclude), without, 4)


# The only word of a tail has the probability 1 there, which `log_prob` knows without its weights.
@pytest.mark.parametrize("case", [case for case in CASES if "tail of one word" not in case])
def test_words_below_weights_of_nan_are_not_listed_and_displace_no_others(case):
    """Where a head has clusters or a tree, the other words keep their probabilities."""
    head, (hidden, _) = built(case, V), positions(V, N)
    weights = [w for w in head.trainable_weights if len(w.shape) == 2]
    for weight in weights:
        before = weight.numpy()
        weight.assign(np.where(np.arange(len(before)) == len(before) - 1, np.nan, before.T).T)
        log_probs = log_probs_of(head, hidden)
        for k in (2, V):
            assert_lists(head.top_k(hidden, k), log_probs, k)
        weight.assign(before)


@pytest.mark.parametrize("case", ["full", "adaptive", "class"])
def test_compiled_by_xla_too(case):
    head, (hidden, _) = built(case, V), hidden_with_nan()
    found = tf.function(lambda hidden: head.top_k(hidden, 3), jit_compile=True)(hidden)
    assert_lists(found, log_probs_of(head, hidden), 3)


def test_cubic_scores_of_nan_come_last():
    head, (hidden, _) = tfsoftmax.CubicScores(V), positions(V, N)
    head.build((None, UNITS))
    head.bias.assign(np.where(np.arange(V) == 4, np.nan, 1.0))
    ids = head.top_k(hidden, V)[0].numpy()
    assert (ids[:, -1] == -1).all() and (np.sort(ids)[:, 1:] == np.delete(range(V), 4)).all()


@pytest.mark.parametrize("case", ["full", "sampled", "adaptive", "tree"])
def test_no_metric_counts_scores_of_nan_as_hits(case):
    head, (hidden, _) = built(case, V), hidden_with_nan()
    best = np.nan_to_num(log_probs_of(head, hidden)).argmax(1)
    labels = np.where(np.arange(N) == BAD, 0, best)  # the others are hits
    for metric in (Accuracy(), TopKAccuracy(3), RecallAtK(3), MRR(3), NDCG(3)):
        metric.update_state(labels, head(hidden))
        np.testing.assert_allclose(metric.result(), (N - 1) / N, rtol=1e-6)
    perplexity = Perplexity()
    perplexity.update_state(labels, head(hidden))
    assert np.isnan(perplexity.result())


@pytest.mark.parametrize("metric", [
    Perplexity(), Accuracy(), TopKAccuracy(3), metrics.NatsByFrequency(np.arange(V, 0, -1)),
    metrics.Normaliser(), metrics.EffectiveSampleSize(), RecallAtK(3), metrics.PrecisionAtK(3),
    NDCG(3), MRR(3), metrics.MAP(3), metrics.Coverage(V, 3),
], ids=lambda metric: metric.name)
def test_a_weight_of_nan_makes_every_metric_nan(metric):
    head, (hidden, labels) = built("sampled", V), positions(V, N)
    for weight, is_nan in ((1, False), (np.nan, True)):
        metric.reset_state()
        metric.update_state(labels, head(hidden), np.where(np.arange(N) == BAD, weight, 1.0))
        result = metric.result()
        values = [*result.values()] if isinstance(result, dict) else [result]
        assert (np.isnan(values) == is_nan).all()


def test_nats_of_nan_make_a_perplexity_nan_where_they_count():
    head, (hidden, labels) = built("full", V), hidden_with_nan()
    for weight in (0, 1e-9, 1):
        perplexity = Perplexity()
        perplexity.update_state(labels, head(hidden), np.where(np.arange(N) == BAD, weight, 1.0))
        assert np.isnan(perplexity.result()) == (weight > 0)


def test_a_dead_model_is_not_chosen_by_its_recall():
    inputs = keras.Input((UNITS,))
    model = keras.Model(inputs, CASES["full"](V)(inputs))
    model.compile("sgd", tfsoftmax.SoftmaxLoss(), metrics=[RecallAtK(3), Accuracy(), Perplexity()])
    hidden = np.full((N, UNITS), np.nan, np.float32)
    found = model.evaluate(hidden, np.zeros(N, int), verbose=0, return_dict=True)
    assert (found["recall_at_3"], found["accuracy"]) == (0, 0)
    assert np.isnan(found["loss"]) and np.isnan(found["perplexity"])


def test_a_model_with_the_layer_lists_none():
    inputs = keras.Input((UNITS,))
    model = keras.Model(inputs, tfsoftmax.TopK(built("full", V), 3)(inputs))
    ids, log_probs = model.predict(hidden_with_nan()[0], verbose=0)
    assert (ids[BAD] == -1).all() and (log_probs[BAD] == -np.inf).all()
    assert (np.delete(ids, BAD, 0) >= 0).all()


def test_mined_negatives_of_a_query_of_nan_are_none():
    queries = keras.Input((), dtype="int32")
    hidden = keras.layers.Embedding(N, UNITS)(queries)
    negatives = tfsoftmax.HardNegatives(N, 3)
    head = tfsoftmax.SampledSoftmax(V, 4, "uniform")
    model = keras.Model(queries, head(hidden, negatives(queries)))
    model.layers[1].embeddings.assign(hidden_with_nan()[0])
    callback = tfsoftmax.MineHardNegatives(negatives, np.arange(N))
    callback.set_model(model)
    callback.on_train_begin()
    mined = callback.mined()
    assert (mined[BAD] == -1).all() and (np.delete(mined, BAD, 0) >= 0).all()


@pytest.mark.parametrize("options", [{}, {"top_k": 1}, {"top_k": 3}, {"top_p": 0.5}, {"top_k": V}])
@pytest.mark.parametrize("case", ["full", "adaptive", "tree"])
def test_no_word_is_drawn_from_scores_of_nan(case, options):
    head, (hidden, _) = built(case, V), hidden_with_nan()
    words = NextWordSampler(**options).draw(head, hidden, 4, [1, 2]).numpy()
    np.testing.assert_array_equal(words == -1, np.arange(N) == BAD)


@pytest.mark.parametrize("call", [
    lambda g: g.sample(["the"]), lambda g: g.sample([], sampler=NextWordSampler(top_k=1)),
    lambda g: g.beam(["cat"]), lambda g: g.next_words(["cat"], 2),
])
def test_a_dead_language_model_says_so_and_writes_nothing(call):
    of_nan = generator(3, 1)
    of_nan._head.bias.assign(np.full(len(VOCABULARY), np.nan))
    with pytest.raises(ValueError, match="`model` must give words a probability above zero"):
        call(of_nan)
