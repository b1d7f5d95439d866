"""In the pictures of kept results, each entry of a legend stands for something that is seen."""

import json
from pathlib import Path

import pytest

from experiments.benchmarks import operations
from experiments.framework import catalogue, kept, pictures, report, seeds

RESULTS = Path(__file__).resolve().parents[2] / "experiments" / "results"
KEPT = [name for name in catalogue.NAMES
        if any("events" in row for row in seeds.kept(RESULTS / name / report.RESULTS))]


def points(handle):
    """The points of a line, or the middles of bars."""
    if hasattr(handle, "get_xydata"):
        return handle.get_xydata()
    boxes = [bar.get_bbox() for bar in handle]
    return [(box.min + box.max) / 2 for box in boxes if box.width and box.height]


def entries(figure):
    """{entry of a legend: whether it has a point within the limits of its axes}."""
    found = {}
    for axes in figure.axes:
        (left, right), (low, high) = sorted(axes.get_xlim()), sorted(axes.get_ylim())
        for handle, label in zip(*axes.get_legend_handles_labels()):
            seen = any(left < x < right and low < y < high for x, y in points(handle))
            found[axes.get_title("left"), label] = seen
    return found


@pytest.mark.parametrize("name", KEPT)
def test_the_entries_of_a_report_are_seen(name, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    drawn, experiment = {}, catalogue.load(name)
    monkeypatch.setattr(
        pictures, "shown", lambda draw, path, caption: drawn.update(entries(draw())) or "")
    outcomes = kept.outcomes(experiment.RUNS, tmp_path, RESULTS / name / report.RESULTS)
    report.write(name, "", outcomes, tmp_path, getattr(experiment, "PANELS", ()))
    assert drawn and all(drawn.values()), drawn


def test_the_entries_of_operations_are_seen():
    pytest.importorskip("matplotlib")
    table = json.loads((RESULTS / "operations" / "operations.json").read_text(encoding="utf-8"))
    drawn = entries(operations.draw(table, ""))
    assert drawn and all(drawn.values()), drawn


def test_a_curve_far_above_the_lowest_is_seen():
    pytest.importorskip("matplotlib")
    curves = {name: [{"epoch": 1, "perplexity": 2 * end}, {"epoch": 2, "perplexity": end}]
              for name, end in {"words": 134.0, "few pieces": 58.0}.items()}
    assert all(entries(seeds.draw(curves, "", "")).values())


def test_an_entry_outside_the_limits_or_without_a_number_is_not_seen():
    axes = pytest.importorskip("matplotlib.figure").Figure().subplots()
    axes.plot([1, 2], [1, 5], label="inside")
    axes.plot([1, 2], [7, 8], label="above")
    axes.plot([1, 2], [float("nan")] * 2, label="nowhere")
    axes.bar([1], [0], label="flat")
    axes.set_ylim(0, 6)
    assert list(entries(axes.figure).values()) == [True, False, False, False]
