"""Trains and evaluates runs one after the other, each in a process of its own."""

import fnmatch
import shlex
import subprocess
import sys

from experiments.outcome import Outcome

TRAIN = (sys.executable, "-m", "tfsoftmax_command", "train")
EVALUATE = (sys.executable, "-m", "tfsoftmax_command", "evaluate")
PATIENCE_SECONDS = 20  # of a Ctrl-C with train.py, which ends after a step and saves it


def select(runs, patterns):
    """The runs whose names match one of the patterns; all without patterns."""
    names = [run.name for run in runs]
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            raise ValueError(
                f"`only` must match one of {', '.join(names)}. Received: {pattern!r}"
            )
    return [r for r in runs if not patterns or any(fnmatch.fnmatch(r.name, p) for p in patterns)]


def run_all(runs, folder, data, train=TRAIN, evaluate=EVALUATE):
    """Does what is still to be done for each run; a run that fails does not stop the others.

    Args:
        runs: list of `Run`.
        folder: `Path` that holds, or will hold, a folder for each run.
        data: directory of a prepared corpus.
        train: command that trains; the flags are appended.
        evaluate: command that evaluates.

    Returns:
        {name of a run that failed: what failed}.
    """
    failures = {}
    for number, run in enumerate(runs, 1):
        say(f"[{number}/{len(runs)}] {run.name}")
        problem = _run(run.of_corpus(data), folder / run.name, data, train, evaluate)
        if problem:
            failures[run.name] = problem
            say(f"{run.name}: {problem}")
    return failures


def _run(run, directory, data, train, evaluate):
    """Trains and evaluates what is not yet; returns what failed, or None."""
    outcome = Outcome.read(run, directory)
    if outcome.state == "finished" and outcome.is_of_corpus(data):
        say("  finished before")
    else:
        problem = _call([*train, f"--data={data}", f"--run={directory}", *run.flags()])
        outcome = Outcome.read(run, directory)
        if problem:
            return f"training {problem}"
        if outcome.state != "finished":
            return "training ended early; the same command goes on from there"
    if outcome.has_test_split() and not outcome.test:
        problem = _call([*evaluate, f"--run={directory}", f"--data={data}", "--split=test"])
        if problem:
            return f"evaluation {problem}"
    return None


def _call(command):
    """Runs a command, its output visible; returns what went wrong, or None."""
    say("  " + shlex.join(command))
    process = subprocess.Popen(command)
    try:
        status = process.wait()
    except KeyboardInterrupt:  # from a terminal, the command has received it too
        say("  Interrupted: waiting for the step to end.")
        try:
            process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait()
        raise
    if status == 0:
        return None
    return f"failed with exit status {status}" if status > 0 else f"was killed by signal {-status}"


def say(text):
    print(text, flush=True)
