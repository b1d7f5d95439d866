import shutil
import sys

import pytest

from experiments.framework import pictures, report
from experiments.framework.definition import Run
from experiments.framework.outcome import Outcome
from experiments.framework.runner import run_all
from tfsoftmax.support.whole_files import append_line

RUNS = [
    Run("a", paper={"perplexity": 129.51}, scale="1/8 of the units"),
    Run("cut", paper={"words_per_second": 22110}),
    Run("never"),
]
RESULTS = {"nce": [3.7e6], "full": [212.0, 214.0], "sampled": [215.0]}


@pytest.fixture(scope="module")
def trained(tmp_path_factory, fakes):
    folder = tmp_path_factory.mktemp("trained")
    run_all(RUNS[:2], folder, folder, **fakes)
    return folder


@pytest.fixture
def outcomes(tmp_path, trained):
    shutil.copytree(trained, tmp_path / "runs")
    return [(run, Outcome.read(run, tmp_path / "runs" / run.name)) for run in RUNS]


def rows(markdown):
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_table_has_the_papers_values_beside_ours(outcomes):
    head, _, finished, *_ = rows(report.table(outcomes))
    assert head == [
        "run", "scale", "state", "steps", "epochs", "validation perplexity", "paper",
        "test perplexity", "peak GiB",
    ]
    assert finished == [
        "a", "1/8 of the units", "finished", "10", "1.00", "200.00", "129.51", "210.50", "0.75",
    ]


def test_unfinished_and_missing_runs_are_shown_as_such(outcomes):
    *_, cut, never = rows(report.table(outcomes))
    assert cut == ["cut", "", "unfinished", "5", "0.50", "400.00", "–", "–", "–"]
    assert never == ["never", "", "not started"] + ["–"] * 6


def test_a_run_of_another_definition_lends_no_numbers(tmp_path, outcomes):
    changed = Run("a", model={"hidden_units": 7})
    outcome = Outcome.read(changed, tmp_path / "runs" / "a")
    row = rows(report.table([(changed, outcome)]))[-1]
    assert row == ["a", "of another definition"] + ["–"] * 5


def test_the_report_states_corpus_and_hardware_and_no_path(tmp_path, outcomes):
    text = report.write("toy", "Title.\n\n    a command\n", outcomes, tmp_path / "results")
    assert (tmp_path / "results" / "README.md").read_text() == text
    assert "Corpus: toy, shuffled sentences, vocabulary 77; 1,000 tokens in train" in text
    assert "Hardware: 1 core of a toy" in text
    assert "    a command" in text
    assert "trained" not in text and str(tmp_path) not in text


def test_the_report_names_the_runs_that_have_not_begun(tmp_path, outcomes):
    text = report.write("toy", "Title.", outcomes, tmp_path)
    assert report.table(outcomes[:2]) in text
    assert "Still to be run: never." in text
    assert "Still to be run" not in report.write("toy", "Title.", outcomes[:2], tmp_path)


def test_different_hardware_is_stated_with_the_runs_that_had_it(outcomes):
    outcomes[1][1].config["hardware"] = "2 cores of a toy"
    facts = report.facts([*outcomes, outcomes[0]])
    assert "- Hardware of cut: 2 cores of a toy\n- Hardware of the others: 1 core of a toy" in facts
    assert "- Corpus: toy" in facts
    assert report.facts([]) == ""


def test_the_picture_is_a_png_with_a_dot_for_each_seed(tmp_path):
    pytest.importorskip("matplotlib")
    text = report.picture("toy", RESULTS, "a toy", tmp_path / "p.png")
    assert "](p.png)" in text and "the finished runs of toy, the best on top." in text
    assert text.endswith("(a toy.) The perplexity of nce lies far beyond the axis.")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_a_perplexity_far_beyond_the_others_does_not_stretch_the_axis():
    figure = pytest.importorskip("matplotlib.figure").Figure()
    axes = figure.subplots()
    pictures.dots(axes, RESULTS, 210.0, 215.0, "a title")
    assert axes.get_xlim()[1] < 300
    texts = [text.get_text() for text in axes.texts]
    assert texts == ["213.0", "215.0", "3,700,000.0, off the axis"]
    assert list(axes.lines[0].get_xdata()) == [212.0, 214.0]
    pictures.dots(axes, {"alike": [100.0, 100.5]}, 100.0, 100.5, "a title")
    low, high = axes.get_xlim()
    assert high > low + 4


def test_few_runs_and_runs_of_several_corpora_have_no_picture(tmp_path, outcomes, monkeypatch):
    pytest.importorskip("matplotlib")
    assert report.picture("toy", {"a": [1.0], "b": [2.0]}, "", tmp_path / "p.png") == ""
    monkeypatch.setattr(report, "LEAST_RUNS", 1)
    assert "(perplexity.png)" in report.write("toy", "Title.", outcomes, tmp_path)
    outcomes[1][1].config["corpus"]["name"] = "another"
    assert "(perplexity.png)" not in report.write("toy", "Title.", outcomes, tmp_path)


def test_without_matplotlib_the_table_is_written_and_a_sentence_says_so(
    tmp_path, outcomes, monkeypatch, capsys
):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.figure", raising=False)
    monkeypatch.setattr(report, "LEAST_RUNS", 1)
    text = report.write("toy", "Title.", outcomes, tmp_path)
    assert report.table(outcomes[:2]) in text and report.PICTURE not in text
    assert "matplotlib is not installed: pip install matplotlib" in capsys.readouterr().err


def test_a_report_of_nothing_does_not_replace_one(tmp_path):
    runs = [(run, Outcome.read(run, tmp_path / "absent")) for run in RUNS]
    with pytest.raises(ValueError, match="`runs` must hold runs of toy: a, cut, never"):
        report.write("toy", "Title.", runs, tmp_path / "results")
    assert not (tmp_path / "results").exists()


def test_a_line_cut_short_by_a_kill_is_left_out(tmp_path, outcomes):
    path = tmp_path / "runs" / "cut" / "metrics.jsonl"
    path.write_text(path.read_text() + '{"event": "valid", "st')
    assert len(Outcome.read(RUNS[1], path.parent).events) == 1
    append_line(path, '{"event": "test", "step": 1}')  # an evaluation after that kill
    assert len(Outcome.read(RUNS[1], path.parent).events) == 2


def test_a_report_without_runs_says_so_on_the_page_and_keeps_its_results(tmp_path, outcomes):
    folder = tmp_path / "results"
    before = report.write("toy", "Title.\n\n    an old command", outcomes, folder)
    gone = [(run, Outcome.read(run, tmp_path / "absent")) for run in RUNS]
    for _ in range(2):
        text = report.write("toy", "Title.\n\n    a command", gone, folder)
        assert (folder / "README.md").read_text() == text
        assert text.startswith(f"# toy\n\n{report.not_kept('toy')}\n\nTitle.\n\n    a command\n")
        assert text.partition("## Results")[2] == before.partition("## Results")[2]
    assert report.not_kept("toy") not in report.write("toy", "Title.", outcomes, folder)
