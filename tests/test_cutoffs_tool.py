"""`tfsoftmax cutoffs` as a user runs it."""

import json
import re

import pytest

from runs_helper import error_of, tool
from tfsoftmax.partitions.cost_model import CostModel, MachineCosts
from tfsoftmax.partitions.cutoffs import auto_cutoffs

CONSTANTS = {"overhead_seconds": 1e-4, "multiply_seconds": 1.5e-11, "logit_seconds": 9e-10,
             "weight_seconds": 5e-10, "least_seconds": 0.0}
GIVEN = f"--constants={json.dumps(CONSTANTS)}"


def test_the_report_is_of_the_corpus_and_marks_what_auto_takes(corpus):
    counts, positions = corpus.vocabulary.counts, 24
    text = tool("cutoffs", f"--data={corpus.directory}", "--hidden_units=512", "--cutoffs=5,20",
                "--positions=24", GIVEN).stdout
    assert f"{len(counts)} words; 512 hidden units, {positions} labels a step" in text
    model = CostModel(counts, 512, positions, 4.0, MachineCosts(**CONSTANTS))
    marked = re.search(r"^-> *(\d+) +([\d.]+) +[\d.]+  ([\d ]+)$", text, re.MULTILINE)
    best = auto_cutoffs(counts, 512, positions, constants=CONSTANTS)
    assert [int(c) for c in marked[3].split()] == best
    assert int(marked[1]) == len(best)
    assert float(marked[2]) == round(1000 * model.seconds(best), 2)
    own = f"{1000 * model.seconds([5, 20]):.2f}"
    assert re.search(rf"^ +2 +{own} .* 5 20$", text, re.MULTILINE)
    assert text.count("\ntail ") == len(best)


def test_the_report_of_pairs_is_that_of_their_targets(tmp_path):
    (tmp_path / "train.tsv").write_text("not these words\tbut these\n" * 5)
    tool("prepare_pairs", "--corpus=text", f"--train={tmp_path / 'train.tsv'}",
         f"--out={tmp_path / 'data'}")
    text = tool("cutoffs", f"--data={tmp_path / 'data'}", "--cutoffs=2", GIVEN).stdout
    assert "text: 4 words" in text


def test_the_constants_that_are_shown_give_the_same_report():
    first = tool("cutoffs", "--vocab_size=5000", GIVEN).stdout
    shown = re.search(r"^--constants='(.*)'$", first, re.MULTILINE)[1]
    assert json.loads(shown) == CONSTANTS
    assert tool("cutoffs", "--vocab_size=5000", f"--constants={shown}").stdout == first


def test_without_constants_the_machine_is_measured_and_remembered(tmp_path, monkeypatch):
    monkeypatch.setenv("TFSOFTMAX_CACHE", str(tmp_path / "costs.json"))
    first = tool("cutoffs", "--vocab_size=3000", "--hidden_units=64").stdout
    assert len(json.loads((tmp_path / "costs.json").read_text())) == 1
    assert tool("cutoffs", "--vocab_size=3000", "--hidden_units=64").stdout == first
    again = tool("cutoffs", "--vocab_size=3000", "--hidden_units=64", "--remeasure").stdout
    assert again.startswith(first.partition("\n")[0]) and "--constants=" in again


def test_the_figure_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    tool("cutoffs", "--vocab_size=2000", "--projection_factor=0", GIVEN, f"--plot={tmp_path}/f.png")
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("arguments, message", [
    (["--data=nowhere"], "nowhere"),
    (["--vocab_size=1"], "`vocab_size` must be at least 2"),
    (["--cutoffs=9,3"], "increase strictly above 0 and below 44370"),
    (["--cutoffs=a"], "`cutoffs` must be whole numbers"),
    (["--hidden_units=0"], "`hidden_units` must be at least 1"),
    (["--exponent=11"], "`exponent` must lie in [0, 10]. Received: exponent=11.0"),
    (["--exponent=nan"], "`exponent` must be a finite number"),
    (["--data=x", "--exponent=1"], "`exponent` must not be given with --data"),
    (["--remeasure"], "`remeasure` must not be given with --constants"),
    (['--constants={"a": 1, "a": 2}'], "`constants` must be JSON. Received: the key 'a' twice"),
])
def test_mistakes_end_in_one_sentence(arguments, message):
    assert message in error_of("cutoffs", GIVEN, *arguments)


def test_unknown_constants_are_named():
    result = error_of("cutoffs", '--constants={"speed": 1}')
    assert "`constants` must be numbers named overhead_seconds, " in result
