"""What workers agree on before they train: their cluster, their streams, their flags."""

import json
import os

import numpy as np
import pytest
import tensorflow as tf

import replicas_helper
from refusals import refused
from runs_helper import CONFIG, MODEL, error_of, tool, train
from tfsoftmax.corpora.pipeline import batches
from tfsoftmax.runs import runs, training
from tfsoftmax.runs.followers import FollowedRun, NoMonitor
from tfsoftmax.sharding import cluster, workers

SLURM = {
    "SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "3", "SLURM_STEP_NODELIST": "n[1-2]",
    "SLURM_STEP_TASKS_PER_NODE": "2,1", "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "1",
    "SLURMD_NODENAME": "n2",
}


def test_one_worker_agrees_with_itself():
    alone = workers.Workers()
    assert (alone.rank, alone.size, alone.replicas, alone.first) == (0, 1, 1, True)
    assert alone.agree_to_stop(True, "train") and not alone.agree_to_stop(False, "train")
    np.testing.assert_array_equal(alone.gather(np.eye(3)), np.eye(3))
    assert alone.from_first(lambda: {"a": (1, 2)}) == {"a": (1, 2)}


def by_a_worker():
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    some = workers.Workers(strategy)
    assert (some.size, some.replicas) == (2, 2)
    rows = np.full((2, 3), some.rank + 1.0)
    given = some.from_first(lambda: ["ä", some.rank])
    try:
        some.from_first(lambda: {}["missing"])
        failure = None
    except (KeyError, RuntimeError) as error:
        failure = repr(error)
    some.check_same(lambda: {"a": (1, None)})
    differences = []
    for function in (lambda: {"a": 1, "b": [some.rank]}, lambda: {"a": int("3x"[some.rank])}):
        with pytest.raises(ValueError) as error:
            some.check_same(function)
        differences.append(str(error.value))
    for asked in range(10**6):
        if some.agree_to_stop(some.rank == 1 and asked > 3, "train"):
            break
    assert asked > 3
    shared = some.sum([1.5, some.rank]), some.gather(rows)
    return asked, some.rank, *shared, given, failure, differences


def test_two_workers_share_what_they_know():
    results = replicas_helper.run(by_a_worker, workers=2)
    for rank, (asked, found, total, rows, given, failure, differences) in enumerate(results):
        assert (asked, found) == (results[0][0], rank)
        np.testing.assert_array_equal(total, [3.0, 1.0])
        np.testing.assert_array_equal(rows, np.repeat([[1.0] * 3, [2.0] * 3], 2, axis=0))
        assert given == ["ä", 0]
        assert failure.startswith(["KeyError", "RuntimeError('Another worker has"][rank])
        assert differences[0].endswith("Received: b=[0] in worker 0, but not in worker 1")
        assert differences[1].endswith(["a=3 in worker 0, but not in worker 1", "'x'"][rank])


class Second(workers.Workers):
    """The second of two workers. The first gives the answers that it is told, one by one."""

    def __init__(self, *answers):
        super().__init__()
        self.rank, self.size, self.answers = 1, 2, [*answers]

    def from_first(self, function):
        return self.answers.pop(0)

    def gather(self, rows):
        return np.concatenate([np.zeros_like(rows), rows])


@pytest.mark.parametrize("name", ["run_id", "checkpoint", "progress", "records_sha256"])
def test_a_worker_that_finds_another_run_or_corpus_ends_all(
    name, finished_run, corpus, monkeypatch
):
    monkeypatch.setattr(training, "SHOWING_SECONDS", 0.0)
    own = training._seen(corpus, finished_run)
    assert own["checkpoint"] == finished_run.checkpoints.name() and len(own["records_sha256"]) == 2
    second = Second({}, {**own, name: "another"})
    refused(f"{name}=another in worker 0, but not in worker 1",
            train, corpus, finished_run.directory, workers=second)


def test_a_worker_without_the_run_ends_all(finished_run, corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "SHOWING_SECONDS", 0.0)
    second = Second({}, training._seen(corpus, finished_run))
    refused("run_id=.*, checkpoint=.* but not in worker 1",
            train, corpus, tmp_path / "empty", workers=second)
    assert not (tmp_path / "empty").exists()


def test_what_a_file_system_shows_late_is_waited_for(corpus, tmp_path, monkeypatch):
    """The lock that the first worker has just written appears when the second looks again."""
    run, looks = tmp_path / "run", []
    run.mkdir()

    def sleep(seconds):
        looks.append(seconds)
        (run / runs.LOCK).write_text("token")

    monkeypatch.setattr(workers.time, "sleep", sleep)
    expected = {**training._seen(corpus, FollowedRun(str(run))), "lock": "token"}
    Second(expected).check_same(lambda: training._seen(corpus, FollowedRun(str(run))), 60)
    assert len(looks) == 1


def started_in_a_folder_of_its_own(data, folder):
    some = workers.Workers(tf.distribute.MultiWorkerMirroredStrategy())
    training.SHOWING_SECONDS = 0.0
    run = os.path.join(folder, str(some.rank))
    with pytest.raises(ValueError) as error:
        training.train(data, run, MODEL, CONFIG, verbose=False, workers=some)
    return str(error.value)


def test_a_new_run_in_folders_that_are_not_shared_is_refused(corpus, tmp_path):
    messages = replicas_helper.run(
        started_in_a_folder_of_its_own, workers=2, data=corpus.directory, folder=str(tmp_path)
    )
    assert messages[0] == messages[1]
    assert messages[0].startswith("The folders of all workers must be the same: share them between")
    assert "Received: lock=" in messages[0] and messages[0].endswith(" but not in worker 1")
    assert os.listdir(tmp_path) == []


def test_workers_that_load_different_checkpoints_end(finished_run):
    own = {"run_id": finished_run.config()["id"], "progress": finished_run.checkpoints.progress()}
    with pytest.raises(ValueError, match="progress={'step': 1} in worker 0, but not in worker 1"):
        runs.load(finished_run.directory, 1, workers=Second({**own, "progress": {"step": 1}}))


@pytest.mark.parametrize("before, after", [(0.005, 1.0), (1.0, 0.005), (0.3, 3.0)])
def test_a_signal_in_slower_batches_of_a_validation_is_seen_soon(before, after, monkeypatch):
    """By a clock that training steps and then batches of a validation move by themselves."""
    clock = [7.0]
    monkeypatch.setattr(workers.time, "perf_counter", lambda: clock[0])
    some, asked = workers.Workers(), []
    some.size, some.sum = 2, lambda values: asked.append(clock[0]) or np.asarray(values, float)
    for work, seconds in (("train", before), ("valid", after), ("train", before)):
        asked.clear()
        begun = clock[0]
        while clock[0] < begun + 60:
            clock[0] += seconds
            assert not some.agree_to_stop(False, work)
        gaps = np.diff([begun, *asked, clock[0]])
        assert max(gaps) <= 2 * max(seconds, workers.ASKING_SECONDS)
        assert len(asked) < 60 / workers.ASKING_SECONDS + 20, "asking takes time, too"
    clock[0] += before
    assert some.agree_to_stop(True, "valid")


def shares(directory):
    from tfsoftmax.corpora.records import Corpus

    strategy, corpus = tf.distribute.MirroredStrategy(), Corpus.load(directory)
    dataset = batches(corpus, "valid", 2, 3, strategy)
    read = [[local.numpy() for local in strategy.experimental_local_results(words)]
            for _, (words, _, _) in zip(range(4), dataset)]
    return np.array([np.concatenate(locals_) for locals_ in read])


def test_each_device_reads_its_streams_of_each_record(corpus):
    (read,) = replicas_helper.run(shares, devices=2, directory=corpus.directory)
    wanted = np.array([words for words, _, _ in batches(corpus, "valid", 2, 3)])
    np.testing.assert_array_equal(read, wanted[[0, 1, 2, 0]])  # and begins anew


def message_to_three(directory):
    from tfsoftmax.corpora.records import Corpus

    with pytest.raises(ValueError) as error:
        batches(Corpus.load(directory), "train", strategy=tf.distribute.MirroredStrategy())
    return str(error.value)


def test_streams_that_cannot_be_shared_are_named(corpus):
    (message,) = replicas_helper.run(message_to_three, devices=3, directory=corpus.directory)
    assert message.startswith("`streams` must be a multiple of the number of devices, 3: prepare")
    assert message.endswith("Received: streams=4")


def test_a_slurm_step_becomes_a_cluster(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    for name, value in SLURM.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy", tf.distribute.get_strategy)
    assert cluster.start_workers("auto").size == 1  # many tasks of one step may be many runs
    assert "TF_CONFIG" not in os.environ
    monkeypatch.setenv("TF_CONFIG", "")  # so that it is removed in the end
    cluster.start_workers("multiworker")
    config = json.loads(os.environ["TF_CONFIG"])
    hosts, ports = zip(*(address.split(":") for address in config["cluster"]["worker"]))
    assert hosts == ("n1", "n1", "n2") and int(ports[1]) == int(ports[0]) + 1
    assert config["task"] == {"type": "worker", "index": 2}
    monkeypatch.setenv("TF_CONFIG", "")
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    with pytest.raises(ValueError, match="alphabetical order.*Received: task 2 on n1, not n2"):
        cluster.start_workers("multiworker")


@pytest.mark.parametrize("text", [
    "worker", "[]", '{"cluster": {"worker": ["a:1", "b:1"]}}', '{"cluster": 3}',
    '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}',
    '{"cluster": {"worker": [1, 2]}, "task": {"type": "worker", "index": 1}}',
])
def test_a_wrong_description_of_the_cluster_is_refused(text, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match="`TF_CONFIG` must be JSON"):
        cluster.start_workers("auto")
    assert cluster.start_workers("none").size == 1


def test_workers_of_this_machine_are_no_part_of_another_cluster(monkeypatch, tmp_path):
    run = [f"--data={tmp_path}", f"--run={tmp_path}/run"]
    said = tool("train", *run, "--workers=100000", check=False).stderr
    assert "error: `workers` must be at most " in said and "Received: workers=100000" in said
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {"worker": ["a:1", "b:1"]}}')
    said = tool("train", *run, "--workers=2", check=False, interpreter=["-E"]).stderr
    assert "error: `workers` must be 1 where TF_CONFIG in the environment describes" in said


@pytest.mark.parametrize("kind", ["evaluator", "ps"])
@pytest.mark.parametrize("strategy", ["auto", "multiworker"])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_task_that_shares_no_work_is_refused(kind, strategy, workers, monkeypatch):
    others = {"ps": ["c:1"]} if kind == "ps" else {}  # an evaluator is not in the cluster
    monkeypatch.setenv("TF_CONFIG", json.dumps({
        "cluster": {"worker": ["a:1", "b:1"][:workers], **others},
        "task": {"type": kind, "index": 0},
    }))
    with pytest.raises(ValueError, match=f"`TF_CONFIG` must give .* Received: a task of .*{kind}"):
        cluster.start_workers(strategy)
    assert cluster.start_workers("none").size == 1


@pytest.mark.parametrize("gpus, streams, used", [
    (8, 20, 5), (8, 64, 8), (8, 7, 7), (4, 13, None), (1, 20, None), (0, 20, None),
    (3, None, 3),
])
def test_as_many_gpus_are_used_as_divide_the_streams(gpus, streams, used, monkeypatch, capsys):
    """With GPUs that do not exist, and a strategy that only takes their names."""
    monkeypatch.delenv("TF_CONFIG", raising=False)
    names = []
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [kind] * gpus)
    monkeypatch.setattr(tf.distribute, "MirroredStrategy", lambda devices: names.extend(devices))
    cluster.start_workers("auto", streams=streams)
    assert names == [f"GPU:{n}" for n in range(used or 0)]
    said = f"warning: {used or 1} of {gpus} GPUs will be used, because their number must divide"
    assert (said in capsys.readouterr().err) == (gpus > (used or 1))


def test_a_cluster_that_nothing_describes_is_refused(monkeypatch):
    for name in ("TF_CONFIG", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="`strategy` must have a cluster"):
        cluster.start_workers("multiworker")


@pytest.mark.parametrize("flags, message", [
    (["--workers=0"], "`workers` must be at least 1. Received: workers=0"),
    (["--workers=2", "--strategy=none"], "`workers` must be 1 without --strategy"),
])
def test_flags_that_do_not_fit_are_refused(flags, message, tmp_path):
    assert message in error_of("train", "--data=none", f"--run={tmp_path / 'run'}", *flags)


def test_a_mistake_is_told_once(tmp_path):
    done = error_of("train", "--data=none", f"--run={tmp_path / 'run'}", "--workers=2")
    assert done.count("error:") == 1


def test_a_follower_writes_nothing(finished_run, corpus):
    run = FollowedRun(finished_run.directory)
    before = run.metrics(), run.config(), run.checkpoints.pointers()
    run.log(event="test", step=1)
    run.rewind_metrics(0, validated=False)
    run.start({}, corpus.vocabulary)
    run.checkpoints.save({}, {"step": 3})
    assert before == (run.metrics(), run.config(), run.checkpoints.pointers())
    monitor = NoMonitor()
    with monitor.writer.as_default(step=1):
        tf.summary.scalar("a", 1.0)
    monitor.close()
