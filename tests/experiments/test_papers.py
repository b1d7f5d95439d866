"""Facts about the page of the papers' tables and figures."""

import json
import re

import pytest

from experiments import catalogue, papers, seeds, verdicts
from experiments.verdicts import ALIKE, MORE, Claims, Table

ROWS = [("full", [100.0, 102.0], 130.0), ("tree", [103.0], 133.0), ("random", [120.0], 156.0)]


@pytest.mark.parametrize("change, said", [
    ({}, "same order; ratios to full softmax within 3 %"),
    ({"tree": 99.0}, "2 of 3 pairs in the paper's order; swapped: tree 0.980 of full (paper "
                     "1.023); ratios to full softmax differ for tree 0.98 (paper 1.02)"),
    ({"tree": 100.2}, "2 of 3 pairs in the paper's order; alike here: tree 0.992 of full (paper "
                      "1.023); ratios to full softmax differ for tree 0.99 (paper 1.02)"),
    ({"random": 140.0}, "same order; ratios to full softmax differ for random 1.39 (paper 1.20)"),
])
def test_a_verdict_compares_order_and_ratios(change, said):
    rows = [(n, [change.get(n)] if n in change else ours, paper) for n, ours, paper in ROWS]
    assert verdicts.verdict(rows) == said


def test_methods_that_the_paper_does_not_order_may_differ_here():
    rows = [("brown", [100.0], 129.0), ("huffman", [112.0], 129.5)]
    assert verdicts.verdict(rows) == "alike in the paper: huffman 1.120 of brown (paper 1.004)"
    assert verdicts.verdict([rows[0], ("huffman", [100.4], 129.5)]) == "the paper has no order"
    assert verdicts.verdict([rows[0], ("random", [100.4], 190.0)]) == (
        "0 of 1 pairs in the paper's order; alike here: random 1.004 of brown (paper 1.473)")


def test_without_results_a_row_is_open():
    assert verdicts.verdict([]) == verdicts.verdict(ROWS[:1]) == "open"
    unfinished = ("full", [], 130.0)
    assert verdicts.verdict([unfinished, *ROWS[1:]]) == "same order; full softmax is still open"
    assert verdicts.verdict(ROWS[1:]) == "same order"  # a table without full softmax


def test_the_page_reads_the_results_of_experiments(tmp_path):
    runs = [
        {"name": f"{name}-seed{seed}", "state": "finished", "perplexity": 1.0,
         "test_perplexity": p, "paper": {"perplexity": 1.0, "test_perplexity": paper}}
        for name, ours, paper in ROWS for seed, p in enumerate(ours)
    ]
    path = tmp_path / "methods" / "results.json"
    path.parent.mkdir()
    path.write_text(json.dumps(runs))
    text = "\n".join(papers.page(tmp_path))
    assert verdicts.verdict(ROWS) in text
    path.write_text(json.dumps(runs[:1]))
    assert verdicts.verdict(ROWS) not in "\n".join(papers.page(tmp_path))


def test_a_verdict_may_be_on_some_runs_of_an_experiment(tmp_path):
    runs = [
        {"name": f"{name}-seed1", "state": "finished", "perplexity": p, "paper": {"perplexity": q}}
        for name, p, q in (("full", 100.0, 130.0), ("tree", 90.0, 133.0), ("nce", 103.0, 134.0))
    ]
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "results.json").write_text(json.dumps(runs))
    assert "swapped: tree 0.900 of full (paper 1.023)" in Table("some").verdict(tmp_path)
    said = Table("some", ("full", "nce")).verdict(tmp_path)
    assert said == "same order; ratios to full softmax within 3 %"
    assert Table("some", ("tree", "nce")).verdict(tmp_path) == (
        "alike in the paper: nce 1.144 of tree (paper 1.008)")


@pytest.mark.parametrize("claim, ratio, said", [
    (MORE, 1.05, "same: a 1.050 of b"),
    (MORE, 1.005, "alike here: a 1.005 of b"),
    (MORE, 0.995, "alike here: a 0.995 of b"),
    (MORE, 0.95, "differs: a 0.950 of b"),
    (ALIKE, 0.995, "same: a 0.995 of b"),
    (ALIKE, 0.95, "differs: a 0.950 of b"),
    (ALIKE, 1.05, "differs: a 1.050 of b"),
])
def test_what_a_paper_says_of_a_plot_is_tested(claim, ratio, said):
    assert verdicts.judged({"a": 100 * ratio, "b": 100}, [("a", "b", claim)]) == said


def test_a_paper_may_give_the_perplexity_at_the_end(tmp_path):
    runs = [
        {"name": f"{name}-seed1", "state": "finished", "perplexity": 1.0,
         "paper": {"perplexity": q},
         "events": [{"event": "valid", "perplexity": p} for p in (best, last)]}
        for name, best, last, q in (("full", 99, 100, 130), ("tree", 90, 110, 143))
    ]
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "results.json").write_text(json.dumps(runs))
    assert Table("some", at_the_end=True).verdict(tmp_path) == (
        "same order; ratios to full softmax within 3 %")


def test_claims_about_missing_runs_are_open(tmp_path):
    claims = [("a", "b", MORE), ("a", "c", ALIKE)]
    assert verdicts.judged({"a": 110, "b": 100}, claims) == "same: a 1.100 of b; still open: c"
    assert verdicts.judged({"b": 100}, claims) == Claims("x", claims).verdict(tmp_path)
    assert verdicts.judged({}, claims) == "open"


def test_claims_are_tested_by_means_over_finished_seeds(tmp_path):
    runs = [
        {"name": f"{name}-seed{seed}", "state": state, "perplexity": p, "paper": {}}
        for name, seed, p, state in (("a", 1, 110, "finished"), ("a", 2, 130, "finished"),
                                     ("a", 3, 900, "unfinished"), ("b", 1, 100, "finished"))
    ]
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "results.json").write_text(json.dumps(runs))
    assert Claims("some", (("a", "b", MORE),)).verdict(tmp_path) == "same: a 1.200 of b"


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
    named = set(re.findall(r"(?:\(|experiments\.run )(\w+)(?:(?:/speed)?/README\.md|`)", text))
    of_no_paper = {
        "alternatives", "characters", "contexts", "pieces", "precision", "transformer",
    }
    assert set(catalogue.EXPERIMENTS) - named <= of_no_paper
