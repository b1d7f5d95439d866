"""Numbers of results that pages state in prose are those of the results."""

import json
import pathlib
import statistics

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "experiments" / "results"


def perplexity(experiment, run):
    """The mean validation perplexity of a run's seeds."""
    rows = json.loads((RESULTS / experiment / "results.json").read_text(encoding="utf-8"))
    own = [row["perplexity"] for row in rows if row["name"].partition("-seed")[0] == run]
    assert own, f"{experiment} has no run {run}"
    return statistics.mean(own)


def above_full(run, dropout):
    """Per cent by which the perplexity of a run of `methods` exceeds full softmax's."""
    ours, full = (perplexity("methods", f"{x}-dropout{dropout}") for x in (run, "full"))
    return 100 * (ours / full - 1)


def step_seconds(case):
    """Seconds of a whole step, in two digits."""
    lines = (RESULTS / "headline" / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines if line]
    (row,) = [row for row in rows if row["case"] == case]
    return f"{row['median_ms'] / 1000:.2g}"


STATED = {
    "opening": ("README.md", lambda: (
        f"takes {step_seconds('Keras LSTM and Dense')} s with Keras's `Dense`, "
        f"{step_seconds('LSTM and FullSoftmax')} s with `FullSoftmax`, "
        f"{step_seconds('LSTM and AdaptiveSoftmax')} s with `AdaptiveSoftmax` and "
        f"{step_seconds('LSTM and SampledSoftmax')} s with `SampledSoftmax`")),
    "convergence": ("docs/map.md", lambda: (
        "`full` has {:.1f}, `class-brown` {:.1f}, `class` {:.1f}, `tree-brown` {:.1f} and `nce` "
        "{:.1f}".format(*(perplexity("jiang", run) for run in (
            "full", "class-brown", "class", "tree-brown", "nce"))))),
    "adaptive": ("docs/which_head.md", lambda: (
        f"its perplexity is {above_full('adaptive', 0.4):.1f} or "
        f"{above_full('adaptive', 0.25):.1f} % above that of full softmax, with a dropout of 0.4 "
        f"or 0.25, and without projections {above_full('adaptive-whole', 0.4):.1f} or "
        f"{above_full('adaptive-whole', 0.25):.1f} %")),
    "trees": ("docs/which_head.md", lambda: (
        f"{perplexity('jiang', 'tree-brown'):.0f} against "
        f"{perplexity('jiang', 'tree-huffman'):.0f} in")),
    "novels": ("docs/which_head.md", lambda: (
        f"[{perplexity('novels', 'tree-brown'):.1f} and "
        f"{perplexity('novels', 'adaptive'):.1f}](../experiments/results/novels/README.md)")),
}


@pytest.mark.parametrize("name", STATED)
def test_a_number_in_prose_is_that_of_the_results(name):
    page, stated = STATED[name]
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    assert stated() in text
