"""Training steps of a head on several workers: bytes that they exchange, and time.

    python -m experiments.benchmarks.workers

Three ways to train one output layer on P devices: full softmax that each device holds whole (data
parallel, dense gradients), sampled softmax (data parallel, sparse gradients), and full softmax
whose vocabulary is divided among the devices (sharded). The batch of N positions is divided among
the devices in each way. With two processes, the bytes on the loopback interface are counted and
compared with formulas; other programs must not use it meanwhile. With simulated devices of one
process nothing crosses a network. They show what the exchange costs in time, not what more devices
gain, since all share the machine's cores.

From the formulas and published bandwidths follows a model, on paper, of 8 and 64 GPUs with ten
million words. Writes experiments/results/workers/README.md.
"""

import json
import statistics
import subprocess
import sys
from pathlib import Path

import tfsoftmax_command  # noqa: F401  (imported before the package, which then skips TensorFlow)
from absl import flags

from experiments.benchmarks import cluster_model
from experiments.framework import markdown
from tfsoftmax.commands import program

RESULTS = Path("experiments/results/workers")
SECONDS = 300  # after which a measurement is taken to hang
PROCESSES, DEVICES = (1, 2), (2, 4, 8)


def measured(kind, options, processes=1, devices=1):
    """What the first of the processes reports, each of which has as many devices."""
    request = json.dumps({
        **cluster_model.KINDS[kind].head, "vocab_size": options.vocab_size,
        "units": options.units, "positions": options.positions, "steps": options.steps,
        "processes": processes, "devices": devices,
    })
    done = subprocess.run(
        [sys.executable, "-m", "experiments.benchmarks.worker_step", request],
        capture_output=True, text=True, timeout=SECONDS,
    )
    if done.returncode:
        raise RuntimeError(f"{kind}, {processes} processes: {done.stderr[-1000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def rows_of(options):
    """Yields a row of the table for each way to train and each number of processes or devices."""
    groups = [(p, 1) for p in PROCESSES] + [(1, d) for d in DEVICES]
    rounds = [
        {(kind, group): measured(kind, options, *group)
         for group in groups for kind in cluster_model.KINDS}
        for _ in range(options.rounds)
    ]
    for kind, way in cluster_model.KINDS.items():
        for processes, devices in groups:
            own = [found[kind, (processes, devices)] for found in rounds]
            seconds = statistics.median(answer["seconds"] for answer in own)
            exchanged, expected = "–", "–"
            if processes > 1 and own[0]["bytes"] is not None:
                mib = statistics.median(answer["bytes"] for answer in own) / 2**20
                wanted = processes * way.bytes(
                    processes, options.vocab_size, options.units, options.positions
                ) / 2**20
                exchanged, expected = f"{mib:,.2f}", f"{wanted:,.2f} ({mib / wanted:.2f})"
            yield [
                way.name, str(processes), str(devices), f"{1000 * seconds:,.0f}",
                f"{options.positions / seconds:,.0f}", f"{own[0]['held'] / 2**20:,.0f}",
                exchanged, expected,
            ]


def main():
    options = flags.FLAGS
    rows = list(rows_of(options))
    program.load_tensorflow()
    from tfsoftmax.support.hardware import hardware

    markdown.write(RESULTS / "README.md", *page(rows, hardware(), options))


def page(rows, hardware, options):
    """The blocks of the page of results."""
    headings = ["", "processes", "devices of each", "ms a step", "words/s",
                "MiB held by a device", "MiB exchanged", "by the formulas (measured / formula)"]
    yield "# Several workers"
    yield (
        f"`python -m experiments.benchmarks.workers` on {hardware}. V = {options.vocab_size:,}, "
        f"D = {options.units}, N = {options.positions:,} positions in all, Adagrad, float32; "
        f"medians of {options.steps} steps and {options.rounds} rounds in which the rows took "
        "turns. All processes and devices share the same cores, so that words/s show what the "
        "exchange costs, not what more machines gain. What is exchanged is the traffic of the "
        "loopback interface in a step, of all workers together; experiments/benchmarks/"
        "cluster_model.py has the formulas, of which that of sparse gradients is an upper bound."
    )
    yield markdown.table([headings, *rows])
    yield from cluster_model.page()


if __name__ == "__main__":
    flags.DEFINE_integer("vocab_size", 50_000, "Size V of the vocabulary.")
    flags.DEFINE_integer("units", 256, "Units D of the hidden state.")
    flags.DEFINE_integer("positions", 1024, "Positions N of a step, of all workers together.")
    flags.DEFINE_integer("steps", 5, "Timed steps of each worker.")
    flags.DEFINE_integer("rounds", 3, "How often every row is measured.")
    program.run(main, __doc__, sys.argv)
