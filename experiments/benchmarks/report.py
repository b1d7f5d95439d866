"""The page of the benchmarks, its pictures and results.csv, made from the rows alone."""

import textwrap

from experiments.benchmarks import plots, tables
from experiments.benchmarks import rows as of_rows
from experiments.benchmarks.cases import GRADIENTS, STEP
from experiments.benchmarks.problem import Problem
from experiments.benchmarks.suites import ONE_RUN, SUITES
from experiments.benchmarks.tables import BESIDE
from experiments.framework import markdown

LEGEND = (  # a function of a row, and what a page says if it is true of one of the page's rows
    (lambda row: True, """What is measured, and how, is said in experiments/benchmarks/README.md.
        Every number is in results.csv. Times are medians of samples for which the cases of a group
        took turns, with the quartiles in brackets."""),
    (lambda row: row["to_floor"], """The floor is the matrix products that a head cannot do without,
        in its own sizes; it is measured in the same process, in turn with the head."""),
    (lambda row: row.get("moves_ms"), """*Floor and moves* adds, for hierarchical heads, the time to
        gather the rows that a step changes and to update them by TensorFlow's Adagrad."""),
    (lambda row: row["measure"] in (GRADIENTS, STEP), """*Gradients* is the loss and all gradients;
        *step* adds the update by Adagrad: ours for our heads, and each library's own for the
        others."""),
    (lambda row: row.get("others") is not None, """*Others* is what other processes took of the
        cores."""),
    (lambda row: row["peak_mib"] is not None, """MiB is what a run needs at its peak besides
        weights, slots and batch, gradients included, in a process of its own."""),
    (lambda row: row["words_per_second"] and row["suite"] not in BESIDE, """Words/s is N over the
        median time of the output layer alone, or of the whole step where the table says so."""),
    (lambda row: row["suite"] == "heads", """*Of FullSoftmax* is the ratio of the steps of two
        groups, which did not take turns."""),
    (lambda row: row["suite"] in BESIDE, """A *ratio* is the library's time divided by that in the
        column before it."""),
)
TITLES = {
    "models": "Whole training steps against Dense and PyTorch",
    "heads": "Every head by vocabulary",
    "variants": "Precision, XLA and other forms",
    "accumulators": "Adagrad by weight and by row",
    "shortlists": "Shortlists and cutoffs (figure 5.1)",
    "projections": "Projection factor (figure 5.3)",
    "samples": "Number of samples (figure 5.11)",
    "uses": "Likeliest words, texts and commands",
    "evaluation": "Evaluation and generation with adaptive softmax",
    "recurrent": "Recurrent layers by backend (table 5.4)",
    "parts": "Whole training steps against the sum of their parts",
    "poster": "Forward and total time, and modules by cell (Jiang et al. 2017)",
    "budgets": "Constants of tfsoftmax.support.budgets",
    "scoring": "Sentences and n-best lists scored",
    "logits": "Logits of adaptive softmax",
    "padding": "Padded positions",
    "excluding": "Excluded words",
    "serving": "The likeliest words in other runtimes",
    "hub": "Fine-tuning a model of keras_hub",
    "speed": "Training speed of an experiment's runs",
}
SHARED = ("hardware", "D", "N", "labels")


def write(folder, rows):
    """Writes the report of all rows into the `Path` of their directory; returns the page's text."""
    of_rows.write_csv(folder / "results.csv", rows)
    said = " ".join(" ".join(text.split()) for holds, text in LEGEND if any(map(holds, rows)))
    blocks = [f"# {page_title(folder, rows)}", f"    {command(folder, rows)}",
              textwrap.fill(said, 100, break_on_hyphens=False)]
    by_run = {}
    for row in rows:
        by_run.setdefault(tuple(row[name] for name in SHARED), []).append(row)
    for number, subset in enumerate(by_run.values()):
        blocks.append(f"## {facts(subset)}")
        for suite, title in TITLES.items():
            own = [row for row in subset if row["suite"] == suite]
            if own:
                floors = tables.to_floors(own) if suite == "heads" else ""
                drawn = plots.shown(suite, own, folder, f"_{number}" if number else "")
                blocks += [f"### {title}", floors, tables.table(suite, own), drawn]
    return markdown.write(folder / "README.md", *blocks)


def page_title(folder, rows):
    """What the page is called, by the `Path` of its directory and by its suites."""
    if folder.name == "speed":
        return f"Training speed of the runs of {folder.parent.name}"
    if folder.name == "benchmarks":
        return "Speed and memory of output layers and models"
    measured = {row["suite"] for row in rows}
    return ". ".join(title for suite, title in TITLES.items() if suite in measured)


def command(folder, rows):
    """The command that measures these rows anew; DIR stands for a prepared corpus."""
    measured = {row["suite"] for row in rows}
    words = [suite for suite in SUITES if suite in measured] + ["speed"] * ("speed" in measured)
    words = ["all"] if words == list(ONE_RUN) else words
    if folder.name == "speed":
        words += [f"--experiment={folder.parent.name}", "--data=DIR"]
        return " ".join(["python -m experiments.benchmarks.run", *words])
    steps = rows[0].get("T", Problem.steps)  # rows of before it was a column have the usual one
    sizes = {"units": rows[0]["D"], "streams": rows[0]["N"] // steps, "steps": steps}
    words += [f"--{name}={size}" for name, size in sizes.items() if size != getattr(Problem, name)]
    if folder.name != "benchmarks":
        words.append(f"--results={folder}")
    return " ".join(["python -m experiments.benchmarks.run", *words])


def facts(rows):
    """What the rows share, in one line."""
    first = rows[0]
    loads = [row["load_average"] for row in rows]
    others = [row["others"] for row in rows if row.get("others") is not None]
    busy = f"load average {min(loads):.1f} to {max(loads):.1f}"
    if len(others) == len(rows):
        busy = f"others at most {max(others):.1%} of the cores"
    versions = {}  # {package: versions as keys, in the order of the rows}
    for row in rows:
        for name, version in row["versions"].items():
            versions.setdefault(name, {})[version] = True
    dates = sorted(row["time"][:10] for row in rows)
    listed = ", ".join(f"{name} {' or '.join(of_name)}" for name, of_name in versions.items())
    return (
        f"{first['hardware']}; D = {first['D']}, N = {first['N']:,}, labels {first['labels']}; "
        f"{busy}; {listed}; {dates[-1]}"
    )
