"""What the results of an experiment say about a paper's table, or about what it says of a figure.

`Table` and `Claims` read results/NAME/results.json and make a `Verdict` of it. A difference counts
as one if it is larger than what seeds explain (`seeds.compared`).
"""

import dataclasses
import itertools
import statistics

from experiments.framework import markdown, seeds
from experiments.framework.seeds import ALIKE, MORE, TIED

NEAR = 0.03  # how far our ratio to full softmax may lie from the paper's
OPEN = "open"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What came of a table or figure.

    Args:
        headline: the verdict in a few words.
        values: the paper's values and ours, as a Markdown table; empty if no run has finished.
        notes: sentences that belong below the table.
        comparisons: {frozenset of two runs: whether they compare as in the paper}.
    """

    headline: str
    values: str = ""
    notes: str = ""
    comparisons: dict = dataclasses.field(default_factory=dict)


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
        """The `Verdict` by what is in the `Path` of the results."""
        measure, rows = _rows_of(results / self.experiment / "results.json", self.at_the_end)
        rows = [row for row in rows if not self.runs or row[0] in self.runs]
        return verdict(rows, f"{seeds.SPLITS[measure]} perplexity", seeds.deviation(results))


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
        """The `Verdict` by what is in the `Path` of the results."""
        ours = seeds.perplexities(seeds.kept(results / self.experiment / "results.json"))
        return judged(ours, self.claims, seeds.deviation(results))


def judged(ours, claims, deviation=0.0):
    """What perplexities say about the claims of a paper.

    Args:
        ours: {name of a run without its seed: its validation perplexities by seed}.
        claims: list of (run, other, claim). The claim is that the perplexity of `run` is `MORE`
            than that of `other`, or that they are `ALIKE`.
        deviation: the `seeds.deviation` of all runs.

    Returns:
        A `Verdict`, whose values have a row for each claim.
    """
    rows, found, missing, comparisons = [], [], [], {}
    for run, other, claim in claims:
        absent = [name for name in (run, other) if name not in ours]
        missing += absent
        if absent:
            continue
        ratio = statistics.mean(ours[run]) / statistics.mean(ours[other])
        here = seeds.compared(ours[run], ours[other], deviation)
        found.append((here == claim, here))
        comparisons[frozenset((run, other))] = here == claim
        count = min(len(ours[run]), len(ours[other]))
        rows.append([run, other, claim, here, str(count), f"{ratio:.3f}"])
    if not rows:
        return Verdict(OPEN)
    same = sum(agrees for agrees, _ in found)
    alike = sum(not agrees and here == ALIKE for agrees, here in found)
    different = len(found) - same - alike
    said = [f"{same} of {len(found)} comparisons as in the paper"]
    said += [f"{alike} alike here"] * bool(alike) + [f"{different} different"] * bool(different)
    headings = ["perplexity of", "compared with", "paper", "here", "seeds", "ratio"]
    notes = "Still open: " + ", ".join(dict.fromkeys(missing)) + "." if missing else ""
    values = markdown.table([headings, *rows], text_columns=4)
    return Verdict("; ".join(said), values, notes, comparisons)


def verdict(rows, measure="perplexity", deviation=0.0):
    """What the results of an experiment say about the paper's table.

    Args:
        rows: list of (name, our perplexities by seed, the paper's perplexity); ours are empty for a
            run that has not finished.
        measure: the heading of the perplexities.
        deviation: the `seeds.deviation` of all runs.

    Returns:
        A `Verdict`: which pairs of methods come in the paper's order, and which ratios to full
        softmax, if it is among the methods, lie within 3 % of the paper's.
    """
    full_is_open = any(_is_full(name) and not ours for name, ours, _ in rows)
    rows = [row for row in rows if row[1]]
    if len(rows) < 2:
        return Verdict(OPEN)
    means = [(name, statistics.mean(ours), paper) for name, ours, paper in rows]
    base = next((row for row in means if _is_full(row[0])), None)
    headline, notes, comparisons = _order(rows, deviation)
    if base:
        far = [n for n, *both in _ratios(means, base) if abs(both[0] - both[1]) > NEAR]
        headline += "; " + (f"{len(far)} of {len(rows) - 1} ratios to full softmax differ by more "
                            "than 3 %" if far else "all ratios to full softmax within 3 %")
    if full_is_open:
        headline += "; full softmax is still open"
    return Verdict(headline, _values(rows, means, base, measure), notes, comparisons)


def _ratios(means, base):
    """(name, our ratio to full softmax, the paper's) of each (name, ours, the paper's)."""
    return [(name, ours / base[1], paper / base[2]) for name, ours, paper in means]


def _values(rows, means, base, measure):
    """The table of the paper's values and ours."""
    headings = ["run", "seeds", measure, "paper"]
    table = [[name, str(len(ours)), seeds.spread(ours), f"{paper:,.2f}"]
             for name, ours, paper in rows]
    if base:
        headings += ["ours to full", "paper's to full", "within 3 %"]
        for row, (name, ours, paper) in zip(table, _ratios(means, base)):
            near = "yes" if abs(ours - paper) <= NEAR else "no"
            row += [f"{ours:.3f}", f"{paper:.3f}", "–" if name == base[0] else near]
    return markdown.table([headings, *table])


def _order(rows, deviation):
    """How many pairs of (name, ours, the paper's) come in the paper's order, and which do not.

    Returns:
        The headline, the notes, and the `comparisons` of a `Verdict`: pairs that the paper has in
        no order are right where they are alike here.
    """
    same, swapped, alike_here, alike_there, alike_both = [], [], [], [], []
    comparisons = {}
    for (a, ours_a, paper_a), (b, ours_b, paper_b) in itertools.combinations(rows, 2):
        if paper_a < paper_b:
            (a, ours_a, paper_a), (b, ours_b, paper_b) = (b, ours_b, paper_b), (a, ours_a, paper_a)
        here, paper = seeds.compared(ours_a, ours_b, deviation), paper_a / paper_b
        if paper - 1 <= TIED:
            found = alike_both if here == ALIKE else alike_there
        else:
            found = {MORE: same, ALIKE: alike_here}.get(here, swapped)
        ratio = statistics.mean(ours_a) / statistics.mean(ours_b)
        found.append(f"{a} is {ratio:.3f} of {b} (paper {paper:.3f})")
        comparisons[frozenset((a, b))] = found is same or found is alike_both
    pairs = len(same) + len(swapped) + len(alike_here)
    notes = " ".join(
        f"{heading}: {', '.join(texts)}." for heading, texts in (
            ("In the other order", swapped), ("Alike here", alike_here),
            ("Alike in the paper only", alike_there)) if texts)
    if len(same) == pairs and not alike_there:
        return "same order" if same else "the paper has no order", notes, comparisons
    counted = f"{len(same)} of {pairs} pairs in the paper's order" if pairs else ""
    there = f"{len(alike_there)} alike only in the paper" if alike_there else ""
    return "; ".join(filter(None, (counted, there))), notes, comparisons


def _is_full(name):
    return name.partition("-")[0] == "full"


def _rows_of(path, at_the_end=False):
    """The measure, and (name, our perplexities by seed, the paper's) of the runs that have it."""
    found, runs = {}, [run for run in seeds.kept(path) if run["paper"]]
    of_test = any("test_perplexity" in run["paper"] for run in runs)
    measure = "test_perplexity" if of_test else "perplexity"
    for run in runs:
        if measure in run["paper"]:
            name = seeds.group(run["name"])
            ours = found.setdefault(name, (name, [], run["paper"][measure]))[1]
            valid = [e["perplexity"] for e in run.get("events", ()) if e["event"] == "valid"]
            value = valid[-1:] if at_the_end else [run.get(measure)]
            if run["state"] == "finished" and any(value):
                ours += value
    return measure, list(found.values())
