"""Runs an experiment: trains the runs that are not finished, resumes those cut short, and reports.

    python -m experiments.run NAME --data=data/docstrings
    python -m experiments.run NAME --data=data/ptb          # another corpus, reports of its own
    python -m experiments.run NAME --report
    python -m experiments.run --list

NAME is one of the experiments below; without it they are listed. You can interrupt the program at
any time: the same command goes on from there. A run that fails does not stop the others; it is
named at the end, and the exit status is then not zero. The report, RESULTS/NAME/README.md, always
covers all runs. Runs on a public corpus, such as ptb or wikitext2, and their reports are in folders
of its name, RUNS/ptb/NAME and RESULTS/ptb/NAME; --corpus gives another name.
"""

import signal
import sys
from pathlib import Path

import tfsoftmax_command  # noqa: F401  (imported before the package, which then skips TensorFlow)
from absl import flags

from experiments.framework import catalogue, kept, papers, report, runner
from tfsoftmax.commands import program
from tfsoftmax.corpora.catalogue import DATASETS
from tfsoftmax.corpora.manifest import read_manifest


def by_table():
    """The names and titles of the experiments, with the tables and figures of papers, as text."""
    lines, tables = [], papers.tables()
    for name, line in catalogue.listing().items():
        lines.append(f"{name:<16}  {line}")
        for paper, numbers in tables.get(name, {}).items():
            lines.append(f"{'':<16}  {paper}: {', '.join(numbers)}")
    return "\n".join([*lines, "", "All tables and figures: experiments/results/papers.md."])


def experiments():
    """The names and titles of the experiments, as text."""
    lines = [f"    {name:<16}  {line}" for name, line in catalogue.listing().items()]
    return "\n".join(["Experiments:", "", *lines])


def corpus_folder():
    """The folder of the corpus in RUNS and RESULTS: its name, or empty for texts of your own."""
    if flags.FLAGS.corpus is not None or not flags.FLAGS.data:
        return flags.FLAGS.corpus or ""
    name = read_manifest(flags.FLAGS.data)["name"]
    return name if name in DATASETS else ""


def main(name):
    """Runs and reports the experiment of a name; lists the experiments if the name is None."""
    if flags.FLAGS.list:
        print(by_table())
        return
    if name is None:
        print(experiments(), "", "python -m experiments.run NAME --data=DIR runs one.", sep="\n")
        return
    experiment = catalogue.load(name)
    chosen = runner.select(experiment.RUNS, flags.FLAGS.only)
    corpus = corpus_folder()
    folder, failures = Path(flags.FLAGS.runs) / corpus / name, {}
    if not flags.FLAGS.report:
        if not flags.FLAGS.data:
            raise ValueError(
                "`data` must name a directory that `tfsoftmax prepare` made. Received: none"
            )
        failures = runner.run_all(
            chosen, folder, flags.FLAGS.data, others=folder.parent)
    results = Path(flags.FLAGS.results) / corpus / name
    outcomes = kept.outcomes(experiment.RUNS, folder, results / report.RESULTS)
    if any(outcome.config for _, outcome in outcomes) or not failures:
        panels = getattr(experiment, "PANELS", ())
        report.write(name, experiment.__doc__, outcomes, results, panels, corpus)
        print(f"{report.table(outcomes)}\n\n{results / 'README.md'}")
    if failures:
        sys.exit("error: " + "; ".join(f"{run}: {what}" for run, what in failures.items()))


if __name__ == "__main__":
    flags.DEFINE_string(
        "data", None, "Directory of the prepared corpus to train on; `tfsoftmax prepare` makes one."
    )
    flags.DEFINE_string(
        "corpus", None, "Folder of the corpus in RUNS and RESULTS. By default its name if it is a "
        "public one, else none. With --report, say which.")
    flags.DEFINE_string("runs", "runs", "Directory of the runs: each is in RUNS/NAME/RUN.")
    flags.DEFINE_string("results", "experiments/results",
                        "Directory of the reports: each is RESULTS/NAME/README.md.")
    flags.DEFINE_list("only", [], "Names of the runs to train, or patterns such as '*256'.")
    flags.DEFINE_bool("list", False, "List the experiments, and the papers' tables of each.")
    flags.DEFINE_bool("report", False, "Write the report without training anything.")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    __doc__ += "\n" + experiments()
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    if words:
        sys.argv.remove(words[0])
    program.run(lambda: main(words[0] if words else None), __doc__, sys.argv)
