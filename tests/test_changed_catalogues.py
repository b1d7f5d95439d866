"""Models whose items come and go: rows and slots stay with their items, and training goes on."""

import keras
import numpy as np
import pytest

import tfsoftmax
from items_helper import BEFORE, HEADS, KEPT, OLD, OPTIMIZERS, D, V, check_rows, data, made, trained
from refusals import refused, refuses
from tfsoftmax import samplers


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


@pytest.mark.parametrize("optimizer", [x for x in OPTIMIZERS if x != "adafactor"])
def test_training_goes_on_as_if_nothing_had_changed(optimizer):
    """Not with Adafactor, which scales all rows by means over the old and the new ones."""
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


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_slots_follow_items_whose_number_stays(optimizer):
    old, before = trained("full", optimizer), np.random.default_rng(0).permutation(V)
    new = tfsoftmax.with_items(old, before)
    moved = 0
    for slot, other in zip(new.optimizer.variables, old.optimizer.variables, strict=True):
        rows = before if other.shape[:1] == (V,) else ...
        np.testing.assert_array_equal(slot.numpy(), other.numpy()[rows], err_msg=slot.path)
        moved += rows is before
    assert moved > 0


def test_an_average_of_a_new_row_begins_with_the_row():
    for optimizer in ("average", "keras_average"):
        new = tfsoftmax.with_items(trained("full", optimizer), BEFORE)
        own, _ = new.optimizer, new.optimizer.iterations
        own.finalize_variable_values(new.trainable_variables)
        embeddings = new.layers[1].embeddings.numpy()
        assert np.abs(np.delete(embeddings, KEPT, 0)).min() > 0


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


@pytest.mark.parametrize("kind", ["loss", "metric", "loss of Keras"])
def test_the_class_that_is_ignored_keeps_its_id(kind):
    model, given = made(), {"optimizer": "sgd", "loss": tfsoftmax.SoftmaxLoss()}
    if kind == "metric":
        given["weighted_metrics"] = [tfsoftmax.Perplexity(ignore_class=3)]
    elif kind == "loss":
        given["loss"] = tfsoftmax.SoftmaxLoss(ignore_class=3)
    else:
        given["loss"] = keras.losses.SparseCategoricalCrossentropy(True, ignore_class=3)
    model.compile(**given)
    for before in ([3, 0, 1, 2, 4], [0, 1, 2], [0, 1, 2, -1, 4, 5]):
        with refuses("before", "leave the class that losses and metrics ignore where it is"):
            tfsoftmax.with_items(model, before)
    assert tfsoftmax.with_items(model, [10, 7, -1, 3, 9]).layers[-1].vocab_size == 5
    for padding in (-1, -100, V, None):
        model.compile("sgd", tfsoftmax.SoftmaxLoss(ignore_class=padding))
        assert tfsoftmax.with_items(model, [2, 1]).loss.ignore_class == padding


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
    untied = made(embedding=lambda *sizes: keras.layers.ReversibleEmbedding(*sizes, False))
    with refuses("model", "or transposed"):
        tfsoftmax.with_items(untied, range(V)[::-1])
    vocabularies, ends = samplers.target_vocabularies([[1, 2], [3, 4]], V, 2)
    fixed = tfsoftmax.SampledSoftmax(V, 2, samplers.TargetSampling(V, vocabularies, ends))
    with refuses("model", "draw its samples from all items"):
        tfsoftmax.with_items(keras.Sequential([keras.Input((8,)), fixed]), BEFORE)


def test_wrong_numbers_are_refused():
    model = made()
    assert tfsoftmax.with_items(model, np.arange(V, dtype=np.uint8)).layers[-1].vocab_size == V
    for before in ([0, 0], [V], [-2], [], [[0]], [0.5], [[0], [1, 2]]):
        refused("`before` must be ids in", tfsoftmax.with_items, model, before)
    for retired in ([13], [-1], [0, 0], range(13)):
        with refuses("not_items", "be different ids in [0, 13), not all of them"):
            tfsoftmax.with_items(model, BEFORE, not_items=retired)
    bigram = tfsoftmax.SampledSoftmax(V, 6, "online_bigram", shared_samples=False)
    bigram = keras.Sequential([keras.Input((D + 4,)), bigram])
    with refuses("model", "be a model that Keras can make from its configuration"):
        tfsoftmax.with_items(bigram, BEFORE, not_items=[1])  # the sampler draws all words
    with refuses("model", "have a head of tfsoftmax"):
        tfsoftmax.with_items(keras.Sequential([keras.Input((8,))]), BEFORE)
    other = keras.Sequential([keras.Input((8,)), keras.layers.Dense(3)])
    refused("The models must have the same layers", tfsoftmax.move_items, model, other, BEFORE)
