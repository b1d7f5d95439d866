"""Facts about the benchmark of several workers, and about its model of many GPUs."""

import json
import subprocess
import sys
import time
import types

import pytest

from experiments.benchmarks import cluster_model, worker_step, workers


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


def test_a_worker_says_what_it_holds():
    request = {"head": "full", "options": {}, "vocab_size": 50, "units": 8, "positions": 12,
               "steps": 2, "devices": 1}
    command = [sys.executable, "-m", "experiments.benchmarks.worker_step", json.dumps(request)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    answer = json.loads(done.stdout)
    weights_and_slots = 2 * 4 * 50 * (8 + 1)
    assert 0 <= answer["held"] - weights_and_slots <= 32  # iterations and learning rate
    assert answer["seconds"] > 0


def test_processes_know_each_other():
    own = [json.loads(e["TF_CONFIG"]) for e in workers.environments(2)]
    assert own[0]["cluster"] == own[1]["cluster"]
    assert len(set(own[0]["cluster"]["worker"])) == 2
    assert [config["task"]["index"] for config in own] == [0, 1]
    assert "TF_CONFIG" not in workers.environments(1)[0]


def outcome(codes, seconds=60):
    """What comes of processes that run some code each: the output of the first, or an error."""
    command = [sys.executable, "-S", "-c", "import os; exec(os.environ['CODE'])"]
    start = time.monotonic()
    try:
        return workers.output_of_first(command, [{"CODE": code} for code in codes], seconds)
    except RuntimeError as error:
        assert time.monotonic() < start + 30, "the others must be killed"
        return str(error)


def test_the_process_that_fails_first_says_why():
    waits, fails = "import time; time.sleep(60)", "import sys; sys.exit('no space left')"
    assert outcome([waits, fails]) == "worker 1 ended with 1 and says: no space left\n"
    assert outcome([waits, "pass"], seconds=0.1).startswith("worker 0 ran for 0.1 seconds")
    assert outcome(["print('own')", "print('other')"]) == "own\n"
    assert len(outcome(["print('x' * 100_000)", ""])) == 100_001  # more than a pipe holds


@pytest.mark.parametrize("rank", [0, 1])
def test_worker_0_is_not_the_first_beside_a_chief(rank):
    """The tasks chief 0 and worker 0 have the replicas 0 and 1."""
    strategy = types.SimpleNamespace(
        num_replicas_in_sync=2, cluster_resolver=types.SimpleNamespace(task_id=0),
        experimental_distribute_values_from_function=lambda function: function(
            types.SimpleNamespace(replica_id_in_sync_group=rank)
        ),
        experimental_local_results=lambda value: (value,),
    )
    assert worker_step.is_first(strategy) == (rank == 0)
