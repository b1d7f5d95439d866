"""Rows that are no items: not in ln Z, never drawn, never listed, never served."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfsoftmax
from cases import UNITS, positions, prepared, randomise, rewind
from graph_helper import largest_tensor
from refusals import refused, refuses
from tfsoftmax import NCE, BlackOut, FullSoftmax, NegativeSampling, SampledSoftmax, ShardedSoftmax
from tfsoftmax.retrieval.hard_negatives import HardNegatives, MineHardNegatives
from tfsoftmax.samplers import Excluding, InBatch, Uniform

V, NONE, K = 13, [0, 7], 5
LEFT = [w for w in range(V) if w not in NONE]
COUNTS = np.arange(V)
HEADS = {
    "full": lambda **o: FullSoftmax(V, **o),
    "full without bias": lambda **o: FullSoftmax(V, use_bias=False, **o),
    "sharded": lambda **o: ShardedSoftmax(V, **o),
    "tied": lambda **o: FullSoftmax(V, tied_to=keras.layers.Embedding(V, UNITS), **o),
    "sampled": lambda **o: SampledSoftmax(V, 5, seed=1, **o),
    "sampled by counts": lambda **o: SampledSoftmax(V, 5, counts=COUNTS, seed=1, **o),
    "without replacement": lambda **o: SampledSoftmax(
        V, 11, "uniform", sampler_options={"unique": True}, seed=1, **o),
    "by what the sampler excludes": lambda not_items, **o: SampledSoftmax(
        V, 5, sampler_options={"exclude": not_items}, seed=1, **o),
    "in-batch": lambda **o: SampledSoftmax(V, None, InBatch(V, COUNTS + 1), seed=1, **o),
    "in-batch by name": lambda **o: SampledSoftmax(V, None, "in_batch", COUNTS + 1, seed=1, **o),
    "in-batch and others": lambda **o: SampledSoftmax(
        V, 5, InBatch(V, COUNTS + 1, Excluding(V, NONE, Uniform(V - 2))), seed=1, **o),
    "nce": lambda **o: NCE(V, 5, "uniform", seed=1, **o),
    "negative": lambda **o: NegativeSampling(V, 5, "uniform", seed=1, **o),
    "negative as it is": lambda **o: NegativeSampling(
        V, 5, "uniform", restore_proposal=False, seed=1, **o),
    "blackout": lambda **o: BlackOut(V, 5, "uniform", seed=1, **o),
}
every_head = pytest.mark.parametrize("name", HEADS)


def made(name, **options):
    return prepared(HEADS[name](not_items=NONE, **options))


@every_head
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_the_others_have_all_probability(name, dtype):
    head, (hidden, labels) = made(name, dtype=dtype), positions(V, 6)
    probabilities = np.exp(head.log_probs(hidden))
    assert (probabilities[:, NONE] == 0).all()
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    labels = np.where(np.isin(labels, NONE), 3, labels)
    np.testing.assert_allclose(
        np.exp(head.log_prob(hidden, labels)), np.take_along_axis(
            probabilities, labels[:, None], 1)[:, 0], rtol=1e-4)
    copy = type(head).from_config(head.get_config())
    assert copy.not_items == tuple(NONE) and copy.get_config() == head.get_config()


@every_head
def test_they_stand_in_no_list(name):
    head, (hidden, _) = made(name), positions(V, 6)
    if head.bias is not None:
        head.bias.assign(np.where(np.isin(np.arange(V), NONE), 1e3, head.bias))
    ids, log_probs = head.top_k(hidden, V)
    assert all(set(row[: len(LEFT)]) == set(LEFT) for row in ids.numpy())
    assert (ids[:, len(LEFT) :] == -1).numpy().all()
    assert np.isneginf(log_probs[:, len(LEFT) :]).all()
    seen = ids[:, :2]
    found, _ = head.top_k(hidden, K, exclude=seen)
    np.testing.assert_array_equal(found, ids[:, 2 : 2 + K])
    for call in (head.top_k, tf.function(head.top_k, jit_compile=head.supports_jit)):
        np.testing.assert_array_equal(call(hidden, K)[0], ids[:, :K])


@every_head
def test_training_leaves_their_rows_alone(name, through_a_file):
    """Padded sequences, whose label 0 the loss leaves out; and a saved model."""
    head = HEADS[name](not_items=NONE)
    model = keras.Sequential([keras.Input((3, UNITS)), head])
    randomise(model)
    model.compile(
        keras.optimizers.SGD(0.5), tfsoftmax.SoftmaxLoss(ignore_class=0),
        weighted_metrics=[tfsoftmax.metrics.RecallAtK(2, ignore_class=0)],
    )
    table = head.kernel if head.tied_to is None else head.tied_to.embeddings
    before = table.numpy()
    hidden = np.random.default_rng(0).normal(size=(4, 3, UNITS)).astype(np.float32)
    labels = np.array([[1, 2, 0], [3, 0, 0], [5, 6, 12], [8, 1, 0]])
    history = model.fit(hidden, labels, epochs=3, verbose=0).history
    assert np.isfinite(history["loss"]).all() and max(history["loss"]) < 50
    np.testing.assert_array_equal(table.numpy()[NONE], before[NONE])
    assert (table.numpy()[[1, 3, 5]] != before[[1, 3, 5]]).all(axis=1).all()
    result = model.evaluate(hidden, labels, verbose=0)
    again = through_a_file(model)
    np.testing.assert_allclose(again.evaluate(hidden, labels, verbose=0), result, rtol=1e-6)
    assert again.layers[-1].not_items == tuple(NONE)


def test_they_are_neither_mined_nor_served(tmp_path):
    users, negatives = keras.Input((), dtype="int32", name="user"), HardNegatives(30, 8)
    head = SampledSoftmax(V, 5, "uniform", not_items=NONE)
    logits = head(keras.layers.Embedding(30, UNITS)(users), negatives(users))
    model = keras.Model(users, logits)
    model.compile("sgd", tfsoftmax.SoftmaxLoss())
    callback = MineHardNegatives(negatives, np.arange(30))
    labels = np.array(LEFT)[np.arange(30) % len(LEFT)]
    model.fit(np.arange(30), labels, epochs=2, verbose=0, callbacks=[callback])
    assert (negatives.table.numpy() >= 0).all() and not np.isin(negatives.table, NONE).any()
    head.bias.assign(np.where(np.isin(np.arange(V), NONE), 1e3, 0.0))
    tfsoftmax.export_retrieval(model, str(tmp_path / "served"), k=V)
    served = tf.saved_model.load(str(tmp_path / "served")).signatures["retrieve"]
    found = served(user=tf.range(30), exclude=tf.fill([30, 0], ""))["ids"].numpy()
    assert set(found.ravel()) == {b"", *(str(w).encode() for w in LEFT)}


def test_a_list_takes_no_more_memory_with_many_of_them():
    words, k = 2000, 100
    head = prepared(FullSoftmax(words, not_items=range(0, words, 2)))
    top_k = tf.function(head.top_k).get_concrete_function(tf.TensorSpec([4, UNITS]), k)
    assert largest_tensor(top_k) <= words * max(4, UNITS)


def test_litert_lists_none_of_them(tmp_path):
    head, (hidden, _) = made("full"), positions(V, 6)
    inputs = keras.Input((UNITS,))
    model = keras.Model(inputs, tfsoftmax.TopK(head, V)(inputs))
    model.export(str(tmp_path / "model"), verbose=False)
    converted = tf.lite.TFLiteConverter.from_saved_model(str(tmp_path / "model")).convert()
    runner = tf.lite.Interpreter(model_content=converted).get_signature_runner()
    (name,) = runner.get_input_details()
    found = [runner(**{name: row[None]}) for row in hidden]
    ids = next(k for k, v in found[0].items() if v.dtype == np.int32)
    np.testing.assert_array_equal([f[ids][0] for f in found], head.top_k(hidden, V)[0])


def test_an_index_lists_none_of_them(tmp_path):
    faiss = pytest.importorskip("faiss")
    head, (hidden, _) = made("full"), positions(V, 6)
    for kind in (faiss.IndexFlatIP(UNITS + 1), "hnsw"):
        index = tfsoftmax.search.WordIndex(head, kind, candidates=V, samples=0)
        index.save(tmp_path / "index")
        for each in (index, tfsoftmax.search.WordIndex.load(tmp_path / "index", head)):
            found = head.top_k(hidden, len(LEFT), index=each)[0]
            np.testing.assert_array_equal(found, head.top_k(hidden, len(LEFT))[0])


def test_a_sampler_that_excludes_words_says_which_rows_are_none():
    sampler = Excluding(V, NONE, Uniform(V - 2))
    for head in (SampledSoftmax(V, 5, sampler), SampledSoftmax(V, 5, sampler, not_items=[7])):
        assert head.not_items == tuple(NONE)


@pytest.mark.parametrize("make, argument, rule", [
    (lambda: FullSoftmax(V, not_items=[V]), "not_items", r"be different ids in [0, 13)"),
    (lambda: FullSoftmax(V, not_items=[-1]), "not_items", r"be different ids in [0, 13)"),
    (lambda: FullSoftmax(V, not_items=[1, 1]), "not_items", r"be different ids in [0, 13)"),
    (lambda: FullSoftmax(V, not_items=[0.5]), "not_items", "be a list of whole numbers"),
    (lambda: FullSoftmax(V, not_items=range(V)), "not_items", r"be different ids in [0, 13)"),
    (lambda: FullSoftmax(V, 0.1, not_items=[0]), "label_smoothing", "be zero with `not_items`"),
    (lambda: SampledSoftmax(V, 5, label_smoothing=0.1, not_items=[0]), "label_smoothing",
     "be zero with `not_items`"),
    (lambda: FullSoftmax(V, soft_cap=2.0, not_items=[0]), "soft_cap", "be None with `not_items`"),
    (lambda: SampledSoftmax(V, 5, Uniform(V), not_items=[0]), "not_items", "be among the words"),
    (lambda: SampledSoftmax(V, 5, InBatch(V, None), not_items=[0]), "not_items", "be among the w"),
])
def test_what_does_not_fit_is_named(make, argument, rule):
    with refuses(argument, rule):
        make()


@every_head
def test_a_label_that_is_no_item_is_an_error_where_its_position_counts(name):
    head, (hidden, labels) = made(name), positions(V, 6)
    labels = np.where(np.isin(labels, NONE), 3, labels)
    labels[2], weights = 7, np.ones(6, np.float32)
    sentence = "`labels` must be no `not_items` of the head"
    for compiled in (tf.function, lambda function: function):
        with pytest.raises(tf.errors.InvalidArgumentError, match=sentence):
            compiled(head.loss_and_nats)(hidden, labels, weights)
    if head.supports_jit:
        total, _ = tf.function(head.loss_and_nats, jit_compile=True)(hidden, labels, weights)
        assert np.isnan(total)
        for method in (head.log_prob, head.training_loss):
            found = tf.function(method, jit_compile=True)(hidden, labels)
            assert np.isnan(found[2]) and np.isfinite(np.delete(found, 2)).all()
    loss = tfsoftmax.SoftmaxLoss(reduction="none")
    for method in (head.log_prob, head.training_loss, head.self_normalised_log_prob):
        refused(sentence, method, hidden, labels, error=tf.errors.InvalidArgumentError)
    for training in (False, True):
        logits = head(hidden, training=training)
        refused(sentence, loss, labels, logits, error=tf.errors.InvalidArgumentError)
        assert np.isfinite(loss(labels, logits, sample_weight=np.arange(6) != 2)).all()
    weights[2] = 0
    assert np.isfinite(head.loss_and_nats(hidden, labels, weights)[0])
    for method in (head.log_prob, head.training_loss):
        assert np.isfinite(method(hidden, labels, mask=weights != 0)).all()


@pytest.mark.parametrize("name", ["full", "sampled"])
def test_evaluation_refuses_a_label_that_is_no_item_unless_it_is_left_out(name):
    head, (hidden, labels) = made(name), positions(V, 6)
    inputs = keras.Input((UNITS,))
    model = keras.Model(inputs, head(inputs))
    labels = np.where(np.isin(labels, NONE), 3, labels)
    for metrics in ([], [tfsoftmax.metrics.Perplexity(ignore_class=0)]):
        model.compile(loss=tfsoftmax.SoftmaxLoss(ignore_class=0), metrics=metrics)
        labels[2] = 7
        with pytest.raises(tf.errors.InvalidArgumentError, match="must be no `not_items`"):
            model.evaluate(hidden, labels, verbose=0)
        labels[2] = 0
        assert np.isfinite(model.evaluate(hidden, labels, verbose=0)).all()


@pytest.mark.parametrize("metric", [
    tfsoftmax.metrics.RecallAtK(3), tfsoftmax.metrics.Coverage(V, 3),
    tfsoftmax.metrics.TopKAccuracy(3),
])
def test_metrics_refuse_a_label_that_is_no_item_unless_it_is_left_out(metric):
    head, (hidden, labels) = made("full"), positions(V, 6)
    labels[:], weights = 3, np.ones(6, np.float32)
    labels[2], weights[2] = 7, 0
    metric.update_state(labels, head(hidden), weights)
    assert np.isfinite(metric.result())
    refused("`labels` must be no `not_items` of the head", metric.update_state, labels,
            head(hidden), error=tf.errors.InvalidArgumentError)


@pytest.mark.parametrize("name", ["sampled by counts", "in-batch"])
def test_hard_negatives_that_are_no_items_count_for_nothing(name):
    head, (hidden, labels) = made(name), positions(V, 6)
    labels[:] = 3
    losses = []
    for negatives in ([-1, 4], [7, 4]):
        rewind(head)
        losses.append(head.training_loss(hidden, labels, np.tile(negatives, [6, 1])))
    np.testing.assert_array_equal(*losses)


@pytest.mark.parametrize("name", ["full", "sampled"])
def test_shapes_of_exclude_and_lists_of_inputs_are_refused_where_a_model_is_made(name):
    hidden, seen, head = keras.Input((4, UNITS)), keras.Input((None,), dtype="int32"), made(name)
    refused(r"Pass exclude\[:, None\] if all positions have the", head, hidden, exclude=seen)
    head(hidden, exclude=seen[:, None])
    with refuses("hidden", "be one tensor, such as head.input[0]"):
        tfsoftmax.TopK(head, 3)(head.input)
    assert tfsoftmax.TopK(head, 3)(head.input[0])[0].shape == (None, 4, 3)
