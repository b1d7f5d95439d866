"""Perplexity against steps and against training time, a line a run, as one PNG."""

import itertools
import math

from matplotlib import ticker
from matplotlib.figure import Figure

# Okabe and Ito's colours that a colour-blind reader can tell apart; the marks differ as well.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", ":")


def draw(title, curves, path):
    """Draws validation perplexity, logarithmic, against steps and against training time.

    Args:
        title: of the figure.
        curves: {run: list of (steps, seconds, perplexity)}.
        path: of the PNG.
    """
    figure = Figure(figsize=(10, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    longest = max(seconds for curve in curves.values() for _, seconds, _ in curve)
    unit_seconds, unit = next(
        unit for unit in ((3600, "hours"), (60, "minutes"), (1, "seconds"))
        if longest >= 2 * unit[0] or unit[0] == 1
    )
    styles = itertools.product(LINES, zip(COLOURS, MARKS))
    for (run, curve), (line, (colour, mark)) in zip(curves.items(), itertools.cycle(styles)):
        steps, seconds, perplexities = zip(*curve)
        style = {
            "color": colour, "linestyle": line, "marker": mark, "markersize": 5,
            "markevery": math.ceil(len(curve) / 20), "label": run,
        }
        left.plot(steps, perplexities, **style)
        right.plot([s / unit_seconds for s in seconds], perplexities, **style)
    left.set_ylabel("exact validation perplexity")
    left.set_xlabel("training steps")
    right.set_xlabel(f"training time, {unit}")
    left.xaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))
    for axes in (left, right):
        _finish(axes)
    right.legend(frameon=False)
    figure.suptitle(title)
    figure.savefig(path, dpi=120)


def _finish(axes):
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    numbered = (1, 1.5, 2, 3, 4, 5, 7) if high < 10 * low else (1, 2, 5)
    axes.yaxis.set_major_locator(ticker.LogLocator(subs=numbered))
    axes.yaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    axes.set_xlim(left=0)
    axes.grid(True, which="major", color="0.88", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
