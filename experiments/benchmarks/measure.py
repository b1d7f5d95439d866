"""Interleaved measurements: of functions, and of groups of cases in processes of their own."""

import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from experiments.benchmarks.cases import FLOOR, MOVES
from experiments.benchmarks.worker import build, timed

LEAST_SAMPLES, MOST_SAMPLES = 3, 15
SLOW_SECONDS = 1.0  # above it the run that measures memory is a sample, too
PAUSE_SECONDS = 0.05  # by then the idle threads of the other process no longer spin


class Failed(RuntimeError):
    """A case cannot be measured, or its process was killed."""


class Worker:
    """A process that builds one case when it is told to, and runs its functions."""

    def __init__(self, case, problem):
        self.case, self.problem = case, problem
        self.process = ProcessPoolExecutor(1, get_context("spawn"))

    def build(self):
        """Builds the case; returns {"measures", "parameters", ...}, or {"missing"}."""
        return self._ask(build, self.case, self.problem)

    def run(self, measure, memory=False):
        """Runs a measure once; returns {"seconds", "value", "peak_bytes"}."""
        time.sleep(PAUSE_SECONDS)
        return self._ask(timed, measure, memory)

    def close(self):
        """Ends the process."""
        self.process.shutdown()

    def _ask(self, function, *arguments):
        try:
            return self.process.submit(function, *arguments).result()
        except Exception as error:  # of the case, or because the process was killed
            raise Failed(f"{self.case.name}: {type(error).__name__}, {error}") from error


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
    workers, results, wanted = [start(case, problem) for case in cases], {}, {}

    def attempt(function, worker, *arguments):
        """Does something with a worker. One that fails loses its results."""
        try:
            function(worker, *arguments)
        except Failed as error:
            say(f"  {error}")
            results.pop(worker, None)

    def begin(worker):
        answer, seconds, peaks, values = worker.build(), {}, {}, {}
        if "missing" in answer:
            raise Failed(f"{worker.case.name} is left out: {answer['missing']}")
        for measure in answer["measures"]:
            values[measure] = worker.run(measure)["value"]
            memory = answer["memory"] and measure not in (FLOOR, MOVES)
            second = worker.run(measure, memory)
            peaks[measure] = second["peak_bytes"]
            seconds[measure] = []
            wanted[worker, measure] = samples_wanted(second["seconds"], budget_seconds)
            if second["seconds"] >= SLOW_SECONDS:
                seconds[measure].append(second["seconds"])
                wanted[worker, measure] -= 1
        results[worker] = worker.case, answer, seconds, peaks, values

    def sample(worker, measure):
        results[worker][2][measure].append(worker.run(measure)["seconds"])

    try:
        for worker in workers:
            attempt(begin, worker)
        for worker, measure in turns({k: n for k, n in wanted.items() if k[0] in results}):
            if worker in results:
                attempt(sample, worker, measure)
        return list(results.values())
    finally:
        for worker in workers:
            worker.close()
