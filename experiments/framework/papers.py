"""Writes the page of all tables and figures of the six papers, with a verdict on each.

    python -m experiments.framework.papers

The page is experiments/results/papers.md. Verdicts on perplexities follow from the results of their
experiments (results/NAME/results.json), the others are words of papers.toml.
"""

import math
import re
import tomllib
from pathlib import Path

from experiments.framework import markdown, seeds
from experiments.framework.verdicts import Claims, Table

RESULTS = Path(__file__).parent.parent / "results"
PAPERS = Path(__file__).with_name("papers.toml")

INTRODUCTION = """\
Each table and figure of the papers that this toolkit reproduces, where to find our counterpart, and
what came of it. "Novels" are fourteen million words of [English novels](../README.md), "million
words" a part of them, as large as Penn Treebank, on which some tables stand themselves.
Perplexities of different corpora cannot be compared, but their order and their ratios to full
softmax can. Below each paper's list are the values behind the verdicts: the paper's, and ours on
the test split where the paper gives that and else on the validation split, with the number of seeds
and half of the range between them. Two perplexities count as alike within 1% of each other, and
within three standard errors. These follow from {deviation:.2%}, the standard deviation of the
validation perplexity between seeds, pooled over all runs with several, so that two runs with one
seed each count as alike within {single:.1%}; a run whose seeds differ by more has the error of its
own. Where the paper has a plot without values, the verdict tests what it says of the plot. cHSM is
`ClassSoftmax`; tHSM and p-tHSM are `TreeSoftmax` in its modes "sequential" and "parallel". "Open"
means that the experiment exists and its command has not been run to its end, or that it has still
to be written.\
"""

SCORE = """\
How much of six papers comes out here as it stands in them. A comparison is a pair of methods, or a
claim of the paper about two, by their perplexity; the other columns count findings about speed,
memory and shapes. Open are those that need a GPU, a network or a corpus that is not public, and one
that has still to be run. The corpora, sizes and machines are not the papers', and each row below
says what they are.\
"""
KINDS = {  # the heading of a column, and the words with which its verdicts begin
    "other findings: same": ("same", "the"), "in part": ("in",),
    "different": ("differs", "order"), "open": ("open",),
}


def _row(what, number="", ours="", found="", table=None, claims=None):
    """A row as (number, what it shows, our counterpart, words or what has a `verdict`)."""
    if table:
        found = Table(**table)
    elif claims:
        found = Claims(**claims)
    else:
        found = " ".join(found.split())
    return number, what, " ".join(ours.split()), found


ROWS = {  # {paper: its tables and figures}
    paper["title"]: [_row(**row) for row in paper["rows"]]
    for paper in tomllib.loads(PAPERS.read_text(encoding="utf-8")).values()
}


def tables():
    """{experiment: {paper: its tables and figures that the experiment has a counterpart of}}."""
    found = {}
    for paper, rows in ROWS.items():
        number = ""
        for label, _, ours, said in rows:
            number = label or number
            names = re.findall(r"\]\((?:ptb/)?(\w+)/", ours)
            if not isinstance(said, str):
                names.append(said.experiment.rpartition("/")[2])
            for name in names:
                of_paper = found.setdefault(name, {}).setdefault(paper.partition(",")[0], [])
                if number not in of_paper:
                    of_paper.append(number)
    return found


def _linked(text, results):
    """The text, without links to pages that are still to be written."""
    def checked(link):
        there = (results / link[2].partition("#")[0]).exists()
        name = link[2].partition("/")[0]
        return link[0] if there else f"{link[1]}: `python -m experiments.run {name}`"

    return re.sub(r"\[([^]]+)\]\(([^)]+)\)", checked, text)


def scoreboard(results=RESULTS):
    """A table: for each paper, how many of its comparisons and findings come out as in it."""
    lines = [["paper", "tables, figures and findings", "comparisons of perplexities",
              "of which as in the paper", *KINDS]]
    for paper, rows in ROWS.items():
        kinds, comparisons = [], {}  # a pair that two tables of a paper share counts once
        for *_, said in rows:
            if isinstance(said, str):
                kinds.append(said.partition(" ")[0].strip(":,"))
            else:
                for pair, agrees in said.verdict(results).comparisons.items():
                    comparisons.setdefault((said.experiment, pair), agrees)
        same, of = sum(comparisons.values()), len(comparisons)
        lines.append([
            paper, str(len(rows)), str(of), f"{same} ({same / of:.0%})" if of else "–",
            *(str(sum(kind in words for kind in kinds)) for words in KINDS.values()),
        ])
    return markdown.table(lines).replace("%", " %")


def page(results=RESULTS):
    """The page, as Markdown."""
    deviation = seeds.deviation(results)
    single = max(seeds.TIED, seeds.ERRORS * math.sqrt(2) * deviation)
    introduction = INTRODUCTION.format(deviation=deviation, single=single).replace("%", " %")
    blocks = ["# The papers' tables and figures", SCORE, scoreboard(results), introduction]
    for paper, rows in ROWS.items():
        table, below, place = [["", "what it shows", "ours", "verdict"]], [], ""
        for number, what, ours, said in rows:
            place = number or place
            if not isinstance(said, str):
                found = said.verdict(results)
                said = found.headline
                if found.values:
                    heading = f"{place[0].upper()}{place[1:]}: {what}"
                    below += [f"### {heading}", found.values, found.notes]
            table.append([number, what, *(_linked(text, results) or "–" for text in (ours, said))])
        blocks += [f"## {paper}", markdown.table(table, text_columns=4), *below]
    return [*filter(None, blocks), "Written by `python -m experiments.framework.papers`."]


if __name__ == "__main__":
    print(markdown.write(RESULTS / "papers.md", *page()))
