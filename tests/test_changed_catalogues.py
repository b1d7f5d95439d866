"""Models whose items come and go: rows, slots and learned counts stay with their items."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfsoftmax
from refusals import refused, refuses
from tfsoftmax import samplers
from tfsoftmax.metrics import Coverage, NatsByFrequency

V, D = 11, 5
BEFORE = [4, -1, 0, 10, 1, -1, 9, 2, 3, 8, 7, -1, 6]  # 5 is gone, and there are three new ones
KEPT = np.flatnonzero(np.array(BEFORE) >= 0)
OLD = np.array(BEFORE)[KEPT]
OPTIMIZERS = {
    "adagrad": lambda: tfsoftmax.optimizers.Adagrad(0.1),
    "adagrad by row": lambda: tfsoftmax.optimizers.Adagrad(0.1, accumulator="row"),
    "adam": lambda: tfsoftmax.optimizers.Adam(0.01, amsgrad=True),
    "average": lambda: tfsoftmax.optimizers.Adagrad(0.1, use_ema=True),
    "accumulate": lambda: tfsoftmax.optimizers.SGD(0.1, gradient_accumulation_steps=3),
    "scaled": lambda: keras.optimizers.LossScaleOptimizer(tfsoftmax.optimizers.Adam(0.01)),
    "keras": lambda: keras.optimizers.Adam(0.01),
    "keras_average": lambda: keras.optimizers.Adam(0.01, use_ema=True),
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
}
HEADS = {
    "full": lambda **options: tfsoftmax.FullSoftmax(V, **options),
    "sampled": lambda **options: tfsoftmax.SampledSoftmax(V, 4, **options),
    "in_batch": lambda **options: tfsoftmax.SampledSoftmax(
        V, 3, samplers.InBatch(V, "learned"), **options),
    "nce": lambda **options: tfsoftmax.NCE(V, 4, counts=np.arange(1, V + 1), **options),
    "negative": lambda **options: tfsoftmax.NegativeSampling(
        V, 4, counts=np.arange(V, 0, -1), **options),
    "blackout": lambda **options: tfsoftmax.BlackOut(V, 4, **options),
}


def data(items=V, seed=0):
    """Pairs of items that were there before, by their ids in the model of so many items."""
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, V, (2, 64))
    if items == V:
        return pairs
    pairs = np.where(pairs == 5, 4, pairs)
    return np.argmax(np.array(BEFORE)[None, None] == pairs[..., None], -1)


def made(head="full", optimizer="adagrad", tied=True, embedding=tfsoftmax.Embedding, **options):
    keras.utils.set_random_seed(1)
    embedding, words = embedding(V, D), keras.Input((), dtype="int32")
    head = HEADS[head](tied_to=embedding if tied else None, **options)
    model = keras.Model(words, head(keras.layers.Dense(D, "tanh")(embedding(words))))
    model.compile(OPTIMIZERS[optimizer](), tfsoftmax.SoftmaxLoss())
    return model


def trained(*args, **kwargs):
    model = made(*args, **kwargs)
    model.fit(*data(), batch_size=8, verbose=0)
    return model


def check_rows(new, old):
    """Each variable with a row for each item has the rows of before, and others are equal."""
    rows = 0
    for variable, before in zip(new, old, strict=True):
        value, earlier = variable.numpy(), before.numpy()
        if value.shape == earlier.shape:
            np.testing.assert_array_equal(value, earlier, err_msg=variable.path)
        else:
            np.testing.assert_array_equal(value[KEPT], earlier[OLD], err_msg=variable.path)
            rows += 1
    return rows


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("head", HEADS)
def test_rows_slots_and_scores_stay_with_their_items(head, tied):
    old = trained(head, tied=tied)
    new = tfsoftmax.with_items(old, BEFORE)
    weights = [[w for w in model.weights if w.name != "sums"] for model in (new, old)]
    assert check_rows(*weights) == 3 - tied
    assert check_rows(new.optimizer.variables, old.optimizer.variables) == 3 - tied
    slots = [v.numpy() for v in new.optimizer.variables if v.shape[:1] == (len(BEFORE),)]
    for slot in slots:
        assert (np.delete(slot, KEPT, 0) == np.float32(0.1)).all()  # Adagrad's own beginning
    items = data(len(BEFORE))[0]
    logits = new.predict(items, verbose=0)[:, KEPT]
    wanted = old.predict(np.array(BEFORE)[items], verbose=0)[:, OLD]
    if head == "negative":  # its scores have ln q of all items in them
        logits, wanted = logits - logits[:, :1], wanted - wanted[:, :1]
    np.testing.assert_allclose(logits, wanted, rtol=1e-4, atol=1e-5)
    history = new.fit(*data(len(BEFORE)), epochs=2, verbose=0).history["loss"]
    assert np.isfinite(history).all()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_goes_on_as_if_nothing_had_changed(optimizer):
    old = trained("full", optimizer)
    new = tfsoftmax.with_items(old, BEFORE, not_items=np.setdiff1d(range(len(BEFORE)), KEPT))
    same = tfsoftmax.with_items(old, range(V), not_items=[5])  # 5 is gone here as well
    items = data(len(BEFORE))
    new.fit(*items, batch_size=8, shuffle=False, verbose=0)
    same.fit(*np.array(BEFORE)[items], batch_size=8, shuffle=False, verbose=0)
    for variable, other in zip(new.trainable_weights, same.trainable_weights, strict=True):
        value, wanted = variable.numpy(), other.numpy()
        if value.shape != wanted.shape:
            value, wanted = value[KEPT], wanted[OLD]
        np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-6, err_msg=variable.path)


def test_an_average_of_a_new_row_begins_with_the_row():
    for optimizer in ("average", "keras_average"):
        new = tfsoftmax.with_items(trained("full", optimizer), BEFORE)
        own, _ = new.optimizer, new.optimizer.iterations
        own.finalize_variable_values(new.trainable_variables)
        embeddings = new.layers[1].embeddings.numpy()
        assert np.abs(np.delete(embeddings, KEPT, 0)).min() > 0


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


@pytest.mark.parametrize("head", ["sampled", "in_batch", "full"])
def test_a_retired_item_is_no_item_where_it_was(head):
    model = trained(head)
    fewer = tfsoftmax.with_items(model, range(V), not_items=[3, 7])
    own = fewer.layers[-1]
    assert own.not_items == (3, 7)
    hidden = np.random.default_rng(0).normal(size=(4, D)).astype(np.float32)
    ids, _ = own.top_k(hidden, V)
    assert not np.isin(ids, [3, 7]).any()
    wanted = model.layers[-1].top_k(hidden, V)[0].numpy()
    for found, before in zip(ids.numpy(), wanted, strict=True):
        np.testing.assert_array_equal(found[:-2], before[~np.isin(before, [3, 7])])
    items = np.array([x for x in range(V) if x not in (3, 7)])
    assert np.isfinite(fewer.fit(items, items, verbose=0).history["loss"]).all()
    back = tfsoftmax.with_items(fewer, range(V), not_items=[])
    np.testing.assert_array_equal(back.layers[1].embeddings, fewer.layers[1].embeddings)
    assert set(back.layers[-1].top_k(hidden, V)[0].numpy()[0]) == set(range(V))


def tower(ids=V):
    kinds = {"id": "int32", "genre": "string"}
    inputs = {name: keras.Input((), dtype=kind, name=name) for name, kind in kinds.items()}
    own = tfsoftmax.Embedding(V, D)(inputs["id"])  # as many rows as there are items, by chance
    genre = tfsoftmax.Embedding(4, D)(keras.layers.Hashing(4)(inputs["genre"]))
    return tfsoftmax.ItemTower(keras.Model(inputs, own + genre), features(ids))


def features(count):
    return {"id": np.arange(count) % V, "genre": [("a", "b", "ç")[i % 3] for i in range(count)]}


def with_tower():
    keras.utils.set_random_seed(1)
    inputs = keras.Input((D,))
    head = tfsoftmax.SampledSoftmax(V, 4, "uniform", tied_to=tower(), use_bias=False)
    model = keras.Model(inputs, head(inputs))
    model.compile(OPTIMIZERS["adam"](), tfsoftmax.SoftmaxLoss())
    hidden = np.random.default_rng(0).normal(size=(32, D))
    model.fit(hidden, np.arange(32) % V, verbose=0)
    return model


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16", "float64"])
def test_every_policy_keeps_rows_with_masks_ties_and_two_outputs(policy):
    words = keras.Input((6,), dtype="int32")
    embedding = tfsoftmax.Embedding(V, D, mask_zero=True, dtype=policy)
    hidden = keras.layers.LSTM(D, return_sequences=True, dtype=policy)(embedding(words))
    head = HEADS["sampled"](tied_to=embedding, not_items=[0], dtype=policy, name="head")
    model = keras.Model(words, [head(hidden), keras.layers.Dense(2, name="other")(hidden)])
    losses = {"head": tfsoftmax.SoftmaxLoss(ignore_class=0), "other": "mse"}
    model.compile(OPTIMIZERS["adam"](), losses)
    inputs = np.random.default_rng(0).integers(1, V, (16, 6))
    labels = {"head": inputs, "other": np.zeros((16, 6, 2))}
    model.fit(inputs, labels, verbose=0)
    new = tfsoftmax.with_items(model, [*range(V), -1])
    np.testing.assert_array_equal(new.layers[1].embeddings.numpy()[:V], embedding.embeddings)
    new.fit(inputs, labels, verbose=0)
    states = np.random.default_rng(1).normal(size=(3, D))
    log_probs = new.get_layer("head").log_probs(states.astype(np.float32)).numpy()
    np.testing.assert_allclose(np.exp(log_probs.astype(np.float64)).sum(1), 1, rtol=1e-5)
    for before in ([-1, *range(1, V)], [*range(1, V), 0]):
        with refuses("before", "begin with 0, the padding"):
            tfsoftmax.with_items(model, before)
    with refuses("not_items", "hold 0, which was no item"):
        tfsoftmax.with_items(model, range(V), not_items=[3])
    tfsoftmax.with_items(model, range(V), not_items=[0, 3])


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


class Towers(keras.Model):
    """A subclassed model, which Keras cannot copy."""

    def __init__(self, items):
        super().__init__()
        self.items = tfsoftmax.Embedding(items, D)
        self.head = tfsoftmax.SampledSoftmax(items, 4, tied_to=self.items)

    def call(self, words, training=None):
        return self.head(self.items(words), training=training)


def test_models_of_your_own_code_move_by_move_items():
    models = []
    for items in (V, len(BEFORE)):
        model = Towers(items)
        model.compile(OPTIMIZERS["adagrad"](), tfsoftmax.SoftmaxLoss())
        model(np.zeros(2, np.int32))
        models.append(model)
    old, new = models
    old.fit(*data(), verbose=0)
    tfsoftmax.move_items(old, new, BEFORE)
    weights = [[w for w in model.weights if w.name != "sums"] for model in (new, old)]
    assert check_rows(*weights) == check_rows(
        new.optimizer.variables, old.optimizer.variables) == 2
    sums = [model.head.sampler.log_q(ids) for model, ids in ((new, KEPT), (old, OLD))]
    np.testing.assert_allclose(*(x - x[0] for x in sums), rtol=1e-4, atol=1e-5)


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


def test_what_has_its_rows_in_an_order_is_refused():
    for name in ("adaptive", "tree", "class"):
        options = {"cutoffs": [4]} if name == "adaptive" else {"counts": np.arange(V) + 1}
        if name == "class":
            options = {"classes": "frequency", "counts": np.arange(V, 0, -1)}
        head = tfsoftmax.HEADS[name](V, **options)
        model = keras.Sequential([keras.Input((8,)), head])
        for move in (tfsoftmax.with_items, lambda model, before: tfsoftmax.move_items(
                model, model, before)):
            with refuses("model", "have only rows of"):
                move(model, BEFORE)
    vocabularies, ends = samplers.target_vocabularies([[1, 2], [3, 4]], V, 2)
    fixed = tfsoftmax.SampledSoftmax(V, 2, samplers.TargetSampling(V, vocabularies, ends))
    with refuses("model", "draw its samples from all items"):
        tfsoftmax.with_items(keras.Sequential([keras.Input((8,)), fixed]), BEFORE)


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


def test_wrong_numbers_are_refused():
    model = made()
    for before in ([0, 0], [V], [-2], [], [[0]], [0.5]):
        refused("`before` must be ids in", tfsoftmax.with_items, model, before)
    for retired in ([13], [-1], [0, 0], range(13)):
        with refuses("not_items", "be different ids in [0, 13), not all of them"):
            tfsoftmax.with_items(model, BEFORE, not_items=retired)
    bigram = tfsoftmax.SampledSoftmax(V, 6, "online_bigram", shared_samples=False)
    bigram = keras.Sequential([keras.Input((D + 4,)), bigram])
    with refuses("model", "be a model that Keras can make from its configuration"):
        tfsoftmax.with_items(bigram, BEFORE, not_items=[1])  # the sampler draws all words
    with refuses("features", "be unset for a model without"):
        tfsoftmax.with_items(model, BEFORE, features(13))
    with refuses("model", "have a head of tfsoftmax"):
        tfsoftmax.with_items(keras.Sequential([keras.Input((8,))]), BEFORE)
    other = keras.Sequential([keras.Input((8,)), keras.layers.Dense(3)])
    refused("The models must have the same layers", tfsoftmax.move_items, model, other, BEFORE)
