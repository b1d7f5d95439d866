"""How long the other worker of a run goes on after one was killed.

    python -m experiments.measurements.killed_worker --data=data/docstrings

Trains with two workers on this machine, kills the second (SIGKILL) in the middle of an epoch, and
takes the seconds until everything has ended: once for the command with --workers=2, whose first
process watches the others, and once for two commands that find each other by TF_CONFIG, as on two
machines, where the first notices by itself. Prints a line of JSON for each time.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tfsoftmax_command  # noqa: F401  (imported before the package, which then skips TensorFlow)
from absl import flags

from experiments.benchmarks.workers import environments, written
from tfsoftmax.commands import program

SECONDS = 300  # after which a run is taken to hang


def seconds_to_end(options, run, watched):
    """Seconds from the end of a worker until all have ended, and what the first says then."""
    command = [
        sys.executable, "-m", "tfsoftmax_command", "train", f"--data={options.data}",
        f"--run={run}", f"--head={options.head}", "--embedding_units=16", "--hidden_units=16",
        "--log_steps=1", "--epochs=1000",
    ]
    with contextlib.ExitStack() as stack:
        errors = stack.enter_context(tempfile.TemporaryFile("w+"))
        processes = [
            subprocess.Popen(
                command + ["--workers=2"] * watched, env=environment, stdout=subprocess.DEVNULL,
                stderr=errors if rank == 0 else subprocess.DEVNULL,
            )
            for rank, environment in enumerate(environments(1 if watched else 2))
        ]
        for process in processes:
            stack.callback(process.wait)
            stack.callback(process.kill)
        wait_for(lambda: steps_of(run) >= options.steps, "train")
        if watched:
            _, second = children_of(processes[0].pid)
            os.kill(second, 9)
        else:
            processes[1].kill()
        killed = time.monotonic()
        wait_for(lambda: processes[0].poll() is not None, "end")
        seconds = time.monotonic() - killed
        if processes[0].returncode == 0:
            raise RuntimeError("the first worker must end with an error. Received: status 0")
        lines = [line for line in written(errors).splitlines() if line.startswith("error:")]
        return seconds, lines[-1][:100] if lines else ""


def wait_for(condition, what):
    end = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(f"the run must {what} within {SECONDS} seconds. Received: none")
        time.sleep(0.02)


def steps_of(run):
    path = Path(run) / "metrics.jsonl"
    return path.read_text(encoding="utf-8").count('"train"') if path.exists() else 0


def children_of(process):
    """The processes that one has started, the oldest first (Linux)."""
    path = f"/proc/{process}/task/{process}/children"
    return [int(child) for child in Path(path).read_text(encoding="utf-8").split()]


def main():
    options = flags.FLAGS
    for number in range(options.rounds):
        for start in ("--workers=2", "TF_CONFIG"):
            with tempfile.TemporaryDirectory() as folder:
                watched = start == "--workers=2"
                seconds, said = seconds_to_end(options, f"{folder}/run", watched)
            row = {"round": number + 1, "start": start, "seconds": round(seconds, 2), "says": said}
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    flags.DEFINE_string("data", None, "Directory of a prepared corpus.", required=True)
    flags.DEFINE_string("head", "sharded", "The head of the model.")
    flags.DEFINE_integer("steps", 30, "Steps before the second worker is killed.")
    flags.DEFINE_integer("rounds", 3, "How often each is measured.")
    program.run(main, __doc__, sys.argv)
