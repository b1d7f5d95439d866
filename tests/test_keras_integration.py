"""Every way in which Keras users meet a head: compile, fit, evaluate, predict, save, export."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from cases import CASES, ONE_OF_EACH, TO_COMPILE, language_model, slow_unless
from keras_helper import B, T, V, compiled, data
from tfsoftmax import EffectiveSampleSize, Perplexity, SoftmaxLoss
from tfsoftmax.metrics import Accuracy, RecallAtK, TopKAccuracy


def exact_perplexity(model, words, labels, weights):
    """From the logits that `predict` returns, in float64."""
    logits = model.predict(words, batch_size=B, verbose=0).astype(np.float64)
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    nats = -np.take_along_axis(log_probs, labels[..., None], -1)[..., 0]
    return np.exp(np.sum(nats * weights) / np.sum(weights)), np.sum(nats * weights)


def fitted(case, layers="functional"):
    """A model after an epoch of one batch and fifteen of three, and what it said on the way."""
    model, said = compiled(case, layers), {}
    words, labels, weights = data(1)
    said["exact before fit"], _ = exact_perplexity(model, words, labels, weights)
    history = model.fit(words, labels, B, sample_weight=weights, verbose=0).history
    said["in fit"] = history.get("perplexity", [None])[0]
    words, labels, weights = data()
    said["exact"] = exact_perplexity(model, words, labels, weights)
    for each in ("before", "after"):
        if each == "after":
            model.fit(words, labels, B, epochs=15, sample_weight=weights, verbose=0)
        said[each] = model.evaluate(
            words, labels, B, sample_weight=weights, verbose=0, return_dict=True
        )
    return model, said


def check_that_fit_lowers_exact_perplexity(said):
    expected, total = said["exact"]
    np.testing.assert_allclose(said["before"]["perplexity"], expected, rtol=1e-4)
    np.testing.assert_allclose(said["before"]["loss"], total / data()[1].size, rtol=1e-4)
    assert said["after"]["perplexity"] < 0.7 * said["before"]["perplexity"]


@pytest.fixture(scope="module", params=slow_unless(TO_COMPILE, ONE_OF_EACH))
def one_of_each(request):
    """`fitted` of each head; it is made once, as most of a test's time would be tracing."""
    return fitted(request.param)


def test_fit_lowers_exact_perplexity(one_of_each):
    check_that_fit_lowers_exact_perplexity(one_of_each[1])


@pytest.mark.parametrize("layers", ["sequential", "subclassed", "nested"])
@pytest.mark.parametrize("case", ["full", "sampled"])
def test_fit_lowers_exact_perplexity_in_every_kind_of_model(case, layers):
    check_that_fit_lowers_exact_perplexity(fitted(case, layers)[1])


def test_perplexity_in_fit_is_exact_or_absent(one_of_each):
    said = one_of_each[1]
    if said["in fit"] is not None:
        np.testing.assert_allclose(said["in fit"], said["exact before fit"], rtol=1e-4)


def test_export_serves_logits(one_of_each, tmp_path):
    model, (words, _, _) = one_of_each[0], data(1)
    model.export(tmp_path / "served", verbose=False)
    served = tf.saved_model.load(str(tmp_path / "served"))
    wanted = model.predict(words, verbose=0)
    np.testing.assert_allclose(served.serve(words), wanted, rtol=1e-5, atol=1e-5)


def test_keras_file_reloads_compiled_and_trains_on(one_of_each, through_a_file):
    model, (words, labels, weights) = one_of_each[0], data()
    again = through_a_file(model)
    np.testing.assert_array_equal(
        model.predict(words, B, verbose=0), again.predict(words, B, verbose=0)
    )
    results = [
        m.fit(words, labels, B, sample_weight=weights, verbose=0, shuffle=False).history
        for m in (model, again)
    ]
    np.testing.assert_allclose(results[0]["loss"], results[1]["loss"], rtol=1e-6)


@pytest.mark.parametrize(
    "case, options",
    [(case, {"jit_compile": True}) for case in ("full", "sampled", "adaptive")]
    + [  # test_head_contract.py compiles each head alone
        pytest.param(case, {"jit_compile": True}, marks=pytest.mark.slow)
        for case in ONE_OF_EACH if case not in ("full", "sampled", "adaptive")
    ]
    + [(case, {"run_eagerly": True}) for case in ("full", "sampled", "tree")]
    + [(case, {"steps_per_execution": 3}) for case in ("full", "sampled", "adaptive")],
)
def test_compile_options_do_not_change_the_result(case, options):
    if "jit_compile" in options and not CASES[case](V).supports_jit:
        return
    ours = logits_after_fit(case, **options)
    np.testing.assert_allclose(ours, logits_after_fit(case), rtol=1e-3, atol=1e-4)


@functools.cache
def logits_after_fit(case, **options):
    model, (words, labels, weights) = compiled(case, **options), data()
    if case.startswith("self-normalised"):  # it draws among positions, and XLA computes them all
        weights = np.maximum(weights, 0.1)
    model.fit(words, labels, B, sample_weight=weights, verbose=0, shuffle=False)
    return model.predict(words, verbose=0)


@pytest.mark.parametrize("reduction", ["sum_over_batch_size", "mean_with_sample_weight", "sum"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_reductions_masks_and_weights_equal_keras(reduction, masked, weighted):
    words, labels, weights = data(1)
    model = language_model(CASES["full"](V), masked=masked)
    logits = model(words, training=True)
    sample_weight = weights if weighted else None
    ours = SoftmaxLoss(reduction=reduction)(labels, logits, sample_weight)
    keras_loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=reduction)
    np.testing.assert_allclose(ours, keras_loss(labels, logits, sample_weight), rtol=1e-5)


@pytest.mark.parametrize("loss", [{"reduction": "none"}, {"ignore_class": 3}])
def test_perplexity_in_fit_is_never_of_two_models(loss):
    """Metrics are updated after the weights, when nats that the loss did not store are lost."""
    model, (words, labels, _) = language_model(CASES["full"](V)), data(1)
    before, _ = exact_perplexity(model, words, labels, np.ones(labels.shape))
    metric = Perplexity(ignore_class=5 if "ignore_class" in loss else None)
    model.compile("sgd", SoftmaxLoss(**loss), weighted_metrics=[metric])
    model.optimizer.learning_rate = 0.3
    if loss.get("reduction"):
        step = model.compute_loss
        model.compute_loss = lambda *a, **k: tf.reduce_mean(step(*a, **k))
    reported = model.fit(words, labels, B, verbose=0).history.get("perplexity")
    assert reported is None or np.isclose(reported[0], before, rtol=1e-4)
    assert (reported is None) == ("ignore_class" in loss)


@pytest.mark.parametrize("case, of_loss, of_metric, known", [
    ("full", None, 3, True), ("adaptive", None, 3, True), ("sampled", None, 3, False),
    ("full", 2, 3, False),
])
def test_perplexity_in_fit_may_leave_out_a_class_that_the_loss_counts(
    case, of_loss, of_metric, known
):
    model, (words, labels, _) = compiled(case), data(1)
    labels[:, 1] = of_metric
    wanted, _ = exact_perplexity(model, words, labels, labels != of_metric)
    model.compile(
        keras.optimizers.SGD(0.0), SoftmaxLoss(ignore_class=of_loss),
        metrics=[Perplexity(of_metric)],
    )
    found = model.fit(words, labels, B, verbose=0).history
    assert ("perplexity" in found) == known
    if known:
        np.testing.assert_allclose(found["perplexity"], [wanted], rtol=1e-4)


def test_fit_says_once_why_it_computes_no_metric_but_those_that_are_asked_for(recwarn):
    """It leaves the metric out of the logs, and measures it in the validation after each epoch."""
    model, (words, labels, _) = compiled("sampled"), data()
    metrics = [Perplexity(), Accuracy(), RecallAtK(3), TopKAccuracy(V, in_training=True)]
    model.compile("sgd", SoftmaxLoss(), weighted_metrics=metrics)
    history = model.fit(
        words, labels, B, epochs=3, validation_data=(words, labels), verbose=0
    ).history
    assert history.pop("top_k_accuracy") == history.pop("val_top_k_accuracy") == [1.0] * 3
    names = {"perplexity", "accuracy", "recall_at_3"}
    assert set(history) == {"loss", "val_loss", *(f"val_{name}" for name in names)}
    assert np.isfinite([*history.values()]).all()
    said = [str(w.message) for w in recwarn if "is not computed in `fit`" in str(w.message)]
    assert {text.split("`")[1] for text in said} == names and len(said) == 3
    metric = Perplexity()
    metric.update_state(labels[:B], model(words[:B], training=True))
    assert metric.result() == {}


@pytest.mark.parametrize("metric, wanted", [
    (Perplexity(), "less"), (Perplexity(name="ppl"), "less"), (Accuracy(), "greater"),
    (TopKAccuracy(), "greater"), (EffectiveSampleSize(), "greater"),
])
def test_callbacks_know_which_way_is_better(metric, wanted, tmp_path):
    model, (words, labels, _) = compiled("sampled"), data(2)
    model.compile("sgd", SoftmaxLoss(), weighted_metrics=[metric])
    monitor = f"val_{metric.name}"
    callbacks = [
        keras.callbacks.EarlyStopping(monitor, patience=1),
        keras.callbacks.ReduceLROnPlateau(monitor),
        keras.callbacks.ModelCheckpoint(tmp_path / "a.keras", monitor, save_best_only=True),
    ]
    model.fit(words, labels, B, validation_data=(words, labels), callbacks=callbacks, verbose=0)
    stopping, _, checkpoint = callbacks
    assert stopping.monitor_op.__name__ == checkpoint.monitor_op.__name__ == wanted


def test_one_position_takes_labels_without_its_axis():
    words, labels, _ = data(1)
    model = language_model(CASES["full"](V), time_steps=1)
    logits = model(words[:, :1])
    wanted = SoftmaxLoss()(labels[:, :1], logits)
    np.testing.assert_allclose(SoftmaxLoss()(labels[:, 0], logits), wanted)


def test_ignore_class_beyond_the_labels_type_ignores_nothing():
    words, labels, _ = data(1)
    logits = language_model(CASES["full"](V))(words)
    wanted = SoftmaxLoss()(labels, logits)
    ours = SoftmaxLoss(ignore_class=-243)(labels.astype(np.uint8), logits)  # 13 modulo 256
    np.testing.assert_allclose(ours, wanted)


def test_no_reduction_gives_nats_of_each_position():
    words, labels, weights = data(1)
    model = language_model(CASES["full"](V))
    nats = SoftmaxLoss(reduction=None)(labels, model(words, training=True), weights)
    wanted = SoftmaxLoss(reduction="sum")(labels, model(words, training=True), weights)
    assert nats.shape == (B, T)
    np.testing.assert_allclose(tf.reduce_sum(nats), wanted, rtol=1e-5)


def test_sum_over_steps_averages_streams_only():
    words, labels, weights = data(1)
    logits = language_model(CASES["full"](V))(words, training=True)
    total = SoftmaxLoss(reduction="sum")(labels, logits, weights)
    by_stream = SoftmaxLoss(reduction="sum_over_steps")(labels, logits, weights)
    np.testing.assert_allclose(by_stream, total / B, rtol=1e-6)


def test_perplexity_is_weighted_by_tokens_not_by_batches():
    words, labels, weights = data(2)
    weights[B:] *= 0.01
    model = language_model(CASES["full"](V))
    metric = Perplexity()
    assert np.isnan(metric.result())
    for part in (slice(0, B), slice(B, None)):
        metric.update_state(labels[part], model(words[part]), weights[part])
    expected, _ = exact_perplexity(model, words, labels, weights)
    np.testing.assert_allclose(metric.result(), expected, rtol=1e-5)


@pytest.mark.parametrize("step", ["train_step", "test_step"])
def test_the_metric_computes_nothing_again(step):
    """As many loops over chunks of positions with the metric as without it."""
    loops = []
    for metrics in ([Perplexity()], []):
        model = language_model(CASES["full"](V))
        model.compile("sgd", SoftmaxLoss(), weighted_metrics=metrics)
        graph = tf.function(getattr(model, step)).get_concrete_function(data(1)).graph
        loops.append(sum(op.type in ("While", "StatelessWhile") for op in graph.get_operations()))
    assert loops[0] == loops[1] > 0


def test_logits_that_passed_another_layer_are_refused():
    words, labels, _ = data(1)
    head = CASES["full"](V)
    inner = language_model(head)
    model = keras.Sequential([inner, keras.layers.Rescaling(2.0)])
    model.compile("sgd", SoftmaxLoss())
    with pytest.raises(ValueError, match="`y_pred` must be the output of a tfsoftmax head"):
        model.fit(words, labels, B, verbose=0)


def test_unknown_reduction_is_named():
    with pytest.raises(ValueError, match="`reduction` must be one .*: reduction='average'"):
        SoftmaxLoss(reduction="average")
