"""Files of a run are written whole and along no link, and errors name them."""

import contextlib
import json
import os
import resource

import pytest
import tensorflow as tf

from test_whole_runs import saved
from tfsoftmax.runs.runs import Run
from tfsoftmax.support import replacing
from tfsoftmax.support.manifests import read_object
from tfsoftmax.support.whole_files import append_line, copy_whole, write_whole


@contextlib.contextmanager
def small_disk():
    """Lets no file grow beyond 1,000 bytes, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_the_old_file_and_is_named(tmp_path):
    path = tmp_path / "file"
    write_whole(str(path), "old")
    with small_disk(), pytest.raises(OSError, match=f"too large: '{path}'"):
        write_whole(str(path), "x" * 2000)
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["file"]
    with small_disk(), pytest.raises(OSError, match=f"too large: '{path}'"):
        append_line(str(path), "x" * 2000)
    append_line(str(path), "new")
    assert path.read_text().splitlines()[-1] == "new"


def test_a_full_disk_leaves_the_last_checkpoint(tmp_path):
    folder, errors = tmp_path / "own", (OSError, tf.errors.OpError)
    own = saved(folder, 1)
    with small_disk(), pytest.raises(errors, match=rf"{folder}/\.step-000000002"):
        saved(folder, 2)
    assert own.restore({"x": [tf.Variable([0.0] * 500)]}) == {"step": 1}
    assert sorted(os.listdir(folder)) == ["pointers.json", "step-000000001"]


def test_a_checkpoint_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    begun = saved(tmp_path)
    calls, rename, sync = [], os.rename, replacing.sync
    monkeypatch.setattr(os, "rename", lambda *paths: calls.append("rename") or rename(*paths))
    monkeypatch.setattr(replacing, "sync", lambda *paths: calls.append(paths) or sync(*paths))
    begun.save({"x": [tf.Variable([1.0])]}, {"step": 3})
    written, renamed, folder, *_ = calls
    folders = {os.path.dirname(path) for path in written[:-1]}
    assert folders == {written[-1]} and (renamed, folder) == ("rename", (str(tmp_path),))
    names = {os.path.basename(path) for path in written[:-1]}
    assert names == {
        "manifest.json", "progress.json", "variables.index", "variables.data-00000-of-00001"
    }


def test_a_link_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "precious").write_text("mine")
    link = tmp_path / "link"
    for write in (write_whole, lambda path, source: copy_whole(source, path)):
        os.symlink("precious", link)
        write(str(link), __file__)
        assert not os.path.islink(link)
        os.unlink(link)
    os.symlink("precious", tmp_path / "link")
    with pytest.raises(OSError, match=f"{tmp_path}/link"):
        append_line(str(tmp_path / "link"), "new")
    assert (tmp_path / "precious").read_text() == "mine"


@pytest.mark.parametrize("content, message", [
    (b'{"step": true}', "`step` must be a whole number"), (b"[]", "must be a JSON object"),
    (b"{}", "must have 'step'"), (b"", "must be JSON"),
])
def test_a_damaged_json_file_is_named(content, message, tmp_path):
    path = tmp_path / "progress.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"{path}.*: .*{message}"):
        read_object(str(path), {"step": int})


def test_odd_lines_of_metrics_are_left_out(tmp_path):
    run, line = Run(str(tmp_path)), b'{"event": "valid", "step": 3}\n'
    odd = [b'{"event": [], "step": 1}', b'{"event": "x", "step": "1"}', b"[" * 10**5, b"\xff", b"3",
           b'{"event": "x", "event": "y", "step": 1}', b""]
    (tmp_path / "metrics.jsonl").write_bytes(line + b"\n".join(odd) + b"\n" + line)
    assert run.metrics() == [{"event": "valid", "step": 3}] * 2
    run.rewind_metrics(2, validated=True)
    assert run.metrics() == []


@pytest.mark.parametrize("validated", [False, True])
def test_a_validation_that_was_not_saved_is_logged_once(tmp_path, validated):
    run = Run(str(tmp_path))
    lines = [{"event": "valid", "step": 2}, {"event": "train", "step": 3},
             {"event": "valid", "step": 3}]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run.rewind_metrics(3, validated)
    assert run.metrics() == lines[: 2 + validated]
