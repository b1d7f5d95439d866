"""Writes what was measured into the map of the field, docs/map.md, and draws its picture.

    python -m experiments.measurements.field_map

The page has a line `<!-- measured: RUN ... -->` in the section of each method, with the names of
runs of the experiment `field`; the line after it is written here, and so is the table below
`<!-- table -->`. Perplexities are those after five epochs, or after as many as a run has, from
runs/field, and are kept in experiments/results/field/curves.json, which is read if there are no
runs. Times are from experiments/results/field/speed.
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
HIGHEST = 1.2  # of full softmax's perplexity: what is above it stands at the edge of the picture
MARK = re.compile(r"<!-- measured: ([\w. -]+) -->\n.*\n")
TABLE = re.compile(r"<!-- table -->\n.*?\n\n(?=[^|])", re.DOTALL)
FAMILIES = {
    "shortlist, classes and trees": (
        "shortlist", "class", "class-fastest", "class-brown", "class-unigram", "tree-huffman",
        "tree-brown", "tree-splits", "tree-alphabetical", "tree-random", "soul",
    ),
    "sampling": (
        "sampled", "sampled-no-label", "nce", "nce-context", "nce-unigram25", "nce-bigram25",
        "negative", "blackout", "class-nce",
    ),
    "clusters of words": ("adaptive", "two-level", "differentiated", "self-organised"),
    "other": ("full-drawn", "self-normalised", "char-cnn-corrected", "spherical", "taylor"),
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


def step_times(rows):
    """{run: the time of a step over that of full softmax, which took turns with it}."""
    return {FULL: 1.0} | {
        row["case"]: row["to_peers"][FULL] for row in rows if FULL in row["to_peers"]
    }


def compared(name, curves):
    """The last epoch of a run up to `EPOCHS`, its perplexity, and the ratio to full softmax's."""
    epoch = min(EPOCHS, curves[name][-1][0])
    own, full = (dict(curves[each])[epoch] for each in (name, FULL))
    return epoch, own, own / full


def sentence(names, curves, times):
    """What was measured of the runs of one method."""
    told = []
    for name in names:
        if name not in curves:
            told.append(f"`{name}` has not been run")
            continue
        epoch, perplexity, ratio = compared(name, curves)
        text = f"`{name}` {perplexity:,.1f}" + f" after epoch {epoch}" * (epoch < EPOCHS)
        if name != FULL:
            text += f", {ratio:.2f} × full softmax"
            text += f", step time {times[name]:.2f} ×" if name in times else ""
        told.append(text)
    return f"*Measured: validation perplexity after {EPOCHS} epochs: {'; '.join(told)}.*"


def table(curves, times):
    """All runs, the best first."""
    rows = [["run", "epochs", "validation perplexity", "relative perplexity", "relative step time"]]
    for name in sorted(curves, key=lambda each: compared(each, curves)[2]):
        epoch, perplexity, ratio = compared(name, curves)
        time = f"{times[name]:.2f}" if name in times else "–"
        rows.append([name, str(epoch), f"{perplexity:,.1f}", f"{ratio:.2f}", time])
    return markdown.table(rows)


def written(page, curves, times):
    """The text of the page with what was measured."""
    def filled(found):
        mark = found[0].splitlines()[0]
        return f"{mark}\n{sentence(found[1].split(), curves, times)}\n"

    page = MARK.sub(filled, page)
    return TABLE.sub(lambda _: f"<!-- table -->\n{table(curves, times)}\n\n", page)


def draw(curves):
    """Perplexities over that of full softmax, a panel for each family of methods."""
    figure = pictures.new(
        11, 7, f"Perplexity after {EPOCHS} epochs, full softmax = 1, lower is better",
        "a million words, V = 10,000, GRU of 256 units",
    )
    ratios = {name: compared(name, curves)[2] for name in curves}
    panels = figure.subplots(2, 2, sharex=True, height_ratios=(11, 5)).flat
    for axes, (title, names) in zip(panels, FAMILIES.items()):
        own = {name: [ratios[name]] for name in names if name in ratios}
        pictures.dots(axes, own, min(ratios.values()), HIGHEST, title, "{:.2f}")
        axes.axvline(1, color=pictures.GREY, linewidth=1)
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", default="runs/field", type=Path, help="folder of the runs")
    kept = RESULTS / "curves.json"
    curves = curves_of(parser.parse_args().runs)
    if FULL in curves:
        markdown.write(kept, json.dumps(curves))
    curves = json.loads(kept.read_text(encoding="utf-8"))
    times = step_times(of_rows.read(RESULTS / "speed" / "rows.jsonl"))
    pictures.shown(lambda: draw(curves), PAGE.with_name(PICTURE), "")
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), curves, times), encoding="utf-8")


if __name__ == "__main__":
    main()
