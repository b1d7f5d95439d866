"""Runs that are killed, interrupted, extended or damaged, and what becomes of them."""

import dataclasses
import itertools
import json
import os
import shutil

import pytest

import runs_helper
from refusals import refused
from runs_helper import CONFIG, MODEL, assert_same_run, error_of, events, send_sigterm, tool, train
from tfsoftmax.lm import evaluation
from tfsoftmax.lm.config import TrainingConfig
from tfsoftmax.runs import runs


def test_killed_at_any_moment_it_ends_with_the_same_weights(finished_run, corpus, tmp_path):
    """SIGKILL, at two different steps, of the real program; then the same command again."""
    flags = f"--data={corpus.directory}", f"--run={tmp_path / 'run'}", "--dropout=0.1"
    line = runs_helper.command("train", *flags, *runs_helper.SMALL)
    run = runs.Run(str(tmp_path / "run"))
    steps = 2 * corpus.split("train").records
    runs_helper.kill_and_finish(line, run, (0.2 * steps, 0.7 * steps))
    assert_same_run(finished_run, run)


@pytest.mark.parametrize("at", ["middle", "end of a part", "end"])
def test_sigterm_saves_the_step_and_the_run_goes_on(at, finished_run, corpus, tmp_path):
    run, records = runs.Run(str(tmp_path / "run")), corpus.split("train").records
    stop = {"middle": 5, "end of a part": records // 2, "end": 2 * records}[at]
    with runs_helper.after_step(stop, send_sigterm):
        assert train(corpus, run.directory) is None
    assert run.checkpoints.progress()["step"] == stop
    train(corpus, run.directory)
    assert_same_run(finished_run, run)


def test_sigterm_ends_a_validation_which_starts_again(finished_run, corpus, tmp_path, monkeypatch):
    run, read = runs.Run(str(tmp_path / "run")), evaluation.batches

    def read_and_stop(*arguments, **options):
        send_sigterm()
        return read(*arguments, **options)

    monkeypatch.setattr(evaluation, "batches", read_and_stop)
    assert train(corpus, run.directory) is None
    assert not events(run, "valid")
    monkeypatch.undo()
    train(corpus, run.directory)
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
        train(corpus, run.directory)
    monkeypatch.undo()
    train(corpus, run.directory)
    assert_same_run(finished_run, run)



def test_a_limit_below_the_checkpoint_validates_it_as_it_is(corpus, tmp_path):
    run, short = runs.Run(str(tmp_path / "run")), {"log_steps": 1, "epochs": 1}
    with runs_helper.stopped_at(4):
        train(corpus, run.directory, config=TrainingConfig(**short))
    assert run.checkpoints.name("best") == "step-000000004"
    config = TrainingConfig(max_steps=3, **short)
    train(corpus, run.directory, config=config)
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
    first = train(corpus, directory, config=short)
    assert train(corpus, directory, config=short) == first
    longer = TrainingConfig(epochs=1, max_steps=7, log_steps=1)
    train(corpus, directory, config=longer)
    run = runs.Run(directory)
    assert [m["step"] for m in events(run, "train")] == list(range(1, 8))
    assert [m["step"] for m in events(run, "finished")] == [7]


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
    refused(message, runs.load, str(copy), streams=1)


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
        train(corpus, directory, again, config)
    assert runs.Run(directory).config()["model"]["head_options"]["cutoffs"] == [7, 20]
    loaded, _, _ = runs.load(directory, 1)
    assert loaded.get_layer("head").get_config()["cutoffs"] == [7, 20]
    other = dataclasses.replace(model, head_options={"cutoffs": [8, 20]})
    refused("head_options=.* there, .* now", train, corpus, directory, other, config)


def test_a_run_older_than_an_option_goes_on_with_its_default(finished_run, corpus, tmp_path):
    directory = tmp_path / "run"
    shutil.copytree(finished_run.directory, directory)
    config = json.loads((directory / "config.json").read_text())
    del config["training"]["reassign_steps"]
    (directory / "config.json").write_text(json.dumps(config))
    assert train(corpus, directory)


def test_a_run_whose_corpus_has_moved_asks_where_it_is(finished_run, corpus, tmp_path):
    run, gone = shutil.copytree(finished_run.directory, tmp_path / "run"), str(tmp_path / "gone")
    path = run / "config.json"
    config = json.loads(path.read_text())
    config["corpus"]["directory"] = gone
    path.write_text(json.dumps(config))
    asked = error_of("evaluate", f"--run={run}", "--split=valid")
    assert "error: `data` must say where the corpus is, since it is no longer in" in asked
    assert asked.endswith(f"Received: no folder {gone!r}\n")
    done = tool("evaluate", f"--run={run}", "--split=valid", f"--data={corpus.directory}")
    assert json.loads(done.stdout.splitlines()[-1])["perplexity"] > 1
    train(corpus, run)  # notes the folder
    assert runs.Run(str(run)).config() == finished_run.config()


def test_a_vocabulary_that_a_run_has_lost_is_named_and_comes_back(finished_run, corpus, tmp_path):
    run = shutil.copytree(finished_run.directory, tmp_path / "run")
    (run / "vocabulary.txt").unlink()
    done = error_of("generate", f"--run={run}")
    assert "`run` cannot be used: No such file or directory: " in done
    assert f"{run / 'vocabulary.txt'}. Received: run={str(run)!r}\n" in done
    train(corpus, run, epochs=CONFIG.epochs + 1)
    assert runs.Run(str(run)).vocabulary().words == corpus.vocabulary.words
    done = error_of("show_clusters", f"--run={run}")
    expected = "`run` must be one that was trained with --head=self_organised. Received: "
    assert done.endswith(f"{expected}run={str(run)!r}\n")


def test_a_task_that_does_not_exist_is_named(finished_run, tmp_path):
    copy = runs.Run(str(shutil.copytree(finished_run.directory, tmp_path / "run")))
    for task in ("odd", None, ["pairs"]):
        config = copy.config()
        config["corpus"]["task"] = task
        (tmp_path / "run" / "config.json").write_text(json.dumps(config))
        refused("must be a run on a corpus of sentences", runs.Run(copy.directory).check_task)
