"""Trains and evaluates runs one after another, each in its own process."""

import fnmatch
import shlex
import shutil
import subprocess
import sys

from experiments.framework.outcome import Outcome

TFSOFTMAX = (sys.executable, "-m", "tfsoftmax_command")
PATIENCE_SECONDS = 20  # after Ctrl-C, for `tfsoftmax train` to end its step and save it


def select(runs, patterns):
    """The runs or cases whose names match one of the patterns, or all if there are no patterns.

    Raises:
        ValueError: if a pattern matches none of them.
    """
    names = [run.name for run in runs]
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            raise ValueError(
                f"`only` must match one of {', '.join(names)}. Received: {pattern!r}"
            )
    return [r for r in runs if not patterns or any(fnmatch.fnmatch(r.name, p) for p in patterns)]


def run_all(runs, folder, data, train=None, evaluate=None, others=None):
    """Does what remains to be done for each run, also after another run has failed.

    Args:
        runs: list of `Run`.
        folder: `Path` of the directory in which each run has its own.
        data: directory of a prepared corpus.
        train: command that trains, to which the flags are appended; by default that of the run.
        evaluate: command that evaluates, likewise.
        others: `Path` of the directory with the folders of all experiments: a finished run of
            theirs that differs in nothing but its name is copied; None to train each run.

    Returns:
        {name of a run that failed: what failed}.
    """
    failures = {}
    for number, run in enumerate(runs, 1):
        say(f"[{number}/{len(runs)}] {run.name}")
        run, directory = run.of_corpus(data), folder / run.name
        if others and not directory.exists():
            _copy(run, directory, data, others)
        problem = _run(run, directory, data, train, evaluate)
        if problem:
            failures[run.name] = problem
            say(f"{run.name}: {problem}")
    return failures


def _run(run, directory, data, train, evaluate):
    """Trains and evaluates a run unless that is done already; returns what failed, or None."""
    own = [(*TFSOFTMAX, name) for name in run.commands]
    train, evaluate = train or own[0], evaluate or own[1]
    outcome = Outcome.read(run, directory)
    if outcome.is_done(data):
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


def _copy(run, directory, data, others):
    """Copies a finished run that differs in nothing but its name, if there is one."""
    for config in sorted(others.glob("*/*/config.json")):
        if Outcome.read(run, config.parent).is_done(data):
            say(f"  the same as {config.parent}, which is copied")
            partial = directory.with_name(f".{directory.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            shutil.copytree(config.parent, partial)
            partial.rename(directory)
            return


def _call(command):
    """Runs a command, whose output stays visible; returns what went wrong, or None."""
    say("  " + shlex.join(command))
    process = subprocess.Popen(command)
    try:
        status = process.wait()
    except KeyboardInterrupt:  # a terminal sends it to the command, too
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
    """Prints a line at once, so that it stands before the output of the next command."""
    print(text, flush=True)
