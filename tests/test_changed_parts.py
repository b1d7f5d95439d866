"""What a model has of its items beside rows: learned counts, towers, spellings, lists, metrics."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfsoftmax
from items_helper import BEFORE, HEADS, D, V, check_rows, data, features, made, with_tower
from refusals import refuses
from tfsoftmax.metrics import Coverage, NatsByFrequency


@pytest.mark.parametrize("excluded", [None, [2, 5]])
def test_a_learned_unigram_keeps_the_count_of_each_item(excluded):
    options = {"sampler_options": {"exclude": excluded}} if excluded else {}
    head, labels = HEADS["sampled"](**options), np.random.default_rng(0).integers(0, V, 500)
    model = keras.Sequential([keras.Input((D,)), head])
    head.sampler.update(labels)
    new = tfsoftmax.with_items(model, BEFORE).layers[-1].sampler
    counted = [1 + np.sum(labels == item) if item >= 0 else 1 for item in BEFORE]
    counted = np.array(counted, float)
    if excluded:
        counted[np.isin(BEFORE, excluded)] = 0
    q = np.exp(new.log_q(np.arange(len(BEFORE))))
    np.testing.assert_allclose(q, counted / counted.sum(), rtol=1e-5)


def test_an_online_bigram_keeps_what_follows_each_item():
    head = tfsoftmax.SampledSoftmax(V, 6, "online_bigram", shared_samples=False)
    carried = np.random.default_rng(1).normal(size=(40, D + 4)).astype(np.float32)
    words, labels = np.random.default_rng(2).integers(0, V, (2, 40))
    hidden = tfsoftmax.ngrams.previous_word.PreviousWord()([carried[:, :D], words])
    inputs = keras.Input((hidden.shape[-1],))
    model = keras.Model(inputs, head(inputs))
    for _ in range(3):
        head.training_loss(hidden, labels)
    order = np.random.default_rng(3).permutation(V)
    new = tfsoftmax.with_items(model, order).layers[-1].sampler
    wanted = np.exp(head.sampler.log_qs(tf.constant(order, tf.int32)))[:, order]
    np.testing.assert_allclose(np.exp(new.log_qs(tf.range(V))), wanted, rtol=1e-5)
    some = tfsoftmax.with_items(model, BEFORE).layers[-1].sampler
    q = np.exp(some.log_qs(tf.range(len(BEFORE))))
    np.testing.assert_allclose(q.sum(1), 1, rtol=1e-5)


def test_a_tower_computes_new_items_from_their_features():
    model = with_tower()
    new = tfsoftmax.with_items(model, [*range(V), -1, -1], features(V + 2))
    ours, before = (each.layers[-1].tied_to.table().numpy() for each in (new, model))
    np.testing.assert_array_equal(ours[:V], before)
    last = {name: np.array(values[-2:]) for name, values in features(V + 2).items()}
    of_features = new.layers[-1].tied_to.model(last)
    np.testing.assert_allclose(ours[V:], of_features, rtol=1e-6)
    check_rows(new.optimizer.variables, model.optimizer.variables)
    fewer = tfsoftmax.with_items(model, [4, 2, 7])
    np.testing.assert_array_equal(fewer.layers[-1].tied_to.table(), before[[4, 2, 7]])
    assert fewer.layers[-1].tied_to.features["genre"].numpy().tolist() == [
        features(V)["genre"][i].encode() for i in (4, 2, 7)]
    with refuses("features", "be given, a row for each item"):
        tfsoftmax.with_items(model, [*range(V), -1])
    with refuses("features", "have a row for each of the 12 items"):
        tfsoftmax.with_items(model, [*range(V), -1], features(V))
    with refuses("features", "be unset for a model without"):
        tfsoftmax.with_items(made(), BEFORE, features(len(BEFORE)))


def test_metrics_hard_negatives_and_layers_of_keras_change_too():
    queries, words = keras.Input((), dtype="int32"), keras.Input((), dtype="int32")
    negatives = tfsoftmax.HardNegatives(7, 3, name="negatives")
    embedding = keras.layers.Embedding(V, D)
    head = HEADS["sampled"](tied_to=embedding, dtype="mixed_bfloat16")
    model = keras.Model([words, queries], head(embedding(words), negatives(queries)))
    model.compile("adam", tfsoftmax.SoftmaxLoss(),
                  metrics=[Coverage(V, 2), NatsByFrequency(np.arange(V) + 1)])
    table = np.random.default_rng(0).integers(-1, V, (7, 3))
    negatives.table.assign(table)
    new = tfsoftmax.with_items(model, BEFORE)
    moved = new.get_layer("negatives").table.numpy()
    wanted = [[BEFORE.index(x) if x in BEFORE and x >= 0 else -1 for x in row] for row in table]
    assert moved.tolist() == wanted
    items, numbers = data(len(BEFORE)), np.arange(64) % 7
    new.fit([items[0], numbers], items[1], verbose=0)
    values = new.evaluate([items[0], numbers], items[1], verbose=0, return_dict=True)
    assert values.pop("tokens_0") == 0 and np.isnan(values.pop("nats_0"))  # the new items' band
    assert np.isfinite(list(values.values())).all()
    one = tfsoftmax.with_items(model, [3])
    assert one.layers[-1].vocab_size == 1


def spelled(words):
    head = tfsoftmax.CharCnnSoftmax(len(words), words, {"filters": [2], "correction_units": 2})
    return keras.Sequential([keras.Input((D,)), head])


def test_rows_by_spelling_move_to_a_new_model_of_the_words_alone():
    words, before = [f"word{i}" for i in range(V)], np.arange(V)[::-1]
    old, new = spelled(words), spelled(words[::-1])
    keras.utils.set_random_seed(1)
    for weight in old.trainable_weights:
        weight.assign(np.random.normal(size=weight.shape))
    tfsoftmax.move_items(old, new, before)
    hidden = np.random.normal(size=(3, D)).astype(np.float32)
    logits = old.predict(hidden, verbose=0)[:, before]
    np.testing.assert_allclose(new.predict(hidden, verbose=0), logits, rtol=1e-4, atol=1e-5)
    with refuses("model", "have only rows of"):
        tfsoftmax.with_items(old, before)
