"""What the results of an experiment say about a paper's table, or about what it says of a figure.

`Table` and `Claims` read results/NAME/results.json.
"""

import dataclasses
import itertools
import json
import statistics

from experiments import seeds

NEAR = 0.03  # how far our ratio to full softmax may lie from the paper's
TIED = 0.01  # perplexities no further apart have no order: most of ours are of one seed
MORE, ALIKE = "more", "alike"


@dataclasses.dataclass(frozen=True)
class Table:
    """The mark of a row whose verdict follows from the paper's table and the same runs of ours.

    Args:
        experiment: name of the experiment.
        runs: names of its runs that are in the table, without their seed; all if empty.
        at_the_end: whether the paper gives the validation perplexity at the end of training, and
            not the best one.
    """

    experiment: str
    runs: tuple = ()
    at_the_end: bool = False

    def verdict(self, results):
        """The verdict by what is in the `Path` of the results."""
        rows = _rows_of(results / self.experiment / "results.json", self.at_the_end)
        return verdict([row for row in rows if not self.runs or row[0] in self.runs])


@dataclasses.dataclass(frozen=True)
class Claims:
    """The mark of a row whose paper has a plot: whether our runs bear out what it says of it.

    Args:
        experiment: name of the experiment.
        claims: as in `judged`.
    """

    experiment: str
    claims: tuple

    def verdict(self, results):
        """The verdict by what is in the `Path` of the results."""
        ours = {}
        for run in _runs_of(results / self.experiment / "results.json"):
            if run["state"] == "finished":
                ours.setdefault(seeds.group(run["name"]), []).append(run["perplexity"])
        return judged({run: statistics.mean(values) for run, values in ours.items()}, self.claims)


def judged(ours, claims):
    """What perplexities say about the claims of a paper.

    Args:
        ours: {name of a run without its seed: validation perplexity} of the runs that finished.
        claims: list of (run, other, claim). The claim is that the perplexity of `run` is `MORE`
            than that of `other`, or that they are `ALIKE`, which they are within 1 %.

    Returns:
        The ratios that bear out the paper, those that do not, those within 1 % where the paper has
        more, and the runs that are missing.
    """
    same, alike, differs, missing = [], [], [], []
    for run, other, claim in claims:
        absent = [name for name in (run, other) if name not in ours]
        missing += absent
        if absent:
            continue
        ratio = ours[run] / ours[other]
        text = f"{run} {ratio:.3f} of {other}"
        if abs(ratio - 1) <= TIED:
            (same if claim == ALIKE else alike).append(text)
        else:
            (same if claim == MORE and ratio > 1 else differs).append(text)
    if not (same or alike or differs):
        return "open"
    return _listed(same=same, alike_here=alike, differs=differs, still_open=dict.fromkeys(missing))


def verdict(rows):
    """What the results of an experiment say about the paper's table.

    Args:
        rows: list of (name, our perplexities, the paper's perplexity); ours are empty for a run
            that has not finished.

    Returns:
        Which pairs of methods come in the paper's order, and which ratios to full softmax, if it is
        among the methods, lie within 3 % of the paper's.
    """
    has_full = any(_is_full(name) for name, _, _ in rows)
    rows = [(name, statistics.mean(ours), paper) for name, ours, paper in rows if ours]
    if len(rows) < 2:
        return "open"
    said = _order(rows)
    base = next((row for row in rows if _is_full(row[0])), None)
    if base is None:
        return said + "; full softmax is still open" * has_full
    ratios = {name: (ours / base[1], paper / base[2]) for name, ours, paper in rows}
    far = [
        f"{name} {ours:.2f} (paper {paper:.2f})" for name, (ours, paper) in ratios.items()
        if abs(ours - paper) > NEAR
    ]
    return f"{said}; ratios to full softmax " + (
        f"differ for {', '.join(far)}" if far else "within 3 %"
    )


def _order(rows):
    """Which pairs of (name, our perplexity, the paper's) come in the paper's order."""
    same, swapped, alike_here, alike_there = [], [], [], []
    for (a, ours_a, paper_a), (b, ours_b, paper_b) in itertools.combinations(rows, 2):
        if paper_a < paper_b:
            (a, ours_a, paper_a), (b, ours_b, paper_b) = (b, ours_b, paper_b), (a, ours_a, paper_a)
        ours, paper = ours_a / ours_b, paper_a / paper_b
        text = f"{a} {ours:.3f} of {b} (paper {paper:.3f})"
        if paper - 1 <= TIED:
            if abs(ours - 1) > TIED:
                alike_there.append(text)
        elif abs(ours - 1) <= TIED:
            alike_here.append(text)
        else:
            (same if ours > 1 else swapped).append(text)
    pairs = len(same) + len(swapped) + len(alike_here)
    if len(same) == pairs and not alike_there:
        return "same order" if same else "the paper has no order"
    counted = f"{len(same)} of {pairs} pairs in the paper's order; " * bool(pairs)
    return counted + _listed(
        swapped=swapped, alike_here=alike_here, alike_in_the_paper=alike_there)


def _listed(**texts):
    """Lists with their headings, without the empty ones."""
    return "; ".join(
        f"{heading.replace('_', ' ')}: {', '.join(of)}" for heading, of in texts.items() if of
    )


def _is_full(name):
    return name.partition("-")[0] == "full"


def _runs_of(path):
    """The rows of results.json."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def _rows_of(path, at_the_end=False):
    """(name, our test or validation perplexities by seed, the paper's) of an experiment."""
    found = {}
    for run in _runs_of(path):
        measure = "test_perplexity" if "test_perplexity" in run["paper"] else "perplexity"
        if measure in run["paper"]:
            name = seeds.group(run["name"])
            ours = found.setdefault(name, (name, [], run["paper"][measure]))[1]
            valid = [e["perplexity"] for e in run.get("events", ()) if e["event"] == "valid"]
            value = valid[-1:] if at_the_end else [run.get(measure)]
            if run["state"] == "finished" and any(value):
                ours += value
    return list(found.values())
