"""What all pictures of results share: colours, a frame, labels at bars and lines, and Markdown."""

import itertools
import math
import statistics
import sys
import textwrap

# The colours of Okabe and Ito, which colour-blind readers can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
GREY = "0.6"
DOTS_PER_INCH = 110
WIDEST = 27  # characters of a name beside a line
LEAST_SPAN = 0.04  # of an axis, as a share of the perplexity: less than 1 % is noise
TICKS = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8), (1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1,)
LARGEST_RATIOS = 4, 12, 3000, math.inf  # of an axis with these ticks in each decade


def shown(draw, path, caption):
    """Draws a picture and returns the Markdown that shows it above its caption.

    Args:
        draw: function () that returns a matplotlib figure.
        path: `Path` of the PNG.
        caption: sentences that say what is seen; the first is also the text for those who cannot
            see the picture.

    Returns:
        Markdown; empty if matplotlib is not installed, which is then said on standard error.
    """
    try:
        import matplotlib.figure  # noqa: F401
    except ModuleNotFoundError:
        print(
            f"{path.name} was not drawn because matplotlib is not installed: "
            "pip install matplotlib", file=sys.stderr,
        )
        return ""
    path.parent.mkdir(parents=True, exist_ok=True)
    draw().savefig(path, dpi=DOTS_PER_INCH)
    return shows(path, caption)


def shows(path, caption):
    """Markdown that shows a picture beside the page, above its caption."""
    return f"![{caption.partition('. ')[0].rstrip('.')}.]({path.name})\n\n{caption}"


def new(width, height, title, note=""):
    """An empty figure.

    Args:
        width, height: inches.
        title: what the picture shows.
        note: hardware and scale, in small print at the bottom.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    if note:
        figure.supxlabel(note, x=0.01, ha="left", fontsize=8, color="0.35")
    return figure


def bars(axes, names, values, texts, colours, title):
    """Draws horizontal bars from the top, each with a text at its end instead of an axis."""
    drawn = axes.barh(names, values, color=colours, height=0.7)
    axes.bar_label(drawn, texts, padding=4, fontsize=9)
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlim(0, 1.2 * max(values, default=1))
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.xaxis.set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "bottom"]].set_visible(False)


def dots(axes, results, low, high, title, form="{:,.1f}"):
    """Draws a row for each name, the lowest mean on top, with a dot for each of its values.

    Args:
        axes: to draw on.
        results: {name: list of values}.
        low, high: what the axis shows; a mean above it stands at the edge.
        title: what stands above the axes.
        form: format of the means, which stand beside the dots.
    """
    means = {name: statistics.mean(values) for name, values in results.items()}
    names, span = sorted(means, key=means.get), max(high - low, LEAST_SPAN * high)
    edge = low + span * (1.3 if max(means.values()) > high else 1)
    axes.set(xlim=(low - 0.1 * span, edge + 0.2 * span), ylim=(len(names) - 0.5, -0.5))
    axes.set_yticks(range(len(names)), names)
    frame(axes, title=title)
    for row, name in enumerate(names):
        beyond = means[name] > high
        places, text = [edge] if beyond else results[name], form.format(means[name])
        axes.plot(places, [row] * len(places), ">" if beyond else "o", markersize=7, alpha=0.7,
                  color=COLOURS[1 if beyond else 0])
        axes.annotate(text + ", off the axis" * beyond, (max(places), row),
                      (-8 if beyond else 8, 0), textcoords="offset points", fontsize=9, va="center",
                      ha="right" if beyond else "left")


def frame(axes, log_axes="", title="", legend=False):
    """Gives axes a grid, no box, and on logarithmic axes at least three ticks with numbers.

    Args:
        axes: on which all has been drawn.
        log_axes: "x", "y" or "xy".
        title: what stands above them, on the left.
        legend: whether they get one; or its options.
    """
    from matplotlib import ticker

    for name in log_axes:
        axis = {"x": axes.xaxis, "y": axes.yaxis}[name]
        axes.set(**{f"{name}scale": "log"})
        low, high = axis.get_view_interval()
        subs = next(t for t, most in zip(TICKS, LARGEST_RATIOS) if high <= most * low)
        axis.set_major_locator(ticker.LogLocator(subs=subs, numticks=50))
        axis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))
        axis.set_minor_locator(ticker.NullLocator())
    axes.grid(True, color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, loc="left", fontsize=10)
    if legend:
        axes.legend(fontsize=9, frameon=False, **({} if legend is True else legend))


def label_ends(axes, ends, gap=0.065):
    """Writes names right of the axes, in two lines if they are long, and none over another.

    Args:
        axes: with a logarithmic y axis, whose limits are final.
        ends: list of (y of the last point, name, colour).
        gap: least distance of two names, as a share of the height of the axes.
    """
    low, high = map(math.log, axes.get_ylim())
    ends = [(y, textwrap.fill(name, WIDEST), colour) for y, name, colour in sorted(ends)]
    heights = [gap * (1 + name.count("\n")) for _, name, _ in ends]
    gaps = [(a + b) / 2 for a, b in itertools.pairwise(heights)]
    places = [(math.log(y) - low) / (high - low) for y, _, _ in ends]
    for i, least in enumerate(gaps):
        places[i + 1] = max(places[i + 1], places[i] + least)
    for i, (place, (_, name, colour)) in enumerate(zip(places, ends)):
        axes.text(1.02, min(place, 1 - sum(gaps[i:])), name, color=colour, fontsize=9,
                  va="center", transform=axes.transAxes)
