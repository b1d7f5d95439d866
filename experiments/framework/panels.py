"""Pictures of perplexity against one parameter, as the figures of a paper show it."""

import dataclasses
import statistics

from experiments.framework import pictures


@dataclasses.dataclass(frozen=True)
class Panel:
    """One part of the picture of a sweep.

    Args:
        title: what is compared; it names the figure of the paper.
        parameter: what the horizontal axis shows.
        lines: {label: {value of the parameter: name of a run, without its seed}}. Values stand at
            equal distances, in the order in which the lines name them.
    """

    title: str
    parameter: str
    lines: dict

    def runs(self):
        """The names of the runs in the panel."""
        return {name for line in self.lines.values() for name in line.values()}


def block(panels, results, baseline, note, path):
    """Draws the finished runs of the panels; returns the Markdown that shows them.

    Args:
        panels: `Panel`s, side by side, two in a row.
        results: {run without its seed: list of validation perplexities}; a point is their mean.
        baseline: name of the run, without its seed, that is drawn as a dashed line.
        note: corpus, hardware and scale.
        path: `Path` of the PNG.

    Returns:
        Markdown; empty if no run of the panels has finished.
    """
    found = {name: statistics.mean(values) for name, values in results.items()}
    if not found.keys() & set().union(*(panel.runs() for panel in panels)):
        return ""
    caption = "Exact validation perplexity by " + ", ".join(
        dict.fromkeys(panel.parameter for panel in panels)) + "."
    if baseline in found:
        caption += " The dashed line is full softmax."
    return pictures.shown(lambda: draw(panels, found, baseline, note), path, caption)


def draw(panels, found, baseline, note):
    """The picture of the panels.

    Args:
        panels: `Panel`s.
        found: {name of a run without its seed: validation perplexity}.
        baseline, note: as in `block`.
    """
    rows, columns = -(-len(panels) // 2), min(len(panels), 2)
    width = 6.5 if columns == 1 else 9
    figure = pictures.new(width, 0.5 + 3.2 * rows, "Exact validation perplexity", note)
    for axes, panel in zip(figure.subplots(rows, columns, squeeze=False).flat, panels):
        values = list(dict.fromkeys(value for line in panel.lines.values() for value in line))
        for (label, line), colour in zip(panel.lines.items(), pictures.COLOURS):
            points = [(values.index(x), found[name]) for x, name in line.items() if name in found]
            if points:
                axes.plot(*zip(*points), marker="o", markersize=4, color=colour, label=label)
        if baseline in found:
            axes.axhline(found[baseline], linestyle="--", linewidth=1, color=pictures.GREY)
        low, high = axes.get_ylim()
        room = max(0, pictures.LEAST_SPAN * high - (high - low)) / 2
        axes.set_ylim(low - room, high + room)
        axes.set_xticks(range(len(values)), [_tick(value) for value in values])
        axes.set_xlim(-0.3, len(values) - 0.7)
        axes.set_xlabel(panel.parameter)
        pictures.frame(axes, title=panel.title, legend=len(axes.get_legend_handles_labels()[0]) > 1)
    for axes in figure.axes[len(panels):]:
        axes.remove()
    return figure


def _tick(value):
    return value if isinstance(value, str) else f"{value:,}"
