"""Facts about the pictures of perplexity against one parameter."""

import pytest

from experiments.framework import catalogue, kept, panels, report, seeds
from experiments.framework.definition import Run
from experiments.framework.outcome import Outcome
from experiments.framework.panels import Panel
from experiments.framework.runner import run_all

RUNS = seeds.seeded([Run("full"), Run("few"), Run("many"), Run("never")], (1, 2))
PANELS = (Panel("samples", "samples", {
    "ours": {80: "few", 1280: "many"}, "theirs": {320: "never", 1280: "full"},
}),)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory, fakes):
    folder = tmp_path_factory.mktemp("swept")
    run_all([run for run in RUNS if "never" not in run.name], folder, folder, **fakes)
    return [(run, Outcome.read(run, folder / run.name)) for run in RUNS]


def test_a_report_draws_its_parameters_instead_of_learning_curves(outcomes, tmp_path):
    pytest.importorskip("matplotlib")
    text = report.write("toy", "Title.", outcomes, tmp_path, PANELS)
    assert "](panels.png)" in text and "](curves.png)" not in text
    assert "Exact validation perplexity by samples. The dashed line is full softmax." in text
    assert [path.name for path in tmp_path.glob("*.png")] == ["panels.png"]


def test_lines_pass_through_the_means_of_finished_runs(outcomes):
    pytest.importorskip("matplotlib")
    results = seeds.perplexities([kept.row(*each) for each in outcomes])
    assert results == {"full": [200, 200], "few": [200, 200], "many": [200, 200]}
    found = {"full": 200, "few": 300, "many": 250}
    (axes,) = panels.draw(PANELS, found, "full", "").axes
    assert [t.get_text() for t in axes.get_xticklabels()] == ["80", "1,280", "320"]
    ours, theirs, full = axes.lines
    assert list(zip(*ours.get_data())) == [(0, 300), (1, 250)]
    assert list(zip(*theirs.get_data())) == [(1, 200)]
    assert set(full.get_ydata()) == {200}


def test_differences_of_less_than_one_per_cent_look_small(outcomes):
    pytest.importorskip("matplotlib")
    (axes,) = panels.draw(PANELS, {"few": 125.9, "many": 125.8}, "full", "").axes
    assert len(axes.lines) == 1  # nothing is drawn for runs that are missing
    low, high = axes.get_ylim()
    assert low < 125 and high > 127


def test_without_a_finished_run_nothing_is_drawn(tmp_path):
    path = tmp_path / "panels.png"
    assert panels.block(PANELS, {}, "full", "", path) == ""
    assert not path.exists()


@pytest.mark.parametrize("name", ["projections", "proposals", "shortlists"])
def test_the_panels_of_an_experiment_show_its_runs(name):
    experiment = catalogue.load(name)
    runs = {seeds.group(run.name) for run in experiment.RUNS}
    assert set().union(*(panel.runs() for panel in experiment.PANELS)) <= runs
    assert all(panel.runs() for panel in experiment.PANELS)
