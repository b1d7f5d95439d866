"""Finds cutoffs for the adaptive softmax and estimates what they cost.

    tfsoftmax cutoffs --data=data/docstrings
    tfsoftmax cutoffs --data=data/text8 --hidden_units=512 --cutoffs=4000,22000
    tfsoftmax cutoffs --vocab_size=44370 --projection_factor=0 --plot=5_2.png

For each number of tails, the command finds the cheapest cutoffs by dynamic programming. The cost is
the time of the matrix products in a training step. It is computed from constants that the command
measures once on this machine, in a few seconds, and keeps. The cost does not include perplexity,
which gets worse with narrow tails and many cutoffs. An arrow marks the cutoffs that --head=adaptive
with --head_options='{"cutoffs": "auto"}' chooses; that head assumes 2,560 labels in a step and its
own projection_factor. --plot draws the cost against the size of the shortlist, with one tail, for
several exponents of Zipf's law. The last line shows the constants in the form that --constants
takes.
"""

import dataclasses
import json

from tfsoftmax.commands.program import check_plot, load_tensorflow, save_plot
from tfsoftmax.commands.shared import counts_of
from tfsoftmax.support.arguments import refusing
from tfsoftmax.support.conditions import excludes

EXPONENTS = (0.0, 0.5, 0.8, 1.0, 1.2, 1.5)


@dataclasses.dataclass(frozen=True)
class CutoffsOptions:
    """Vocabulary, model and result.

    Attributes:
        data: Directory of a corpus that `tfsoftmax prepare` made, whose word counts are used.
        vocab_size: Number of words, whose frequencies follow Zipf's law.
        exponent: Exponent of Zipf's law.
        hidden_units: Units of the hidden state.
        positions: Labels in a training step: streams times time steps.
        projection_factor: Tail k has hidden_units / factor^k units. With 0 the tails have no
            projections.
        cutoffs: Cutoffs of your own to show as well, such as 4000,22000.
        constants: Constants as JSON, instead of those of this machine.
        remeasure: Measure the constants of this machine again.
        plot: PNG file to draw the cost to. Needs matplotlib.
        overwrite: Replace a file that exists.
    """

    NEEDS = {
        "vocab_size": excludes("data"), "exponent": excludes("data"),
        "remeasure": excludes("constants"),
    }

    data: str = ""
    vocab_size: int = 44370
    exponent: float = 1.0
    hidden_units: int = 512
    positions: int = 2560
    projection_factor: float = 4.0
    cutoffs: tuple[int, ...] = ()
    constants: dict = dataclasses.field(default_factory=dict)
    remeasure: bool = False
    plot: str = ""
    overwrite: bool = False


def main(config: CutoffsOptions):
    own = list(config.cutoffs)
    if config.plot:
        check_plot(config.plot)
    from tfsoftmax.partitions.cost_model import CostModel

    counts, what = counts_of(config)
    constants = _constants(config)
    model = CostModel(
        counts, config.hidden_units, config.positions, config.projection_factor or None, constants
    )
    units = (
        f"1/{config.projection_factor:g}^k of the units" if config.projection_factor
        else "all units, without projections"
    )
    print(f"{what}; {model.hidden_units:,} hidden units, {model.positions:,} labels a step, "
          f"tails of {units}")
    best, listed = candidates(model, own)
    print("", table(model, best, listed), "", clusters(model, best), "", sep="\n")
    print(f"--constants='{json.dumps(dataclasses.asdict(constants))}'")
    if config.plot:
        plot(model, config.plot, what if config.data else None)


def candidates(model, own):
    """The cheapest cutoffs, and a list of the cheapest for each number of tails and of `own`."""
    from tfsoftmax.partitions.cutoffs import MOST_TAILS, best_cutoffs, sensible_tails

    listed = [best_cutoffs(model, n) for n in range(1, min(MOST_TAILS, model.vocab_size - 1) + 1)]
    best = min((listed[n - 1] for n in sensible_tails(model)), key=model.seconds)
    return best, listed + ([own] if own else [])


def table(model, best, listed):
    """The expected cost of each candidate, as text."""
    lines = ["   tails  ms a step  speed-up  cutoffs"]
    full = model.full_seconds()
    for cutoffs in [[], *listed]:
        seconds = model.seconds(cutoffs)
        arrow = "->" if cutoffs == best else "  "
        named = " ".join(map(str, cutoffs)) or "full softmax"
        lines.append(
            f"{arrow}{len(cutoffs):>6}{1000 * seconds:>11,.2f}{full / seconds:>10.1f}  {named}"
        )
    return "\n".join(lines)


def clusters(model, cutoffs):
    """The size and the expected cost of each cluster, as text."""
    lines = ["cluster       words  units  labels  ms a step"]
    bounds = [0, *cutoffs, model.vocab_size]
    for k, seconds in enumerate(model.cluster_seconds(cutoffs)):
        begin, end = bounds[k], bounds[k + 1]
        share = model.mass[end] - model.mass[begin]
        units = model.units(k) if k else model.hidden_units
        lines.append(f"{f'tail {k}' if k else 'head':<8}{end - begin:>11,}{units:>7,}"
                     f"{share:>8.1%}{1000 * seconds:>11,.2f}")
    return "\n".join(lines)


def plot(model, path, corpus=None):
    """Draws the cost with one tail against the size of the shortlist; crosses mark the minima.

    Source: Müller 2017, figure 5.2.
    """
    import numpy as np
    from matplotlib.figure import Figure

    from tfsoftmax.partitions.cost_model import CostModel, zipf
    from tfsoftmax.partitions.cutoffs import best_cutoffs, one_tail_seconds

    words = model.vocab_size
    sizes = np.unique(np.geomspace(1, words - 1, 400).astype(int))
    sizes = np.union1d(sizes, np.linspace(1, words - 1, 400).astype(int))
    like = (model.hidden_units, model.positions, model.projection_factor, model.constants)
    curves = {f"exponent {n:g}": CostModel(zipf(words, n), *like) for n in EXPONENTS}
    curves |= {corpus: model} if corpus else {}
    axes = Figure(figsize=(7, 4.5), layout="constrained").subplots()
    for name, curve in curves.items():
        seconds, (shortlist,) = one_tail_seconds(curve, sizes), best_cutoffs(curve, 1)
        own = {"color": "black", "linestyle": "--"} if curve is model else {}
        (line,) = axes.plot(sizes, seconds / curve.full_seconds(), label=name, **own)
        axes.plot(shortlist, curve.seconds([shortlist]) / curve.full_seconds(), "x",
                  color=line.get_color(), markersize=8, markeredgewidth=2)
    axes.set(xlabel="words in the shortlist", ylabel="expected cost, full softmax = 1",
             title="Adaptive softmax with one tail, words by Zipf's law", ylim=(0, 1.1))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.grid(True, color="0.88", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    save_plot(axes.figure, path, dpi=120)


def _constants(config):
    if config.constants:
        from tfsoftmax.partitions.cost_model import MachineCosts

        rule = f"be numbers named {', '.join(f.name for f in dataclasses.fields(MachineCosts))}"
        with refusing(TypeError, "constants", rule, received=f"{config.constants}"):
            return MachineCosts(**config.constants)
    load_tensorflow()
    from tfsoftmax.partitions.calibration import machine_constants

    return machine_constants(config.remeasure)
