"""The table of nats by frequency: exact, in all, and compared with the first run."""

import math

import pytest

import runs_helper
from experiments.measurements import by_frequency
from tfsoftmax.corpora.records import Corpus


def test_the_bands_of_a_run_add_up_to_its_nats(corpus, finished_run):
    result = by_frequency.measured(finished_run.directory, corpus, "valid")
    bands = [start for start in result["starts"] if f"nats_{start}" in result]
    total = sum(result[f"nats_{start}"] * result[f"tokens_{start}"] for start in bands)
    assert total == pytest.approx(result["nats_per_token"], rel=1e-5)
    assert isinstance(corpus, Corpus) and result["epochs"] > 0
    assert result["parameters"] == len(corpus.vocabulary) * (runs_helper.MODEL.hidden_units + 1)


def test_runs_are_compared_with_the_first():
    first = {"starts": [0, 1, 10], "nats_1": 6.0, "tokens_1": 0.25, "nats_10": 2.0,
             "tokens_10": 0.75, "nats_per_token": 3.0, "epochs": 2.0, "parameters": 1234}
    other = {**first, "nats_1": 5.5, "nats_per_token": 2.875, "parameters": 99}
    headings, shares, *rows = by_frequency.rows_of({"one": first, "other": other})
    assert headings == [
        "run", "epochs", "parameters", "1 to 9", "10 to 99", "all", "perplexity",
    ]
    assert shares[3:5] == ["25.0%", "75.0%"]
    assert rows[0] == ["one", "2.0", "1,234", "6.000", "2.000", "3.000", f"{math.exp(3):.2f}"]
    assert rows[1][2:6] == ["99", "5.500 (-0.500)", "2.000 (+0.000)", "2.875 (-0.125)"]
