"""Measures a step of every head on this machine and recommends one.

    tfsoftmax advise --vocab_size=300000 --units=64 --positions=512 --task=items
    tfsoftmax advise --data=data/books --units=512 --plot=heads.png
    tfsoftmax advise --counts=counts.npy --only=full,adaptive,sampled

A step is the loss, all gradients and Adagrad's update, of the output layer alone, in float32. ms is
its time in milliseconds, and MiB is the memory of weights, slots, gradients and temporaries.
"exact" says whether the head trains on exact probabilities; nearly all heads evaluate exactly. A
time with < is that of the first step, which includes tracing. The line below a head is its Python
code. The heads do not take turns, so other work on the machine may slow some of them more than
others.
"""

import dataclasses

from tfsoftmax.commands.program import check_plot, load_tensorflow, save_plot
from tfsoftmax.commands.shared import counts_of
from tfsoftmax.support.arguments import refusing
from tfsoftmax.support.conditions import excludes


@dataclasses.dataclass(frozen=True)
class AdviseOptions:
    """Labels, step and result.

    Attributes:
        vocab_size: Number of words, items or labels, whose frequencies follow Zipf's law.
        exponent: Exponent of Zipf's law; with 0 all are equally frequent.
        data: Directory of a corpus that `tfsoftmax prepare` made, whose word counts are used.
        counts: File of counts of your own, a NumPy array (.npy) or one number in each line.
        units: Units of the hidden state.
        positions: Labels in a training step: the batch times its time steps.
        task: What matters: perplexity (text), or the order of the labels (items).
        seconds: About how long this may take. Heads whose turn does not come are not timed.
        only: Run only these heads, e.g. full,adaptive; dense is Keras's Dense.
        plot: PNG file to draw time and memory to. Needs matplotlib.
        overwrite: Replace a file that exists.
    """

    CHOICES = {"task": ("text", "items")}
    NEEDS = {
        "vocab_size": (excludes("data"), excludes("counts")),
        "exponent": (excludes("data"), excludes("counts")), "data": excludes("counts"),
    }

    vocab_size: int = 44370
    exponent: float = 1.0
    data: str = ""
    counts: str = ""
    units: int = 512
    positions: int = 2560
    task: str = "text"
    seconds: float = 60.0
    only: tuple[str, ...] = ()
    plot: str = ""
    overwrite: bool = False


def main(config: AdviseOptions):
    if config.plot:
        check_plot(config.plot)
    counts = read_counts(config.counts) if config.counts else counts_of(config)[0]
    load_tensorflow()
    from tfsoftmax.lm.advice import advise

    advice = advise(
        len(counts), config.units, config.positions, counts, config.seconds, config.task,
        config.only, progress=True,
    )
    print(advice)
    if config.plot:
        plot(advice, config.plot)


def read_counts(path):
    """The counts (V,) of a file.

    Raises:
        ValueError: it has other things than counts.
        OSError: it cannot be read.
    """
    import numpy as np

    from tfsoftmax.support.counts import checked_counts

    rule = "name an array (.npy) or a text with a number in each line"
    with refusing((ValueError, EOFError), "counts", rule, before=f"{path}: "):
        found = np.load(path) if path.endswith(".npy") else np.loadtxt(path, encoding="utf-8-sig")
    return checked_counts(np.atleast_1d(found))


def plot(advice, path):
    """Draws the time and the memory of each head."""
    from matplotlib.figure import Figure

    rows = [row for row in advice.rows if not row.why_not]
    figure = Figure(figsize=(9, 1.4 + 0.34 * len(rows)), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    colours = ["#0072B2" if row.name == advice.recommended else "0.75" for row in rows]
    for axes, title, values in (
        (panels[0], "time of a step, ms", [row.milliseconds for row in rows]),
        (panels[1], "memory, MiB", [row.bytes / 2**20 for row in rows]),
    ):
        drawn = axes.barh([row.layer for row in rows], values, color=colours, height=0.7)
        axes.bar_label(drawn, [f"{value:,.0f}" for value in values], padding=4)
        axes.set_xlim(0, 1.15 * max(values))
        axes.set_title(title, loc="left", fontsize=10)
        axes.xaxis.set_visible(False)
        axes.tick_params(axis="y", length=0)
        axes.spines[["top", "right", "bottom"]].set_visible(False)
    panels[0].invert_yaxis()
    figure.suptitle(advice.problem, fontsize=9, x=0.01, ha="left")
    save_plot(figure, path, dpi=110)
