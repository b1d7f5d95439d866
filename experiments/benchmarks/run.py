"""What output layers cost: time, memory, and ratios to bare matmuls and to other libraries.

    python -m experiments.benchmarks.run all                    # the page of speed: make speed
    python -m experiments.benchmarks.run                        # every head, four vocabularies
    python -m experiments.benchmarks.run variants samples --vocab_sizes=44370
    python -m experiments.benchmarks.run heads --only='*Softmax' --data=data/novels
    python -m experiments.benchmarks.run speed --experiment=shen --data=data/million
    python -m experiments.benchmarks.run --report               # tables and plots, no measuring

The cases of a group take turns, each in a process of its own. When a group is done, its results are
added to RESULTS/rows.jsonl, and the same command goes on from there. README.md, results.csv and the
pictures are made from these rows. Without PyTorch or without a GPU, the cases that need them are
left out. While other processes take more than --others of the cores nothing is written: the command
waits a minute for a quiet machine, measures a disturbed group once more, and then gives up.

`all` measures what `make speed` shows on one page. The suite `speed` times whole training steps of
the runs of an experiment, which take turns. Its report goes to experiments/results/NAME/speed.

Suites:
"""

import fnmatch
import importlib.util
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import tfsoftmax_command  # noqa: F401  (imported before the package, which then skips TensorFlow)
from absl import flags

from experiments.benchmarks import quiet
from experiments.benchmarks import rows as of_rows
from experiments.benchmarks.cases import WHOLE, Case
from experiments.benchmarks.measure import measure_group
from experiments.benchmarks.problem import Problem
from experiments.benchmarks.suites import ONE_RUN, SUITES
from tfsoftmax.commands import program

RESULTS = Path("experiments/results")
__doc__ += "\n".join(f"  {name:<12} {cases.__doc__}" for name, (cases, _) in SUITES.items())


def main(words):
    """Measures the suites of these names and writes their report."""
    options = flags.FLAGS
    if "speed" in words:
        folder = RESULTS / (options.experiment or "") / "speed"
        work = [] if options.report else speed(options)
    else:
        folder = RESULTS / "benchmarks"
        work = [] if options.report else planned(words or ["heads"], options)
    folder = Path(options.results) if options.results else folder
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "rows.jsonl"
    if work and not options.report:
        program.load_tensorflow()
        from tfsoftmax.support.hardware import hardware

        measure(with_means(work), path, hardware(), options)
    rows = of_rows.read(path)
    if not rows:
        sys.exit(f"error: nothing was measured; no rows in {path}")
    from experiments.benchmarks import report

    report.write(folder, rows)
    print(folder / "README.md")


def planned(suites, options):
    """The groups of cases to measure: [(suite, problem, cases)]."""
    if suites == ["all"]:
        suites = ONE_RUN
    result = []
    for suite in suites:
        if suite not in SUITES:
            raise ValueError(f"SUITE must be one of {', '.join(SUITES)}. Received: {suite!r}")
        cases_of, sizes = SUITES[suite]
        if options.vocab_sizes and sizes != (0,):
            sizes = tuple(int(v) for v in options.vocab_sizes)
        if options.data and sizes != (0,):
            if options.vocab_sizes:
                raise ValueError(
                    "`vocab_sizes` must be left out with `data`, whose size it is. "
                    f"Received: vocab_sizes={','.join(options.vocab_sizes)}"
                )
            sizes = (corpus_of(options.data)[0],)
        for size in sizes:
            problem = Problem(size, options.units, options.streams, options.steps, options.data)
            groups = {}
            for case in cases_of(size):
                if size <= case.up_to and chosen(case.name, options.only):
                    groups.setdefault(case.group, []).append(case)
            result += [(suite, problem, cases) for cases in groups.values()]
    return result


def speed(options):
    """The runs of an experiment, of each with several seeds the first, as one group of steps."""
    from experiments.framework import catalogue, runner

    if not (options.experiment and options.data):
        raise ValueError(
            "`experiment` and `data` must both be given for speed. "
            f"Received: experiment={options.experiment!r}, data={options.data!r}"
        )
    runs = runner.select(catalogue.load(options.experiment).RUNS, options.only)
    of_one_seed = {}
    for run in runs:
        of_one_seed.setdefault(re.sub(r"-seed\d+$", "", run.name), run)
    runs = list(of_one_seed.values())
    corpus = runs[0].task.corpus.load(options.data)
    problem = Problem(len(corpus.vocabulary), runs[0].configs()[0].hidden_units,
                      corpus.batch_size, round(corpus.positions / corpus.batch_size), options.data)
    first = runs[0].name
    cases = [
        Case(run.name, "training", run.name, {"experiment": options.experiment}, "speed",
             (first,) if run.name != first else (), measures=(WHOLE,)) for run in runs
    ]
    return [("speed", problem, cases)]


def commit_of(folder):
    """The commit of what is measured, "with changes" if its files differ, or "no commit"."""
    def git(*words):
        done = subprocess.run(["git", *words], capture_output=True, text=True, check=True,
                              cwd=folder)
        return done.stdout.strip()

    try:
        commit = git("rev-parse", "--short=8", "HEAD")
        changed = git("status", "--porcelain", "--", "tfsoftmax", "experiments/benchmarks")
    except (OSError, subprocess.CalledProcessError):
        return "no commit"
    return f"{commit} with changes" if changed else commit


def corpus_of(data):
    """V and the name of a prepared corpus."""
    from tfsoftmax.corpora.manifest import read_manifest

    manifest = read_manifest(data)
    return manifest["vocabulary"]["size"], manifest["name"]


def chosen(name, patterns):
    """Whether a name matches one of the patterns, or there are none."""
    return not patterns or any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def measure(work, path, hardware, options):
    """Measures the groups that have no rows yet and appends their rows to the file."""
    labels = corpus_of(options.data)[1] if options.data else "zipf"
    known = {of_rows.key_of(row) for row in of_rows.read(path)}
    begin, commit = time.monotonic(), commit_of(".")
    for number, (suite, problem, cases) in enumerate(work, 1):
        cases = missing(cases, suite, problem, labels, hardware, known)
        where = f"[{number}/{len(work)}, {(time.monotonic() - begin) / 60:.1f} min] {suite}"
        print(f"{where}, V = {problem.vocab_size:,}: {', '.join(c.name for c in cases) or 'done'}",
              flush=True)
        if not cases:
            continue
        load = os.getloadavg()[0]
        results, others = undisturbed(
            lambda cases=cases, problem=problem: measure_group(cases, problem, options.seconds),
            options.others,
        )
        rows = of_rows.rows_of(suite, problem, labels, results, hardware, load, others)
        for row in rows:
            row["versions"] = {**row["versions"], "tfsoftmax": commit}
        of_rows.append(path, rows)
        for row in rows:
            print("  " + of_rows.line(row), flush=True)


def undisturbed(measurement, most, say=print):
    """What a measurement returns, and the share of the cores that others took meanwhile.

    Args:
        measurement: function () -> results, whose processes have ended when it returns.
        most: the largest share of the cores that others may take.
        say: function of a str that reports progress.

    Raises:
        SystemExit: others took more before, or during two measurements.
    """
    for _ in range(2):
        share = quiet.wait(most, say)
        if share > most:
            break
        others = quiet.Others()
        results = measurement()
        share = others.share()
        if share <= most:
            return results, share
        say(f"  Measured again: other processes took {share:.0%} of the cores.")
    sys.exit(f"error: other processes took {share:.0%} of the cores, more than --others={most:g}. "
             "What was measured before is kept; run the same command on a quiet machine.")


def with_means(work):
    """The groups of `work` without the cases for which a library or a device is missing."""
    import tensorflow as tf

    means = {"torch": importlib.util.find_spec("torch") is not None,
             "cudnn": bool(tf.config.list_physical_devices("GPU"))}
    for name, found in means.items():
        if not found:
            print(f"Cases of {name} are left out because it is not available here.")
    return [
        (suite, problem, [c for c in cases if means.get(c.kind, True) and means.get(c.head, True)])
        for suite, problem, cases in work
    ]


def missing(cases, suite, problem, labels, hardware, known):
    """The cases of a group that have no row yet, and the peers that their ratios need."""
    def has_row(case):
        row = {
            "suite": suite, "case": case.name, "measure": case.measures[0],
            "V": problem.vocab_size, "D": problem.units, "N": problem.positions,
            "labels": labels, "precision": case.precision, "jit": case.jit, "hardware": hardware,
        }
        return of_rows.key_of(row) in known

    names, more = set(), {case.name for case in cases if not has_row(case)}
    while more - names:  # ratios need all peers of a case, and a new peer makes new ratios
        names |= more
        owners = [c for c in cases if c.name in names or set(c.peers) & names]
        more = {name for c in owners for name in (c.name, *c.peers)}
    return [case for case in cases if case.name in names]


if __name__ == "__main__":
    flags.DEFINE_list("vocab_sizes", [], "Sizes V of the vocabulary; each suite has its own.")
    flags.DEFINE_list("only", [], "Names of cases to measure, or patterns such as '*Softmax'.")
    flags.DEFINE_integer("units", 512, "Units D of the hidden state.")
    flags.DEFINE_integer("streams", 128, "Streams B of a batch.")
    flags.DEFINE_integer("steps", 20, "Time steps T of a batch, which has N = B T positions.")
    flags.DEFINE_float("seconds", 2.0,
                       "Seconds to spend on each measure of a case; three samples are the least.")
    flags.DEFINE_float("others", quiet.MOST_SHARE, "Largest share of the cores that other "
                       "processes may take while a group is measured; 1 for any.")
    flags.DEFINE_string("data", "", "Directory of a prepared corpus that gives labels and counts; "
                        "without one, they follow Zipf's law.")
    flags.DEFINE_string("experiment", "", "Name of the experiment that `speed` measures.")
    flags.DEFINE_string("results", "", "Directory of the report, other than the usual one.")
    flags.DEFINE_bool("report", False, "Write the report without measuring anything.")
    names = [word for word in sys.argv[1:] if not word.startswith("-")]
    sys.argv = [word for word in sys.argv if word.startswith("-") or word == sys.argv[0]]
    program.run(lambda: main(names), __doc__, sys.argv)
