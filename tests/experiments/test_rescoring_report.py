import pathlib

import numpy as np
import pytest

from experiments.measurements import rescoring as report
from tfsoftmax.nbest import rescoring

SAID = [["the", "cat", "sat"], ["on", "the", "mat"], ["a", "dog", "sat"], ["on", "a", "cat"]]


@pytest.fixture(scope="module")
def lists(tmp_path_factory):
    """Lists whose second hypothesis is what was said, and whose scores know it by half."""
    pytest.importorskip("jiwer")
    directory = tmp_path_factory.mktemp("lists")
    with open(directory / "test.nbest", "w") as file, open(directory / "test.ref", "w") as said:
        for i, words in enumerate(SAID):
            said.write(f"u{i} {' '.join(words)}\n")
            file.write(f"u{i} 0 -1 {' '.join(words[:2])}\nu{i} -1 -3 {' '.join(words)}\n")
    lists = report.Lists(directory, "test")
    lists.directory = directory
    return lists


def test_a_run_is_scored_with_its_states_carried_and_without(lists, finished_run, monkeypatch):
    monkeypatch.setattr(report, "BATCH", 1)  # of more streams than sentences none carries a state
    found = {name: lm for name, lm, _ in report.scored(finished_run.directory, lists, lists)}
    name = pathlib.Path(finished_run.directory).name
    assert list(found) == [name, f"{name}, carried state"]
    apart, carried = (lm[0] for lm in found.values())
    np.testing.assert_allclose(apart[0], carried[0], rtol=1e-5)
    assert len(apart) == len(carried) == 8 and (abs(apart - carried)[1:] > 1e-3).all()


def test_lists_may_be_cut_to_their_first_hypotheses(lists):
    short = report.Lists(lists.directory, "test", hypotheses=1)
    assert short.nbest.sentences == tuple(tuple(words[:2]) for words in SAID)


def test_the_report_orders_oracle_rescored_and_first(lists):
    lm = np.array([-9, -2, -9, -2, -9, -2, -1, -2.0])
    grid = {"lm_weight": (0.0, 1.0), "old_lm_weight": (0.0,), "arpa_weight": (0.0,),
            "word_penalty": (0.0,)}
    system = report.rescored(lists, lists, (lm, lm), grid)
    assert system["weights"] == rescoring.Weights()
    facts = {"perplexity": 99.5, "vocab_size": 1000, "alone": 1, "rate": 1234.0}
    systems = {report.BIGRAM: system, "one": system | facts,
               "two": system | facts | {"vocab_size": 2000}}
    corrupted = report.ORIGINS["corruption.json"]
    settings = {"margin": 1, "voices": ["slt", "rms"]}
    text = "\n\n".join(report.report(lists, lists, systems, corrupted, settings, "a machine"))
    rows = {line.split(" | ")[0][2:]: line.split(" | ") for line in text.splitlines()}
    assert rows["1-best of the lists"][3] == "33.33"
    assert rows["one"][1:7] == ["99.50", "–", "8.33", "0.00", "8.33", "0.00"]
    assert rows["one"][7].startswith("-25.00 [-33.33, ")
    assert rows["one"][9] == "1, 0, 0" and rows["oracle"][3] == "0.00"
    assert rows["two"][1:3] == ["–", "99.50"]  # perplexities of other vocabularies do not compare
    assert "| test perplexity, V = 1,000 | test perplexity, V = 2,000 |" in text
    for pair in ("one − two", f"one − {report.BIGRAM}"):
        assert rows[pair][1].startswith("+0.00 [+0.00, +0.00]")
    assert "do not come from a recogniser" in text and "a machine" in text
    assert "margin 1, voices slt rms" in text
