#!/usr/bin/env python3
"""AdaptiveSoftmax against its bare matmuls and PyTorch's AdaptiveLogSoftmaxWithLoss.

    python experiments/benchmarks/adaptive_step.py

A step is forward and all gradients, without an optimiser, for Zipf labels; then what evaluation
and generation ask for. Both libraries have the same weights, whose head cluster has learnt how
frequent words and tails are. Each library runs in a process of its own, for their threads disturb
each other, and the cases take turns. Without PyTorch its rows are missing.
Writes experiments/results/adaptive_step/README.md.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import adaptive_cases as of
from absl import app, flags

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "experiments" / "results" / "adaptive_step"
PAUSE_SECONDS = 0.1  # idle threads of the other process have stopped spinning by then

flags.DEFINE_list("vocab_sizes", [str(v) for v in of.CUTOFFS], "V, several")
flags.DEFINE_integer("positions", 2560, "N, positions in a batch")
flags.DEFINE_integer("units", 512, "D, units of the hidden state")
flags.DEFINE_float("factor", 4.0, "by which each tail has fewer units than the one before")
flags.DEFINE_integer("repeats", 11, "timed runs of each case")
flags.DEFINE_string("worker", None, "internal: be the process of one library")


def work(library):
    """Answers requests from standard input, one JSON line each, until it ends."""
    options = flags.FLAGS
    cases_of = {"tensorflow": of.tensorflow_cases, "torch": of.torch_cases}[library]
    cases = cases_of(
        of.Problem(int(options.vocab_sizes[0]), options.positions, options.units, options.factor)
    )
    base = resident_bytes("VmRSS")
    print(json.dumps({name: list(functions) for name, functions in cases.items()}), flush=True)
    for line in sys.stdin:
        name, what, measure = json.loads(line)
        pathlib.Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        start = time.perf_counter()
        value = cases[name][what]()
        seconds = time.perf_counter() - start
        peak = (resident_bytes("VmHWM") - base) / 2**30 if measure else None
        loss = value if what == of.STEP and name != of.MATMULS else None
        print(json.dumps({"seconds": seconds, "peak_gib": peak, "loss": loss}), flush=True)


def resident_bytes(name):
    for line in pathlib.Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(name + ":"):
            return 1024 * int(line.split()[1])
    raise KeyError(name)


class Worker:
    """The process of one library."""

    def __init__(self, library, vocab_size):
        options = flags.FLAGS
        self.process = subprocess.Popen(
            [sys.executable, __file__, f"--worker={library}", f"--vocab_sizes={vocab_size}",
             f"--positions={options.positions}", f"--units={options.units}",
             f"--factor={options.factor}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        first = self.process.stdout.readline()
        self.cases = json.loads(first) if first else {}

    def run(self, name, what, measure=False):
        time.sleep(PAUSE_SECONDS)
        self.process.stdin.write(json.dumps([name, what, measure]) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(vocab_size):
    """{what: {case: [seconds, ...]}}, {case: loss}, {case: GiB}."""
    workers = [Worker(library, vocab_size) for library in ("tensorflow", "torch")]
    turns = [(worker, name, what) for what in (of.STEP, *of.EVALUATIONS) for worker in workers
             for name, functions in worker.cases.items() if what in functions]
    seconds = {}
    for _, name, what in turns:
        seconds.setdefault(what, {})[name] = []
    losses = {}
    for worker, name, what in turns:
        for _ in range(2):  # tracing, and the first memory
            answer = worker.run(name, what)
        if what == of.STEP:
            losses[name] = answer["loss"]
    for _ in range(flags.FLAGS.repeats):
        for worker, name, what in turns:
            seconds[what][name].append(worker.run(name, what)["seconds"])
    for worker in workers:
        worker.close()
    return seconds, losses, {name: memory_of(vocab_size, library, name) for library, name in (
        ("tensorflow", of.OURS), ("tensorflow", of.JIT), ("torch", of.TORCH)) if name in losses}


def memory_of(vocab_size, library, name):
    """GiB by which a step makes the process grow at its peak, gradients included."""
    worker = Worker(library, vocab_size)
    worker.run(name, of.STEP)
    peak = worker.run(name, of.STEP, measure=True)["peak_gib"]
    worker.close()
    return peak


def rows_of(vocab_size, seconds, memory):
    """Lines of the table for one V."""
    for what, cases in seconds.items():
        for name, values in cases.items():
            cells = [f"{vocab_size:,}", what, name]
            cells += [f"{1000 * pick(values):,.1f}" for pick in (statistics.median, min)]
            for other in (of.MATMULS, of.TORCH):
                cells.append(" / ".join(
                    f"{pick(values) / pick(cases[other]):.2f}" for pick in (statistics.median, min)
                ) if other in cases else "")
            cells.append(f"{memory[name]:.2f}" if what == of.STEP and name in memory else "")
            yield f"| {' | '.join(cells)} |"


def report(results, hardware):
    """The measurements as Markdown."""
    options = flags.FLAGS
    lines = [
        "# AdaptiveSoftmax against its matmuls and PyTorch", "",
        f"`python experiments/benchmarks/adaptive_step.py` on {hardware}, load average "
        f"{os.getloadavg()[2]:.1f}; N = {options.positions:,} positions, D = {options.units}, cutoffs "
        + " and ".join(str(of.CUTOFFS[v]) for v in results)
        + f", tails of D / {options.factor:g}^k units, no biases, Zipf labels, float32 unless "
        f"said, {options.repeats} interleaved runs. Ratios are of medians, then of the fastest "
        "runs, which other programs disturb less. A step is forward and all gradients. Memory: "
        "what a step adds to the process at its peak, gradients included. `top_k(1)` is held "
        "against `predict`, which returns no log-probabilities.", "",
        "| V | | | ms, median | ms, fastest | to bare matmuls | to PyTorch | GiB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for vocab_size, (seconds, _, memory) in results.items():
        lines += rows_of(vocab_size, seconds, memory)
    losses = "; ".join(
        f"V={v:,}: " + ", ".join(f"{name} {loss:.6f}" for name, loss in losses.items() if loss)
        for v, (_, losses, _) in results.items()
    )
    return "\n".join([*lines, "", f"Losses of the step, nats: {losses}."]) + "\n"


def main(_):
    if flags.FLAGS.worker:
        work(flags.FLAGS.worker)
        return
    results = {int(v): measure(int(v)) for v in flags.FLAGS.vocab_sizes}
    from tfsoftmax.runs import hardware

    text = report(results, hardware())
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "README.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    app.run(main)
