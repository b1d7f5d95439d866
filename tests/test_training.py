"""Training runs: what they learn, what they leave behind, and how they survive."""

import dataclasses
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import keras
import numpy as np
import pytest
import tensorflow as tf
from runs_helper import SMALL, TOOLS, small_corpus, tool

from tfsoftmax import runs, training
from tfsoftmax.config import ModelConfig, TrainingConfig
from tfsoftmax.evaluation import exact_evaluator

MODEL = ModelConfig(embedding=9, hidden=11, dropout=0.1)
CONFIG = TrainingConfig(
    learning_rate=0.5, clip_norm=5.0, epochs=2, pseudo_epochs=2, log_steps=1, checkpoint_steps=3,
    decay_when=5.0,
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return small_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def finished_run(corpus, tmp_path_factory):
    """A run that was never interrupted."""
    directory = str(tmp_path_factory.mktemp("run") / "run")
    training.train(corpus.directory, directory, MODEL, CONFIG, verbose=False)
    return runs.Run(directory)


def final_weights(run):
    reader = tf.train.load_checkpoint(
        run.path("checkpoints", run.pointers()["last"], "variables")
    )
    names = [n for n in reader.get_variable_to_shape_map() if "OBJECT_GRAPH" not in n]
    return {name: reader.get_tensor(name) for name in names if "save_counter" not in name}


def assert_same_weights(one, other):
    one, other = final_weights(one), final_weights(other)
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])


def assert_same_run(finished, run):
    """The same weights, and the same validations at the same learning rates."""
    assert_same_weights(finished, run)
    for event, keys in (("train", ["step"]), ("valid", ["step", "perplexity", "learning_rate"])):
        assert [[m[k] for k in keys] for m in events(run, event)] == [
            [m[k] for k in keys] for m in events(finished, event)
        ]


def events(run, event):
    return [m for m in run.metrics() if m["event"] == event]


def test_perplexity_falls_and_is_logged(finished_run, corpus):
    steps = 2 * corpus.split("train").records
    valid = events(finished_run, "valid")
    assert len(valid) == 4 and valid[-1]["step"] == steps
    assert valid[-1]["perplexity"] < 0.85 * valid[0]["perplexity"] < 62
    assert [m["step"] for m in events(finished_run, "train")] == list(range(1, steps + 1))
    assert events(finished_run, "finished")[0]["best_perplexity"] == min(
        m["perplexity"] for m in valid
    )
    assert os.listdir(finished_run.path("tensorboard"))


def test_logged_validation_is_the_exact_perplexity(finished_run, corpus):
    """Against float64 sums over the logits of one long pass, stream by stream."""
    model, vocabulary, _ = runs.load(finished_run.directory, corpus.streams, corpus.steps)
    from tfsoftmax.corpora.pipeline import batches

    nats, tokens = 0.0, 0
    for words, labels, weights in batches(corpus, "valid"):
        logits = model(words).numpy().astype(np.float64)
        log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        gathered = np.take_along_axis(log_probs, labels.numpy()[..., None], -1)[..., 0]
        nats -= np.sum(gathered * weights.numpy())
        tokens += int(np.sum(weights))
    assert tokens == corpus.split("valid").tokens
    best = min(m["perplexity"] for m in events(finished_run, "valid"))
    np.testing.assert_allclose(best, np.exp(nats / tokens), rtol=1e-5)


def test_evaluation_leaves_the_states_as_they_were(corpus):
    model = training.compiled_model(MODEL, CONFIG, corpus)
    from tfsoftmax.language_model import recurrent_states

    for state in recurrent_states(model):
        state.assign(keras.random.normal(state.shape))
    before = [s.numpy() for s in recurrent_states(model)]
    evaluate = exact_evaluator(model)
    results = [evaluate(corpus, "valid") for _ in range(2)]
    assert results[0]["nats_per_token"] == results[1]["nats_per_token"]
    for state, value in zip(recurrent_states(model), before):
        np.testing.assert_array_equal(state.numpy(), value)


def test_killed_at_any_moment_it_ends_with_the_same_weights(finished_run, corpus, tmp_path):
    """SIGKILL, at three different steps, of the real program; then the same command again."""
    command = [
        sys.executable, str(TOOLS / "train.py"), f"--data={corpus.directory}",
        f"--run={tmp_path / 'run'}", *SMALL, "--dropout=0.1",
    ]
    run = runs.Run(str(tmp_path / "run"))
    steps = 2 * corpus.split("train").records
    for fraction in (0.1, 0.4, 0.7):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while max([m["step"] for m in run.metrics()], default=0) < fraction * steps:
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not events(run, "finished")
    assert subprocess.run(command, capture_output=True, check=True).stdout
    assert_same_run(finished_run, run)


@pytest.mark.parametrize("at", ["middle", "end of a part", "end"])
def test_sigterm_saves_the_step_and_the_run_goes_on(at, finished_run, corpus, tmp_path, monkeypatch):
    run, records = runs.Run(str(tmp_path / "run")), corpus.split("train").records
    stop = {"middle": 5, "end of a part": records // 2, "end": 2 * records}[at]
    log = training.Trainer._log_step

    def log_and_stop(self, *arguments):
        if self.progress.step == stop:
            os.kill(os.getpid(), signal.SIGTERM)
        return log(self, *arguments)

    monkeypatch.setattr(training.Trainer, "_log_step", log_and_stop)
    result = training.train(corpus.directory, run.directory, MODEL, CONFIG, verbose=False)
    assert (result is None) == (at != "end")
    assert int(run.pointers()["last"].split("-")[1]) == stop
    monkeypatch.undo()
    training.train(corpus.directory, run.directory, MODEL, CONFIG, verbose=False)
    assert_same_run(finished_run, run)


@pytest.mark.parametrize("call", [0, 1, 2, 3, 4, 5, 8, 11])
def test_killed_between_any_two_files_it_goes_on(call, finished_run, corpus, tmp_path, monkeypatch):
    """The process ends at the n-th file or folder that it makes, renames or removes."""
    run, calls = runs.Run(str(tmp_path / "run")), itertools.count()

    class Killed(BaseException):
        pass

    def mortal(function):
        def wrapper(*arguments, **options):
            if next(calls) == call:
                raise Killed
            return function(*arguments, **options)

        return wrapper

    for module, name in ((os, "rename"), (os, "replace"), (shutil, "rmtree"), (os, "makedirs")):
        monkeypatch.setattr(module, name, mortal(getattr(module, name)))
    with pytest.raises(Killed):
        training.train(corpus.directory, run.directory, MODEL, CONFIG, verbose=False)
    monkeypatch.undo()
    training.train(corpus.directory, run.directory, MODEL, CONFIG, verbose=False)
    assert_same_run(finished_run, run)


def test_a_limit_below_the_checkpoint_validates_it_as_it_is(corpus, tmp_path):
    directory, short = str(tmp_path / "run"), {"log_steps": 1, "epochs": 1}
    training.train(corpus.directory, directory, MODEL, TrainingConfig(max_steps=4, **short), False)
    run = runs.Run(directory)
    os.rename(run.path("checkpoints", run.pointers()["last"]), tmp_path / "validated")
    shutil.copytree(tmp_path / "validated", run.path("checkpoints", "step-000000004"))
    (tmp_path / "run/checkpoints/pointers.json").write_text('{"last": "step-000000004"}')
    progress = tmp_path / "run/checkpoints/step-000000004/progress.json"
    progress.write_text('{"step": 4, "seconds": 1.0}')
    run.rewind_metrics(4)
    training.train(corpus.directory, directory, MODEL, TrainingConfig(max_steps=3, **short), False)
    last = run.pointers()["last"]
    assert last == run.pointers()["best"] == "step-000000004-validated"
    saved = json.loads((tmp_path / "run/checkpoints" / last / "progress.json").read_text())
    assert saved["validated_step"] == 4 and saved["best_perplexity"] < 100


def test_a_half_written_line_of_metrics_is_left_out(tmp_path):
    run = runs.Run(str(tmp_path))
    run.log(event="train", step=1, loss=float("inf"), perplexity=float("nan"))
    with open(run.path("metrics.jsonl"), "a") as file:
        file.write('{"event": "tra')
    run.log(event="test", step=1)
    assert run.metrics() == [
        {"event": "train", "step": 1, "loss": None, "perplexity": None},
        {"event": "test", "step": 1},
    ]


def test_a_finished_run_is_left_alone_and_can_be_extended(corpus, tmp_path):
    short = TrainingConfig(epochs=1, max_steps=4, log_steps=1)
    directory = str(tmp_path / "run")
    first = training.train(corpus.directory, directory, MODEL, short, verbose=False)
    assert training.train(corpus.directory, directory, MODEL, short, verbose=False) == first
    longer = TrainingConfig(epochs=1, max_steps=7, log_steps=1)
    training.train(corpus.directory, directory, MODEL, longer, verbose=False)
    run = runs.Run(directory)
    assert [m["step"] for m in events(run, "train")] == list(range(1, 8))
    assert [m["step"] for m in events(run, "finished")] == [7]


def test_learning_rate_halves_when_perplexity_falls_too_little(corpus, tmp_path):
    config = TrainingConfig(epochs=1, pseudo_epochs=4, decay_when=1e9, learning_rate=0.8)
    directory = str(tmp_path / "run")
    training.train(corpus.directory, directory, MODEL, config, verbose=False)
    rates = [m["learning_rate"] for m in events(runs.Run(directory), "valid")]
    np.testing.assert_allclose(rates, [0.8, 0.8, 0.4, 0.2], rtol=1e-6)


@pytest.mark.parametrize("rate", [1e30, 3e3])
def test_a_loss_that_is_not_finite_stops_the_run(rate, corpus, tmp_path):
    config = TrainingConfig(
        optimizer="sgd", learning_rate=1e-3, clip_norm=0, max_steps=2, checkpoint_steps=1
    )
    run = runs.Run(str(tmp_path / "run"))
    training.train(corpus.directory, run.directory, MODEL, config, verbose=False)
    good, config = final_weights(run), dataclasses.replace(config, max_steps=60)
    model, trainer = ModelConfig(**run.config()["model"]), training.Trainer(
        training.Corpus.load(corpus.directory), run, MODEL, config, verbose=False
    )
    assert model == MODEL
    trainer.model.optimizer.learning_rate.assign(rate)
    with pytest.raises(RuntimeError, match=r"stopped at step \d+: .* is (nan|inf|not finite)"):
        trainer.run_to_the_end()
    for name, values in final_weights(run).items():
        assert values.dtype.kind != "f" or np.all(np.isfinite(values)), name
    assert good.keys() == final_weights(run).keys()


def test_a_run_of_another_configuration_is_refused(finished_run, corpus, tmp_path):
    other = dataclasses.replace(MODEL, hidden=12)
    with pytest.raises(ValueError, match="`run` holds a run of another .* hidden=11 there, 12 now"):
        training.train(corpus.directory, finished_run.directory, other, CONFIG, verbose=False)
    other = small_corpus(tmp_path, seed=5)
    with pytest.raises(ValueError, match="`run` holds a run of another .*records_sha256"):
        training.train(other.directory, finished_run.directory, MODEL, CONFIG, verbose=False)
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "thesis.tex").write_text("mine")
    with pytest.raises(ValueError, match="`run` must be a new or empty directory"):
        training.train(corpus.directory, str(tmp_path / "foreign"), MODEL, CONFIG, verbose=False)


def test_a_mistake_before_the_first_step_leaves_no_run_behind(corpus, tmp_path):
    wrong = TrainingConfig(embeddings=str(tmp_path / "none.txt"), max_steps=1)
    with pytest.raises(OSError, match="none.txt"):
        training.train(corpus.directory, str(tmp_path / "run"), MODEL, wrong, verbose=False)
    right = TrainingConfig(max_steps=1)
    assert training.train(corpus.directory, str(tmp_path / "run"), MODEL, right, verbose=False)


def test_evaluate_prints_json_last(finished_run, corpus):
    lines = tool("evaluate", f"--run={finished_run.directory}", "--split=test").stdout.splitlines()
    result = json.loads(lines[-1])
    assert result["tokens"] == corpus.split("test").tokens
    assert result["oov_tokens"] == corpus.split("test").oov
    np.testing.assert_allclose(result["perplexity"], np.exp(result["nats_per_token"]))
    assert events(finished_run, "test")[-1]["perplexity"] == result["perplexity"]


def test_evaluate_refuses_another_vocabulary(finished_run, tmp_path):
    other = small_corpus(tmp_path, words=50)
    result = tool(
        "evaluate", f"--run={finished_run.directory}", f"--data={other.directory}", check=False
    )
    assert result.returncode == 1
    assert "`data` must have the vocabulary that the run was trained with" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_every_kind_of_model_trains_a_step(corpus, cell, tmp_path):
    model = ModelConfig(embedding=10, hidden=10, layers=2, cell=cell, tie_embeddings=True,
                        precision="mixed_bfloat16", head_options={"z_loss": 1e-4})
    config = TrainingConfig(optimizer="adam", learning_rate=0.01, reduce="token", max_steps=8)
    finished = training.train(corpus.directory, str(tmp_path / "run"), model, config, False)
    assert finished["step"] == 8 and finished["best_perplexity"] < 62


def test_pretrained_embeddings_start_the_model(corpus, tmp_path):
    file = tmp_path / "vectors.txt"
    file.write_text("w7 " + " ".join("0.125" for _ in range(9)) + "\n")
    config = TrainingConfig(
        max_steps=1, learning_rate=1e-9, clip_norm=0, optimizer="sgd", embeddings=str(file)
    )
    training.train(corpus.directory, str(tmp_path / "run"), MODEL, config, verbose=False)
    model, vocabulary, _ = runs.load(str(tmp_path / "run"), streams=1)
    embeddings = model.get_layer("embedding").get_weights()[0]
    np.testing.assert_allclose(embeddings[vocabulary.encode(["w7"])[0]], 0.125, rtol=1e-5)
    assert np.abs(embeddings).max() <= 0.125


def test_only_one_process_trains_a_run(finished_run):
    with finished_run.locked():
        with pytest.raises(ValueError, match="`run` must not be in training by another process"):
            with runs.Run(finished_run.directory).locked():
                pass


def test_a_corpus_that_cannot_be_validated_is_refused_before_training(corpus, tmp_path):
    damaged = shutil.copytree(corpus.directory, tmp_path / "damaged")
    (path,) = damaged.glob("valid-*.tfrecord")
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="valid.*: the SHA-256 must be"):
        training.train(str(damaged), str(tmp_path / "run"), MODEL, CONFIG, verbose=False)
    manifest = json.loads((damaged / "manifest.json").read_text())
    del manifest["splits"]["valid"]
    (damaged / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match="`data` must have a valid split to train with"):
        training.train(str(damaged), str(tmp_path / "run"), MODEL, CONFIG, verbose=False)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "file, content, message",
    [
        ("config.json", '{"mod', "config.json: must be JSON"),
        ("config.json", "{}", "config.json: must be a JSON object with 'model'"),
        ("vocabulary.txt", "<unk>\t1\n<eos>\t1\n", "must be the vocabulary that the run was"),
        ("checkpoints/pointers.json", "[]", "pointers.json: must be a JSON object with 'last'"),
        ("checkpoints/*/variables.data*", "x", "must be an undamaged checkpoint of this run"),
        ("checkpoints/*/progress.json", "{", "must be an undamaged checkpoint of this run"),
    ],
)
def test_damaged_files_of_a_run_are_named(file, content, message, finished_run, corpus, tmp_path):
    copy = shutil.copytree(finished_run.directory, tmp_path / "run")
    for path in copy.glob(file):
        path.write_text(content)
    with pytest.raises(ValueError, match=message):
        runs.load(str(copy), streams=1)
