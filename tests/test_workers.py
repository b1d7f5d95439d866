"""Training by several workers and devices: what one process does, whoever ends, starts or dies."""

import json
import signal

import numpy as np
import pytest

import command_server
import replicas_helper
from runs_helper import SMALL, assert_same_weights, events
from tfsoftmax.lm.runs import Run
from workers_helper import largest_difference, trained, trained_by_local_workers

# The gradients are clipped in almost every step.
PLAIN = {"model": {"dropout": 0.0}, "config": {"max_steps": 34, "clip_norm": 0.25, "decay": 1.0}}
ADAPTIVE = {"head": "adaptive", "head_options": {"cutoffs": [9, 30], "projection_factor": 2}}


def by_one_process(corpus, folder, model=None):
    """The run of one process, in this one."""
    model = {**PLAIN["model"], **(model or {})}
    trained(corpus.directory, str(folder), model, PLAIN["config"])
    return Run(str(folder))


def assert_close_runs(run, other):
    assert largest_difference(run, other) < 1e-6
    assert_close_lines(run, other, "valid", ["step", "perplexity", "tokens"], 1e-7)


def assert_close_lines(run, other, event, keys, rtol):
    got, wanted = ([[m[k] for k in keys] for m in events(r, event)] for r in (run, other))
    np.testing.assert_allclose(got, wanted, rtol=rtol)


def test_the_number_of_workers_may_change_and_a_signal_to_one_stops_all(corpus, tmp_path):
    """Two workers, then one process, then two; the second of the first two gets SIGTERM."""
    run, data = Run(str(tmp_path / "run")), corpus.directory
    two = {"function": trained, "workers": 2, "strategy": "multiworker", **PLAIN}
    stop = [1, 11, signal.SIGTERM]
    results = replicas_helper.run(data=data, run=run.directory, stop=stop, **two)
    assert [finished for finished, _ in results] == [None, None]
    assert run.checkpoints.progress()["step"] == 11
    finished, _ = replicas_helper.run(
        trained, data=data, run=run.directory, stop=[0, 23, signal.SIGTERM], **PLAIN
    )[0]
    assert finished is None and run.checkpoints.progress()["step"] == 23
    (first, _), (second, _) = replicas_helper.run(data=data, run=run.directory, **two)
    assert first == second == events(run, "finished")[0]
    assert [(m["step"], m["workers"]) for m in events(run, "started")] == [
        (0, 2), (11, 1), (23, 2)
    ]
    assert_close_runs(run, by_one_process(corpus, tmp_path / "one"))


def test_a_killed_worker_ends_the_others_and_the_run_goes_on_bitwise(corpus, tmp_path):
    whole, killed = Run(str(tmp_path / "whole")), Run(str(tmp_path / "killed"))
    steps = {"max_steps": 14}

    def train(run):
        done = command_server.run([
            "train", f"--data={corpus.directory}", f"--run={run.directory}", *SMALL,
            "--dropout=0.1", "--max_steps=14", "--workers=2",
        ], seconds=200)
        assert done.returncode == 0, done.stderr
        *lines, last = done.stdout.splitlines()
        assert json.loads(last) == events(run, "finished")[0]
        return lines

    assert len(train(whole)) == 1  # of the validation, by the first worker alone
    with pytest.raises(AssertionError, match=r"(?s)\[1\].*error: worker 1 was ended by SIGKILL"):
        replicas_helper.run(
            trained_by_local_workers, count=2, data=corpus.directory, run=killed.directory,
            model={}, config=steps, stop=[1, 8, signal.SIGKILL],
        )
    assert killed.checkpoints.progress()["step"] == 6
    resumed, _ = train(killed)
    assert resumed == f"Resuming {killed.directory} at step 6."
    assert_same_weights(whole, killed)


@pytest.mark.parametrize("model", [
    ADAPTIVE,
    pytest.param({}, marks=pytest.mark.slow),
    pytest.param({"head": "tree"}, marks=pytest.mark.slow),
    pytest.param({"head": "sampled", "head_options": {"num_samples": 8}}, marks=pytest.mark.slow),
    pytest.param({"layers": 2, "cell": "gru"}, marks=pytest.mark.slow),
], ids=str)
def test_two_devices_of_a_process_equal_one(model, corpus, tmp_path):
    model, run = {**PLAIN["model"], **model}, str(tmp_path / "run")
    replicas_helper.run(
        trained, devices=2, strategy="mirrored", data=corpus.directory, run=run, model=model,
        config=PLAIN["config"],
    )
    alone = by_one_process(corpus, tmp_path / "one", model)
    assert_close_runs(Run(run), alone)
    assert_close_lines(Run(run), alone, "train", ["step", "loss"], 1e-6)
