"""Runs that are killed, interrupted, extended or damaged, and what becomes of them."""

import dataclasses
import itertools
import json
import os
import shutil
import signal
import subprocess
import time

import pytest

from runs_helper import CONFIG, MODEL, SMALL, assert_same_run, command, events, tool
from tfsoftmax.lm import evaluation
from tfsoftmax.lm.config import TrainingConfig
from tfsoftmax.runs import runs, training
from tfsoftmax.runs.trainer import Trainer


def test_killed_at_any_moment_it_ends_with_the_same_weights(finished_run, corpus, tmp_path):
    """SIGKILL, at two different steps, of the real program; then the same command again."""
    line = command(
        "train", f"--data={corpus.directory}", f"--run={tmp_path / 'run'}", *SMALL, "--dropout=0.1"
    )
    run = runs.Run(str(tmp_path / "run"))
    steps = 2 * corpus.split("train").records
    for fraction in (0.2, 0.7):
        process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for_step(run, fraction * steps, process)
        finally:
            process.kill()
            process.wait()
        assert not events(run, "finished")
    assert tool(*line[3:]).stdout
    assert_same_run(finished_run, run)


def wait_for_step(run, step, process, seconds=300):
    """Returns when a running process has logged a step; fails if it ends or takes too long."""
    deadline = time.monotonic() + seconds
    while max([m["step"] for m in run.metrics()], default=0) < step:
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline, f"it did not reach step {step} in {seconds} seconds"
        time.sleep(0.002)


@pytest.mark.parametrize("at", ["middle", "end of a part", "end"])
def test_sigterm_saves_the_step_and_the_run_goes_on(
    at, finished_run, corpus, tmp_path, monkeypatch
):
    run, records = runs.Run(str(tmp_path / "run")), corpus.split("train").records
    stop = {"middle": 5, "end of a part": records // 2, "end": 2 * records}[at]
    log = Trainer._log_step

    def log_and_stop(self, *arguments):
        if self.progress.step == stop:
            os.kill(os.getpid(), signal.SIGTERM)
        return log(self, *arguments)

    monkeypatch.setattr(Trainer, "_log_step", log_and_stop)
    result = training.train(corpus.directory, run.directory, MODEL, CONFIG, verbose=False)
    assert result is None
    assert run.checkpoints.progress()["step"] == stop
    monkeypatch.undo()
    training.train(corpus.directory, run.directory, MODEL, CONFIG, verbose=False)
    assert_same_run(finished_run, run)


def test_sigterm_ends_a_validation_which_starts_again(finished_run, corpus, tmp_path, monkeypatch):
    run, read = runs.Run(str(tmp_path / "run")), evaluation.batches

    def read_and_stop(*arguments, **options):
        os.kill(os.getpid(), signal.SIGTERM)
        return read(*arguments, **options)

    monkeypatch.setattr(evaluation, "batches", read_and_stop)
    assert training.train(corpus.directory, run.directory, MODEL, CONFIG, verbose=False) is None
    assert not events(run, "valid")
    monkeypatch.undo()
    training.train(corpus.directory, run.directory, MODEL, CONFIG, verbose=False)
    assert_same_run(finished_run, run)


@pytest.mark.parametrize(
    "call", [0, 2, 5, 11, *(pytest.param(call, marks=pytest.mark.slow) for call in (1, 3, 4, 8))]
)
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


def stop_at(step, monkeypatch):
    """Interrupts training after a step, as a signal does."""
    log = Trainer._log_step

    def log_and_stop(self, *arguments):
        self.interrupted = self.progress.step == step
        return log(self, *arguments)

    monkeypatch.setattr(Trainer, "_log_step", log_and_stop)


def test_a_limit_below_the_checkpoint_validates_it_as_it_is(corpus, tmp_path, monkeypatch):
    run, short = runs.Run(str(tmp_path / "run")), {"log_steps": 1, "epochs": 1}
    stop_at(4, monkeypatch)
    training.train(corpus.directory, run.directory, MODEL, TrainingConfig(**short), False)
    monkeypatch.undo()
    assert run.checkpoints.name("best") == "step-000000004"
    config = TrainingConfig(max_steps=3, **short)
    training.train(corpus.directory, run.directory, MODEL, config, False)
    last = run.checkpoints.name()
    assert last == run.checkpoints.name("best") == "step-000000004-validated"
    saved = run.checkpoints.progress()
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


def test_only_one_process_trains_a_run(finished_run):
    with finished_run.locked():
        with pytest.raises(ValueError, match="`run` must not be in training by another process"):
            with runs.Run(finished_run.directory).locked():
                pass


@pytest.mark.parametrize("file, content, message", [
    ("config.json", '{"mod', "config.json: must be JSON"),
    ("config.json", "{}", "config.json: must have 'id'"),
    ("config.json", '{"id": "a", "files": {}, "model": [], "training": {}, "corpus": {}}',
     "json: `model` must be a JSON object"),
    ("config.json", '{"id": "a", "model": {}, "training": {}, "corpus": {}}', "have 'files'"),
    ("vocabulary.txt", "<unk>\t1\n<eos>\t1\n", "must be the vocabulary that the run was"),
    ("checkpoints/pointers.json", "[]", "pointers.json: must be a JSON object"),
    ("checkpoints/pointers.json", '{"last": "/etc"}', "pointers.json: must be as the run"),
    ("checkpoints/*/variables.data*", "x", "must be an undamaged checkpoint of this run"),
    ("checkpoints/*/progress.json", "{", "progress.json: must be as it was written"),
    ("checkpoints/*/manifest.json", "{}", "manifest.json: must have 'files'"),
])
def test_damaged_files_of_a_run_are_named(file, content, message, finished_run, corpus, tmp_path):
    copy = shutil.copytree(finished_run.directory, tmp_path / "run")
    for path in copy.glob(file):
        path.write_text(content)
    with pytest.raises(ValueError, match=message):
        runs.load(str(copy), streams=1)


def test_what_the_machine_decided_stays_with_the_run(corpus, tmp_path, monkeypatch):
    """The run keeps its cutoffs even if another machine, or a lost cache, would choose others."""
    adaptive = pytest.importorskip("tfsoftmax.heads.adaptive")
    model = dataclasses.replace(MODEL, head="adaptive")
    chosen = iter([[7, 20], [9, 30]])
    monkeypatch.setattr(adaptive, "automatic_cutoffs", lambda *args, **kwargs: next(chosen))
    directory = str(tmp_path / "run")
    for steps, options in ((2, {}), (4, {"cutoffs": "auto"})):
        config = dataclasses.replace(CONFIG, max_steps=steps)
        again = dataclasses.replace(model, head_options=options)
        training.train(corpus.directory, directory, again, config, verbose=False)
    assert runs.Run(directory).config()["model"]["head_options"]["cutoffs"] == [7, 20]
    loaded, _, _ = runs.load(directory, 1)
    assert loaded.get_layer("head").get_config()["cutoffs"] == [7, 20]
    other = dataclasses.replace(model, head_options={"cutoffs": [8, 20]})
    with pytest.raises(ValueError, match="head_options=.* there, .* now"):
        training.train(corpus.directory, directory, other, config, verbose=False)


def test_a_run_older_than_an_option_goes_on_with_its_default(finished_run, corpus, tmp_path):
    directory = tmp_path / "run"
    shutil.copytree(finished_run.directory, directory)
    config = json.loads((directory / "config.json").read_text())
    del config["training"]["reassign_steps"]
    (directory / "config.json").write_text(json.dumps(config))
    assert training.train(corpus.directory, str(directory), MODEL, CONFIG, verbose=False)


def test_a_run_whose_corpus_has_moved_asks_where_it_is(finished_run, corpus, tmp_path):
    run, gone = shutil.copytree(finished_run.directory, tmp_path / "run"), str(tmp_path / "gone")
    path = run / "config.json"
    config = json.loads(path.read_text())
    config["corpus"]["directory"] = gone
    path.write_text(json.dumps(config))
    asked = tool("evaluate", f"--run={run}", "--split=valid", check=False)
    assert "error: `data` must say where the corpus is, since it is no longer in" in asked.stderr
    assert asked.stderr.endswith(f"Received: no folder {gone!r}\n")
    done = tool("evaluate", f"--run={run}", "--split=valid", f"--data={corpus.directory}")
    assert json.loads(done.stdout.splitlines()[-1])["perplexity"] > 1
    training.train(corpus.directory, str(run), MODEL, CONFIG, verbose=False)  # notes the folder
    assert runs.Run(str(run)).config() == finished_run.config()


def test_a_vocabulary_that_a_run_has_lost_is_named_and_comes_back(finished_run, corpus, tmp_path):
    run = shutil.copytree(finished_run.directory, tmp_path / "run")
    (run / "vocabulary.txt").unlink()
    done = tool("generate", f"--run={run}", check=False)
    assert "`run` cannot be used: No such file or directory: " in done.stderr
    assert f"{run / 'vocabulary.txt'}. Received: run={str(run)!r}\n" in done.stderr
    longer = dataclasses.replace(CONFIG, epochs=CONFIG.epochs + 1)
    training.train(corpus.directory, str(run), MODEL, longer, verbose=False)
    assert runs.Run(str(run)).vocabulary().words == corpus.vocabulary.words
    done = tool("show_clusters", f"--run={run}", check=False)
    expected = "`run` must be one that was trained with --head=self_organised. Received: "
    assert done.stderr.endswith(f"{expected}run={str(run)!r}\n")


def test_a_task_that_does_not_exist_is_named(finished_run, tmp_path):
    copy = runs.Run(str(shutil.copytree(finished_run.directory, tmp_path / "run")))
    for task in ("odd", None, ["pairs"]):
        config = copy.config()
        config["corpus"]["task"] = task
        (tmp_path / "run" / "config.json").write_text(json.dumps(config))
        with pytest.raises(ValueError, match="must be a run on a corpus of sentences"):
            runs.Run(copy.directory).check_task()
