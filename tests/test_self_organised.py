"""SelfOrganisedSoftmax against naive TensorFlow, its clustering, its callback and metrics."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from cases import (
    assert_all_close,
    assert_all_equal,
    chosen,
    counts,
    language_model,
    positions,
    prepared,
    with_gradients,
)
from refusals import refuses
from tfsoftmax import ClassSoftmax, Reassign, SelfOrganisedSoftmax, SoftmaxLoss
from tfsoftmax.metrics import ClusterPerplexity, InClusterPerplexity, Perplexity
from tfsoftmax.optimizers import Adagrad

V = 41


def built(**options):
    return prepared(SelfOrganisedSoftmax(V, counts(V), **options))


def naive_log_probs(hidden, weights, clusters):
    """Equations 1-4, with masks in place of ranges."""
    if len(weights) == 4:
        weights = [*weights[:3], 0.0, weights[3], 0.0]
    to_cluster, to_word, cluster_kernel, cluster_bias, kernel, bias = weights
    by_cluster, by_word = tf.nn.relu(hidden @ to_cluster), tf.nn.relu(hidden @ to_word)
    of_clusters = tf.nn.log_softmax(by_cluster @ tf.transpose(cluster_kernel) + cluster_bias)
    scores = by_word @ tf.transpose(kernel) + bias
    columns = []
    for word, cluster in enumerate(clusters):
        members = np.flatnonzero(clusters == cluster)
        within = scores[:, word] - tf.reduce_logsumexp(tf.gather(scores, members, axis=1), axis=1)
        columns.append(of_clusters[:, cluster] + within)
    return tf.stack(columns, 1)


@pytest.mark.parametrize("use_bias", [False, True])
def test_log_probs_and_gradients_equal_naive_tensorflow(use_bias):
    head, (hidden, labels) = built(use_bias=use_bias), positions(V, 50)
    weights = np.random.default_rng(3).uniform(size=50).astype(np.float32)
    values = [tf.convert_to_tensor(w) for w in head.trainable_weights]
    hidden = tf.constant(hidden)

    def naive():
        log_probs = naive_log_probs(hidden, values, head.clusters)
        nats = -tf.gather(log_probs, labels, axis=1, batch_dims=1)
        return weights * nats, log_probs, nats

    (_, log_probs, nats), wanted = with_gradients(naive, [hidden, *values])
    np.testing.assert_allclose(head.log_probs(hidden), log_probs, rtol=1e-4, atol=1e-5)
    _, ours = head.loss_and_nats(hidden, labels, weights)
    np.testing.assert_allclose(ours, nats, rtol=1e-4, atol=1e-5)
    for loss in (lambda: head.loss_and_nats(hidden, labels, weights),
                 lambda: weights * head.training_loss(hidden, labels)):
        _, found = with_gradients(loss, [hidden, *head.trainable_weights])
        assert_all_close(found, wanted, rtol=1e-4, atol=1e-4)


def test_preferences_are_smoothed_log_probabilities():
    """Equation 9, occurrence by occurrence, for words that stand once in a batch."""
    head, kept = built(), 1 - 1 / np.maximum(counts(V), 1)
    expected = np.full((V, head.num_clusters), -np.log2(head.num_clusters))
    for seed in range(4):
        hidden, _ = positions(V, 9, seed)
        labels = np.random.default_rng(seed).permutation(V)[:9].astype(np.int32)
        to_cluster, _, kernel = (w.numpy().astype(np.float64) for w in head.trainable_weights[:3])
        scores = np.maximum(hidden @ to_cluster, 0) @ kernel.T
        bits = (scores - np.log(np.exp(scores).sum(1, keepdims=True))) / np.log(2)
        for word, row in zip(labels, bits):
            expected[word] = kept[word] * expected[word] + (1 - kept[word]) * row
        head.training_loss(hidden, labels)
    np.testing.assert_allclose(head.preferences, expected, rtol=1e-4, atol=1e-4)


def test_a_frozen_head_observes_and_reassigns_nothing():
    head = built()
    hidden, labels = positions(V, 30)
    head.training_loss(hidden, labels)
    head.trainable = False
    before = [weight.numpy().copy() for weight in head.weights]
    head.training_loss(hidden, labels)
    assert head.reassign() == {"changed_words": 0.0, "changed_tokens": 0.0}
    model = keras.Sequential([head])
    model.compile("sgd", SoftmaxLoss())
    model.fit(hidden, labels, 10, callbacks=[Reassign(every=1)], verbose=0)
    assert_all_equal(before, head.weights)
    head.trainable = True
    assert head.reassign()["changed_words"] > 0


def test_words_without_preference_stay():
    head = built(gamma=3.0, frequency_budget=2.0)
    before = head.clusters
    assert head.reassign() == {"changed_words": 0.0, "changed_tokens": 0.0}
    np.testing.assert_array_equal(head.clusters, before)


def test_reassigned_words_keep_their_weights_and_probabilities_still_sum_to_one():
    head, (hidden, _) = built(), positions(V, 5)
    rng, before, weights = np.random.default_rng(0), head.clusters, head.kernel.numpy()
    head.preferences.assign(rng.standard_normal((V, head.num_clusters)))
    changed = head.reassign()
    share = counts(V) / counts(V).sum()
    moved = head.clusters != before
    assert moved.any() and changed["changed_words"] == moved.mean()
    np.testing.assert_allclose(changed["changed_tokens"], share[moved].sum())
    np.testing.assert_array_equal(head.kernel, weights)
    np.testing.assert_allclose(np.exp(head.log_probs(hidden)).sum(1), 1, rtol=1e-5)
    expected = naive_log_probs(hidden, head.get_weights()[:4], head.clusters)
    np.testing.assert_allclose(head.log_probs(hidden), expected, rtol=1e-4, atol=1e-5)


def compiled(head, **options):
    model = language_model(head)
    metrics = [Perplexity(), ClusterPerplexity(), InClusterPerplexity()]
    model.compile(Adagrad(0.3), SoftmaxLoss(), weighted_metrics=metrics, **options)
    return model


def chain(length=4000, seed=0):
    """Text in which words of the class v % 6 are followed by words of the next class."""
    rng = np.random.default_rng(seed)
    words = (np.arange(length) % 6 + 6 * rng.integers(0, 6, length)).astype(np.int32)
    return words[: length // 21 * 21].reshape(-1, 21)


def test_clusters_of_words_that_follow_the_same_words_are_found():
    keras.utils.set_random_seed(2)  # one beginning in ten needs more epochs than these
    words = chain()
    head = SelfOrganisedSoftmax(36, np.full(36, 100), gamma=1.0, frequency_budget=1.0, seed=2)
    model = language_model(head, time_steps=20)
    model.compile(Adagrad(0.3), SoftmaxLoss(), weighted_metrics=[ClusterPerplexity()])
    callback = Reassign(every=6)
    model.fit(words[:, :-1], words[:, 1:], 10, epochs=30, callbacks=[callback], verbose=0)
    after = model.evaluate(words[:, :-1], words[:, 1:], verbose=0, return_dict=True)
    assert after["cluster_perplexity"] < 1.2
    kinds = np.zeros((6, 6))
    np.add.at(kinds, (head.clusters, np.arange(36) % 6), 1)
    assert kinds.max(1).sum() / 36 > 0.9  # words of a cluster are of one kind
    assert callback.history[0]["changed_words"] > callback.history[-1]["changed_words"]


@pytest.mark.parametrize("steps_per_execution", [1, 4])
def test_callback_reassigns_every_so_many_batches(steps_per_execution):
    words, logged = chain(1000), []
    head = SelfOrganisedSoftmax(36, np.ones(36))
    model = language_model(head, time_steps=20)
    model.compile(Adagrad(0.3), SoftmaxLoss(), steps_per_execution=steps_per_execution)
    callback = Reassign(8, logged.append)
    model.fit(words[:, :-1], words[:, 1:], 3, epochs=2, callbacks=[callback], verbose=0)
    # None follows the last of 32 batches: nothing would be learned in those clusters.
    assert [entry["step"] for entry in logged] == [8, 16, 24] and logged == callback.history
    assert callback.step == 32
    assert set(logged[0]) == {"step", "changed_words", "changed_tokens"}


@pytest.mark.parametrize("every, batches", [  # 8 batches an epoch
    (5, 1), (1, 3), *(pytest.param(every, 1, marks=pytest.mark.slow) for every in (8, 3)),
])
def test_an_interrupted_training_goes_on_with_its_schedule(every, batches, tmp_path):
    words = chain(1000)[:24]

    def train(epochs, *callbacks):
        """A new process's: a model, a callback of its own, and what it did."""
        keras.utils.set_random_seed(3)
        model = language_model(SelfOrganisedSoftmax(36, np.ones(36)), time_steps=20)
        accumulated = batches if batches > 1 else None
        model.compile(Adagrad(0.3, gradient_accumulation_steps=accumulated), SoftmaxLoss())
        callback = Reassign(every)
        model.fit(
            words[:, :-1], words[:, 1:], 3, epochs=epochs, shuffle=False, verbose=0,
            callbacks=[callback, *callbacks],
        )
        return model, callback.history

    def backup():
        folder = str(tmp_path / "backup")
        return keras.callbacks.BackupAndRestore(folder, delete_checkpoint=False)

    model, whole = train(4)
    _, first = train(2, backup())
    again, second = train(4, backup())
    assert [entry["step"] for entry in whole] == list(range(every, -(-32 // batches), every))
    assert first + second == whole
    assert_all_equal(again.weights, model.weights)


def test_product_of_cluster_and_in_cluster_perplexity_is_perplexity(through_a_file):
    model, words = compiled(SelfOrganisedSoftmax(36, np.ones(36))), chain(1000)[:, :6]
    weights = np.random.default_rng(0).uniform(size=(len(words), 5)).astype(np.float32)
    data, options = (words[:, :-1], words[:, 1:], 4), {"sample_weight": weights, "verbose": 0}
    assert "cluster_perplexity" not in model.fit(*data, **options).history
    result = model.evaluate(*data, return_dict=True, **options)
    product = result["cluster_perplexity"] * result["in_cluster_perplexity"]
    np.testing.assert_allclose(product, result["perplexity"], rtol=1e-5)
    model.layers[-1].reassign()
    again = through_a_file(model)
    np.testing.assert_array_equal(again.layers[-1].clusters, model.layers[-1].clusters)
    assert again.evaluate(*data, **options) == model.evaluate(*data, **options)


def test_saved_clusters_are_the_clusters_and_the_classes_of_other_heads(tmp_path):
    head, words, path = built(seed=4), [f"w{i}" for i in range(V)], tmp_path / "clusters"
    head.save_clusters(path, words)
    by_class = ClassSoftmax(V, str(path), words=words)
    np.testing.assert_array_equal(by_class.classes, head.clusters)
    again = built(clusters=path, words=words)
    np.testing.assert_array_equal(again.clusters, head.clusters)


def test_given_clusters_stay_and_the_probabilities_are_equation_1():
    clusters = np.random.default_rng(3).permutation(np.arange(V) % 3)
    clusters[:30] = 0  # more words than γ√V
    head, (hidden, labels) = built(clusters=clusters), positions(V, 9)
    expected = naive_log_probs(hidden, head.get_weights()[:4], clusters)
    np.testing.assert_allclose(head.log_probs(hidden), expected, rtol=1e-4, atol=1e-5)
    nats = -chosen(expected, labels)
    for losses in (
        head.training_loss(hidden, labels), head.loss_and_nats(hidden, labels, np.ones(9))[1]
    ):
        np.testing.assert_allclose(losses, nats, rtol=1e-4, atol=1e-5)
    weights = np.linspace(0, 2, 9, dtype=np.float32)
    (loss, one), (same, other) = (with_gradients(total, head.trainable_variables) for total in (
        lambda: head.loss_and_nats(hidden, labels, weights)[0],
        lambda: tf.reduce_sum(weights * head.training_loss(hidden, labels)),
    ))
    np.testing.assert_allclose([loss, same], np.sum(weights * nats), rtol=1e-4)
    assert_all_close(one, other, rtol=1e-4)
    assert head.reassign() == {"changed_words": 0.0, "changed_tokens": 0.0}
    np.testing.assert_array_equal(head.clusters, clusters)
    assert not any("preferences" in weight.path for weight in head.weights)  # (V, C) saved


@pytest.mark.parametrize("name, rule, vocab_size, options", [
    ("clusters", "have one number for each word, shape (41,)", V, {"clusters": [0, 1]}),
    ("clusters", "number the classes from 0 on without gaps", V, {"clusters": np.arange(V) * 2}),
    ("clusters", "be integers", V, {"clusters": np.full(V, 0.5)}),
    ("words", "be given for clusters=", V, {"clusters": __file__}),
    ("counts", "each of 5 words", 5, {"counts": np.ones(4)}),
])
def test_mistakes_are_named(name, rule, vocab_size, options):
    with refuses(name, rule):
        SelfOrganisedSoftmax(vocab_size, **{"counts": counts(V), **options})


def test_a_missing_file_of_clusters_is_named():
    with refuses("clusters", "or a file", error=FileNotFoundError):
        SelfOrganisedSoftmax(V, counts(V), clusters="nowhere")


def test_mistakes_of_the_callback_are_named():
    for every, rule in ((0, "lie in"), (None, "be an integer")):
        with refuses("every", f"must {rule}"):
            Reassign(every)
    model = language_model(ClassSoftmax(36))
    model.compile("sgd", SoftmaxLoss())
    words = chain(100)[:, :6]
    with refuses("model", "end in a SelfOrganisedSoftmax"):
        model.fit(words[:, :-1], words[:, 1:], callbacks=[Reassign(1)], verbose=0)
