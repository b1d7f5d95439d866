"""The learning rate, the end of training, and the decay of weights over a run."""

import dataclasses
import itertools

import keras
import numpy as np
import pytest

from runs_helper import MODEL, assert_same_run, events, small_corpus, stopped_at, train
from tfsoftmax.lm.compiled import compiled_model, learning_rate
from tfsoftmax.lm.config import ModelConfig, TrainingConfig
from tfsoftmax.lm.presets import PRESETS
from tfsoftmax.pairs import presets as pair_presets
from tfsoftmax.pairs.config import Seq2SeqConfig
from tfsoftmax.runs import runs
from tfsoftmax.runs.progress import Progress


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A corpus of which an epoch has twelve steps."""
    return small_corpus(tmp_path_factory.mktemp("short"), words=20, sentences=40)


def trained(corpus, directory, model=MODEL, **changes):
    train(corpus, directory, model, **changes)
    return runs.Run(str(directory))


def rates(run):
    return [m["learning_rate"] for m in events(run, "valid")]


def test_the_rate_decays_between_epochs_or_validations(corpus, tmp_path):
    options = {"epochs": 3, "pseudo_epochs": 2, "decay_when": 1e9, "learning_rate": 0.8}
    by_epoch = trained(corpus, tmp_path / "epoch", decay_at="epoch", **options)
    # The rates of validations, which are logged before they decay it.
    np.testing.assert_allclose(rates(by_epoch), [0.8, 0.8, 0.8, 0.8, 0.4, 0.4], rtol=1e-6)
    by_validation = trained(corpus, tmp_path / "v", decay_at="validation", **options)
    expected = [0.8, 0.8, 0.4, 0.2, 0.1, 0.05]
    np.testing.assert_allclose(rates(by_validation), expected, rtol=1e-6)


@pytest.mark.parametrize("at", ["epoch", "validation"])
def test_the_rate_decays_after_each_epoch_from_one_on(at, corpus, tmp_path):
    # Perplexity falls all the time, and no fall is as small as minus a million.
    options = {"decay_after": 2, "decay_when": -1e6, "learning_rate": 0.8}
    options |= {"epochs": 4, "pseudo_epochs": 2, "decay_at": at}
    run = trained(corpus, tmp_path / "run", **options)
    np.testing.assert_allclose(rates(run), [0.8] * 4 + [0.4] * 2 + [0.2] * 2, rtol=1e-6)


@pytest.mark.parametrize("parts, every, steps", [
    (1, 5, [5, 10, 12, 15, 20, 24, 25]), (2, 7, [6, 7, 12, 14, 18, 21, 24, 25]),
    (1, 99, [12, 24, 25]),
])
def test_validations_come_at_chosen_steps_too(parts, every, steps, corpus, tmp_path):
    options = {"epochs": 3, "max_steps": 25, "pseudo_epochs": parts, "valid_steps": every}
    whole = trained(corpus, tmp_path / "whole", **options)
    assert [m["step"] for m in events(whole, "valid")] == steps
    with stopped_at(steps[1] - 1):
        trained(corpus, tmp_path / "stopped", **options)
    assert_same_run(whole, trained(corpus, tmp_path / "stopped", **options))


def test_patience_ends_a_run_and_more_of_it_goes_on(corpus, tmp_path):
    # A rate of nothing after the first epoch: no validation gets better by then.
    options = {"epochs": 9, "pseudo_epochs": 2, "decay": 1e-9, "decay_when": 1e9}
    whole = trained(corpus, tmp_path / "whole", patience=2, **options)
    best = min(events(whole, "valid"), key=lambda m: m["perplexity"])
    last = events(whole, "finished")[-1]
    assert last["epoch"] == best["epoch"] + 2 < 9
    assert last["best_step"] == best["step"]
    again = trained(corpus, tmp_path / "whole", patience=2, **options)
    assert len(events(again, "finished")) == 1
    longer = trained(corpus, tmp_path / "whole", patience=3, **options)
    assert events(longer, "finished")[-1]["epoch"] == best["epoch"] + 3


def test_small_gains_do_not_prolong_a_run(corpus, tmp_path):
    options = {
        "epochs": 6, "pseudo_epochs": 1, "learning_rate": 0.1, "decay": 0.3, "decay_when": 1e9,
        "patience": 1,
    }
    every = trained(corpus, tmp_path / "any", **options)
    perplexities = [v["perplexity"] for v in events(every, "valid")]
    gains = -np.diff(perplexities)
    assert len(gains) == 5 and np.all(gains > 0) and np.all(np.diff(gains) < 0)
    run = trained(corpus, tmp_path / "large", min_delta=gains[1:3].mean(), **options)
    # The third gain is too small to count, but its checkpoint is the best one.
    assert [v["perplexity"] for v in events(run, "valid")] == perplexities[:4]
    assert events(run, "finished")[-1]["best_perplexity"] == perplexities[3]


def test_a_worse_validation_is_no_gain_when_min_delta_falls():
    progress = Progress()
    for step, perplexity, min_delta in ((1, 100.0, 1.0), (2, 99.2, 1.0), (3, 99.6, 0.0)):
        progress.step = step
        progress.validated(perplexity, min_delta)
    assert (progress.best_step, progress.gained_step) == (2, 1)
    progress.step = 4
    assert progress.validated(99.0, 0.0)
    assert (progress.best_step, progress.gained_step) == (4, 4)


def test_min_delta_needs_patience():
    with pytest.raises(ValueError, match="`min_delta` must be zero without patience."):
        TrainingConfig(min_delta=0.1)


def test_an_interrupted_run_ends_with_the_same_patience(corpus, tmp_path):
    options = {"epochs": 9, "decay": 1e-9, "decay_when": 1e9, "patience": 1, "min_delta": 1e-6}
    whole = trained(corpus, tmp_path / "whole", **options)
    with stopped_at(events(whole, "finished")[-1]["step"] - 2):
        trained(corpus, tmp_path / "stopped", **options)
    assert_same_run(whole, trained(corpus, tmp_path / "stopped", **options))


@pytest.mark.parametrize("kind", ["adagrad", "sgd", "adam", "adamw"])
@pytest.mark.parametrize("decays", ["all", "recurrent"])
def test_weights_decay_where_they_are_said_to(kind, decays, corpus):
    config = TrainingConfig(
        optimizer=kind, learning_rate=0.5, weight_decay=0.25, weight_decay_on=decays, clip_norm=0.0
    )
    model = compiled_model(MODEL, config, corpus)
    weights = {w.path: w for w in model.trainable_variables}
    before = {path: w.numpy() for path, w in weights.items()}
    model.optimizer.apply_gradients([(np.zeros_like(before[p]), w) for p, w in weights.items()])
    for path, weight in weights.items():
        decayed = decays == "all" or path.startswith("lstm")
        expected = before[path] * (1 - 0.5 * 0.25 * decayed)
        np.testing.assert_allclose(weight.numpy(), expected, rtol=1e-6, err_msg=path)


def test_learned_clusters_log_how_perplexity_splits(corpus, tmp_path):
    model = dataclasses.replace(MODEL, head="self_organised")
    run = trained(corpus, tmp_path / "run", model, epochs=1, reassign_steps=4)
    validations = events(run, "valid")
    assert len(validations) == 2
    for found in validations:
        product = found["cluster_perplexity"] * found["in_cluster_perplexity"]
        np.testing.assert_allclose(product, found["perplexity"], rtol=1e-5)
        assert found["cluster_perplexity"] > 1 < found["in_cluster_perplexity"]


@pytest.mark.parametrize("fields, model", [
    *((fields, ModelConfig) for fields in PRESETS.values()),
    *((fields, Seq2SeqConfig) for fields in pair_presets.PRESETS.values()),
])
def test_presets_are_configurations(fields, model):
    configs = model, TrainingConfig
    known = [{f.name for f in dataclasses.fields(c)} for c in configs]
    assert fields.keys() <= set.union(*known)
    for config, names in zip(configs, known):
        config(**{k: v for k, v in fields.items() if k in names})


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
@pytest.mark.parametrize("warmup", [0, 4])
def test_the_rate_of_each_step_is_that_of_the_curve(schedule, warmup):
    config = TrainingConfig(schedule=schedule, warmup_steps=warmup, learning_rate=0.5)
    steps, found = 20, learning_rate(config, 20)
    for step in range(steps + 5):
        if step < warmup:
            expected = 0.5 * (step + 1) / warmup
        else:
            done = min(1.0, (step - warmup) / (steps - warmup))
            left = 1 - done if schedule == "linear" else 0.5 * (1 + np.cos(np.pi * done))
            expected = 0.5 * left
        np.testing.assert_allclose(float(found(step)), expected, rtol=1e-5, atol=1e-7)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(found))
    assert float(again(7)) == float(found(7))
    with pytest.raises(ValueError, match="`warmup_steps` must be fewer than the steps .*, 4"):
        learning_rate(dataclasses.replace(config, warmup_steps=4), 4)


def test_a_run_follows_its_curve_also_after_an_interruption(corpus, tmp_path, capsys):
    options = {"epochs": 2, "schedule": "cosine", "warmup_steps": 5, "learning_rate": 0.8}
    whole = trained(corpus, tmp_path / "whole", **options)
    last = events(whole, "train")
    curve = learning_rate(TrainingConfig(**options), last[-1]["step"])
    # A line is logged after its step: the rate is that of the next one.
    np.testing.assert_allclose(
        [m["learning_rate"] for m in last], [float(curve(m["step"])) for m in last], rtol=1e-5,
        atol=1e-7,
    )
    assert 0.8 > rates(whole)[0] > rates(whole)[-1] and rates(whole)[-1] < 1e-6
    with stopped_at(7):
        trained(corpus, tmp_path / "stopped", **options)
    assert_same_run(whole, trained(corpus, tmp_path / "stopped", verbose=True, **options))
    said = f"at step 7, where the learning rate is {float(curve(7)):.3g}."
    assert said in capsys.readouterr().out


def test_values_are_fetched_only_where_they_are_logged_or_saved(corpus, tmp_path, monkeypatch):
    fetched = []

    class Value:
        def __init__(self, value, step):
            self.value, self.step = value, step

        def __float__(self):
            fetched.append(self.step)
            return float(self.value)

    original, steps = keras.Model.make_train_function, itertools.count(1)

    def made(self, force=False):
        original(self, force)
        if not hasattr(self.train_function, "wrapped"):
            function = self.train_function

            def train(iterator):
                step = next(steps)
                return {k: Value(v, step) for k, v in function(iterator).items()}

            train.wrapped = True
            self.train_function = train

    monkeypatch.setattr(keras.Model, "make_train_function", made)
    trained(corpus, tmp_path / "run", epochs=2, log_steps=4, checkpoint_steps=6)
    assert sorted(set(fetched)) == [4, 6, 8, 12, 16, 18, 20, 24]  # an epoch has 12 steps
