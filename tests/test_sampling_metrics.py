"""Metrics of sampling heads in `fit` and `evaluate`."""

import dataclasses
import json

import keras
import numpy as np
import pytest

import keras_helper as base
import tfsoftmax
from cases import CASES, UNITS, built, language_model, positions
from runs_helper import MODEL, assert_same_weights, error_of, saved_run, tool, train
from tfsoftmax import NCE, EffectiveSampleSize, FullSoftmax, Normaliser, SampledSoftmax
from tfsoftmax.metrics import NatsByFrequency
from tfsoftmax.runs import runs

V = base.V


def compiled(head, metrics):
    model = language_model(head)
    model.compile("sgd", tfsoftmax.SoftmaxLoss(), weighted_metrics=metrics)
    return model


def test_effective_sample_size_in_fit_and_evaluate_is_its_weighted_mean():
    words, labels, weights = base.data()
    model = compiled(SampledSoftmax(V, 8, "uniform", seed=1), [EffectiveSampleSize()])
    history = model.fit(words, labels, base.B, sample_weight=weights, verbose=0).history
    assert 1 < history["effective_sample_size"][0] < 8
    head, hidden = model.layers[-1], keras.Model(model.input, model.layers[-1].input)(words)
    measured = model.evaluate(
        words, labels, len(words), sample_weight=weights, return_dict=True, verbose=0
    )
    sizes = head.effective_sample_size(hidden, seed=0)
    np.testing.assert_allclose(
        measured["effective_sample_size"], np.average(sizes, weights=weights), rtol=1e-5
    )


def test_effective_sample_size_changes_nothing_of_training_and_samples_each_batch_anew():
    words, labels, _ = base.data()
    losses, sizes = [], []
    for metrics in ([], [EffectiveSampleSize()]):
        keras.utils.set_random_seed(1)
        model = compiled(SampledSoftmax(V, 8, "uniform", seed=1), metrics)
        data = {"validation_data": (words, labels)} if metrics else {}
        history = model.fit(words, labels, base.B, epochs=2, shuffle=False, verbose=0, **data)
        losses.append(history.history["loss"])
    np.testing.assert_array_equal(*losses)
    for repeats in (1, 2):  # of one batch, whose weights sum to less than one
        data = [np.tile(x[:4], (repeats, 1)) for x in (words, labels)]
        weights = np.full(data[1].shape, 0.01)
        sizes.append(model.evaluate(*data, 4, 0, weights, return_dict=True))
    assert sizes[0]["effective_sample_size"] != sizes[1]["effective_sample_size"]


def test_effective_sample_size_is_of_sampled_softmax_only():
    words, labels, _ = base.data()
    message = "must be the output of SampledSoftmax. Received: the output of FullSoftmax"
    with pytest.raises(ValueError, match=message):
        compiled(FullSoftmax(V), [EffectiveSampleSize()]).evaluate(words, labels, verbose=0)


def test_normaliser_is_mean_and_variance_of_log_z():
    words, labels, weights = base.data()
    model = compiled(NCE(V, 8, "uniform", Z=1, seed=1), [Normaliser()])
    measured = model.evaluate(
        words, labels, base.B, sample_weight=weights, return_dict=True, verbose=0
    )
    logits = model.predict(words, verbose=0).astype(np.float64)
    log_z = np.log(np.exp(logits).sum(-1))
    mean = np.average(log_z, weights=weights)
    np.testing.assert_allclose(measured["log_z_mean"], mean, rtol=1e-5)
    variance = np.average((log_z - mean) ** 2, weights=weights)
    np.testing.assert_allclose(measured["log_z_variance"], variance, rtol=1e-4)
    scores = np.take_along_axis(logits, labels[..., None], -1)[..., 0]
    np.testing.assert_allclose(
        measured["self_normalised_nats"], -np.average(scores, weights=weights), rtol=1e-4
    )


def test_normaliser_reports_the_same_figures_for_every_head_and_before_any_batch():
    words, labels, _ = base.data()
    metric = Normaliser()
    before = metric.result()
    model = compiled(FullSoftmax(V), [metric])
    measured = model.evaluate(words, labels, base.B, return_dict=True, verbose=0)
    assert set(before) == set(measured) - {"loss"}
    assert all(np.isnan(value) for value in before.values())
    scores = np.take_along_axis(model.predict(words, verbose=0), labels[..., None], -1)
    np.testing.assert_allclose(measured["self_normalised_nats"], -np.mean(scores), rtol=1e-4)


def test_names_tell_the_dictionaries_of_several_outputs_apart():
    inputs, (hidden, labels) = keras.Input((UNITS,)), positions(V, 6)
    heads = {name: built("full", V, seed=ord(name)) for name in "ab"}
    model = keras.Model(inputs, {name: head(inputs) for name, head in heads.items()})
    metrics = {n: [Normaliser(name=n), NatsByFrequency([1] * V, name=n)] for n in heads}
    model.compile("sgd", dict.fromkeys(heads, tfsoftmax.SoftmaxLoss()), metrics=metrics)
    found = model.evaluate(hidden, dict.fromkeys(heads, labels), verbose=0, return_dict=True)
    for name, head in heads.items():
        log_z = head.log_normaliser(hidden).numpy().mean()
        np.testing.assert_allclose(found[f"{name}_log_z_mean"], log_z, rtol=1e-5)
        nats = -head.log_prob(hidden, labels).numpy().mean()
        np.testing.assert_allclose(found[f"{name}_nats_1"], nats, rtol=1e-5)


@pytest.mark.parametrize("case, metric", [
    ("full", Normaliser),
    ("self-organised", tfsoftmax.ClusterPerplexity),
    ("self-organised", tfsoftmax.InClusterPerplexity),
    ("tree", tfsoftmax.Perplexity),
])
def test_an_ignored_class_counts_as_weight_zero(case, metric):
    words, labels, _ = base.data()
    logits = language_model(CASES[case](V))(words)
    ignoring, weighted = metric(ignore_class=3), metric()
    ignoring.update_state(labels, logits)
    weighted.update_state(labels, logits, labels != 3)
    assert 0 < np.sum(labels == 3) < labels.size
    assert ignoring.get_config()["ignore_class"] == 3
    for a, b in zip(*(keras.tree.flatten(m.result()) for m in (ignoring, weighted)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_heads_train_and_report_from_the_command_line(corpus, tmp_path):
    run, head = tmp_path / "run", '--head_options={"num_samples": 5, "Z": 7}'
    size = ["--hidden_units=8", "--embedding_units=8", "--max_steps=2", "--head=nce"]
    tool("train", f"--data={corpus.directory}", f"--run={run}", *size, head)
    done = tool("evaluate", f"--run={run}", "--split=valid", "--normaliser",
                             "--by_frequency")
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["log_z_variance"] >= 0 and result["self_normalised_nats"] > 0
    exact = result["log_z_mean"] - np.log(7) + result["self_normalised_nats"]
    np.testing.assert_allclose(exact, result["nats_per_token"], rtol=1e-4)
    starts = [name.removeprefix("nats_") for name in result if name.startswith("nats_")]
    starts = [start for start in starts if start.isdigit() and result[f"tokens_{start}"]]
    together = sum(result[f"tokens_{start}"] * result[f"nats_{start}"] for start in starts)
    np.testing.assert_allclose(together, result["nats_per_token"], rtol=1e-4)


def test_the_command_refuses_a_normaliser_that_the_head_does_not_have(corpus, tmp_path):
    config = dataclasses.replace(MODEL, head="tree")
    model = tfsoftmax.language_model(config, corpus.vocabulary, streams=4)
    saved_run(tmp_path / "run", config, corpus.vocabulary, model)
    flags = f"--data={corpus.directory}", "--split=valid", "--normaliser"
    assert error_of("evaluate", f"--run={tmp_path / 'run'}", *flags) == (
        "error: `normaliser` must be given for a head with one score for each word. Received: "
        "TreeSoftmax\n"
    )


def test_a_resumed_run_draws_the_samples_that_were_to_come(corpus, tmp_path):
    """This holds even if the proposal distribution is learned during the run."""
    model = dataclasses.replace(
        MODEL, head="sampled",
        head_options={"num_samples": 6, "sampler": "learned_unigram", "counts": None},
    )
    for name, stops in (("whole", [6]), ("resumed", [3, 6])):
        for stop in stops:
            train(corpus, tmp_path / name, model, max_steps=stop, decay=1.0)
    assert_same_weights(*(runs.Run(str(tmp_path / n)) for n in ("whole", "resumed")))
