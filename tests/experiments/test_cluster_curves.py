"""Facts about the curves of self-organised runs."""

import pytest

from experiments.framework import report, seeds
from experiments.framework.definition import Run
from experiments.framework.outcome import Outcome
from experiments.framework.runner import run_all
from experiments.measurements import cluster_curves

RUNS = seeds.seeded([Run("own", model={"head": "self_organised"}), Run("full")], (1, 2))


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory, fakes):
    folder = tmp_path_factory.mktemp("organised")
    run_all(RUNS[:3], folder, folder, **fakes)
    return [(run, Outcome.read(run, folder / run.name)) for run in RUNS]


def test_a_report_shows_the_curves_of_the_first_seed_of_each_self_organised_run(outcomes, tmp_path):
    pytest.importorskip("matplotlib")
    text = report.write("toy", "Title.", outcomes, tmp_path)
    assert "own-seed1: perplexity, cluster perplexity and in-cluster perplexity" in text
    assert [path.name for path in tmp_path.glob("clusters_*.png")] == ["clusters_own.png"]
    assert "](clusters_own.png)" in text


def test_the_picture_has_the_five_curves(outcomes):
    pytest.importorskip("matplotlib")
    events = outcomes[0][1].training
    by = {kind: [e for e in events if e["event"] == kind] for kind in ("valid", "reassigned")}
    above, below = cluster_curves.draw("own", by["valid"], by["reassigned"], "").axes
    assert [list(line.get_ydata()) for line in above.lines] == [[400, 200], [50, 25], [8, 8]]
    assert [list(line.get_ydata()) for line in below.lines] == [[80, 40], [50, 25]]
    assert [list(line.get_xdata()) for line in (*above.lines, *below.lines)] == [[0.5, 1.0]] * 5
