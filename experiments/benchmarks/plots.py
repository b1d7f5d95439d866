"""The pictures of the suites."""

import pathlib
import re
import statistics

from experiments.benchmarks.cases import (
    GRADIENTS,
    KERAS,
    KERAS_MODEL,
    MIDDLE_SIZES,
    PEERS,
    STEP,
)
from experiments.benchmarks.head_suites import heads
from experiments.framework import pictures, seeds

# Panels of the pictures by vocabulary, with the groups of cases that each of them shows.
FAMILIES = {
    "Full softmax": ("full", "characters", "self-normalised", "sharded", "spherical"),
    "Shortlists and tails": ("bands", "two-level"),
    "Sampled softmax": ("sampled",),
    "NCE and its relatives": ("nce", "other samplers"),
    "Binary trees": ("trees",),
    "Classes and clusters": ("classes", "self-organised"),
}
HEADLINE = {  # cases of the picture for newcomers, with their names there
    KERAS: "Keras: Dense and cross-entropy", "FullSoftmax": "FullSoftmax",
    "SelfNormalisedSoftmax": "SelfNormalisedSoftmax", "AdaptiveSoftmax": "AdaptiveSoftmax",
    "SampledSoftmax": "SampledSoftmax", "TreeSoftmax (p-tHSM)": "TreeSoftmax",
}
BY_NUMBER = {  # suite: measure, title, label of the numbers, rest of the caption
    "projections": (
        GRADIENTS, "Training speed of adaptive softmax by projection factor", "projection factor",
        "(figure 5.3). The larger the factor, the fewer units the tails have. Loss and gradients.",
    ),
    "samples": (
        STEP, "Training speed of sampling heads by number of samples", "samples of a batch",
        "(figure 5.11, left). Loss, gradients and Adagrad's update.",
    ),
}
REACHED = {  # name in the picture: case, and the runs whose perplexity over full softmax's it has
    "Dense": (KERAS_MODEL, None),
    "FullSoftmax": ("FullSoftmax", None),
    "AdaptiveSoftmax": ("AdaptiveSoftmax", "methods", "adaptive-dropout0.4", "full-dropout0.4"),
    "SampledSoftmax": ("SampledSoftmax", "methods", "sampled-dropout0.4", "full-dropout0.4"),
    "TreeSoftmax, Brown": ("TreeSoftmax", "jiang", "tree-brown", "full"),
    "ClassSoftmax": ("ClassSoftmax", "jiang", "class", "full"),
}
SPEED = "words/s of the output layer"
PANELS = (
    "Each panel shows one family of heads, with the other families in grey; dashed lines are other "
    "libraries. A line ends where time or memory ran out. Both axes are logarithmic."
)


def shown(suite, rows, folder, suffix=""):
    """Draws the pictures of a suite.

    Args:
        suite: name of the suite.
        rows: list of its rows, all of the same hardware and sizes but for V.
        folder: `Path` of the directory for the PNG files.
        suffix: what the names of the files end in.

    Returns:
        Markdown that shows the pictures.
    """
    makers = {"heads": _heads, "models": _reached, "shortlists": _shortlists,
              **dict.fromkeys(BY_NUMBER, _by_number)}
    if suite not in makers:
        return ""
    blocks = [
        pictures.shown(draw, folder / f"{name}{suffix}.png", f"{caption} ({note(rows)}.)")
        for name, caption, draw in makers[suite](rows)
    ]
    return "\n\n".join(filter(None, blocks))


def note(rows):
    """Hardware and sizes of the measurements."""
    first = rows[0]
    return f"D = {first['D']} units, N = {first['N']:,} positions, {first['hardware']}"


def _heads(rows):
    sizes = {row["V"] for row in rows if row["case"] == KERAS} or {row["V"] for row in rows}
    size = min(sizes, key=lambda v: abs(v - MIDDLE_SIZES[-1]))
    steps = {row["case"]: row for row in rows if row["V"] == size and row["measure"] == STEP}
    if HEADLINE.keys() & steps.keys():
        yield "heads", (
            f"Time and memory of a training step of the output layer with {size:,} words. Memory "
            "is what the step needs at its peak besides weights, slots and batch."
        ), lambda: _headline([steps[case] for case in HEADLINE if case in steps])
    yield "speed_by_vocabulary", (
        "Training speed of the output layer by size of the vocabulary, with loss, gradients and "
        f"Adagrad's update. {PANELS} (Müller 2017, figure 5.15; Jiang et al. 2017, scalability.)"
    ), lambda: _panels(rows, "words_per_second", SPEED, "Training speed by size of the vocabulary")
    yield "memory_by_vocabulary", (
        "Memory that a training step of the output layer needs at its peak besides weights, slots "
        f"and batch, by size of the vocabulary. {PANELS} (Figure 5.14 by measurement; the "
        "parameters of figure 5.13 are in the table.)"
    ), lambda: _panels(rows, "peak_mib", "MiB at the peak",
                       "Memory of a training step by size of the vocabulary")


def _headline(rows):
    """Time and memory of the heads that newcomers choose from."""
    title = f"What a training step of the output layer costs with {rows[0]['V']:,} words"
    figure = pictures.new(8.2, 1.1 + 0.36 * len(rows), title,
                          f"Loss, all gradients and Adagrad's update, float32; {note(rows)}")
    names = [HEADLINE[row["case"]] for row in rows]
    colours = [pictures.GREY if row["case"] in PEERS else pictures.COLOURS[0] for row in rows]
    for axes, column, title in zip(
        figure.subplots(1, 2, sharey=True), ("median_ms", "peak_mib"),
        ("time, ms", "memory besides the weights, MiB"),
    ):
        values = [row[column] or 0 for row in rows]
        pictures.bars(axes, names, values, [f"{v:,.0f}" for v in values], colours, title)
    return figure


def _reached(rows):
    """How many times as fast a whole step is, against the perplexity at convergence."""
    rows = [row for row in rows if row["V"] == max(row["V"] for row in rows)]
    by = {row["case"].removeprefix("LSTM and "): row["median_ms"] for row in rows}
    if "FullSoftmax" not in by:
        return
    full = by["FullSoftmax"]
    points = {name: (full / by[case], perplexity_to_full(*of_runs))
              for name, (case, *of_runs) in REACHED.items() if case in by}

    def draw():
        figure = pictures.new(
            8, 4.2, f"How fast a language model trains with {rows[0]['V']:,} words, and how well",
            f"Speed: whole steps of an LSTM, {note(rows)}\nPerplexity: at convergence on a million "
            "words, V = 10,000, means of three seeds, from experiments/results/methods and jiang",
        )
        axes = figure.subplots()
        for name, (speed, ratio) in points.items():
            colour = pictures.GREY if name == "Dense" else pictures.COLOURS[0]
            axes.plot(speed, ratio, "o", color=colour, markersize=9)
            axes.annotate(f"{name}, {speed:,.1f}×", (speed, ratio), fontsize=10, ha="center",
                          xytext=(0, -20 if name == "Dense" else 9), textcoords="offset points")
        pictures.frame(axes, "x")
        axes.set_xticks([1, 2, 5, 10, 20, 50])
        axes.margins(0.2, 0.25)
        axes.set(xlabel="times as fast as full softmax, whole training step",
                 ylabel="perplexity, full softmax = 1")
        return figure

    yield "reached", (
        "Speed of a whole training step against the perplexity at convergence, both relative to "
        "full softmax; right is faster, down is better. Each perplexity is the mean of three seeds "
        "over that of full softmax in the same experiment, with 10,000 words, not 200,606. The "
        "time of `TreeSoftmax` is that of a Huffman tree, and its perplexity that of a Brown tree"
    ), draw


def perplexity_to_full(experiment, run=None, full=None):
    """The mean validation perplexity of a run's seeds over that of full softmax; 1 without one."""
    if run is None:
        return 1.0
    results = pathlib.Path(__file__).parents[1] / "results"
    found = seeds.perplexities(seeds.kept(results / experiment / "results.json"))
    return statistics.mean(found[run]) / statistics.mean(found[full])


def _panels(rows, column, unit, title):
    """A panel for each family of heads, in which the lines of the other families are grey."""
    curves = {}
    for row in rows:
        if row["measure"] == STEP and row[column]:
            curves.setdefault(row["case"], []).append((row["V"], row[column]))
    groups = {case.name: case.group for case in heads(MIDDLE_SIZES[0])}
    figure = pictures.new(12, 10, title, note(rows))
    panels, ends = figure.subplots(3, 2, sharex=True, sharey=True), []
    for axes, members in zip(panels.flat, FAMILIES.values()):
        own = [name for name in groups if groups[name] in members and name in curves]
        own.sort(key=lambda name: name in PEERS)
        for name in (n for n in curves if n not in own):
            axes.plot(*zip(*sorted(curves[name])), color="0.87", linewidth=1)
        ends.append([
            _line(axes, name, curves[name], colour, "--" if name in PEERS else "-")
            for name, colour in zip(own, pictures.COLOURS)
        ])
    for axes, of_axes, family in zip(panels.flat, ends, FAMILIES):
        _finish(axes, of_axes, sorted({row["V"] for row in rows}))
        axes.set_title(family, loc="left", fontsize=10, fontweight="bold")
    for axes in panels[-1]:
        axes.set_xlabel("V, words in the vocabulary")
    for axes in panels[:, 0]:
        axes.set_ylabel(unit)
    return figure


def _shortlists(rows):
    def draw():
        figure = pictures.new(12, 4.8, "Which cutoffs make adaptive softmax fast", note(rows))
        left, right = figure.subplots(1, 2)
        colours = dict(zip(sorted({row["V"] for row in rows}), pictures.COLOURS))
        _one_tail(left, [row for row in rows if row["case"].startswith("shortlist")], colours)
        _tails(right, [row for row in rows if row["case"].startswith("cheapest")], colours)
        return figure

    yield "shortlists", (
        "Training speed of adaptive softmax by size of the shortlist, and by number of tails with "
        "the cutoffs that are cheapest by the cost model (figure 5.1). Loss and gradients."
    ), draw


def _one_tail(axes, rows, colours):
    ends, sizes = [], [row["facts"]["cutoffs"][0] for row in rows]
    for vocab_size, colour in colours.items():
        own = [(row["facts"]["cutoffs"][0], row) for row in rows if row["V"] == vocab_size]
        measured = [(words, row["words_per_second"]) for words, row in own]
        expected = [(words, 1000 * row["N"] / row["facts"]["expected_ms"]) for words, row in own]
        ends.append(_line(axes, f"V = {vocab_size:,}", measured, colour))
        _line(axes, "", expected, colour, ":")
        words, speed = max(measured, key=lambda point: point[1])
        axes.annotate(f"fastest: {words:,} words", (words, speed), (0, 9), ha="center",
                      textcoords="offset points", fontsize=9, color=colour)
    axes.margins(y=0.12)
    _finish(axes, ends, sorted(set(sizes)),
            title="One tail of D / 4 units; dotted: expected by the cost model")
    axes.set(xlabel="words in the shortlist", ylabel=SPEED)


def _tails(axes, rows, colours):
    curves = {}
    for row in rows:
        units = row["case"].rpartition(", ")[2]
        point = len(row["facts"]["cutoffs"]), row["words_per_second"]
        curves.setdefault((row["V"], units), []).append(point)
    ends = [
        _line(axes, f"V = {vocab_size:,}, {units}", points, colours[vocab_size],
              "--" if units == "D units" else "-")
        for (vocab_size, units), points in curves.items()
    ]
    _finish(axes, ends, sorted({x for points in curves.values() for x, _ in points}), "y",
            "The cheapest cutoffs, tail k of D / 4^k or of D units")
    axes.set_xlabel("number of tails")


def _by_number(rows):
    """One line for each V, and for each name if the cases have names, of speeds by number."""
    measure, title, label, caption = BY_NUMBER[rows[0]["suite"]]

    def draw():
        curves = {}
        for row in rows:
            name, number = re.match(r"(?:(.+?), )?\D*([\d,]+)", row["case"]).groups()
            if row["measure"] == measure:
                curves.setdefault(", ".join(filter(None, (name, f"V = {row['V']:,}"))), []).append(
                    (int(number.replace(",", "")), row["words_per_second"])
                )
        figure = pictures.new(8, 4.5, title, note(rows))
        axes = figure.subplots()
        ends = [_line(axes, name, points, colour)
                for (name, points), colour in zip(curves.items(), pictures.COLOURS)]
        _finish(axes, ends, sorted({x for points in curves.values() for x, _ in points}))
        axes.set(xlabel=label, ylabel=SPEED)
        return figure

    yield rows[0]["suite"], f"{title} {caption}", draw


def _line(axes, name, points, colour, style="-"):
    """Draws points; returns the end of their line for `pictures.label_ends`."""
    x, y = zip(*sorted(points))
    axes.plot(x, y, style, color=colour, marker="" if style == ":" else "o", markersize=4)
    return y[-1], name, colour


def _finish(axes, ends, ticks, log_axes="xy", title=""):
    pictures.frame(axes, log_axes, title)
    slanted = {"rotation": 30, "ha": "right"} if max(ticks) >= 1000 else {}
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks], **slanted)
    pictures.label_ends(axes, ends)
