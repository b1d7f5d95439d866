"""`tfsoftmax.advise`: what it runs, predicts and recommends, and the command."""

import math
import tracemalloc

import keras
import numpy as np
import pytest

import tfsoftmax
from refusals import refuses
from runs_helper import error_of, tool
from tfsoftmax.commands.advise import read_counts
from tfsoftmax.lm import advice, measured_heads
from tfsoftmax.lm.head_options import WordCounts
from tfsoftmax.profiling.memory import available_bytes

NAMES = tuple(measured_heads.CANDIDATES)


def rows_of(**milliseconds):
    """Rows of heads that took these times."""
    made = measured_heads.Measured
    return [made(name, name, "", "", True, each) for name, each in milliseconds.items()]


@pytest.fixture(scope="module")
def measured():
    return advice.advise(3000, units=384, positions=512, seconds=90)


def test_every_head_is_run_and_the_fastest_comes_first(measured):
    assert {row.name for row in measured.rows} == set(NAMES)
    assert not any(row.why_not for row in measured.rows)
    times = [row.milliseconds for row in measured.rows]
    assert times == sorted(times) and times[0] > 0
    text = str(measured)
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "V = 3,000, D = 384, N = 512 labels" in text and "Take FullSoftmax" in text


@pytest.mark.parametrize("name", NAMES)
def test_memory_is_what_was_predicted(measured, name):
    row = next(row for row in measured.rows if row.name == name)
    slack = 2 * 2**20  # of small heads the tensors that are not counted are most
    assert 0.3 * row.predicted_bytes - slack < row.bytes < 1.4 * row.predicted_bytes + slack


@pytest.mark.parametrize("name", NAMES)
def test_the_line_of_code_makes_the_layer(name):
    words = WordCounts(1e4 / np.arange(1, 101))
    row = measured_heads.unmeasured(name, len(words))
    layer = eval(row.code, {"tfsoftmax": tfsoftmax, "keras": keras, "counts": words.counts})
    layer.build((None, 8))
    weights = sum(math.prod(v.shape) for v in layer.trainable_variables)
    assert weights > 0
    assert measured_heads.predicted_bytes(name, words, 16, 8) >= 8 * weights
    assert row.layer in (type(layer).__name__, "Dense, cross-entropy")


def test_memory_is_predicted_without_taking_it():
    words = WordCounts(np.ones(100_000))
    tracemalloc.start()
    try:
        predicted = measured_heads.predicted_bytes("self_organised", words, 16, 8)
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert predicted > 4 * 100_000 * 317  # q(w, c), which is not trained
    assert taken < predicted / 10


def test_the_limit_of_a_container_counts(tmp_path):
    free = available_bytes(tmp_path)
    assert 0 < free < 1 << 50
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory/memory.limit_in_bytes").write_text("5000\n")
    (tmp_path / "memory/memory.usage_in_bytes").write_text("2000\n")
    assert available_bytes(tmp_path) == 3000
    (tmp_path / "memory.current").write_text("2000\n")
    for limit, expected in (("max", 3000), ("2500", 500), ("1000", 0)):
        (tmp_path / "memory.max").write_text(f"{limit}\n")
        assert available_bytes(tmp_path) == expected


def test_heads_whose_time_or_memory_is_missing_are_listed(monkeypatch):
    with refuses("seconds", "be enough for one head"):
        advice.advise(1000, 8, 16, seconds=1e-9)
    monkeypatch.setattr(measured_heads, "available_bytes", lambda: 1e5)
    found = advice.advise(3000, 8, 16, seconds=30, only=["full", "class_unigram"])
    assert [row.name for row in found.rows] == ["class_unigram", "full"]
    assert "GiB of memory" in found.rows[1].why_not and "GiB of memory" in str(found)
    assert found.recommended == "class_unigram"


@pytest.mark.parametrize("expected, times, words, frequent, task", [
    ("full", {"full": 9, "adaptive": 1, "sampled": 1}, 4096, 0.9, "text"),
    ("adaptive", {"full": 9, "adaptive": 1, "sampled": 1}, 4097, 0.9, "text"),
    ("full", {"full": 9, "adaptive": 8, "sampled": 7}, 50_000, 0.9, "text"),
    ("adaptive", {"full": 9, "adaptive": 3, "sampled": 1}, 50_000, 0.9, "text"),
    ("adaptive", {"adaptive": 3, "sampled": 1}, 50_000, 0.9, "text"),
    ("sampled", {"full": 9, "adaptive": 3, "sampled": 1}, 50_000, 0.2, "text"),
    ("sampled", {"full": 9, "adaptive": 3, "sampled": 1}, 50_000, 0.9, "items"),
    ("sampled", {"full": 9, "adaptive": 3, "sampled": 1}, 2_000_000, 0.9, "text"),
    ("sampled", {"full": 9, "adaptive": 8, "sampled": 1}, 50_000, 0.9, "text"),
    ("sampled", {"full": 9, "sampled": 1}, 50_000, 0.9, "text"),
    ("tree", {"tree": 1, "class": 2}, 50_000, 0.9, "text"),
])
def test_what_is_recommended(expected, times, words, frequent, task):
    name, reason = advice._recommendation(rows_of(**times), words, 512, frequent, task)
    assert name == expected and reason.endswith(".")
    assert "AdaptiveSoftmax gains" not in reason or "adaptive" in times


def test_arguments_are_checked():
    for wrong in ({"task": "images"}, {"only": ["fulll"]}, {"seconds": 0}, {"positions": 0},
                  {"units": 2}):
        with refuses(next(iter(wrong)), ""):
            tfsoftmax.advise(1000, **wrong)
    with refuses("counts", "be finite"):
        tfsoftmax.advise(1000, counts=[1, 2])


def test_the_command_reads_counts_and_draws(tmp_path):
    pytest.importorskip("matplotlib")
    np.save(tmp_path / "counts.npy", np.arange(1, 501))
    (tmp_path / "counts.txt").write_text("3\n4\n" * 60)
    (tmp_path / "words.txt").write_text("the\n")
    few = ["--only=full,sampled,dense", "--units=8", "--positions=16"]
    done = tool("advise", f"--counts={tmp_path}/counts.npy", *few, f"--plot={tmp_path}/f.png")
    assert "V = 500, D = 8, N = 16" in done.stdout and "19% are among" in done.stdout
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")
    assert "V = 120," in tool("advise", f"--counts={tmp_path}/counts.txt", *few).stdout
    failed = error_of("advise", f"--counts={tmp_path}/words.txt", *few)
    assert "error: `counts` must name an array" in failed


def test_counts_of_a_file_are_checked_and_may_be_large_or_follow_a_mark(tmp_path):
    (tmp_path / "marked.txt").write_text("1\n2\n", encoding="utf-8-sig")
    assert read_counts(f"{tmp_path}/marked.txt").tolist() == [1, 2]
    np.save(tmp_path / "table.npy", np.ones((10, 10)))
    with refuses("counts", "be finite, not negative"):
        read_counts(f"{tmp_path}/table.npy")
    for large in (np.full(100, 1 << 62), np.full(100, 6e4, np.float16)):
        assert advice.advise(100, 8, 16, large, 5, only=["full"]).recommended == "full"
