#!/usr/bin/env python3
"""Runs an experiment: trains what has no finished run yet, resumes what was cut, reports.

    python -m experiments.run NAME --data=data/docstrings
    python -m experiments.run NAME --report

NAME is one of the experiments below; without it they are listed. Interrupt it whenever you like:
the same command goes on. A run that fails is reported at the end, after the others, and the exit
status says so. The report, experiments/results/NAME/README.md, is always of all runs.
"""

import signal
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

import tfsoftmax_command  # noqa: F401  (first, so that nothing below loads TensorFlow)
from absl import flags

from experiments import definition, report, runner
from experiments.outcome import Outcome
from tfsoftmax.commands import program


def experiments():
    """The names of the experiments and what they are, as text."""
    lines = [f"  {name:<16}  {line}" for name, line in definition.listing().items()]
    return "\n".join(["Experiments:", *lines])


def main(name):
    if name is None:
        print(experiments(), "", "python -m experiments.run NAME --data=DIR runs one.", sep="\n")
        return
    experiment = definition.load(name)
    chosen = runner.select(experiment.RUNS, flags.FLAGS.only)
    folder, failures = Path(flags.FLAGS.runs) / name, {}
    if not flags.FLAGS.report:
        if not flags.FLAGS.data:
            raise ValueError("`data` must name what `tfsoftmax prepare` made. Received: none")
        failures = runner.run_all(chosen, folder, flags.FLAGS.data)
    outcomes = [(run, Outcome.read(run, folder / run.name)) for run in experiment.RUNS]
    results = Path(flags.FLAGS.results) / name
    if any(outcome.config for _, outcome in outcomes) or not failures:
        report.write(name, experiment.__doc__, outcomes, results)
        print(f"{report.table(outcomes)}\n\n{results / 'README.md'}")
    if failures:
        sys.exit("error: " + "; ".join(f"{run}: {what}" for run, what in failures.items()))


if __name__ == "__main__":
    flags.DEFINE_string("data", None, "prepared corpus to train on; `tfsoftmax prepare` makes one")
    flags.DEFINE_string("runs", "runs", "run folders are RUNS/NAME/RUN")
    flags.DEFINE_string("results", "experiments/results", "reports are RESULTS/NAME/README.md")
    flags.DEFINE_list("only", [], "train only these runs: names, or patterns such as '*256'")
    flags.DEFINE_bool("report", False, "train nothing, only report")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    __doc__ += "\n" + experiments()
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    if words:
        sys.argv.remove(words[0])
    program.run(lambda: main(words[0] if words else None), __doc__, sys.argv)
