"""What reports keep of runs: the same report where the folders of the runs are gone."""

import dataclasses
import json

import pytest

from experiments.framework import kept, report
from experiments.framework.definition import Run
from experiments.framework.runner import run_all

BROWN = {"tree": "{data}/brown.paths"}
RUNS = [
    Run("a", paper={"perplexity": 129.51}, model={"head": "tree", "head_options": BROWN}),
    Run("cut"),
    Run("never"),
]


@pytest.fixture
def folders(tmp_path, data, fakes):
    run_all(RUNS[:2], tmp_path / "runs", data, **fakes)
    return tmp_path / "runs", tmp_path / "results" / report.RESULTS


def written(folders, runs=RUNS):
    folder, results = folders
    outcomes = kept.outcomes(runs, folder, results)
    return report.write("toy", "Title.", outcomes, results.parent), dict(
        (run.name, outcome) for run, outcome in outcomes
    )


def test_a_report_is_the_same_without_the_folders_of_finished_runs(folders, tmp_path):
    before, _ = written(folders)
    (folders[0]).rename(tmp_path / "elsewhere")
    after, outcomes = written(folders)
    assert [line for line in before.splitlines() if "| a |" in line] == [
        line for line in after.splitlines() if "| a |" in line
    ]
    assert outcomes["a"].state == "finished"
    assert outcomes["cut"].state == outcomes["never"].state == "not started"
    assert written(folders)[0] == after


def test_runs_of_another_machine_join_those_that_were_kept(folders, tmp_path, data, fakes):
    written(folders)
    run_all(RUNS[1:], tmp_path / "new", data, **fakes)
    _, outcomes = written((tmp_path / "new", folders[1]))
    assert {name: outcome.state for name, outcome in outcomes.items()} == {
        "a": "finished", "cut": "unfinished", "never": "finished",
    }


def test_a_kept_run_of_another_definition_lends_no_numbers(folders, tmp_path):
    written(folders)
    changed = dataclasses.replace(RUNS[0], training={"seed": 7})
    ((_, outcome),) = kept.outcomes([changed], tmp_path / "absent", folders[1])
    assert outcome.state == "not started"


def test_what_is_kept_names_no_path_and_leaves_out_how_fast_training_went(folders, tmp_path):
    log = folders[0] / "a" / "metrics.jsonl"
    speeds = [json.dumps({"event": "train", "words_per_second": s}) + "\n" for s in (1.0, 2.0)]
    log.write_text("".join(speeds) + log.read_text())
    written(folders)
    text = folders[1].read_text()
    assert str(tmp_path) not in text and "{data}/brown.paths" in text
    events = json.loads(text)[0]["events"]
    assert [e["words_per_second"] for e in events if e["event"] == "train"] == [2.0]
    assert sum(event["event"] == "valid" for event in events) == 2


def test_files_of_earlier_reports_have_nothing_to_lend(tmp_path):
    path = tmp_path / "results.json"
    path.write_text(json.dumps([{"name": "a", "state": "finished", "perplexity": 1.0}]))
    ((_, outcome),) = kept.outcomes(RUNS[:1], tmp_path, path)
    assert outcome.state == "not started"


def test_a_damaged_file_is_named(tmp_path):
    damaged = tmp_path / report.RESULTS
    damaged.write_text('[{"name": "a", ')
    with pytest.raises(ValueError, match=r"results.json: must be what a report wrote; get it back"):
        kept.outcomes(RUNS, tmp_path, damaged)
    assert damaged.exists()
