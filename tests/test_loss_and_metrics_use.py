"""What Keras users do with losses, weights and metrics: right, or refused, or said once."""

import itertools
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from cases import (
    CASES,
    ONE_OF_EACH,
    UNITS,
    assert_all_close,
    built,
    chosen,
    language_model,
    positions,
    rewind,
    with_gradients,
)
from keras_helper import B, T, V, compiled, data
from tfsoftmax.losses import SoftmaxLoss
from tfsoftmax.metrics import (
    MAP,
    MRR,
    NDCG,
    Accuracy,
    Coverage,
    Perplexity,
    PrecisionAtK,
    RecallAtK,
    TopKAccuracy,
)

every_head = pytest.mark.parametrize("case", ONE_OF_EACH)


def of_positions(labels, logits, ignore_class=None):
    """Perplexity and accuracy of all labels but one, float64."""
    kept = labels != (-1 if ignore_class is None else ignore_class)
    labels, logits = labels[kept], np.asarray(logits, np.float64)[kept]
    nats = np.log(np.exp(logits).sum(-1)) - chosen(logits, labels)
    return np.exp(nats.mean()), (logits.argmax(-1) == labels).mean()


def test_class_weights_of_sequences_are_refused():
    model, (words, labels, _) = compiled("full"), data()
    with pytest.raises(ValueError, match=r"`sample_weight` must have the .*\(4, 1\).*class_weig"):
        model.fit(words, labels, B, class_weight={3: 10.0}, verbose=0)


@pytest.mark.parametrize("shape", [(6, 1, 1), (6, 2), (5,), (5, 1)])
def test_sample_weights_of_another_shape_are_named(shape):
    hidden, labels = positions(V, 6)
    logits, weights = built("full", V)(hidden), np.ones(shape, "float32")
    with pytest.raises(ValueError, match=r"`sample_weight` must have the shape of .*\(6,\)"):
        SoftmaxLoss()(labels, logits, weights)
    with pytest.raises(ValueError, match=r"`weights` must have the shape of the labels, \(6,\)"):
        built("full", V).loss_and_nats(hidden, labels, weights)


def test_weights_may_be_one_number_or_of_unknown_rank():
    head, (hidden, labels) = built("full", V), positions(V, 6)
    total = head.loss_and_nats(hidden, labels, np.ones(6, "float32"))[0]
    np.testing.assert_allclose(head.loss_and_nats(hidden, labels, 2.0)[0], 2 * total, rtol=1e-6)

    @tf.function(input_signature=[tf.TensorSpec(None)])
    def of_unknown_rank(weights):
        return head.loss_and_nats(hidden, labels, weights)[0]

    np.testing.assert_allclose(of_unknown_rank(np.ones(6, "float32")), total, rtol=1e-6)


def test_class_weights_of_one_label_a_sample_are_those_of_keras():
    hidden, labels = positions(V, 8)
    inputs = keras.Input((UNITS,))
    head = CASES["full"](V)
    model = keras.Model(inputs, head(inputs))
    losses = []
    for loss in (SoftmaxLoss(), keras.losses.SparseCategoricalCrossentropy(from_logits=True)):
        model.compile(keras.optimizers.SGD(0.0), loss)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            history = model.fit(hidden, labels, 8, class_weight={0: 7.0, 12: 0.5}, verbose=0)
        losses += history.history["loss"]
    np.testing.assert_allclose(*losses, rtol=1e-5)


def test_one_weight_a_sequence_has_an_axis_of_one():
    model, (words, labels, _) = language_model(CASES["full"](V)), data(1)
    weights = np.array([0.5, 0, 2, 1], np.float32)
    wanted = SoftmaxLoss()(labels, model(words), np.repeat(weights[:, None], T, 1))
    np.testing.assert_allclose(SoftmaxLoss()(labels, model(words), weights[:, None]), wanted)


@pytest.mark.parametrize("case", ["full", "sampled"])
@pytest.mark.parametrize("loss", [
    keras.losses.SparseCategoricalCrossentropy(from_logits=True), "sparse_categorical_crossentropy",
])
def test_a_loss_of_the_logits_warns_and_names_ours(case, loss):
    model, (words, labels, _) = compiled(case), data()
    model.compile("sgd", loss)
    with pytest.warns(UserWarning, match=r"`loss` should be tfsoftmax.SoftmaxLoss\(\)") as found:
        model.fit(words, labels, B, verbose=0)
    assert sum("`loss` should be" in str(w.message) for w in found) == 1


@pytest.mark.parametrize(
    "case, eagerly", [*((case, False) for case in ("full", "sampled", "adaptive", "tree")),
                      ("sampled", True)],
)
def test_our_loss_and_metrics_do_not_warn(case, eagerly):
    model, (words, labels, _) = compiled(case, run_eagerly=eagerly), data(1)
    metrics = [Perplexity(), Accuracy(), TopKAccuracy(2, name="top_2", in_training=True)]
    model.compile("sgd", SoftmaxLoss(), weighted_metrics=metrics, run_eagerly=eagerly)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".* is not computed in `fit`")
        model.fit(words, labels, B, verbose=0)
        model.evaluate(words, labels, B, verbose=0)


def test_a_metric_that_counts_what_the_loss_leaves_out_is_named():
    model, (words, labels, weights) = language_model(CASES["full"](V)), data(1)
    model.compile(
        "sgd", SoftmaxLoss(ignore_class=3), metrics=[RecallAtK(3), Perplexity(ignore_class=3)],
        weighted_metrics=[RecallAtK(2)],
    )
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model.evaluate(words, labels, B, sample_weight=weights, verbose=0)
    told = [str(w.message) for w in found if "that of the loss" in str(w.message)]
    assert [text.split("`")[3] for text in told] == ["recall_at_3"]


def test_a_metric_that_reads_logits_in_training_is_named():
    model, (words, labels, _) = compiled("sampled"), data()
    metric = keras.metrics.SparseTopKCategoricalAccuracy(2, name="top_2")
    model.compile("sgd", SoftmaxLoss(), metrics=[metric], weighted_metrics=[Perplexity()])
    with pytest.warns(UserWarning, match=r"`metrics` should ask SampledSoftmax.*\['top_2'\]"):
        model.fit(words, labels, B, verbose=0)


def test_a_metric_of_another_output_of_a_model_of_ones_own_is_not_named(recwarn):
    class Outputs(keras.Model):
        def __init__(self):
            super().__init__()
            self.head, self.dense = CASES["full"](V), keras.layers.Dense(1)

        def call(self, hidden, training=None):
            return {"word": self.head(hidden, training=training), "number": self.dense(hidden)}

    model = Outputs()
    model.compile("sgd", {"word": SoftmaxLoss(), "number": "mse"}, metrics={"number": ["mae"]})
    hidden, labels = positions(V, 6)
    model.fit(hidden, {"word": labels, "number": np.ones((6, 1))}, verbose=0)
    assert not [w for w in recwarn if "reading its logits" in str(w.message)]


@pytest.mark.parametrize("case, warned", [("sampled", True), ("full", False)])
def test_a_gradient_of_the_exact_loss_warns_where_training_is_cheaper(case, warned):
    model, (words, labels, _) = language_model(CASES[case](V)), data(1)
    for training in (False, True):
        with warnings.catch_warnings(record=True) as found, tf.GradientTape() as tape:
            warnings.simplefilter("always")
            loss = SoftmaxLoss()(labels, model(words, training=training))
            tape.gradient(loss, model.trainable_weights)
        told = [w for w in found if "`training` should be True" in str(w.message)]
        assert len(told) == (warned and not training)


@pytest.mark.parametrize("case", CASES)
def test_gradients_of_sample_weights_are_the_losses(case):
    head, (hidden, labels) = built(case, V), positions(V, 7)
    weights = tf.constant(np.random.default_rng(4).uniform(size=7), tf.float32)
    nats = rewind(head).training_loss(hidden, labels)
    _, slopes = with_gradients(rewind(head).loss_and_nats, [weights], hidden, labels, weights)
    assert_all_close(slopes, [nats])


@pytest.mark.parametrize("case", ["full", "adaptive", "nary"])
def test_gradients_of_sample_weights_through_the_loss(case):
    model, (words, labels, weights) = language_model(CASES[case](V)), data(1)
    weights = tf.constant(weights)
    _, (slope,) = with_gradients(
        lambda: SoftmaxLoss()(labels, model(words, training=True), weights), [weights]
    )
    nats = SoftmaxLoss(reduction=None)(labels, model(words, training=True))
    wanted = np.where(weights == 0, 0.0, nats / (B * T))
    np.testing.assert_allclose(slope, wanted, rtol=1e-5)


@pytest.mark.parametrize("training", [False, True])
def test_metrics_leave_out_the_class_that_they_are_told_to(training):
    model, (words, labels, _) = compiled("full"), data(1)
    labels[:, 2] = -100
    perplexity, accuracy = of_positions(labels, model.predict(words, verbose=0), -100)
    model.compile(
        keras.optimizers.SGD(0.0), SoftmaxLoss(ignore_class=-100),
        weighted_metrics=[Perplexity(-100), Accuracy(in_training=True, ignore_class=-100)],
    )
    if training:
        result = {k: v[0] for k, v in model.fit(words, labels, B, verbose=0).history.items()}
    else:
        result = model.evaluate(words, labels, B, verbose=0, return_dict=True)
    np.testing.assert_allclose(result["perplexity"], perplexity, rtol=1e-4)
    np.testing.assert_allclose(result["accuracy"], accuracy, rtol=1e-6)


def test_metrics_do_not_depend_on_losses_nor_on_the_order_of_calls():
    """With two losses on one output that leave out other labels than the metrics do."""
    model, (words, labels, _) = language_model(CASES["full"](V)), data(1)
    ignored, losses = (None, 3, labels[0, 0]), (SoftmaxLoss(5), SoftmaxLoss(labels[1, 1]))
    wanted = [of_positions(labels, model(words), i) for i in ignored]
    assert len({w[0] for w in wanted}) == 3
    for order in itertools.permutations(range(4)):
        logits = model(words)
        metrics = [(Perplexity(i), Accuracy(ignore_class=i)) for i in ignored[:2]]
        calls = [(m.update_state for m in pair) for pair in metrics] + [(loss,) for loss in losses]
        for place in order:
            for call in calls[place]:
                call(labels, logits)
        found = [[float(m.result()) for m in pair] for pair in metrics]
        np.testing.assert_allclose(found, wanted[:2], rtol=1e-5)


@pytest.mark.parametrize("loss", [
    SoftmaxLoss(5), SoftmaxLoss(), keras.losses.SparseCategoricalCrossentropy(True, ignore_class=2)
])
def test_evaluate_measures_the_same_with_any_loss(loss):
    model, (words, labels, _) = language_model(CASES["adaptive"](V)), data(2)
    model.compile("sgd", loss, metrics=[Perplexity(), Accuracy(), Perplexity(3, name="without")])
    found = model.evaluate(words, labels, B, verbose=0, return_dict=True)
    perplexity, accuracy = of_positions(labels, model.predict(words, verbose=0))
    np.testing.assert_allclose(found["perplexity"], perplexity, rtol=1e-5)
    np.testing.assert_allclose(found["accuracy"], accuracy, rtol=1e-5)
    without, _ = of_positions(labels, model.predict(words, verbose=0), 3)
    np.testing.assert_allclose(found["without"], without, rtol=1e-5)


def test_branches_of_a_loop_share_nothing_that_another_branch_computed():
    """As where a step computes a loss or updates a metric only now and then."""
    model, (words, labels, _) = language_model(CASES["full"](V)), data(1)
    metrics = [TopKAccuracy(3), Accuracy(), Perplexity(), Perplexity(), RecallAtK(2)]

    @tf.function
    def step(words, labels, number):
        logits, loss = model(words), 0.0
        if number == 7:
            loss = SoftmaxLoss()(labels, logits)
        for metric in metrics:
            if number > 0:
                metric.update_state(labels, logits)
        return loss, SoftmaxLoss()(labels, logits)

    losses = step(words, labels, tf.constant(7))
    wanted = [metric(labels, model(words)) for metric in map(copy_of, metrics)]
    assert_all_close([m.result() for m in metrics], wanted)
    assert_all_close(losses, [SoftmaxLoss()(labels, model(words))] * 2)


def copy_of(metric):
    return type(metric).from_config(metric.get_config())


def test_metrics_of_one_output_do_not_follow_the_loss_of_another():
    inputs, (hidden, labels) = keras.Input((UNITS,)), positions(V, 9)
    heads = {name: CASES["full"](V) for name in "ab"}
    model = keras.Model(inputs, {name: head(inputs) for name, head in heads.items()})
    for name, head in heads.items():
        head.kernel.assign(built("full", V, seed=ord(name)).kernel)
    model.compile(
        keras.optimizers.SGD(0.0), {"a": SoftmaxLoss(int(labels[0])), "b": SoftmaxLoss()},
        metrics={name: [Perplexity(int(labels[0]))] for name in heads},
    )
    targets = {name: labels for name in heads}
    evaluated = model.evaluate(hidden, targets, 9, verbose=0, return_dict=True)
    fitted = model.fit(hidden, targets, 9, verbose=0).history
    for name, logits in model.predict(hidden, verbose=0).items():
        wanted, _ = of_positions(labels, logits, labels[0])
        np.testing.assert_allclose(evaluated[f"{name}_perplexity"], wanted, rtol=1e-5)
        np.testing.assert_allclose(fitted[f"{name}_perplexity"], [wanted], rtol=1e-5)


@pytest.mark.parametrize("metric", [
    Perplexity(), Accuracy(), TopKAccuracy(3), TopKAccuracy(3, ignore_class=-1)
])
@pytest.mark.parametrize("wrong", [-100, V, 1.5])
def test_metrics_name_labels_that_are_no_words(metric, wrong):
    logits, labels = built("full", V)(positions(V, 4)[0]), np.array([1, 2, wrong, 3])
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"must lie in \[0, {V}\)"):
        metric.update_state(labels, logits)


@every_head
def test_accuracy_is_that_of_keras_on_the_logits(case):
    model, (words, labels, weights) = language_model(CASES[case](V)), data(1)
    for k, ours in ((1, Accuracy()), (3, TopKAccuracy(3))):
        theirs = keras.metrics.SparseTopKCategoricalAccuracy(k)
        for metric in (ours, theirs):
            metric.update_state(labels, model(words), weights)
        np.testing.assert_allclose(ours.result(), theirs.result(), rtol=1e-5)


@pytest.mark.parametrize("cls, options", [
    (Accuracy, {"in_training": True}), (TopKAccuracy, {"k": 7}), (RecallAtK, {"k": 7}),
    (NDCG, {"k": 7, "gain": "linear"}), (MRR, {"k": 7}), (PrecisionAtK, {"k": 7}),
    (MAP, {"k": 7, "capped": True}), (Coverage, {"vocab_size": V, "k": 7}),
])
def test_metrics_keep_their_arguments(cls, options):
    options = {"ignore_class": 3, **options}
    config = keras.saving.serialize_keras_object(cls(**options))
    again = keras.saving.deserialize_keras_object(config)
    assert type(again) is cls and again.get_config().items() >= options.items()
