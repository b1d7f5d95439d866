"""Numbers of results that pages state in prose are those of the results."""

import pathlib
import statistics

import pytest

from experiments.benchmarks import rows as of_rows
from experiments.benchmarks.models import TORCH_MODELS
from experiments.benchmarks.uses import ALL_LOG_PROBS
from experiments.framework import seeds

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "experiments" / "results"


def measured(experiment, name, column="perplexity"):
    """The mean of a column over the seeds of a run."""
    rows = seeds.kept(RESULTS / experiment / "results.json")
    own = [row[column] for row in rows if column in row and seeds.group(row["name"]) == name]
    assert own, f"{experiment} has no {name}"
    return statistics.mean(own)


def timed(suite, case, measure, size=200_606, page="benchmarks"):
    """The row of a page of speed."""
    (row,) = [
        row for row in of_rows.read(RESULTS / page / "rows.jsonl")
        if (row["suite"], row["case"], row["measure"], row["V"]) == (suite, case, measure, size)
    ]
    return row


def to_peer(suite, case, measure, peer, size=200_606):
    return timed(suite, case, measure, size)["to_peers"][peer]


def above_full(run, dropout):
    """Per cent by which the perplexity of a run of `methods` exceeds full softmax's."""
    ours, full = (measured("methods", f"{x}-dropout{dropout}") for x in (run, "full"))
    return 100 * (ours / full - 1)


def of_moves(case):
    """The time of a head's bare moves over that of its bare products."""
    row = timed("heads", case, "step")
    return row["moves_ms"] / row["floor_ms"]


def to_both(case):
    """A step over its bare products and moves together."""
    row = timed("heads", case, "step")
    return row["median_ms"] / (row["floor_ms"] + row["moves_ms"])


def by_row(case):
    """The time of a step with accumulators by row, divided by that with one for each weight."""
    return to_peer("accumulators", f"{case}, by row", "step", case)


def cell(experiment, *start, column):
    """A number in the row of a page's tables that starts with these cells."""
    lines = (RESULTS / experiment / "README.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    (row,) = [row for row in rows if tuple(row[: len(start)]) == start]
    return float(row[column].removesuffix("%"))


def padded(share):
    """Milliseconds of a step of full softmax in which a share of the positions is padding."""
    measure = f"step, {share}% padding"
    return timed("padding", "FullSoftmax", measure, 50_000, "left_out")["median_ms"]


HIERARCHICAL = (
    "ClassSoftmax", "NarySoftmax, three levels", "TreeSoftmax (p-tHSM)", "SelfOrganisedSoftmax",
)
STATED = {
    "opening": ("README.md", lambda: (
        "takes {:.2g} s with Keras's `Dense`, {:.2g} s with `FullSoftmax`, {:.2g} s with "
        "`AdaptiveSoftmax` and {:.2g} s with `SampledSoftmax`; all of them give exact "
        "probabilities in evaluation. With PyTorch's adaptive softmax it takes {:.2g} s".format(*(
            timed("models", case, "whole step")["median_ms"] / 1000 for case in (
                "Keras LSTM and Dense", "LSTM and FullSoftmax", "LSTM and AdaptiveSoftmax",
                "LSTM and SampledSoftmax", TORCH_MODELS["LSTM"]))))),
    "padding": ("docs/troubleshooting.md", lambda: (
        "a step of which 85 % is padding takes a sixth of the time"
        if 1 / 7 < padded(85) / padded(0) < 1 / 5 else "another share")),
    "few words": ("docs/troubleshooting.md", lambda: (
        "`AdaptiveSoftmax` takes {:.2f} of the time with `Dense`".format(to_peer(
            "models", "LSTM and AdaptiveSoftmax", "whole step", "Keras LSTM and Dense", 10_000)))),
    "excluding": ("docs/retrieval.md", lambda: (
        "takes {:.2f} of the time of a plain".format(cell(
            "left_out", "50,000", "FullSoftmax", "20 best of 512, without 850", column=6)))),
    "convergence": ("docs/map.md", lambda: (
        "`full` has {:.1f}, `class-brown` {:.1f}, `class` {:.1f}, `tree-brown` {:.1f} and `nce` "
        "{:.1f}".format(*(measured("jiang", run) for run in (
            "full", "class-brown", "class", "tree-brown", "nce"))))),
    "adaptive": ("docs/which_head.md", lambda: (
        f"its perplexity is {above_full('adaptive', 0.4):.1f} or "
        f"{above_full('adaptive', 0.25):.1f} % above that of full softmax, with a dropout of 0.4 "
        f"or 0.25, and without projections {above_full('adaptive-whole', 0.4):.1f} or "
        f"{above_full('adaptive-whole', 0.25):.1f} %")),
    "accumulators": ("docs/which_head.md", lambda: (
        f"of tree softmax takes {by_row('TreeSoftmax (p-tHSM)'):.2f}, of class-based softmax "
        f"{by_row('ClassSoftmax'):.2f} and of self-organised softmax "
        f"{by_row('SelfOrganisedSoftmax'):.2f} of the time")),
    "likeliest": ("docs/which_head.md", lambda: (
        "64 positions in {:.2f} of the time that all probabilities take, and adaptive softmax in "
        "{:.2f} (".format(*(
            to_peer("uses", head, "top_k of 64, k = 10", f"{head}, {ALL_LOG_PROBS}")
            for head in ("TreeSoftmax", "AdaptiveSoftmax"))))),
    "moves": ("experiments/benchmarks/README.md", lambda: (
        "{:.2f} times the floor for `ClassSoftmax`, {:.2f} for `NarySoftmax`, {:.2f} for "
        "`TreeSoftmax` and {:.2f} for".format(*map(of_moves, HIERARCHICAL)))),
    "moves and floor": ("experiments/benchmarks/README.md", lambda: (
        "{:.2f}, {:.2f}, {:.2f} and {:.2f} times as long as floor and moves together".format(
            *map(to_both, HIERARCHICAL)))),
    "many likeliest": ("docs/which_head.md", lambda: (
        "A tree gains nothing for the 41 likeliest" if to_peer(
            "uses", "TreeSoftmax", "top_k of 64, k = 41", f"TreeSoftmax, {ALL_LOG_PROBS}") > 1
        else "A tree gains")),
    "bfloat16": ("docs/language_models.md", lambda: (
        "a step took {:.2f} times as long as in float32".format(
            to_peer("models", "LSTM and AdaptiveSoftmax, bfloat16", "whole step",
                    "LSTM and AdaptiveSoftmax, float32", 10_000)))),
    "by row": ("docs/which_head.md", lambda: (
        "perplexity of [{:.1f} instead of {:.1f}](../experiments/results/accumulators/README.md), "
        "and importance sampling to one of {:.1f} instead of {:.1f}".format(*(
            measured("accumulators", f"{head}-{kind}")
            for head in ("adaptive", "sampled") for kind in ("row", "element"))))),
    "published value": ("experiments/framework/papers.toml", lambda: (
        "a test perplexity of {:.1f} (paper 114.5), and a validation perplexity of {:.1f} "
        "(120.7)".format(*(measured("ptb/zaremba", "small", column) for column in (
            "test_perplexity", "perplexity"))))),
    "published value again": ("README.md", lambda: (
        "its test perplexity on Penn Treebank is [{:.1f}](".format(
            measured("ptb/zaremba", "small", "test_perplexity")))),
    "order of leaves": ("experiments/tables/leaf_orders.py", lambda: (
        "lower the test perplexity from {:.1f} to {:.1f}, a hundred lower it to {:.1f}, and a "
        "thousand to {:.1f}".format(*(
            measured("ptb/leaf_orders", run, "test_perplexity")
            for run in ("huffman", "brown-30", "brown-100", "brown-1000"))))),
    "rates of leaves": ("experiments/tables/leaf_orders.py", lambda: (
        "the learning rate give {:.1f} and {:.1f}".format(*(
            measured("ptb/leaf_orders", f"huffman-rate-{rate}", "test_perplexity")
            for rate in ("0.003", "0.0003"))))),
    "trees by plain descent": ("experiments/tables/sgd_trees.py", lambda: (
        "are {:.3f}, {:.3f}, {:.3f} and {:.3f} of full softmax's (poster:".format(*(
            measured("sgd_trees", f"tree-{tree}", "test_perplexity")
            / measured("sgd_trees", "full", "test_perplexity")
            for tree in ("brown", "huffman", "alphabetical", "random"))))),
    "trees": ("docs/which_head.md", lambda: (
        f"{measured('jiang', 'tree-brown'):.0f} against "
        f"{measured('jiang', 'tree-huffman'):.0f} in")),
    "rescoring": ("docs/speech.md", lambda: (
        "[from {:.1f} to {:.1f} %](../experiments/results/rescoring_recognised/README.md), and the "
        "recogniser's own bigram model with tuned weights lowered it to {:.1f} %".format(*(
            cell("rescoring_recognised", row, column=2) + 1e-9 for row in (
                "1-best of the lists", "adaptive-dropout0.4-seed1",
                "the lists' bigram model, weights tuned"))))),
    "labels": ("README.md", lambda: (
        "782 steps, and their precision was {:.1f} % and {:.1f} %".format(*(
            cell("../examples", *row, column=2) for row in (
                ("SampledSoftmax", "11.4"), ("AdaptiveSoftmax", "21.1")))))),
    "rescoring in README": ("README.md", lambda: (
        "(word errors of a recogniser that heard synthetic speech fell from {:.1f} to {:.1f} %)"
        .format(*(cell("rescoring_recognised", row, column=2) + 1e-9
                  for row in ("1-best of the lists", "adaptive-dropout0.4-seed1"))))),
    "scores of models alone": ("experiments/results/papers.md", lambda: (
        "({:.1f} and {:.1f} against {:.1f} %; thesis 21.9 and 22.0 against 21.6 %)".format(*(
            cell("rescoring_recognised", row, column=column) + 1e-9 for row, column in (
                ("adaptive-dropout0.4-seed1", 7), ("sampled-dropout0.4-seed1", 7),
                ("1-best of the lists", 2)))))),
    "novels": ("docs/which_head.md", lambda: (
        f"[{measured('novels', 'tree-brown'):.1f} and "
        f"{measured('novels', 'adaptive'):.1f}](../experiments/results/novels/README.md)")),
}


@pytest.mark.parametrize("name", STATED)
def test_a_number_in_prose_is_that_of_the_results(name):
    page, stated = STATED[name]
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    assert stated() in text
