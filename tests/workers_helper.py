"""Training runs by several workers or devices, as `replicas_helper` starts them."""

import dataclasses
import json
import os
import signal
import time

import numpy as np
import pytest

import command_server
import replicas_helper
import runs_helper
from runs_helper import assert_same_weights, events, final_weights
from tfsoftmax.runs import training
from tfsoftmax.runs.runs import Run
from tfsoftmax.sharding.workers import Workers


def trained(data, run, model, config, stop=None):
    """Trains a run as one of the workers.

    Args:
        data, run: the folders.
        model, config: fields of the configurations that differ from those of `runs_helper`.
        stop: None, or (rank, step, signal): the worker sends itself a signal after a step.

    Returns:
        The "finished" line, and the time at which training ended.
    """
    workers = Workers(replicas_helper.strategy_here())
    rank, step, number = stop or (None, None, None)
    last = step if rank == workers.rank else None
    model = dataclasses.replace(runs_helper.MODEL, **model)
    config = dataclasses.replace(runs_helper.CONFIG, **config)
    with runs_helper.after_step(last, lambda _: os.kill(os.getpid(), number)):
        finished = training.train(data, run, model, config, verbose=False, workers=workers)
    return finished, time.time()


def trained_by_local_workers(count, **arguments):
    """`trained` in workers that the calling process starts."""
    from tfsoftmax.sharding.local_workers import become_workers

    become_workers(count)
    return trained(**arguments)


def changing_workers(corpus, run, seen, **config):
    """Trains by two workers, then by one process, then by two; the second gets SIGTERM first.

    Returns what `seen(run)` is after each of them.
    """
    two = {"function": trained, "workers": 2, **config}
    given = {"data": corpus.directory, "run": run.directory}
    results = replicas_helper.run(stop=[1, 11, signal.SIGTERM], **given, **two)
    assert [finished for finished, _ in results] == [None, None]
    stopped, found = run.checkpoints.progress()["step"], [seen(run)]
    assert 11 <= stopped < 55, "the workers must have stopped soon after the signal"
    stop = [0, stopped + 3, signal.SIGTERM]
    ((finished, _),) = replicas_helper.run(trained, stop=stop, **given, **config)
    assert finished is None and run.checkpoints.progress()["step"] == stopped + 3
    found.append(seen(run))
    (first, _), (second, _) = replicas_helper.run(**given, **two)
    assert first == second == events(run, "finished")[0]
    assert [(m["step"], m["workers"]) for m in events(run, "started")] == [
        (0, 2), (stopped, 1), (stopped + 3, 2)
    ]
    return [*found, seen(run)]


def check_a_killed_worker(
    corpus, folder, *flags, function=trained_by_local_workers, model=None, stop=None
):
    """The other worker ends too, and the run goes on bitwise."""
    whole, killed = Run(str(folder / "whole")), Run(str(folder / "killed"))

    def train(run):
        done = command_server.run([
            "train", f"--data={corpus.directory}", f"--run={run.directory}", *runs_helper.SMALL,
            "--dropout=0.1", "--max_steps=14", "--checkpoint_steps=3", "--workers=2", *flags,
        ], seconds=200)
        assert done.returncode == 0, done.stderr
        *lines, last = done.stdout.splitlines()
        assert json.loads(last) == events(run, "finished")[0]
        return lines

    assert len(train(whole)) == 1  # of the validation, by the first worker alone
    with pytest.raises(AssertionError, match=r"(?s)\[1\].*error: worker 1 was ended by SIGKILL"):
        replicas_helper.run(
            function, count=2, data=corpus.directory, run=killed.directory, model=model or {},
            config={"max_steps": 14, "checkpoint_steps": 3}, stop=stop,
        )
    assert killed.checkpoints.progress()["step"] == 6
    resumed, _ = train(killed)
    assert resumed.startswith(f"Resuming {killed.directory} at step 6, where the learning rate is ")
    assert_same_weights(whole, killed)


def largest_difference(one, other):
    """The largest difference between the variables of two runs' last checkpoints."""
    one, other = final_weights(one), final_weights(other)
    assert one.keys() == other.keys()
    return max(
        np.abs(one[name].astype(np.float64) - other[name].astype(np.float64)).max(initial=0)
        for name in one
    )
