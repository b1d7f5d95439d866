"""The plots of the suites, where matplotlib is installed."""

import itertools

from experiments.benchmarks.cases import MIDDLE_SIZES, PEERS, STEP, heads

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKS = ("o", "s", "^", "D", "v", "P", "X")


def draw(suite, rows, folder, suffix=""):
    """Draws what a suite has to show; returns lines of Markdown."""
    makers = {"heads": _heads, "shortlists": _shortlists, "projections": _projections,
              "samples": _samples}
    if suite not in makers:
        return []
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return ["No plots: matplotlib is not installed (`pip install 'tfsoftmax[plot]'`).", ""]
    lines = []
    for name, figure, caption in makers[suite](rows, Figure):
        figure.savefig(folder / f"{name}{suffix}.png", dpi=110)
        lines += [f"![{caption}]({name}{suffix}.png)", "", caption, ""]
    return lines


def _heads(rows, make):
    figure = make(figsize=(10, 6), layout="constrained")
    axes = figure.subplots()
    _lines(axes, _curves(rows, STEP, "words_per_second"), "V, words in the vocabulary",
           "words/s of the output layer")
    _legend(axes)
    yield "speed_by_vocabulary", figure, (
        "Training speed of the output layer, loss, gradients and Adagrad's update, by vocabulary, "
        "logarithmic (Müller 2017, figure 5.15; Jiang et al. 2017, scalability). Dotted: peers."
    )
    figure = make(figsize=(12, 6), layout="constrained")
    left, right = figure.subplots(1, 2)
    _lines(left, _curves(rows, STEP, "parameters"), "V, words in the vocabulary",
           "trained parameters")
    _lines(right, _curves(rows, STEP, "peak_mib"), "V, words in the vocabulary",
           "MiB that a step adds at its peak")
    _legend(right)
    yield "memory_by_vocabulary", figure, (
        "Parameters of the output layer, and the memory that a step adds to them and to Adagrad's "
        "slots at its peak (figures 5.13 and 5.14 by measurement). Dotted: peers."
    )


def _shortlists(rows, make):
    figure = make(figsize=(11, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    sizes, tails = {}, {}
    for row in rows:
        cutoffs, size = row["facts"]["cutoffs"], f"V = {row['V']:,}"
        if row["case"].startswith("shortlist"):
            sizes.setdefault(size, []).append((cutoffs[0], row["words_per_second"]))
            expected = row["N"] / row["facts"]["expected_ms"] * 1000
            sizes.setdefault(f"{size}, expected", []).append((cutoffs[0], expected))
        elif row["case"].startswith("cheapest"):
            units = row["case"].rpartition(", ")[2]
            tails.setdefault(f"{size}, {units}", []).append((len(cutoffs), row["words_per_second"]))
    _lines(left, sizes, "words in the shortlist, one tail of D / 4 units",
           "words/s of the output layer")
    _lines(right, tails, "tails, their cutoffs the cheapest by the cost model",
           "words/s of the output layer", log_x=False)
    for axes in (left, right):
        axes.legend(frameon=False, fontsize=8)
    yield "shortlists", figure, (
        "Training speed of adaptive softmax by the size of the shortlist, with what the cost model "
        "expects dotted, and by the number of tails (figure 5.1). Loss and gradients."
    )


def _projections(rows, make):
    figure = make(figsize=(6, 4.5), layout="constrained")
    axes = figure.subplots()
    curves = {}
    for row in rows:
        factor = int(row["case"].rpartition(" ")[2])
        curves.setdefault(f"V = {row['V']:,}", []).append((factor, row["words_per_second"]))
    _lines(axes, curves, "projection factor", "words/s of the output layer")
    axes.legend(frameon=False)
    yield "projections", figure, (
        "Training speed of adaptive softmax by projection factor (figure 5.3). Loss and gradients."
    )


def _samples(rows, make):
    figure = make(figsize=(6, 4.5), layout="constrained")
    axes = figure.subplots()
    curves = {}
    for row in rows:
        if row["measure"] == STEP:
            name, _, count = row["case"].partition(", ")
            count = int(count.split()[0].replace(",", ""))
            curves.setdefault(f"{name}, V = {row['V']:,}", []).append(
                (count, row["words_per_second"])
            )
    _lines(axes, curves, "samples", "words/s of the output layer")
    axes.legend(frameon=False)
    yield "samples", figure, (
        "Training speed of sampling heads by the number of samples (figure 5.11, left). Loss, "
        "gradients and Adagrad's update."
    )


def _curves(rows, measure, column):
    """{case: [(V, value)]}, peers last."""
    curves, order = {}, {case.name: i for i, case in enumerate(heads(MIDDLE_SIZES[0]))}
    for row in sorted(rows, key=lambda r: (r["case"] in PEERS, order.get(r["case"], len(order)))):
        if row["measure"] == measure and row[column]:
            curves.setdefault(row["case"], []).append((row["V"], row[column]))
    return curves


def _lines(axes, curves, x_label, y_label, log_x=True):
    """Draws {name: [(x, y)]}, y logarithmic from below the smallest."""
    from matplotlib import ticker

    points_of = tuple(zip(COLOURS, MARKS))
    ours = itertools.cycle(itertools.product(("-", "--", "-."), points_of))
    peers = itertools.cycle(itertools.product((":",), points_of))
    styles = {}
    for name, points in curves.items():
        base = name.removesuffix(", expected")
        if base not in styles:
            styles[base] = next(peers if name in PEERS else ours)
        line, (colour, mark) = styles[base]
        x, y = zip(*sorted(points))
        axes.plot(x, y, color=colour, marker=None if name != base else mark, markersize=5,
                  linestyle=line if name == base else ":", label=name)
    if log_x:
        axes.set_xscale("log")
        ticks = sorted({x for points in curves.values() for x, _ in points})
        axes.xaxis.set_major_locator(ticker.FixedLocator(ticks))
        axes.xaxis.set_minor_locator(ticker.NullLocator())
        axes.tick_params(axis="x", labelrotation=30)
    else:
        axes.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.grid(True, color="0.88", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _legend(axes):
    axes.legend(
        frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=4
    )
