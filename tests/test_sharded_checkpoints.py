"""What some workers write, any number of them can read, and one device too."""

import json
import os

import keras
import numpy as np
import pytest

import replicas_helper
from cases import assert_all_close, assert_all_equal
from refusals import refused
from replicas_helper import strategy_here
from test_sharded import D, V, batches, fitted, head_of, local_rows, model_of, whole
from tfsoftmax import FullSoftmax, ShardedSoftmax, sharded_checkpoints
from tfsoftmax.sharding import row_files
from tfsoftmax.sharding.shards import Shard
from tfsoftmax.sharding.weights import shards_of
from tfsoftmax.support import replacing, whole_files

FIRST, SECOND = "first", "second"


def variables_of(model):
    return [local_rows(variable) for variable in [*model.weights, *model.optimizer.variables]]


def trained_and_saved(folder):
    """Trains, writes a checkpoint, trains on; what both states are."""
    with strategy_here().scope():
        model = model_of(head_of(ShardedSoftmax), "adam")
        fitted(model)
        with pytest.raises(ValueError, match=r"tfsoftmax.sharded_checkpoints.save.* 2 shards"):
            model.save(os.path.join(folder, f"{os.getpid()}.keras"))
        sharded_checkpoints.save(model, os.path.join(folder, FIRST))
    before = variables_of(model)
    return before, fitted(model), variables_of(model)


def read_and_trained(folder):
    with strategy_here().scope():
        model = model_of(ShardedSoftmax(V, kernel_initializer="zeros"), "adam")
        sharded_checkpoints.restore(model, os.path.join(folder, FIRST))
        read = variables_of(model)
        sharded_checkpoints.save(model, os.path.join(folder, SECOND))
    return read, fitted(model), variables_of(model)


def full_disk(*_):
    raise OSError(28, "No space left on device")


def alone():
    return model_of(head_of(FullSoftmax), "adam")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder with a checkpoint of two workers, and what they have told of it."""
    folder = str(tmp_path_factory.mktemp("checkpoints"))
    return folder, replicas_helper.run(trained_and_saved, workers=2, folder=folder)


def states(results):
    """(the state that was written or read, figures of training on, the state afterwards)."""
    return whole([r[0] for r in results]), results[0][1], whole([r[2] for r in results])


@pytest.mark.slow
def test_a_checkpoint_of_two_workers_goes_on_with_four_devices(written):
    folder, by_worker = written
    before, figures, after = states(by_worker)
    read, their_figures, theirs = states(
        replicas_helper.run(read_and_trained, devices=4, folder=folder)
    )
    assert_all_equal(before, read)
    np.testing.assert_allclose(their_figures, figures, rtol=1e-6)
    assert_all_close(after, theirs, rtol=1e-6, atol=1e-6)


def test_a_checkpoint_of_two_workers_goes_on_with_full_softmax_and_back(written, tmp_path):
    folder, by_worker = written
    before, figures, after = states(by_worker)
    model = alone()
    sharded_checkpoints.restore(model, os.path.join(folder, FIRST))
    variables = [*model.weights, *model.optimizer.variables]
    assert_all_equal(before, variables)
    np.testing.assert_allclose(fitted(model), figures, rtol=1e-6)
    assert_all_close(after, variables, rtol=1e-6, atol=1e-6)
    sharded_checkpoints.save(model, tmp_path / FIRST)
    again = alone()
    sharded_checkpoints.restore(again, tmp_path / FIRST)
    words, labels, _ = batches()
    assert again.evaluate(words, labels, verbose=0) == model.evaluate(words, labels, verbose=0)


def test_a_damaged_checkpoint_changes_nothing(tmp_path):
    model, folder = alone(), tmp_path / FIRST
    sharded_checkpoints.save(model, folder)
    for weight in model.weights:
        weight.assign(weight + 1)
    before = model.get_weights()
    path = sorted(folder.glob("weights-*.npy"))[-1]
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(ValueError, match=f"{path.name}: must be as it was written, with sha256"):
        sharded_checkpoints.restore(model, folder)
    assert_all_equal(before, model.get_weights())
    path.unlink()
    with pytest.raises(ValueError, match=f"{path.name}: must be as it was written.*no such file"):
        sharded_checkpoints.restore(model, folder)
    with pytest.raises(FileNotFoundError, match="manifest.json"):
        sharded_checkpoints.restore(model, tmp_path / "nowhere")


@pytest.mark.parametrize("manifest, message", [
    ([], "must be a JSON object"),
    ({"variables": {}}, "must have 'files'"),
    ({"variables": {}, "files": [{"key": "weights/0"}]}, "`files.0` must have 'first'"),
    ({"variables": {}, "files": []}, "weights/0 must have the shape.*Received: None"),
])
def test_a_manifest_of_another_form_is_refused(manifest, message, tmp_path):
    model = alone()
    sharded_checkpoints.save(model, tmp_path)
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    refused(message, sharded_checkpoints.restore, model, tmp_path)


def test_a_folder_of_other_files_is_not_replaced(tmp_path):
    (tmp_path / "thesis.txt").write_text("x")
    with pytest.raises(ValueError, match="`folder` must be new, empty, or a checkpoint"):
        sharded_checkpoints.save(alone(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_files_of_rows_are_read_in_the_order_of_their_rows(tmp_path):
    """Eleven workers' files are listed by the workers' names, so that the tenth comes second."""
    model = alone()
    entries = row_files.write_rows(str(tmp_path), {"table": model.weights[0]}, is_first=True)
    table = np.load(tmp_path / entries[0]["file"])
    names = sorted(f"worker-{rank}" for rank in range(11))
    shards = [Shard(int(name[7:]), 11, len(table)) for name in names]
    files = []
    for shard in shards:
        path = tmp_path / f"{shard.rank}.npy"
        np.save(path, table[shard.first : shard.first + shard.words])
        files.append({"key": "table", "first": shard.first, "rows": shard.words,
                      "file": path.name, "sha256": whole_files.sha256_of(path)})
    variables = {"table": alone().weights[0]}

    def read(files):
        manifest = {"variables": row_files.described(variables), "files": files}
        plan = row_files.plan_to_read(str(tmp_path), manifest, "manifest.json", variables)
        row_files.read_rows(str(tmp_path), plan)

    variables["table"].assign(0 * table)
    read(files)
    np.testing.assert_array_equal(variables["table"], table)
    assert len(np.unique(table)) > 11
    shifted = [*files[:-1], {**files[-1], "first": files[-1]["first"] - 1}]
    for wrong in (files[1:], shifted, [*files, files[3]]):
        refused("manifest.json: must name files with each of", read, wrong)


def test_a_failed_save_keeps_the_old_checkpoint(tmp_path, monkeypatch):
    model, folder = alone(), tmp_path / FIRST
    sharded_checkpoints.save(model, folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    monkeypatch.setattr(sharded_checkpoints, "write_manifest", full_disk)
    refused("No space left", sharded_checkpoints.save, model, folder, error=OSError)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert os.listdir(tmp_path) == [FIRST]


def failing_together(folder):
    """Workers of which one is the chief, and what happens to each where another one fails."""
    cluster = json.loads(os.environ["TF_CONFIG"])
    addresses, rank = cluster["cluster"]["worker"], cluster["task"]["index"]
    os.environ["TF_CONFIG"] = json.dumps({
        "cluster": {"chief": addresses[:1], "worker": addresses[1:]},
        "task": {"type": ["chief", "worker"][rank], "index": 0},
    })
    with strategy_here().scope():
        head = head_of(ShardedSoftmax)
        model = keras.Sequential([keras.Input((D,)), head])
    path = os.path.join(folder, FIRST)
    sharded_checkpoints.save(model, path)
    kernel = local_rows(head.kernel)
    other_error = pytest.raises(RuntimeError, match="Another worker has failed, and says why")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replacing.os, "rename", full_disk)
        with other_error if rank else pytest.raises(OSError, match="No space left"):
            sharded_checkpoints.save(model, path)
    (part,) = [part for _, part in shards_of(head.kernel)]
    part.assign(part + 1)
    changed = local_rows(head.kernel)
    with other_error if rank else pytest.raises(FileNotFoundError, match="manifest.json"):
        sharded_checkpoints.restore(model, path if rank else os.path.join(folder, "nowhere"))
    if rank:
        name = os.path.join(path, f"weights-0.rows-{V // 2}.npy")
        with open(name, "rb+") as file:
            content = file.read()
            file.seek(-1, os.SEEK_END)
            file.write(b"\x55")
    with pytest.raises(ValueError, match="sha256") if rank else other_error:
        sharded_checkpoints.restore(model, path)
    np.testing.assert_equal(local_rows(head.kernel), changed)
    if rank:
        with open(name, "wb") as file:
            file.write(content)
    sharded_checkpoints.restore(model, path)
    np.testing.assert_equal(local_rows(head.kernel), kernel)


def test_what_fails_in_one_worker_fails_in_all(tmp_path):
    replicas_helper.run(failing_together, workers=2, seconds=60, folder=str(tmp_path))
    assert os.listdir(tmp_path) == [FIRST]
