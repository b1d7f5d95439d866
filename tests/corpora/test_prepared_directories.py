"""Facts about the directories that `prepare` finds, replaces, refuses and leaves behind."""

import builtins
import errno
import gzip
import os

import pytest
from text_files import config, contents, prepared, write_texts

from refusals import refused
from tfsoftmax.corpora import manifest as manifests
from tfsoftmax.corpora import prepare as prepare_module
from tfsoftmax.corpora import tfrecord
from tfsoftmax.corpora.prepare import prepare
from tfsoftmax.support import replacing
from tfsoftmax.support.replacing import alone


@pytest.fixture
def texts(tmp_path):
    return write_texts(tmp_path)


def test_prepared_again_with_the_same_settings_it_is_left_alone(tmp_path, texts, capsys):
    prepare(config(tmp_path))
    before = {name: os.stat(tmp_path / "out" / name) for name in os.listdir(tmp_path / "out")}
    corpus = prepare(config(tmp_path))
    assert {n: os.stat(tmp_path / "out" / n) for n in os.listdir(tmp_path / "out")} == before
    assert "it is intact" in capsys.readouterr().err
    assert corpus.splits["train"].sentences == 200


@pytest.mark.parametrize(
    "change, message",
    [({"min_count": 2}, "min_count is 1, not 2"), ({"seed": 9}, "seed is 1, not 9"),
     ({"time_steps": 7}, "time_steps is 4, not 7")],
)
def test_other_settings_are_refused_by_name_unless_overwritten(tmp_path, texts, change, message):
    prepared(tmp_path)
    before = contents(tmp_path / "out")
    refused(f"`out` must not hold another corpus.*{message}", prepared, tmp_path, **change)
    assert contents(tmp_path / "out") == before
    corpus = prepared(tmp_path, **change, overwrite=True)
    assert corpus.settings.items() >= change.items()
    assert sorted(os.listdir(tmp_path)) == ["out", "test.gz", "train.gz", "valid.gz"]


def test_changed_input_is_noticed(tmp_path, texts):
    prepared(tmp_path)
    with gzip.open(tmp_path / "valid.gz", "at") as file:
        file.write("\none more\n")
    refused("the input files were different", prepared, tmp_path)


def test_damaged_corpus_is_refused_unless_overwritten(tmp_path, texts):
    prepared(tmp_path)
    path = tmp_path / "out" / "train-00000.tfrecord"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    refused("it is damaged: .*train-00000.tfrecord: must be as", prepared, tmp_path)
    prepared(tmp_path, overwrite=True)
    assert path.read_bytes() != data


@pytest.mark.parametrize("name", ["thesis.tex", manifests.MANIFEST])
def test_directory_of_something_else_is_never_replaced(tmp_path, texts, name):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("{}")
    refused("`out` must be new, empty, or a corpus that `prep", prepared, tmp_path, overwrite=True)
    assert contents(tmp_path / "out") == {name: b"{}"}


def test_corpus_with_foreign_files_is_not_overwritten(tmp_path, texts):
    prepared(tmp_path)
    (tmp_path / "out" / "notes.txt").write_text("mine")
    refused("also holds notes.txt", prepared, tmp_path, seed=2, overwrite=True)
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"


def test_empty_directory_of_any_name_is_used(tmp_path, texts):
    out = tmp_path / "a {b} [c]"
    out.mkdir()
    corpus = prepared(tmp_path, out=str(out))
    assert corpus.splits["train"].sentences == 200


def test_a_link_to_a_directory_is_followed_and_stays(tmp_path, texts):
    (tmp_path / "large_disk").mkdir()
    link = tmp_path / "link"
    link.symlink_to("large_disk")
    for min_count in (1, 2, 3):
        prepared(tmp_path, out=str(link), min_count=min_count, overwrite=True)
        assert link.is_symlink() and (tmp_path / "large_disk" / "manifest.json").exists()
        assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_a_mount_point_may_hold_a_corpus_but_not_become_one(tmp_path, texts, monkeypatch):
    prepared(tmp_path)
    monkeypatch.setattr(os.path, "ismount", lambda path: path.startswith(str(tmp_path)))
    assert prepared(tmp_path).splits["train"].sentences == 200
    monkeypatch.setattr(prepare_module, "check_tokenizer", None)  # where the work begins
    (tmp_path / "empty").mkdir()
    for out, min_count in (("empty", 1), ("out", 2)):
        with pytest.raises(ValueError, match=f"`out` must not be a mount point.*/{out}'"):
            prepared(tmp_path, out=str(tmp_path / out), min_count=min_count, overwrite=True)


@pytest.mark.parametrize("overwrite", [False, True])
def test_full_disk_is_one_sentence_and_leaves_everything_as_it_was(
    tmp_path, texts, monkeypatch, overwrite
):
    if overwrite:
        prepared(tmp_path, seed=2)
    before = contents(tmp_path / "out") if overwrite else None
    monkeypatch.setattr(
        tfrecord, "open", lambda path, mode: builtins.open("/dev/full", mode), raising=False
    )
    with pytest.raises(OSError, match="The disk is full: preparing .*out.*Nothing was written"):
        prepared(tmp_path, overwrite=overwrite)
    names = ["out"] * overwrite + ["test.gz", "train.gz", "valid.gz"]
    assert sorted(os.listdir(tmp_path)) == names
    assert not overwrite or contents(tmp_path / "out") == before


def test_interruption_leaves_nothing(tmp_path, texts, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(prepare_module, "encode_split", interrupt)
    with pytest.raises(KeyboardInterrupt):
        prepared(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["test.gz", "train.gz", "valid.gz"]


@pytest.mark.parametrize("renames", [0, 1, 2])
def test_what_a_killed_process_left_is_cleared_up_by_the_next(
    tmp_path, texts, monkeypatch, renames
):
    """Also by one that has nothing to prepare, and on whatever machine the other one was."""
    prepared(tmp_path, seed=2)
    old, rename, calls = contents(tmp_path / "out"), os.rename, []

    def killed(*paths):
        if len(calls) == renames:
            raise SystemExit
        calls.append(rename(*paths))

    with monkeypatch.context() as patches:
        patches.setattr(os, "rename", killed)
        if renames < 2:
            patches.setattr(replacing, "_clear_up", lambda out: None)
        else:
            patches.setattr(replacing, "_clear_up", lambda out: calls and killed())
        with pytest.raises(SystemExit):
            prepared(tmp_path, overwrite=True)
    (tmp_path / ".out.tfsoftmax.lock").touch()
    names = ["out", "test.gz", "train.gz", "valid.gz"]
    assert sorted(os.listdir(tmp_path)) != names
    prepared(tmp_path, seed=2 if renames < 2 else 1)
    assert sorted(os.listdir(tmp_path)) == names
    assert (contents(tmp_path / "out") == old) == (renames < 2)


def test_a_second_process_is_refused_and_a_foreign_lock_is_not_followed(tmp_path, texts):
    with alone(str(tmp_path / "out")):
        refused("`out` must not be written by another process. Rec", prepared, tmp_path)
    prepared(tmp_path)
    (tmp_path / "mine").write_text("mine")
    os.symlink(tmp_path / "mine", tmp_path / ".out.tfsoftmax.lock")
    refused("tfsoftmax.lock", prepared, tmp_path, error=OSError)
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_corpus_is_found_where_nothing_can_be_written(tmp_path, texts, monkeypatch):
    prepared(tmp_path)

    def refuse(path, *arguments):
        raise OSError(errno.EROFS, "Read-only file system", path)

    monkeypatch.setattr(replacing.os, "open", refuse)
    assert prepared(tmp_path).splits["train"].sentences == 200
