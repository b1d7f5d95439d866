"""The benchmark of retrieval: its made-up vectors, and a run of it."""

import numpy as np
import pytest

from experiments.benchmarks import retrieval


def test_vectors_are_in_clusters_and_queries_near_items():
    kernel, bias, queries = retrieval.made_up(3000)
    assert kernel.shape == (3000, retrieval.UNITS) and bias.shape == (3000,)
    np.testing.assert_allclose(np.exp(bias).sum(), 1, rtol=1e-4)
    units = kernel / np.linalg.norm(kernel, axis=1, keepdims=True)
    cosines = units[:300] @ units.T
    nearest = np.sort(cosines, axis=1)[:, -6:-1].mean()
    assert nearest > 0.6 > cosines.mean() + 0.5  # 0.4 is what random vectors have at the most
    found = np.sort(queries @ units.T / np.linalg.norm(queries, axis=1, keepdims=True))[:, -1]
    assert found.mean() > 0.7


def test_the_page_has_every_way(tmp_path, monkeypatch):
    pytest.importorskip("faiss")
    import tfsoftmax

    monkeypatch.setattr(retrieval, "RESULTS", tmp_path)
    kernel, bias, queries = retrieval.made_up(2000)
    head = retrieval.with_weights(tfsoftmax.SampledSoftmax(2000, 1), kernel, bias)
    ways = {name: retrieval.WAYS[name] for name in ("ivf, probes 32", "ivf, probes 128")}
    rows = retrieval.measured(head, queries, ways, (1, 1))
    retrieval.write(rows, "a machine", 1)
    page = (tmp_path / "README.md").read_text()
    assert "| 2,000 | exact |" in page and "a machine" in page and "--items=2000" in page
    few, many = (float(row[5]) for row in rows[1:])
    assert 0.5 < few <= many
