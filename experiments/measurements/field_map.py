"""Writes what was measured into the map of the field, docs/map.md, and draws its picture.

    python -m experiments.measurements.field_map

The page has a line `<!-- measured: RUN ... -->` in the section of each method, with the names of
runs of the experiment `field`; the line after it is written here, and so is the table below
`<!-- table -->`. Perplexities are those after five epochs, or after as many as a run has, from
runs/field, and are kept in experiments/results/field/curves.json. Times are from
experiments/results/field/speed.
"""

import argparse
import json
import re
from pathlib import Path

import tfsoftmax_command  # noqa: F401  (imported before the package, which then skips TensorFlow)

from experiments.benchmarks import rows as of_rows
from experiments.framework import markdown, pictures
from experiments.framework.outcome import Outcome
from experiments.tables import field

ROOT = Path(__file__).parent.parent
RESULTS, PAGE, PICTURE = ROOT / "results" / "field", ROOT.parent / "docs" / "map.md", "map.png"
FULL, EPOCHS = "full", 5
MARK = re.compile(r"<!-- measured: ([\w. -]+) -->\n.*\n")
TABLE = re.compile(r"<!-- table -->\n.*?\n\n(?=[^|])", re.DOTALL)
FAMILIES = {
    "shortlist, classes and trees": (
        "shortlist", "class", "class-fastest", "class-brown", "class-unigram", "tree-huffman",
        "tree-brown", "tree-splits", "soul",
    ),
    "clusters of rare words, and learned ones": (
        "adaptive", "two-level", "differentiated", "self-organised",
    ),
    "sampling": (
        "sampled", "sampled-no-label", "nce", "nce-context", "nce-unigram25", "nce-bigram25",
        "negative", "blackout", "class-nce",
    ),
    "other": (
        "full-drawn", "self-normalised", "char-cnn-corrected", "spherical", "taylor",
    ),
}


def curves_of(runs):
    """{run: [[epoch, validation perplexity], ...]} of the runs of `field` that have begun."""
    found = {}
    for run in field.RUNS:
        outcome = Outcome.read(run, runs / run.name)
        if outcome.state in ("finished", "unfinished"):
            found[run.name] = [
                [round(e["epoch"]), round(e["perplexity"], 2)] for e in outcome.validations
            ]
    return {name: curve for name, curve in found.items() if curve}


def step_ratios(rows):
    """{run: median time of a training step over that of full softmax}."""
    ratios = {FULL: 1.0}
    for row in rows:
        if FULL in row["to_peers"]:
            ratios[row["case"]] = row["to_peers"][FULL]
    return ratios


def compared(name, curves):
    """The last epoch of a run up to `EPOCHS`, its perplexity, and the ratio to full softmax's."""
    epoch = min(EPOCHS, curves[name][-1][0])
    own, full = (dict(curves[each])[epoch] for each in (name, FULL))
    return epoch, own, own / full


def sentence(names, curves, ratios):
    """What was measured of the runs of one method."""
    told = []
    for name in names:
        if name not in curves:
            told.append(f"`{name}` has not been run")
            continue
        epoch, perplexity, ratio = compared(name, curves)
        text = f"`{name}` {perplexity:,.1f}" + f" after epoch {epoch}" * (epoch < EPOCHS)
        if name != FULL:
            text += f", {ratio:.2f} of full softmax's"
        if name in ratios and name != FULL:
            text += f", at {ratios[name]:.2f} of its time for a step"
        told.append(text)
    return f"*Measured: validation perplexity after {EPOCHS} epochs: {'; '.join(told)}.*"


def table(curves, ratios):
    """All runs, the best first."""
    rows = [["run", "epochs", "validation perplexity", "of full softmax's then",
             "time of a step, of full softmax's"]]
    for name in sorted(curves, key=lambda each: compared(each, curves)[2]):
        epoch, perplexity, ratio = compared(name, curves)
        time = f"{ratios[name]:.2f}" if name in ratios else "–"
        rows.append([name, str(epoch), f"{perplexity:,.1f}", f"{ratio:.2f}", time])
    return markdown.table(rows)


def written(page, curves, ratios):
    """The text of the page with what was measured."""
    def filled(found):
        mark = found[0].splitlines()[0]
        return f"{mark}\n{sentence(found[1].split(), curves, ratios)}\n"

    page = MARK.sub(filled, page)
    return TABLE.sub(lambda _: f"<!-- table -->\n{table(curves, ratios)}\n\n", page)


def draw(curves, ratios):
    """Perplexity by time, a panel for each family of methods."""
    figure = pictures.new(
        11, 8, "Perplexity by training time, by method",
        "a million words, V = 10,000, GRU of 256 units; the time of a run is its epochs times the "
        "time of a step",
    )
    panels = figure.subplots(2, 2, sharex=True, sharey=True).flat
    low = min(p for curve in curves.values() for _, p in curve)
    for axes, (title, names) in zip(panels, FAMILIES.items()):
        pictures.frame(axes, log_axes="")
        axes.set_xscale("log")
        for index, name in enumerate([FULL, *(n for n in names if n in curves and n in ratios)]):
            colour = pictures.GREY if name == FULL else pictures.COLOURS[(index - 1) % 7]
            x = [epoch * ratios[name] for epoch, _ in curves[name]]
            axes.plot(x, [p for _, p in curves[name]], "-" if index < 8 else "--", marker="o",
                      markersize=3, color=colour, label=name)
        axes.set_ylim(0.95 * low, 2.6 * low)
        axes.set_title(title, loc="left", fontsize=10)
        axes.legend(fontsize=8, frameon=False)
    for axes in figure.axes[2:]:
        axes.set_xlabel("training time, in epochs of full softmax")
    for axes in figure.axes[::2]:
        axes.set_ylabel("exact validation perplexity")
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", default="runs/field", type=Path, help="folder of the runs")
    options = parser.parse_args()
    curves = curves_of(options.runs)
    if FULL not in curves:
        parser.error(f"`runs` must hold the run {FULL}. Received: runs={options.runs}")
    markdown.write(RESULTS / "curves.json", json.dumps(curves))
    ratios = step_ratios(of_rows.read(RESULTS / "speed" / "rows.jsonl"))
    pictures.shown(lambda: draw(curves, ratios), PAGE.with_name(PICTURE), "")
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), curves, ratios), encoding="utf-8")


if __name__ == "__main__":
    main()
