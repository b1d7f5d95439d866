"""Facts about runs that differ only in their seed."""

import dataclasses
import json
import math

import pytest

from experiments.framework import report, seeds
from experiments.framework.definition import Run
from experiments.framework.outcome import Outcome

PAPER = {"full": {"perplexity": 100.0}, "tree": {"perplexity": 125.0}}
RUNS = seeds.seeded([
    Run(name, model={"head": name}, paper=paper) for name, paper in PAPER.items()
], (1, 2))
VALID = {
    "full-seed1": [90.0, 80.0, 82.0], "full-seed2": [91.0, 84.0], "tree-seed1": [120.0, 99.0],
    "tree-seed2": [130.0],
}


def outcome(name):
    run = next(run for run in RUNS if run.name == name)
    model, training = run.configs()
    config = {"model": vars(model), "training": vars(training), "hardware": "a toy",
              "versions": {}, "corpus": {
                  "name": "toy", "vocab_size": 9, "directory": "toy", "streams": 1, "splits": {},
                  "time_steps": 1}}
    events = [
        {"event": "valid", "perplexity": p, "epoch": n, "step": 10 * n, "seconds": 1.0}
        for n, p in enumerate(VALID[name], 1)
    ]
    if name != "tree-seed2":
        events.append({**events[-1], "event": "finished"})
        events.append({"event": "test", "split": "test", "perplexity": 2 * min(VALID[name])})
    return run, Outcome(config, events, foreign=False)


OUTCOMES = [outcome(name) for name in VALID]


def test_runs_come_seed_by_seed_and_differ_in_nothing_else():
    assert [run.name for run in RUNS] == ["full-seed1", "tree-seed1", "full-seed2", "tree-seed2"]
    assert [run.configs()[1].seed for run in RUNS] == [1, 1, 2, 2]


def test_the_table_averages_finished_seeds_and_compares_with_full_softmax():
    lines = [[c.strip() for c in line.strip("|").split("|")]
             for line in seeds.table(OUTCOMES).splitlines()]
    assert lines[0][3:] == ["validation perplexity", "to full", "paper", "to full",
                            "test perplexity", "to full"]  # of which the paper has none
    assert lines[2] == ["full", "2", "2 to 3", "82.00 ± 2.00", "1.000", "100.00", "1.000",
                        "164.00 ± 4.00", "1.000"]
    assert lines[3] == ["tree", "1", "2", "99.00", "1.207", "125.00", "1.250", "198.00", "1.207"]


def test_a_run_whose_words_choose_clusters_compares_with_full_softmax():
    run, done = outcome("tree-seed1")
    own = dataclasses.replace(run, model={"head": "self_organised"},
                              training={**run.training, "reassign_steps": 57})
    assert "| 99.00 | 1.238 |" in seeds.table([outcome("full-seed1"), (own, done)])


@pytest.mark.parametrize("name", ["full-seed1", "tree-seed1"])
def test_without_another_run_to_compare_with_there_are_no_ratios(name, tmp_path):
    text = report.write("toy", "Title.", [outcome(name)], tmp_path)
    assert "| run | seeds | epochs | validation perplexity | paper | test perplexity |" in text
    assert "ratios" not in text


def test_without_a_finished_seed_there_is_no_table():
    assert seeds.table([outcome("tree-seed2"), (Run("full"), OUTCOMES[0][1])]) == ""


def test_the_report_shows_means_and_curves(tmp_path):
    pytest.importorskip("matplotlib")
    text = report.write("toy", "Title.", OUTCOMES, tmp_path)
    assert seeds.table(OUTCOMES) in text and report.MEANS_NOTE in text
    assert "(curves.png)" in text and (tmp_path / "curves.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize("ours, other, deviation, found", [
    ([103.0], [100.0], 0.005, "higher"),  # three errors are 2.1 %
    ([103.0], [100.0], 0.008, "alike"),  # and here 3.4 %
    ([103.0] * 4, [100.0] * 4, 0.008, "higher"),  # and of four seeds half of that
    ([100.0] * 4, [103.0] * 4, 0.008, "lower"),
    ([100.9] * 100, [100.0] * 100, 0.001, "alike"),  # however many seeds
    ([92.0, 102.0, 112.0], [88.0] * 3, 0.001, "alike"),  # own seeds that are further apart
    ([101.0, 102.0, 103.0], [90.0] * 3, 0.001, "higher"),
])
def test_means_are_alike_within_what_seeds_explain(ours, other, deviation, found):
    assert seeds.compared(ours, other, deviation) == found


def test_the_deviation_is_pooled_over_finished_seeds_of_all_experiments(tmp_path):
    for experiment, runs in {
        "one": {"a-seed1": 1.00, "a-seed2": 1.02, "b-seed1": 5.0},
        "ptb/two": {"a-seed1": -0.03, "a-seed2": 0.0, "a-seed3": 0.03, "single": 0.0},
    }.items():
        rows = [{"name": name, "state": "finished", "perplexity": math.exp(nats)}
                for name, nats in runs.items()]
        rows.append({"name": "b-seed2", "state": "unfinished", "perplexity": 1.0})
        (tmp_path / experiment).mkdir(parents=True)
        (tmp_path / experiment / "results.json").write_text(json.dumps(rows))
    assert seeds.deviation(tmp_path) == pytest.approx(
        math.sqrt((0.02 ** 2 / 2 + 2 * 0.03 ** 2) / 3))
    assert seeds.deviation(tmp_path / "one") == 0.0
