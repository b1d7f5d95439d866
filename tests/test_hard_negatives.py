"""Hard negatives: words that are certain to be in a sample, and where they come from."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src.trainers.trainer import model_supports_jit

import replicas_helper
import tfsoftmax
from cases import with_gradients
from refusals import refuses
from tfsoftmax import FullSoftmax, HardNegatives, MineHardNegatives, SampledSoftmax, SoftmaxLoss
from tfsoftmax.heads import sampling
from tfsoftmax.samplers import InBatch

V, D, N = 9, 4, 6
COUNTS = np.array([5, 90, 3, 1, 40, 2, 7, 2, 11])
LABELS = np.array([1, 4, 1, 8, 3, 5], np.int32)
HARD = np.array([[1, 7], [0, -1], [7, 7], [2, 4], [-1, -1], [0, 7]])
SAMPLERS = {
    "drawn": lambda: {"num_samples": 12, "sampler": "unigram", "counts": COUNTS},
    "in-batch": lambda: {"num_samples": None, "sampler": InBatch(V, COUNTS)},
    "mixed": lambda: {"num_samples": 7, "sampler": InBatch(V, COUNTS)},
}


def make(name, **options):
    head = SampledSoftmax(V, seed=3, **{**SAMPLERS[name](), **options})
    head.build((None, D))
    rng = np.random.default_rng(2)
    for weight in head.trainable_weights:
        weight.assign(rng.normal(size=weight.shape))
    return head, tf.constant(rng.normal(size=(N, D)), tf.float32)


def drawn_by(head):
    """The sample of the next step, which it leaves to that step."""
    seed = head.random_state.next()
    head.random_state.state.assign(head.random_state.state - [0, 1])
    return head.sampler.sample(LABELS, head.num_samples, seed)


def scores_of(head, hidden):
    return hidden.numpy().astype(np.float64) @ head.kernel.numpy().T + head.bias.numpy()


def reference(head, hidden, name):
    """The softmax over the label, the hard negatives once each, and what else was drawn."""
    drawn, scores, losses = drawn_by(head), scores_of(head, hidden), []
    certain = set(HARD[HARD >= 0])
    for position, label in enumerate(LABELS):
        own = np.exp(scores[position, label])
        if label not in certain:
            own /= np.exp(drawn.log_expected_labels[position])
        total = own + sum(np.exp(scores[position, w]) for w in certain if w != label)
        for place, (word, log_expected) in enumerate(zip(*drawn[:2])):
            itself = name != "drawn" and place == position
            if int(word) not in certain and not itself:
                total += np.exp(scores[position, word] - log_expected)
        losses.append(np.log(total / own))
    return losses


@pytest.mark.parametrize("name", SAMPLERS)
def test_hard_negatives_count_once_and_the_others_by_what_was_expected(name):
    head, hidden = make(name)
    wanted = reference(head, hidden, name)
    np.testing.assert_allclose(head.training_loss(hidden, LABELS, HARD), wanted, rtol=1e-4)


@pytest.mark.parametrize("name", SAMPLERS)
def test_without_any_the_loss_is_that_of_the_sample(name):
    head, hidden = make(name)
    other, _ = make(name)
    none = np.full((N, 3), -1)
    wanted = other.training_loss(hidden, LABELS)
    np.testing.assert_allclose(head.training_loss(hidden, LABELS, none), wanted, rtol=1e-5)


def test_what_replicas_gather_is_never_empty(monkeypatch):
    gathered = []
    monkeypatch.setattr(sampling, "of_all_replicas", lambda ids: gathered.append(ids) or ids)
    head, hidden = make("drawn")
    head.training_loss(hidden, LABELS, np.full((N, 3), -1))
    (ids,) = gathered
    assert len(ids) == 3 * N


def loss_of_an_empty_table():
    with replicas_helper.strategy_here().scope():
        users, negatives = keras.Input((), dtype="int32"), HardNegatives(8, 2)
        head = SampledSoftmax(V, 5, "uniform")
        model = keras.Model(users, head(tfsoftmax.Embedding(8, D)(users), negatives(users)))
        model.compile("sgd", SoftmaxLoss())
    return model.fit(np.arange(8), np.arange(8), verbose=0).history["loss"][0]


@pytest.mark.slow
def test_workers_may_have_no_hard_negatives_yet():
    one, other = replicas_helper.run(loss_of_an_empty_table, workers=2, seconds=100)
    assert one == other < 10


def test_the_gradient_tends_to_that_of_the_whole_softmax():
    head, hidden = make("drawn", num_samples=200_000)
    full = FullSoftmax(V)
    full.build((None, D))
    full.set_weights([head.kernel, head.bias])
    found = []
    for loss in (lambda: head.training_loss(hidden, LABELS, HARD),
                 lambda: full.training_loss(hidden, LABELS)):
        found += with_gradients(loss, [hidden])[1]
    np.testing.assert_allclose(*found, atol=0.02)


def test_the_sum_over_the_sample_is_an_unbiased_estimate_of_z():
    head, hidden = make("drawn")
    scores = hidden @ tf.transpose(head.kernel.value) + head.bias.value
    own = tf.gather(scores, LABELS, batch_dims=1)
    own -= np.log(12 * COUNTS / COUNTS.sum()).astype(np.float32)[LABELS]

    @tf.function
    def sums():
        def one(_):
            return tf.exp(own) * tf.math.expm1(head.training_loss(hidden, LABELS, HARD))
        return tf.map_fn(one, tf.zeros(4000), parallel_iterations=1)

    drawn = ~np.isin(LABELS, HARD)  # the label's own term is known
    found, z = sums().numpy(), np.exp(scores).sum(1)
    error = found.std(0) / np.sqrt(4000)
    assert drawn.sum() == 3
    assert np.all(np.abs(found.mean(0) - z)[drawn] < 4.5 * error[drawn])


def test_fit_reads_them_and_nothing_else_does(through_a_file):
    head, hidden = make("in-batch")
    inputs, ids = keras.Input((D,)), keras.Input((2,), dtype="int32")
    model = keras.Model([inputs, ids], head(inputs, hard_negatives=ids))
    model.compile(tfsoftmax.optimizers.SGD(0.0), SoftmaxLoss(),
                  weighted_metrics=[tfsoftmax.Perplexity()])
    wanted = np.mean(reference(head, hidden, "in-batch"))
    data = [hidden.numpy(), HARD]
    assert model.fit(data, LABELS, verbose=0).history["loss"][0] == pytest.approx(wanted, rel=1e-4)
    nats = -np.mean(head.log_prob(hidden, LABELS))
    assert model.evaluate(data, LABELS, verbose=0)[0] == pytest.approx(nats, rel=1e-5)
    again = through_a_file(model)
    logits = again.predict(data, verbose=0)
    np.testing.assert_allclose(logits, model.predict(data, verbose=0), rtol=1e-5)
    assert again.fit(data, LABELS, verbose=0).history["loss"][0] == pytest.approx(wanted, rel=1e-4)
    served = keras.Model(inputs, head(inputs))  # shares the head, and needs no hard negatives
    np.testing.assert_allclose(served.predict(data[0], verbose=0), logits, rtol=1e-5)


def test_keras_does_not_choose_xla_for_models_with_hard_negatives():
    users, ids = keras.Input((D,)), keras.Input((2,), dtype="int32")
    heads = [SampledSoftmax(V, 4, "uniform") for _ in range(3)]
    plain = keras.Model(users, heads[0](users))
    given = keras.Model([users, ids], heads[1](users, ids))
    queries = keras.Input((), dtype="int32")
    mined = keras.Model([users, queries], heads[2](users, HardNegatives(8, 2)(queries)))
    assert [model_supports_jit(model) for model in (plain, given, mined)] == [True, False, False]


def test_a_head_that_a_model_calls_with_negatives_does_not_support_jit():
    class Subclassed(keras.Model):
        def __init__(self):
            super().__init__()
            self.head, _ = make("drawn")

        def call(self, inputs, training=None):
            return self.head(inputs[0], inputs[1], training=training)

    model = Subclassed()
    model.compile("sgd", SoftmaxLoss())
    model.fit([np.ones((N, D), np.float32), HARD], LABELS, verbose=0)
    assert not model_supports_jit(model)
    head, _ = make("drawn")
    head.compute_output_spec(keras.KerasTensor((N, D)), keras.KerasTensor((N, 2), "int32"))
    assert head.supports_jit  # nothing has called it yet


def test_a_batch_without_any_counted_position_has_no_loss():
    head, hidden = make("in-batch", num_samples=None, sampler=InBatch(V, None))
    none = np.zeros(len(LABELS))
    total, _ = head.loss_and_nats(hidden, LABELS, none, tf.constant(HARD, tf.int32))
    assert total == 0


@pytest.mark.parametrize("others", [None, 7])
def test_without_a_correction_all_scores_stay_as_they_are(others):
    head, hidden = make("in-batch", num_samples=others, sampler=InBatch(V, None))
    ids, scores, losses = drawn_by(head).ids.numpy(), scores_of(head, hidden), []
    certain = set(HARD[HARD >= 0])
    for position, label in enumerate(LABELS):
        words = [label, *(certain - {label}), *(
            w for place, w in enumerate(ids) if w not in certain and place != position)]
        row = scores[position]
        losses.append(np.log(sum(np.exp(row[w]) for w in words)) - row[label])
    np.testing.assert_allclose(head.training_loss(hidden, LABELS, HARD), losses, rtol=1e-4)


def test_the_callback_fills_the_table_with_what_the_head_ranks_highest(through_a_file):
    users, negatives = keras.Input((), dtype="int32"), HardNegatives(30, 3)
    hidden = tfsoftmax.Embedding(30, D)(users)
    head = SampledSoftmax(V, 4, "uniform")
    model = keras.Model(users, head(hidden, negatives(users)))
    model.compile(tfsoftmax.optimizers.Adam(0.1), SoftmaxLoss())
    callback = MineHardNegatives(negatives, np.arange(30), every=2, batch_size=7)
    tables = []
    spy = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda *_: tables.append(negatives.table.numpy())
    )
    labels = np.arange(30) % V
    model.fit(np.arange(30), labels, epochs=4, verbose=0, callbacks=[callback, spy])
    assert (tables[0] == -1).all() and (tables[1] == -1).all()
    np.testing.assert_array_equal(tables[2], tables[3])
    scores = model.predict(np.arange(30), verbose=0)
    np.testing.assert_array_equal(callback.mined(), np.argsort(-scores, axis=1)[:, :3])
    assert (tables[2] >= 0).all()
    again = through_a_file(model)
    kept = next(layer for layer in again.layers if isinstance(layer, HardNegatives))
    np.testing.assert_array_equal(kept.table, tables[3])


def test_the_head_may_be_in_a_model_that_ends_a_sequence_or_make_any_of_the_outputs():
    users, negatives = keras.Input((), dtype="int32"), HardNegatives(8, 3)
    hidden, head = tfsoftmax.Embedding(8, D)(users), SampledSoftmax(V, 4, "uniform")
    logits, (best, _) = head(hidden, negatives(users)), tfsoftmax.TopK(head, 2)(hidden)
    inner = keras.Model(users, logits)
    wanted = np.argsort(-inner.predict(np.arange(8), verbose=0), axis=1)[:, :3]
    ends = keras.Sequential([keras.Input((), dtype="int32"), inner])
    several = keras.Model(users, [best, logits])
    for model in (ends, several, keras.Model(users, several(users))):
        callback = MineHardNegatives(negatives, np.arange(8))
        callback.set_model(model)
        callback.on_train_begin()
        np.testing.assert_array_equal(callback.mined(), wanted)


@pytest.mark.parametrize("options", [
    {"sampler_options": {"unique": True}}, {"shared_samples": False}, {"label_in_sum": False},
])
def test_heads_that_cannot_have_hard_negatives_say_so(options):
    with refuses("hard_negatives", "be None unless"):
        SampledSoftmax(V, 3, "uniform", **options).training_loss(np.ones((N, D)), LABELS, HARD)


def test_hard_negatives_of_another_form_are_named():
    head, hidden = make("drawn")
    with pytest.raises(NotImplementedError, match="`hard_negatives` cannot be compiled by XLA"):
        tf.function(head.training_loss, jit_compile=True)(hidden, LABELS, HARD)
    message = r"`hard_negatives` must lie in \[-1, 9\)"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        head.training_loss(hidden, LABELS, HARD + 2)
    words = tf.reshape(hidden, [2, 3, D])
    for call in (head, lambda h, ids: head.training_loss(h, LABELS.reshape(2, 3), ids)):
        with pytest.raises(ValueError, match=r"`hard_negatives` must have the shape \(2, 3, 'E'\)"):
            call(words, HARD[:2])
        with pytest.raises(TypeError, match="`hard_negatives` must be integers"):
            call(words, np.zeros((2, 3, 1)))


@pytest.mark.parametrize("negatives, in_model, name, rule", [
    (V + 1, True, "num_negatives", "be at most the vocabulary's 9"),
    (2, False, "negatives", "be a layer of the model"),
    (2, True, "inputs", "be those of the 5 queries"),
])
def test_models_that_cannot_be_mined_are_named(negatives, in_model, name, rule):
    users, table = keras.Input((), dtype="int32"), HardNegatives(5, negatives)
    hidden = tfsoftmax.Embedding(5, D)(users)
    trained = keras.Model(users, SampledSoftmax(V, 4)(hidden, table(users)))
    callback = MineHardNegatives(table if in_model else HardNegatives(5, 2), np.arange(4))
    callback.set_model(trained)
    with refuses(name, rule):
        callback.on_train_begin()
        callback.mined()


def test_a_model_that_ends_in_no_head_cannot_be_mined():
    model, hidden = keras.Sequential([keras.Input((D,)), keras.layers.Dense(V)]), np.ones((N, D))
    model.compile("sgd", "mse")
    with refuses("model", "that a head makes"):
        model.fit(hidden, tf.ones((N, V)), verbose=0,
                  callbacks=[MineHardNegatives(HardNegatives(3, 1), hidden)])
