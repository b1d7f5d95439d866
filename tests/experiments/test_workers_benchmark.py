"""Facts about the benchmark of several workers, and about its model of many GPUs."""

import types

import pytest

from experiments.benchmarks import cluster_model, workers


@pytest.mark.parametrize("kind", cluster_model.KINDS)
def test_one_device_receives_nothing(kind):
    assert cluster_model.KINDS[kind].bytes(1, 1000, 64, 128) == 0


def test_formulas_count_what_a_ring_moves():
    size = 4 * 1000 * 65
    assert cluster_model.dense(4, 1000, 64, 128) == 2 * 3 * size / 4
    of_each = 32 * (4 * 64 + 8 + 4) + 8 * 128  # hidden states, labels, weights; ln Z and scores
    gathered, summed = 3 * of_each, 2 * 3 * (4 * 128 * 64) / 4
    assert cluster_model.sharded(4, 1000, 64, 128) == gathered + summed


def test_a_divided_vocabulary_needs_no_bytes_for_more_words():
    few, many = (cluster_model.sharded(8, size, 64, 128) for size in (10**4, 10**7))
    assert few == many
    assert cluster_model.dense(8, 10**7, 64, 128) > 900 * cluster_model.dense(8, 10**4, 64, 128)


def test_the_model_divides_memory_among_devices():
    sizes = {"vocab_size": 10**6, "units": 64, "positions_of_each": 128}
    held = [cluster_model.step(cluster_model.KINDS["sharded"], p, **sizes)[1] for p in (8, 64)]
    assert held[0] == 8 * held[1] == 3 * 4 * 10**6 * 64 / 8


@pytest.mark.parametrize("processes, devices", [(1, 1), (1, 2), (2, 1)])
def test_the_first_worker_says_what_it_holds(processes, devices):
    options = types.SimpleNamespace(vocab_size=50, units=8, positions=12, steps=2)
    answer = workers.measured("dense", options, processes, devices)
    weights_and_slots = 2 * 4 * 50 * (8 + 1)
    assert 0 <= answer["held"] - weights_and_slots <= 32  # iterations and learning rate
    assert answer["seconds"] > 0


def test_a_worker_that_fails_says_why():
    options = types.SimpleNamespace(vocab_size=-1, units=8, positions=12, steps=2)
    with pytest.raises(RuntimeError, match=r"(?s)dense, 1 processes: .*vocab_size"):
        workers.measured("dense", options)
