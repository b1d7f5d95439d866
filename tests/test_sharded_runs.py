"""Training runs whose softmax lies in shards: the checkpoints of any number of devices."""

import json
import os
import pathlib
import shutil
import signal

import numpy as np
import pytest

import command_server
import replicas_helper
from replicas_helper import strategy_here
from runs_helper import tool
from test_sharded import local_rows, whole
from test_workers import PLAIN, assert_close_runs, by_one_process, scored_and_evaluated
from tfsoftmax import Embedding, ModelConfig, ShardedEmbedding, language_model
from tfsoftmax.lm.pretrained import apply_embeddings
from tfsoftmax.lm.scoring import Scorer
from tfsoftmax.runs import runs
from tfsoftmax.runs.runs import Run
from tfsoftmax.sharding import run_checkpoints
from workers_helper import (
    changing_workers,
    check_a_killed_worker,
    trained,
    trained_by_local_workers,
)

SHARDED = {"dropout": 0.0, "head": "sharded"}
CONFIG = {**PLAIN, "model": SHARDED}


@pytest.fixture(scope="module")
def alone(corpus, tmp_path_factory):
    """The run of one device."""
    return by_one_process(corpus, tmp_path_factory.mktemp("alone") / "run", SHARDED)


@pytest.fixture(scope="module")
def shared(corpus, tmp_path_factory):
    """A run of two workers, then one process, then two; the second of all gets SIGTERM first."""
    run = Run(str(tmp_path_factory.mktemp("shared") / "run"))
    assert changing_workers(corpus, run, has_rows, **CONFIG) == [True, False, True]
    return run


def has_rows(run):
    return os.path.exists(run.checkpoints.path(run.checkpoints.name(), run_checkpoints.ROWS))


def test_the_number_of_workers_may_change_and_a_signal_to_one_stops_all(shared, alone):
    assert_close_runs(shared, alone)
    assert len(os.listdir(shared.checkpoints.directory)) <= 3, "older checkpoints are deleted"


def test_each_worker_has_written_the_rows_that_it_holds(shared):
    folder = shared.checkpoints.path(shared.checkpoints.name())
    rows = run_checkpoints._rows(folder)
    words = len(shared.vocabulary())
    assert {shape[0] for shape, _ in rows["variables"].values()} == {words}
    assert {(e["first"], e["rows"]) for e in rows["files"]} == {
        (0, words // 2), (words // 2, words - words // 2)
    }
    assert {key.partition("/")[0] for key in rows["variables"]} == {"weights", "optimizer"}


def test_one_device_reads_a_run_of_two_workers(shared, alone):
    ours, theirs = [
        Scorer(*runs.load(run.directory, streams=2)[:2]).sentences([["w3", "w6", "w1"], ["w2"]])
        for run in (shared, alone)
    ]
    np.testing.assert_allclose(np.concatenate(ours), np.concatenate(theirs), rtol=1e-5)


def test_a_damaged_file_of_rows_is_named(shared, tmp_path):
    run = Run(str(shutil.copytree(shared.directory, tmp_path / "run")))
    folder = run.checkpoints.path(run.checkpoints.name("best"))
    path = sorted(pathlib.Path(folder).glob("weights-*.npy"))[-1]
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x55")
    with pytest.raises(ValueError, match=f"{path.name}: must be as it was written"):
        runs.load(run.directory, streams=1)
    os.unlink(f"{folder}/{run_checkpoints.ROWS}")
    with pytest.raises(ValueError, match="rows.json"):
        runs.load(run.directory, streams=1)


def full_disk(*_, **__):
    raise OSError(28, "No space left on device")


def failing_to_save(folder):
    """A worker that cannot write its rows, and another one; what each of them is told."""
    import keras

    from tfsoftmax import ShardedSoftmax
    from tfsoftmax.runs import followers
    from tfsoftmax.runs.checkpoints import Checkpoints, weight_variables
    from tfsoftmax.sharding.workers import Workers

    workers = Workers(strategy_here())
    with workers.strategy.scope():
        model = keras.Sequential([keras.Input((3,)), ShardedSoftmax(7)])
    variables = weight_variables(model)
    kind = Checkpoints if workers.first else followers._FollowedCheckpoints
    checkpoints = kind(folder, dict)
    if workers.first:
        checkpoints.begin()
    checkpoints.save(variables, {"step": 1}, workers=workers)
    told = []
    for failing in (0, 1):
        with pytest.MonkeyPatch.context() as patch:
            if workers.rank == failing:
                patch.setattr(run_checkpoints, "write_rows", full_disk)
            with pytest.raises((OSError, RuntimeError)) as error:
                checkpoints.save(variables, {"step": 2}, workers=workers)
            told.append(str(error.value))
        workers.sum([0])
        assert set(os.listdir(folder)) == {"pointers.json", "step-000000001"}
        workers.sum([0])
    checkpoints.save(variables, {"step": 2}, workers=workers)
    return told


def test_a_worker_that_cannot_write_ends_all_and_the_last_checkpoint_stays(tmp_path):
    told = replicas_helper.run(failing_to_save, workers=2, seconds=100, folder=str(tmp_path))
    full, other = "[Errno 28] No space left on device", "Another worker has failed, and says why."
    assert told == [[full, other], [other, full]]
    assert set(os.listdir(tmp_path)) == {"pointers.json", "step-000000002"}


@pytest.mark.parametrize("head, options, sharded", [
    ("sharded", {}, True), ("sharded", {"shard": False}, False),
    ("full", {"shard": True}, True), ("full", {}, False), ("sampled", {"shard": True}, True),
])
def test_an_embedding_is_in_shards_where_the_tied_head_is(head, options, sharded, corpus):
    config = ModelConfig(
        embedding_units=9, hidden_units=9, tie_embeddings=True, head=head, head_options=options
    )
    model = language_model(config, corpus.vocabulary, streams=2)
    head, embedding = model.get_layer("head"), model.get_layer("embedding")
    assert head.tied_to is embedding and head.shard == sharded
    assert type(embedding) is (ShardedEmbedding if sharded else Embedding)


def with_pretrained_rows():
    """The table that two devices hold, after some rows of it got vectors."""
    strategy = strategy_here()
    with strategy.scope():
        embedding = ShardedEmbedding(7, 2, embeddings_initializer="zeros")
        embedding.build()
    apply_embeddings(embedding, np.array([6, 0, 3, 2]), np.arange(8.0).reshape(4, 2))
    return local_rows(embedding.embeddings)


def test_pretrained_vectors_reach_the_shards_that_hold_their_words():
    (rows,) = replicas_helper.run(with_pretrained_rows, devices=2, seconds=100)
    expected = [[2, 3], [0, 0], [6, 7], [4, 5], [0, 0], [0, 0], [0, 1]]
    np.testing.assert_array_equal(whole([[rows]])[0], expected)


@pytest.mark.slow
@pytest.mark.parametrize("model", [
    {"head": "sharded", "tie_embeddings": True, "embedding_units": 11},
    {"head": "sampled", "head_options": {"shard": True, "num_samples": 8, "seed": 3},
     "tie_embeddings": True, "embedding_units": 11},
    {"head": "full", "head_options": {"shard": True}},
    {"head": "sampled", "head_options": {"shard": True, "num_samples": 8, "seed": 3}},
], ids=["tied", "sampled_tied", "full", "sampled"])
def test_every_head_in_shards_goes_on_with_one_device(model, corpus, tmp_path):
    """Two devices train, one goes on where they were, and both evaluate the run alike."""
    run, data = Run(str(tmp_path / "run")), corpus.directory
    model = {**PLAIN["model"], **model}
    config = {"data": data, "run": run.directory, "model": model, "config": PLAIN["config"]}
    replicas_helper.run(
        trained, devices=2, stop=[0, 31, signal.SIGTERM], **config
    )
    assert run.checkpoints.progress()["step"] == 31 and has_rows(run)
    trained(**config)
    assert not has_rows(run)
    assert_close_runs(run, by_one_process(corpus, tmp_path / "one", model))
    arguments = {"run": run.directory, "data": data, "sentences": [["w3", "w6", "w1"], ["w2"]]}
    ((scores, nats, tokens),) = replicas_helper.run(
        scored_and_evaluated, devices=2, number=2, **arguments
    )
    wanted = scored_and_evaluated(number=1, **arguments)
    np.testing.assert_allclose(scores, wanted[0], rtol=1e-5)
    np.testing.assert_allclose(nats, wanted[1], rtol=1e-6)
    assert tokens == wanted[2]


def killed_while_writing(**arguments):
    """`trained_by_local_workers`, whose second worker is killed within the third checkpoint."""
    import tfsoftmax.sharding.run_checkpoints as writing

    write_rows, calls = writing.write_rows, []

    def write_and_die(folder, variables, is_first):
        calls.append(folder)
        if len(calls) == 3 and json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 1:
            write_rows(folder, dict([*variables.items()][:1]), is_first)
            os.kill(os.getpid(), signal.SIGKILL)
        return write_rows(folder, variables, is_first)

    writing.write_rows = write_and_die
    return trained_by_local_workers(**arguments)


@pytest.mark.slow
@pytest.mark.parametrize("function", [trained_by_local_workers, killed_while_writing])
def test_a_killed_worker_ends_the_others_and_the_run_goes_on_bitwise(function, corpus, tmp_path):
    check_a_killed_worker(
        corpus, tmp_path, "--head=sharded", function=function, model={"head": "sharded"},
        stop=[1, 8, signal.SIGKILL] if function is trained_by_local_workers else None,
    )


@pytest.mark.slow
def test_every_command_reads_a_run_in_shards(shared, tmp_path):
    run, text = shutil.copytree(shared.directory, tmp_path / "run"), tmp_path / "text"
    text.write_text("w3 w6 w1\nw2\n")
    assert tool("score", f"--run={run}", f"--input={text}").stdout.count("\n") == 2
    assert tool("generate", f"--run={run}", "--count=1").stdout
    (tmp_path / "nbest").write_text("u1 -3 3 w3 w6 w1\nu1 -4 1 w2\n")
    assert tool("rescore", f"--run={run}", f"--nbest={tmp_path / 'nbest'}", "--lm_weight=3").stdout
    tool("export", f"--run={run}", f"--out={tmp_path / 'out'}")
    both = command_server.run(
        ["evaluate", f"--run={run}", "--split=valid", "--workers=2"], seconds=120
    )
    one = tool("evaluate", f"--run={run}", "--split=valid")
    values = [json.loads(each.stdout)["nats_per_token"] for each in (both, one)]
    np.testing.assert_allclose(*values, rtol=1e-7)
