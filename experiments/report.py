"""The report of an experiment: README.md with a table, and a plot if matplotlib is there."""

import os
import sys

from experiments.definition import MEASURES

PLOT = "perplexity.png"
HEADINGS = {
    "perplexity": "validation perplexity",
    "test_perplexity": "test perplexity",
    "words_per_second": "words/s",
    "peak_memory_gib": "peak GiB",
}
FORMATS = {
    "perplexity": ",.2f", "test_perplexity": ",.2f", "words_per_second": ",.0f",
    "peak_memory_gib": ".2f",
}
NOTE = """\
Perplexities are exact: every token of the split once, the state carried over; of validation the
best. Words/s and minutes are of training steps alone; peak memory is that of the whole process."""


def write(name, docstring, outcomes, folder):
    """Writes the report of an experiment.

    Args:
        name: of the experiment.
        docstring: of its module.
        outcomes: list of (`Run`, `Outcome`) in the order of the table.
        folder: `Path` to write into; made if missing.

    Returns:
        The text of README.md.

    Raises:
        ValueError: if no run was started; a report of nothing would replace an earlier one.
    """
    if all(outcome.config is None for _, outcome in outcomes):
        raise ValueError(
            f"`runs` must hold runs of {name}: {', '.join(run.name for run, _ in outcomes)}. "
            "Received: a directory without any"
        )
    folder.mkdir(parents=True, exist_ok=True)
    plot = f"![Validation perplexity against steps and training time]({PLOT})"
    parts = [
        f"# {name}", docstring.strip(), "## Results", facts(outcomes),
        table(outcomes), NOTE, plot if _plotted(name, outcomes, folder / PLOT) else "",
        f"Written by `python -m experiments.run {name} --report`.\n",
    ]
    text = "\n\n".join(part for part in parts if part)
    partial = folder / "README.md.partial"
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, folder / "README.md")
    return text


def table(outcomes):
    """A Markdown table, a row a run; the paper's values beside ours where it has any."""
    columns = []
    for measure in MEASURES:
        columns.append((HEADINGS[measure], measure, False))
        if any(measure in run.paper for run, _ in outcomes):
            columns.append(("paper", measure, True))
    words = ["run", "scale", "state"]
    lengths = ["steps", "epochs", "minutes"]
    lines = [
        words + lengths + [heading for heading, _, _ in columns],
        ["---"] * len(words) + ["---:"] * (len(lengths) + len(columns)),
    ]
    for run, outcome in outcomes:
        ours = outcome.measures()
        lines.append([
            run.name, run.scale, outcome.state, _cell(ours.get("step"), ",d"),
            _cell(ours.get("epoch"), ".2f"), _cell(ours.get("seconds"), ".1f", 60),
            *(_cell((run.paper if paper else ours).get(m), FORMATS[m]) for _, m, paper in columns),
        ])
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def facts(outcomes):
    """Corpus, hardware and versions: a line each if all runs share them, else a line a run."""
    started = [(run.name, o.config) for run, o in outcomes if o.config and not o.foreign]
    lines = []
    for heading, state in (
        ("Corpus", _corpus),
        ("Hardware", lambda config: config["hardware"]),
        ("Versions", lambda config: _listed(config["versions"])),
    ):
        stated = {name: state(config) for name, config in started}
        if len(set(stated.values())) == 1:
            lines.append(f"- {heading}: {next(iter(stated.values()))}")
        else:
            lines += [f"- {heading} of {name}: {text}" for name, text in stated.items()]
    return "\n".join(lines)


def _corpus(config):
    corpus = config["corpus"]
    splits = ", ".join(
        f"{split['tokens']:,} tokens in {name} ({split['oov'] / split['words']:.1%} OOV)"
        for name, split in corpus["splits"].items()
    )
    return (
        f"{corpus['name']}, vocabulary {corpus['vocab_size']:,}; {splits}; "
        f"{corpus['streams']} streams of {corpus['time_steps']} steps"
    )


def _listed(versions):
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _cell(value, form, divisor=1):
    return "–" if value is None else format(value if divisor == 1 else value / divisor, form)


def _plotted(name, outcomes, path):
    """Draws the plot; returns whether there is one."""
    curves = {run.name: outcome.curve() for run, outcome in outcomes}
    curves = {run: curve for run, curve in curves.items() if curve}
    try:
        from experiments import plot
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        print(
            "No plot was drawn, for matplotlib is not installed: pip install 'tfsoftmax[plot]'",
            file=sys.stderr,
        )
        return False
    if curves:
        plot.draw(name, curves, path)
    return bool(curves)
