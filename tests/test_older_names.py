"""Runs and corpora that were written before November 2026, when some fields had other names."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

from runs_helper import CONFIG, MODEL, assert_same_run, events, tool, without_manifests
from test_resuming import stop_at
from tfsoftmax.corpora.records import Corpus
from tfsoftmax.lm import runs, training

OLDER = {
    "embedding_units": "embedding", "hidden_units": "hidden", "pretrained": "embeddings",
    "time_steps": "steps",
}


def with_older_names(values):
    """A JSON value in which the fields of objects have their older names."""
    if isinstance(values, dict):
        return {OLDER.get(k, k): with_older_names(v) for k, v in values.items()}
    return list(map(with_older_names, values)) if isinstance(values, list) else values


def rewrite(path):
    values = json.loads(path.read_text())
    older = with_older_names(values)
    assert older != values
    path.write_text(json.dumps(older))


@pytest.fixture
def older_corpus(corpus, tmp_path):
    copy = shutil.copytree(corpus.directory, tmp_path / "data")
    rewrite(copy / "manifest.json")
    return copy


@pytest.fixture
def older_run(finished_run, older_corpus, tmp_path):
    copy = shutil.copytree(finished_run.directory, tmp_path / "run")
    config = json.loads((copy / "config.json").read_text())
    config["corpus"]["directory"] = str(older_corpus)
    (copy / "config.json").write_text(json.dumps(config))
    without_manifests(runs.Run(str(copy)))
    rewrite(copy / "config.json")
    return runs.Run(str(copy))


def test_an_older_corpus_is_the_same_corpus(older_corpus, corpus):
    loaded = Corpus.load(older_corpus)
    assert loaded.settings == corpus.settings
    assert (loaded.streams, loaded.time_steps) == (corpus.streams, corpus.time_steps)
    assert loaded.vocabulary.words == corpus.vocabulary.words


def test_an_older_run_is_evaluated(older_run, finished_run):
    assert older_run.config()["model"] == finished_run.config()["model"]
    assert older_run.config()["training"] == finished_run.config()["training"]
    printed = tool("evaluate", f"--run={older_run.directory}", "--split=valid").stdout
    best = min(m["perplexity"] for m in events(finished_run, "valid"))
    found = json.loads(printed.splitlines()[-1])["perplexity"]
    np.testing.assert_allclose(found, best, rtol=1e-5)


def test_an_older_run_that_was_interrupted_goes_on(
    older_corpus, finished_run, tmp_path, monkeypatch
):
    run = runs.Run(str(tmp_path / "interrupted"))
    stop_at(5, monkeypatch)
    assert training.train(str(older_corpus), run.directory, MODEL, CONFIG, verbose=False) is None
    monkeypatch.undo()
    without_manifests(run)
    rewrite(tmp_path / "interrupted" / "config.json")
    training.train(str(older_corpus), run.directory, MODEL, CONFIG, verbose=False)
    assert_same_run(finished_run, run)


def test_an_older_run_of_another_configuration_is_refused(older_corpus, older_run):
    other = dataclasses.replace(MODEL, hidden_units=12)
    with pytest.raises(ValueError, match="hidden_units=11 there, 12 now"):
        training.train(str(older_corpus), older_run.directory, other, CONFIG, verbose=False)
