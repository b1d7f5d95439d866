"""Runs that differ only in their seed: means, spreads, and ratios to a baseline."""

import dataclasses
import json
import math
import re
import statistics

from experiments.framework import markdown, pictures

SPLITS = {"perplexity": "validation", "test_perplexity": "test"}
TIED = 0.01  # perplexities no further apart are alike, however many seeds there are
HIGHEST = 1.6  # of the lowest perplexity: the first epochs of learning curves are above it
ERRORS = 3  # standard errors: of dozens of comparisons, some differ by two of them by chance
MORE, ALIKE, LESS = "higher", "alike", "lower"
_SEED = re.compile(r"-seed\d+$")


def seeded(runs, seeds):
    """Each run with each seed, as NAME-seedS: all runs with the first seed, then with the next."""
    return [
        dataclasses.replace(run, name=f"{run.name}-seed{seed}",
                            training={**run.training, "seed": seed})
        for seed in seeds for run in runs
    ]


def seeded_where_close(runs, close):
    """Each run with seed 1; those named in `close`, which are near others, with 2 and 3, too."""
    return [*seeded(runs, (1,)), *seeded([run for run in runs if run.name in close], (2, 3))]


def group(name):
    """The name of a run without its seed."""
    return _SEED.sub("", name)


def kept(path):
    """The rows of a results.json; none if it is missing.

    Raises:
        ValueError: the file is damaged.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    except ValueError as error:
        raise ValueError(
            f"{path}: must be what a report wrote; get it back from git, or delete it to lose the "
            f"runs whose folders are gone. Received: {error}"
        ) from None


def perplexities(rows):
    """{name of a run without its seed: validation perplexities of its finished seeds}."""
    found = {}
    for row in rows:
        if row["state"] == "finished":
            found.setdefault(group(row["name"]), []).append(row["perplexity"])
    return found


def deviation(results):
    """The standard deviation between seeds of the logarithm of the validation perplexity.

    Args:
        results: `Path` of the results of all experiments, on all corpora. Runs with two seeds or
            more count, each by its degrees of freedom.

    Returns:
        The pooled deviation; 0 if no run has two seeds.
    """
    own = [values for path in results.glob("**/*/results.json")
           for values in perplexities(kept(path)).values() if len(values) > 1]
    freedom = sum(len(values) - 1 for values in own)
    squares = sum((len(values) - 1) * _deviation(values) ** 2 for values in own)
    return math.sqrt(squares / freedom) if own else 0.0


def compared(ours, other, deviation):
    """Whether a mean of perplexities by seed is `MORE` or `LESS` than another one, or `ALIKE`.

    They are alike within 1 %, and within three standard errors of the logarithm of their ratio. The
    error of a mean follows from `deviation`, or from its own seeds where they are further apart.
    """
    ratio = statistics.mean(ours) / statistics.mean(other)
    error = math.hypot(*(
        max(deviation, _deviation(values)) / math.sqrt(len(values)) for values in (ours, other)))
    if abs(ratio - 1) <= TIED or abs(math.log(ratio)) <= ERRORS * error:
        return ALIKE
    return MORE if ratio > 1 else LESS


def _deviation(perplexities):
    logs = [math.log(perplexity) for perplexity in perplexities]
    return statistics.stdev(logs) if len(logs) > 1 else 0.0


def groups(outcomes):
    """{name without the seed: list of (`Run`, `Outcome`)} of the runs that have a seed's name."""
    found = {}
    for run, outcome in outcomes:
        if group(run.name) != run.name:
            found.setdefault(group(run.name), []).append((run, outcome))
    return found


def table(outcomes):
    """A Markdown table with one row for each run, averaged over its finished seeds.

    Args:
        outcomes: list of (`Run`, `Outcome`).

    Returns:
        The table; empty if no seed has finished. Of a perplexity it gives the mean, and with two
        seeds or more half of the range between the lowest and the highest. Ratios are to the run of
        full softmax that differs in nothing but the head; without such runs it has none.
    """
    finished = {
        name: [(run, o.measures()) for run, o in own if o.state == "finished"]
        for name, own in groups(outcomes).items()
    }
    finished = {name: own for name, own in finished.items() if own}
    if not finished:
        return ""
    measures = [m for m in SPLITS if any(m in own[0][0].paper or own[0][1].get(m)
                                         for own in finished.values())]
    papers = {name: own[0][0].paper for name, own in finished.items()}
    in_paper = set().union(*papers.values())
    baselines = {name: _baseline(name, finished) for name in finished}
    ratios = any(baseline not in (None, name) for name, baseline in baselines.items())
    rows = [["run", "seeds", "epochs"]]
    for m in measures:
        for heading in [f"{SPLITS[m]} perplexity"] + ["paper"] * (m in in_paper):
            rows[0] += [heading] + ["to full"] * ratios
    means = {
        name: {m: _mean([of_seed.get(m) for _, of_seed in own]) for m in measures}
        for name, own in finished.items()
    }
    for name, own in finished.items():
        epochs = sorted({round(of_seed["epoch"]) for _, of_seed in own})
        row = [name, str(len(own)), f"{epochs[0]}" + f" to {epochs[-1]}" * (len(epochs) > 1)]
        for m in measures:
            values = [of_seed[m] for _, of_seed in own if of_seed.get(m)]
            row += [spread(values)] + [_ratio(means, name, baselines[name], m)] * ratios
            if m in in_paper:
                row += [f"{papers[name][m]:,.2f}" if m in papers[name] else "–"]
                row += [_ratio(papers, name, baselines[name], m)] * ratios
        rows.append(row)
    return markdown.table(rows)


def _baseline(name, finished):
    """The run itself if it has full softmax, else the run of full softmax like it, or None."""
    def without_head(other):
        model, training = finished[other][0][0].configs()
        rest = dataclasses.replace(model, head="full", head_options={})
        # Only the self-organised head reads `reassign_steps`.
        return (rest, dataclasses.replace(training, seed=0, reassign_steps=1)), model.head

    own, head = without_head(name)
    if head == "full":
        return name
    return next((other for other in finished if without_head(other) == (own, "full")), None)


def curves(outcomes, title, note, path):
    """Draws the validation perplexity of one seed of each run, epoch by epoch.

    Returns:
        The Markdown that shows it; empty if no run has two validations.
    """
    lines = {
        name: next((o.validations for _, o in own if len(o.validations) > 1), None)
        for name, own in groups(outcomes).items()
    }
    lines = {name: events for name, events in lines.items() if events}
    if not lines:
        return ""
    caption = (
        "Exact validation perplexity after each epoch, with one seed. Each line ends with "
        "its training; its lowest point is the result."
    )
    return pictures.shown(lambda: draw(lines, title, note), path, caption)


def draw(lines, title, note):
    figure = pictures.new(9, 5, title, note)
    axes = figure.subplots()
    for index, (name, events) in enumerate(lines.items()):
        style = "-" if index < len(pictures.COLOURS) else "--"
        colour = pictures.COLOURS[index % len(pictures.COLOURS)]
        axes.plot([e["epoch"] for e in events], [e["perplexity"] for e in events], style,
                  color=colour, label=name, marker="o", markersize=3)
    best, worst = ([of(e["perplexity"] for e in own) for own in lines.values()]
                   for of in (min, max))
    high = min(max(worst), max(*best, HIGHEST * min(best)))  # every line reaches into the picture
    axes.set_ylim(0.97 * min(best), 1.03 * high)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("epochs")
    pictures.frame(axes, title="exact validation perplexity", legend=True)
    return figure


def _mean(values):
    values = [value for value in values if value]
    return statistics.mean(values) if values else None


def spread(values):
    """The mean of perplexities by seed, with half of their range; a dash if there are none."""
    if not values:
        return "–"
    half = (max(values) - min(values)) / 2
    return f"{statistics.mean(values):,.2f}" + f" ± {half:,.2f}" * (len(values) > 1)


def _ratio(of_runs, name, baseline, measure):
    own, base = (of_runs.get(n, {}).get(measure) for n in (name, baseline))
    return f"{own / base:.3f}" if own and base else "–"
