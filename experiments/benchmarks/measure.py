"""Interleaved measurements: of functions, and of groups of cases in processes of their own."""

import contextlib
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from experiments.benchmarks.cases import COMMAND, FLOOR, MOVES, TOP_KS

LEAST_SAMPLES, MOST_SAMPLES = 3, 15
SLOW_SECONDS = 1.0  # above it the run that measures memory is a sample, too
NO_MEMORY = (FLOOR, MOVES, COMMAND, *TOP_KS)  # whose memory is not asked for, or another process's
PAUSE_SECONDS = 0.05  # by then the idle threads of the other process no longer spin


class Failed(RuntimeError):
    """The process of a case has ended."""


class Worker:
    """A process that builds one case when it is told to, and runs its functions."""

    def __init__(self, case, problem):
        self.case = case
        self.errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")
        environment = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "experiments.benchmarks.worker",
             json.dumps(dataclasses.asdict(case)), json.dumps(dataclasses.asdict(problem))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
            env={**environment, **os.environ},
        )

    def build(self):
        """Builds the case; returns {"measures", "parameters", ...}, or {"missing"}."""
        return self._ask("build")

    def run(self, measure, memory=False):
        """Runs a measure once; returns {"seconds", "value", "peak_bytes"}."""
        time.sleep(PAUSE_SECONDS)
        return self._ask(json.dumps({"measure": measure, "memory": memory}))

    def close(self):
        """Ends the process."""
        with contextlib.suppress(BrokenPipeError):  # a killed process did not read the last line
            self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.errors.close()

    def _ask(self, line):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())
        except (BrokenPipeError, json.JSONDecodeError):
            status = self.process.wait()
            self.errors.seek(0)
            last = [text for text in self.errors.read().splitlines() if text.strip()][-1:]
            what = last[0] if last else "no message"
            raise Failed(f"{self.case.name}: exit status {status}, {what}") from None


def samples_wanted(seconds, budget_seconds):
    """How often a function is timed: as often as the budget allows, within limits."""
    return int(min(MOST_SAMPLES, max(LEAST_SAMPLES, budget_seconds // max(seconds, 1e-9))))


def turns(wanted):
    """Yields each key of {key: count} that many times, spread evenly over the rounds."""
    rounds = max(wanted.values(), default=0)
    for r in range(rounds):
        for key, count in wanted.items():
            if (r + 1) * count // rounds > r * count // rounds:
                yield key


def medians(functions, repeats):
    """Times functions that take turns, after a call of each that is not timed.

    Args:
        functions: {name: function ()}, which returns when its work is done.
        repeats: number of timed calls of each function.

    Returns:
        {name: (median seconds, median seconds of processor time)}.
    """
    for function in functions.values():
        function()
    samples = {name: [] for name in functions}
    for name in turns(dict.fromkeys(functions, repeats)):
        start = time.perf_counter(), time.process_time()
        functions[name]()
        end = time.perf_counter(), time.process_time()
        samples[name].append([b - a for a, b in zip(start, end)])
    return {name: tuple(map(statistics.median, zip(*taken))) for name, taken in samples.items()}


def in_a_process(function, *arguments):
    """What a function of a module returns in a process of its own, without threads of others."""
    with ProcessPoolExecutor(1, get_context("spawn")) as apart:
        return apart.submit(function, *arguments).result()


def measure_group(cases, problem, budget_seconds, start=Worker, say=print):
    """Measures cases that take turns.

    Args:
        cases: list of `Case`.
        problem: `Problem`.
        budget_seconds: budget for all samples of one measure of one case; three are always taken.
        start: function of case and problem that starts a `Worker`.
        say: function of a str that reports progress.

    Returns:
        [(case, answer of `build`, {measure: [seconds]}, {measure: peak bytes}, {measure: value})]
        of the cases that could be run, where a value is what the first run returned.
    """
    workers = [start(case, problem) for case in cases]  # imports side by side, builds in turn
    try:
        built = _build(workers, say)
        seconds, peaks, values, wanted = {}, {}, {}, {}
        for worker, answer in list(built.items()):
            try:
                for measure in answer["measures"]:
                    key = worker, measure
                    values[key] = worker.run(measure)["value"]
                    second = worker.run(measure, memory=measure not in NO_MEMORY)
                    peaks[key] = second["peak_bytes"]
                    wanted[key] = samples_wanted(second["seconds"], budget_seconds)
                    seconds[key] = []
                    if second["seconds"] >= SLOW_SECONDS:
                        seconds[key].append(second["seconds"])
                        wanted[key] -= 1
            except Failed as error:
                say(f"  {error}")
                del built[worker]
        wanted = {key: count for key, count in wanted.items() if key[0] in built}
        for worker, measure in turns(wanted):
            if worker not in built:
                continue
            try:
                seconds[worker, measure].append(worker.run(measure)["seconds"])
            except Failed as error:
                say(f"  {error}")
                del built[worker]
        return [
            (worker.case, answer, *(
                {m: of[worker, m] for m in answer["measures"]} for of in (seconds, peaks, values)
            )) for worker, answer in built.items()
        ]
    finally:
        for worker in workers:
            worker.close()


def _build(workers, say):
    """{worker: answer of `build`} of the workers whose cases can be measured."""
    built = {}
    for worker in workers:
        try:
            answer = worker.build()
        except Failed as error:
            say(f"  {error}")
            continue
        if "missing" in answer:
            say(f"  {worker.case.name} is left out: {answer['missing']}")
        else:
            built[worker] = answer
    return built
