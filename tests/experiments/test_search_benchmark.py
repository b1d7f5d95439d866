"""The benchmark of searches: its larger vocabularies, its hash tables and its page."""

import numpy as np

from experiments.benchmarks import search
from experiments.benchmarks.indexes import recalls

RNG = np.random.default_rng(0)
KERNEL, BIAS = RNG.normal(size=(50, 12)).astype(np.float32), RNG.normal(size=50)
COUNTS = 1000.0 / np.arange(1, 51)


def test_a_larger_vocabulary_keeps_the_trained_words_and_their_lengths():
    kernel, bias, counts = search.grown(KERNEL, BIAS, COUNTS, 400)
    assert kernel.shape == (400, 12) and bias.shape == counts.shape == (400,)
    np.testing.assert_array_equal(kernel[:50], KERNEL)
    lengths = np.linalg.norm(KERNEL, axis=1)
    others = np.linalg.norm(kernel[50:], axis=1)
    assert np.abs(others[:, None] - lengths).min(axis=1).max() < 1e-4
    np.testing.assert_allclose(counts, 1000.0 / np.arange(1, 401))  # Zipf's law goes on
    assert bias[50:].mean() < BIAS.mean() - 1
    assert [len(part) for part in search.grown(KERNEL, BIAS, COUNTS, 20)] == [20] * 3


def test_winner_take_all_finds_the_vectors_with_the_most_keys_of_the_query():
    vectors = search.grown(KERNEL, BIAS, COUNTS, 3000)[0]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    tables = search.WinnerTakeAll(vectors, bands=30, codes=2, window=4)
    found = tables.search(3 * vectors[[7, 2999]], 5, candidates=100)
    assert found.shape == (2, 5) and (found[:, 0] == [7, 2999]).all() and tables.nbytes > 0
    scores = np.take_along_axis(3 * vectors[[7, 2999]] @ vectors.T, found, axis=1)
    assert np.all(np.diff(scores) <= 0)
    queries = RNG.normal(size=(20, 12)).astype(np.float32)
    exact = np.argsort(-queries @ vectors.T, axis=1)[:, :100]
    shares = recalls(exact, tables.search(queries, 100, candidates=500), search.KS)
    assert 0.4 < shares[1] < 1  # of 500 random ones it would be 0.17


def test_recall_is_a_share_of_the_first_words_of_both():
    exact = np.arange(100)[None]
    found = np.concatenate([[1, 0], np.arange(200, 208), np.arange(10, 100)])[None]
    np.testing.assert_allclose(recalls(exact, found, search.KS), [0, 0.2, 0.92])


def test_the_page_has_both_tables(tmp_path, monkeypatch):
    monkeypatch.setattr(search, "RESULTS", tmp_path)
    row = ["9", "exact", *["1"] * (len(search.HEADINGS) - 2)]
    search.write([row], [["9", "alike", "8", "0.1", "0.2", "95%"]], [(0.1, 0.2)], "a machine", 9,
                 4, 5)
    page = (tmp_path / "README.md").read_text()
    assert "| 9 | exact | 1 |" in page and "| 9 | alike | 8 |" in page and "a machine" in page
    assert "at most 10.0% are such words" in page
