import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments.framework.definition import Run
from experiments.framework.outcome import Outcome
from experiments.framework.runner import run_all, select

ROOT = Path(__file__).resolve().parent.parent.parent


def calls(data):
    return (data / "calls.txt").read_text().splitlines()


def test_each_run_is_trained_then_evaluated(tmp_path, data, fakes):
    runs = [Run("a", model={"hidden_units": 8}), Run("b", model={"hidden_units": 16})]
    assert run_all(runs, tmp_path / "runs", data, **fakes) == {}
    assert calls(data) == ["train a", "evaluate a", "train b", "evaluate b"]
    outcome = Outcome.read(runs[1], tmp_path / "runs" / "b")
    assert outcome.config["model"]["hidden_units"] == 16
    assert outcome.state == "finished"
    assert outcome.test["perplexity"] == 210.5


def test_a_finished_run_is_not_trained_again(tmp_path, data, fakes):
    runs = [Run("a")]
    run_all(runs, tmp_path / "runs", data, **fakes)
    run_all(runs, tmp_path / "runs", data, **fakes)
    assert calls(data) == ["train a", "evaluate a"]


def test_a_finished_run_without_test_is_only_evaluated(tmp_path, data, fakes):
    runs = [Run("a")]
    run_all(runs, tmp_path / "runs", data, **fakes)
    metrics = tmp_path / "runs" / "a" / "metrics.jsonl"
    metrics.write_text("".join(metrics.read_text().splitlines(True)[:-1]))
    run_all(runs, tmp_path / "runs", data, **fakes)
    assert calls(data) == ["train a", "evaluate a", "evaluate a"]


def test_a_cut_run_is_resumed(tmp_path, data, fakes):
    runs = [Run("cut")]
    assert "exit status 1" in run_all(runs, tmp_path / "runs", data, **fakes)["cut"]
    assert Outcome.read(runs[0], tmp_path / "runs" / "cut").state == "unfinished"
    assert run_all(runs, tmp_path / "runs", data, **fakes) == {}
    outcome = Outcome.read(runs[0], tmp_path / "runs" / "cut")
    assert [event["step"] for event in outcome.validations] == [5, 10]


def test_the_others_go_on_after_a_failure(tmp_path, data, fakes):
    runs = [Run("a"), Run("fails"), Run("b")]
    failures = run_all(runs, tmp_path / "runs", data, **fakes)
    assert failures == {"fails": "training failed with exit status 3"}
    assert calls(data)[-2:] == ["train b", "evaluate b"]


def test_a_changed_definition_reaches_train_and_its_error_the_user(tmp_path, data, fakes, capfd):
    run_all([Run("a", model={"hidden_units": 8})], tmp_path / "runs", data, **fakes)
    failures = run_all([Run("a", model={"hidden_units": 9})], tmp_path / "runs", data, **fakes)
    assert list(failures) == ["a"]
    assert "the same configuration" in capfd.readouterr().err


def test_another_corpus_reaches_train(tmp_path, data, fakes):
    run_all([Run("a")], tmp_path / "runs", data, **fakes)
    other = tmp_path / "other"
    other.mkdir()
    run_all([Run("a")], tmp_path / "runs", other, **fakes)
    assert calls(other)[0] == "train a"


def test_an_interrupt_lets_train_save_and_the_same_command_goes_on(tmp_path, data, fakes):
    code = (
        "from pathlib import Path\n"
        "from experiments.framework.definition import Run\n"
        "from experiments.framework.runner import run_all\n"
        f"run_all([Run('slow'), Run('b')], Path({str(tmp_path)!r}), {str(data)!r}, **{fakes!r})\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, start_new_session=True, stderr=subprocess.DEVNULL,
        # A shell without job control lets what it starts in the background ignore SIGINT.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    for _ in range(6000):
        if (tmp_path / "slow" / "waiting").exists():
            break
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(60) != 0
    outcome = Outcome.read(Run("slow"), tmp_path / "slow")
    assert outcome.training[-1]["step"] == 6  # logged after the interrupt
    assert calls(data) == ["train slow"]
    assert run_all([Run("slow")], tmp_path, data, **fakes) == {}


def test_select_takes_names_and_patterns():
    runs = [Run("lstm64"), Run("lstm128"), Run("gru64")]
    assert [r.name for r in select(runs, ["*64"])] == ["lstm64", "gru64"]
    assert [r.name for r in select(runs, ["gru64", "lstm128"])] == ["lstm128", "gru64"]
    assert select(runs, []) == runs
    with pytest.raises(ValueError, match=r"`only` must match one of .*Received: 'rnn\*'"):
        select(runs, ["*64", "rnn*"])


def test_a_head_finds_its_file_in_the_folder_of_the_corpus(tmp_path, data, fakes):
    run = Run("a", model={"head_options": {"tree": "{data}/brown.paths"}})
    assert run_all([run], tmp_path / "runs", os.path.relpath(data), **fakes) == {}
    outcome = Outcome.read(run, tmp_path / "runs" / "a")
    assert outcome.config["model"]["head_options"] == {"tree": f"{data}/brown.paths"}
    assert outcome.state == "finished"


def test_what_the_machine_decides_is_not_another_definition(tmp_path, data, fakes):
    run = Run("a", model={"head_options": {"cutoffs": "auto", "projection_factor": 4}})
    run_all([run], tmp_path / "runs", data, **fakes)
    path = tmp_path / "runs" / "a" / "config.json"
    config = json.loads(path.read_text())
    config["model"]["head_options"]["cutoffs"] = [10, 20]
    path.write_text(json.dumps(config))
    assert Outcome.read(run, path.parent).state == "finished"
    config["model"]["head_options"]["projection_factor"] = 2
    path.write_text(json.dumps(config))
    assert Outcome.read(run, path.parent).state == "of another definition"


def test_a_run_of_another_experiment_that_is_the_same_is_copied(tmp_path, data, fakes, capsys):
    fakes = {**fakes, "others": tmp_path}
    run_all([Run("a", model={"hidden_units": 8})], tmp_path / "one", data, **fakes)
    runs = [Run("b", model={"hidden_units": 8}), Run("c", model={"hidden_units": 9})]
    assert run_all(runs, tmp_path / "two", data, **fakes) == {}
    assert calls(data) == ["train a", "evaluate a", "train c", "evaluate c"]
    assert f"the same as {tmp_path}/one/a" in capsys.readouterr().out
    assert Outcome.read(runs[0], tmp_path / "two" / "b").test["perplexity"] == 210.5
    assert sorted(os.listdir(tmp_path / "two")) == ["b", "c"]


def test_only_finished_runs_on_the_same_corpus_are_copied(tmp_path, data, fakes):
    fakes = {**fakes, "others": tmp_path}
    other = tmp_path / "other"
    other.mkdir()
    run_all([Run("cut")], tmp_path / "one", data, **fakes)
    run_all([Run("a")], tmp_path / "two", other, **fakes)
    run_all([Run("a")], tmp_path / "three", data, **fakes)
    assert calls(data)[-2:] == ["train a", "evaluate a"]
