"""Facts about the page of the papers' tables and figures."""

import json
import re

import pytest

from experiments.framework import catalogue, papers, seeds, verdicts
from experiments.framework.seeds import ALIKE, MORE
from experiments.framework.verdicts import Claims, Table

ROWS = [("full", [100.8, 101.2], 130.0), ("tree", [103.0], 133.0), ("random", [120.0], 156.0)]


def run(name, ours, paper=1.0, seed=1, **more):
    """A finished run's row of results.json."""
    return {"name": f"{name}-seed{seed}", "state": "finished", "perplexity": ours,
            "paper": {"perplexity": paper}, **more}


def keep(folder, runs, experiment="some"):
    """Writes the results of an experiment into the folder of all results."""
    (folder / experiment).mkdir(exist_ok=True)
    (folder / experiment / "results.json").write_text(json.dumps(runs))


@pytest.mark.parametrize("change, headline, notes", [
    ({}, "same order; all ratios to full softmax within 3 %", ""),
    ({"tree": 99.0}, "2 of 3 pairs in the paper's order; 1 of 2 ratios to full softmax differ by "
     "more than 3 %", "In the other order: tree is 0.980 of full (paper 1.023)."),
    ({"tree": 100.2}, "2 of 3 pairs in the paper's order; 1 of 2 ratios to full softmax differ by "
     "more than 3 %", "Alike here: tree is 0.992 of full (paper 1.023)."),
    ({"random": 140.0}, "same order; 1 of 2 ratios to full softmax differ by more than 3 %", ""),
])
def test_a_verdict_compares_order_and_ratios(change, headline, notes):
    rows = [(n, [change.get(n)] if n in change else ours, paper) for n, ours, paper in ROWS]
    verdict = verdicts.verdict(rows)
    assert (verdict.headline, verdict.notes) == (headline, notes)


def test_a_verdict_lists_the_values_behind_it():
    assert verdicts.verdict(ROWS, "test perplexity").values == """\
| run | seeds | test perplexity | paper | ours to full | paper's to full | within 3 % |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
| full | 2 | 101.00 ± 0.20 | 130.00 | 1.000 | 1.000 | – |
| tree | 1 | 103.00 | 133.00 | 1.020 | 1.023 | yes |
| random | 1 | 120.00 | 156.00 | 1.188 | 1.200 | yes |"""
    assert verdicts.verdict(ROWS[1:]).values.splitlines()[0] == (
        "| run | seeds | perplexity | paper |")


def test_methods_that_the_paper_does_not_order_may_differ_here():
    rows = [("brown", [100.0], 129.0), ("huffman", [112.0], 129.5)]
    verdict = verdicts.verdict(rows)
    assert verdict.headline == "1 alike only in the paper"
    assert verdict.notes == "Alike in the paper only: huffman is 1.120 of brown (paper 1.004)."
    assert verdicts.verdict([rows[0], ("huffman", [100.4], 129.5)]).headline == (
        "the paper has no order")
    verdict = verdicts.verdict([rows[0], ("random", [100.4], 190.0)])
    assert verdict.headline == "0 of 1 pairs in the paper's order"
    assert verdict.notes == "Alike here: random is 1.004 of brown (paper 1.473)."


def test_without_results_a_row_is_open():
    assert verdicts.verdict([]) == verdicts.verdict(ROWS[:1]) == verdicts.Verdict("open")
    unfinished = ("full", [], 130.0)
    verdict = verdicts.verdict([unfinished, *ROWS[1:]])
    assert verdict.headline == "same order; full softmax is still open"
    assert "full" not in verdict.values
    assert verdicts.verdict(ROWS[1:]).headline == "same order"  # a table without full softmax


def test_the_page_reads_the_results_of_experiments(tmp_path):
    runs = [
        run(name, 1.0, seed=seed, test_perplexity=p)
        | {"paper": {"perplexity": 1.0, "test_perplexity": paper}}
        for name, ours, paper in ROWS for seed, p in enumerate(ours)
    ]
    keep(tmp_path, runs, "methods")
    text = "\n".join(papers.page(tmp_path))
    verdict = verdicts.verdict(ROWS, "test perplexity")
    assert verdict.headline in text and verdict.values in text
    keep(tmp_path, runs[:1], "methods")
    text = "\n".join(papers.page(tmp_path))
    assert verdict.headline not in text and verdict.values not in text


def test_a_verdict_may_be_on_some_runs_of_an_experiment(tmp_path):
    keep(tmp_path, [run("full", 100, 130), run("tree", 90, 133), run("nce", 103, 134)])
    assert "tree is 0.900 of full (paper 1.023)" in Table("some").verdict(tmp_path).notes
    of_two = Table("some", ("full", "nce")).verdict(tmp_path)
    assert of_two.headline == "same order; all ratios to full softmax within 3 %"
    assert "validation perplexity" in of_two.values and "tree" not in of_two.values
    assert Table("some", ("tree", "nce")).verdict(tmp_path).notes == (
        "Alike in the paper only: nce is 1.144 of tree (paper 1.008).")


@pytest.mark.parametrize("claim, ratio, here, headline", [
    (MORE, 1.05, "higher", "1 of 1 comparisons as in the paper"),
    (MORE, 1.005, "alike", "0 of 1 comparisons as in the paper; 1 alike here"),
    (MORE, 0.995, "alike", "0 of 1 comparisons as in the paper; 1 alike here"),
    (MORE, 0.95, "lower", "0 of 1 comparisons as in the paper; 1 different"),
    (ALIKE, 0.995, "alike", "1 of 1 comparisons as in the paper"),
    (ALIKE, 0.95, "lower", "0 of 1 comparisons as in the paper; 1 different"),
    (ALIKE, 1.05, "higher", "0 of 1 comparisons as in the paper; 1 different"),
])
def test_what_a_paper_says_of_a_plot_is_tested(claim, ratio, here, headline):
    verdict = verdicts.judged({"a": [100 * ratio], "b": [100]}, [("a", "b", claim)])
    assert verdict.headline == headline
    assert verdict.values.splitlines()[-1] == f"| a | b | {claim} | {here} | 1 | {ratio:.3f} |"


def test_a_paper_may_give_the_perplexity_at_the_end(tmp_path):
    keep(tmp_path, [
        run(name, 1.0, q, events=[{"event": "valid", "perplexity": p} for p in (best, last)])
        for name, best, last, q in (("full", 99, 100, 130), ("tree", 90, 110, 143))
    ])
    assert Table("some", at_the_end=True).verdict(tmp_path).headline == (
        "same order; all ratios to full softmax within 3 %")


def test_claims_about_missing_runs_are_open(tmp_path):
    claims = [("a", "b", MORE), ("a", "c", ALIKE)]
    verdict = verdicts.judged({"a": [110], "b": [100]}, claims)
    assert verdict.headline == "1 of 1 comparisons as in the paper"
    assert verdict.notes == "Still open: c."
    assert verdicts.judged({"b": [100]}, claims) == Claims("x", claims).verdict(tmp_path)
    assert verdicts.judged({}, claims) == verdicts.Verdict("open")


def test_claims_are_tested_by_means_over_finished_seeds(tmp_path):
    unfinished = run("a", 900, seed=3, state="unfinished")
    keep(tmp_path, [run("a", 119), run("a", 121, seed=2), unfinished, run("b", 100)])
    verdict = Claims("some", (("a", "b", MORE),)).verdict(tmp_path)
    assert verdict.values.splitlines()[-1] == "| a | b | higher | higher | 1 | 1.200 |"


@pytest.mark.parametrize("name", ["projections", "proposals", "shortlists"])
def test_claims_name_runs_of_their_experiment(name):
    runs = {seeds.group(run.name) for run in catalogue.load(name).RUNS}
    marks = [said for rows in papers.ROWS.values() for *_, said in rows
             if isinstance(said, Claims) and said.experiment == name]
    assert marks and {run for mark in marks for *pair, _ in mark.claims for run in pair} <= runs


def test_the_page_that_is_committed_is_the_one_that_is_written():
    blocks = "\n\n".join(papers.page()) + "\n"
    assert (papers.RESULTS / "papers.md").read_text(encoding="utf-8") == blocks


def test_every_experiment_of_a_seed_is_named():
    text = "\n".join(papers.page())
    pages, commands = r"\((?:ptb/)?(\w+)(?:/speed)?/README\.md", r"experiments\.run (\w+)`"
    named = {*re.findall(pages, text), *re.findall(commands, text)}
    of_no_seed = {"accumulators", "leaf_orders", "pieces", "precision", "transformer"}
    assert set(catalogue.EXPERIMENTS) - named <= of_no_seed


def test_the_scoreboard_counts_comparisons_and_every_finding_in_words(tmp_path, monkeypatch):
    keep(tmp_path, [run("full", 100, 130), run("tree", 110, 150), run("class", 120, 140)])
    monkeypatch.setattr(papers, "ROWS", {"A 2017, words": [
        ("table 1", "", "", Table("some")), ("table 2", "", "", Table("missing")),
        ("table 3", "", "", "same finding: x"), ("table 4", "", "", "order differs: y"),
        ("", "", "", "open: needs a GPU"), ("", "", "", "no values"),
    ]})
    assert papers.scoreboard(tmp_path).splitlines()[-1] == (
        "| A 2017, words | 6 | 3 | 2 (67 %) | 1 | 0 | 1 | 1 |"
    )


def test_a_pair_that_two_tables_of_a_paper_share_counts_once(tmp_path, monkeypatch):
    keep(tmp_path, [run("full", 100, 130), run("tree", 110, 150), run("class", 120, 140)])
    twice = [(number, "", "", Table("some", runs=("full", "tree", third)))
             for number, third in (("table 1", ""), ("table 2", "class"))]
    monkeypatch.setattr(papers, "ROWS", {"A 2017, words": twice})
    score = papers.scoreboard(tmp_path).splitlines()[-1]
    assert score == "| A 2017, words | 2 | 3 | 2 (67 %) | 0 | 0 | 0 | 0 |"


def test_verdicts_in_words_begin_with_a_word_that_the_scoreboard_counts():
    said = [row[3] for rows in papers.ROWS.values() for row in rows if isinstance(row[3], str)]
    known = {word for words in papers.KINDS.values() for word in words}
    others = [text for text in said if text.partition(" ")[0].strip(":,") not in known]
    assert [text[:10] for text in others] == ["neither ti", "no values "]
