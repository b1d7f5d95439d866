"""Facts about the one way to write files."""

import errno
import os
import stat
import subprocess
import sys

import pytest

from tfsoftmax.partitions import code_files
from tfsoftmax.support import whole_files
from tfsoftmax.support.vocabulary import Vocabulary


def test_a_full_disk_names_the_file(tmp_path):
    with pytest.raises(OSError, match="No space left on device: '.*out.txt'") as raised:
        with whole_files.writing(tmp_path / "out.txt"):
            raise OSError(errno.ENOSPC, "No space left on device")
    assert raised.value.filename == str(tmp_path / "out.txt")


def test_a_written_file_is_old_or_new(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), whole_files.writing(path) as file:
        file.write("new")
        file.flush()
        assert path.read_text() == "old"
        raise KeyboardInterrupt
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["out.txt"]
    with whole_files.writing(path) as file:
        file.write("né\n")
    assert path.read_bytes() == "né\n".encode() and os.listdir(tmp_path) == ["out.txt"]


def test_what_a_killed_writer_left_is_removed_but_not_what_another_one_writes(tmp_path):
    path, left = tmp_path / "out.txt", tmp_path / ".out.txt.0123456789abcdef.partial"
    others = [tmp_path / ".out.txt.mine.partial", tmp_path / ".out.0123456789abcdef.partial"]
    for each in (left, *others):
        each.touch()
    with whole_files.writing(path) as one:
        assert not left.exists()
        with whole_files.writing(path) as other:
            other.write("other")
        one.write("one")
    assert path.read_text() == "one" and all(each.exists() for each in others)
    assert len(os.listdir(tmp_path)) == 3


def test_what_is_written_goes_along_a_link_and_to_a_device(tmp_path):
    (tmp_path / "link").symlink_to("elsewhere")
    with whole_files.writing(tmp_path / "link") as file:
        file.write("text")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "elsewhere").read_text() == "text"
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        with whole_files.writing("/dev/full") as file:
            file.write("text")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


@pytest.mark.parametrize("end", [".gz", ".xz", ".BZ2", ""])
def test_what_is_written_is_compressed_as_its_name_says_and_read_again(tmp_path, end):
    vocabulary, codes = Vocabulary(["<eos>", "<unk>", "müde"], [3, 2, 1]), ["0", "10", "11"]
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        vocabulary.save(folder / f"words.txt{end}")
        code_files.write_codes(folder / f"x.paths{end}", codes, vocabulary.words, vocabulary.counts)
    assert Vocabulary.load(folder / f"words.txt{end}").words == vocabulary.words
    assert code_files.read_codes(folder / f"x.paths{end}", vocabulary.words) == codes
    written = (folder / f"x.paths{end}").read_bytes()
    assert written == (tmp_path / "a" / f"x.paths{end}").read_bytes()
    assert written.startswith({".gz": b"\x1f\x8b", ".xz": b"\xfd7z", ".BZ2": b"BZh"}.get(end, b"0"))


def test_a_path_that_cannot_be_written_is_found_before(tmp_path):
    (tmp_path / "mine").write_text("mine")
    whole_files.check_writable(tmp_path / "new")
    whole_files.check_writable(tmp_path / "mine")
    assert os.listdir(tmp_path) == ["mine"] and (tmp_path / "mine").read_text() == "mine"
    for path in (tmp_path, tmp_path / "nowhere" / "file", f"{tmp_path}/new/", ""):
        with pytest.raises(OSError) as raised:
            whole_files.check_writable(path)
        assert raised.value.filename == str(path)


def test_what_holds_something_is_no_empty_file_and_no_stream(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty").touch()
    for path in (tmp_path / "folder", tmp_path / "empty", tmp_path / "new", "/dev/null"):
        assert not whole_files.holds_something(path)
    (tmp_path / "folder" / "file").write_text("mine")
    os.symlink(tmp_path / "folder" / "file", tmp_path / "link")
    for path in (tmp_path / "folder", tmp_path / "folder" / "file", tmp_path / "link"):
        assert whole_files.holds_something(path)
    program = (
        "import tfsoftmax_command\n"  # spares the import of TensorFlow
        "from tfsoftmax.support.whole_files import *\n"
        "print(holds_something('/dev/stdout'))\n"
    )
    with open(tmp_path / "out", "w+") as out:
        out.write("old\n")
        out.flush()
        subprocess.run([sys.executable, "-c", program], stdout=out, check=True)
    assert (tmp_path / "out").read_text() == "old\nFalse\n"


@pytest.mark.parametrize("mode", ["w", "a"])
def test_a_redirected_standard_output_keeps_its_other_lines(tmp_path, mode):
    """`--out=/dev/stdout > file` must not put another file in the place of `file`."""
    program = (
        "import tfsoftmax_command\n"
        "from tfsoftmax.support import whole_files\n"
        "print('before')\n"
        "with whole_files.writing('/dev/stdout') as file:\n"
        "    file.write('inside\\n')\n"
        "print('after')\n"
    )
    path = tmp_path / "out"
    path.write_text("old\n")
    with open(path, mode) as out:
        subprocess.run([sys.executable, "-c", program], stdout=out, check=True)
    kept = "old\n" if mode == "a" else ""
    assert path.read_text() == kept + "before\ninside\nafter\n"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("locks", [True, False])
def test_a_replaced_file_keeps_its_permissions(tmp_path, monkeypatch, locks):
    if not locks:  # as on some network disks
        monkeypatch.setattr(whole_files, "_lock", lambda *_, **__: os.stat(tmp_path / "none"))
    path = tmp_path / "private"
    path.write_text("old")
    path.chmod(0o600)
    with whole_files.writing(path) as file:
        file.write("new")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o600)


def test_a_file_is_replaced_where_its_permissions_cannot_be_set(tmp_path, monkeypatch):
    path = tmp_path / "kept"
    path.write_text("old")

    def refuse(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(whole_files.os, "chmod", refuse)
    with whole_files.writing(path) as file:
        file.write("new")
    assert (path.read_text(), os.listdir(tmp_path)) == ("new", ["kept"])


@pytest.mark.parametrize("number, expected", [
    (errno.ENOSYS, pytest.warns(UserWarning, match="x: the file system has no locks")),
    (errno.EAGAIN, pytest.raises(BlockingIOError)), (errno.EIO, pytest.raises(OSError)),
])
def test_only_a_file_system_without_locks_does_without(tmp_path, monkeypatch, number, expected):
    def refuse(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(whole_files, "_lock", refuse)
    with open(tmp_path / "x", "w") as file, expected:
        whole_files.lock_if_possible(file.fileno(), "x")


def test_a_read_only_file_is_not_replaced(tmp_path, monkeypatch):
    path = tmp_path / "kept"
    path.write_text("old")
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    for use in (whole_files.check_writable, lambda p: whole_files.writing(p).__enter__()):
        with pytest.raises(PermissionError, match="kept"):
            use(path)
    assert path.read_text() == "old" and len(list(tmp_path.iterdir())) == 1


def test_a_link_to_nothing_is_followed_like_one_to_a_file(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "target")
    with pytest.raises(KeyboardInterrupt), whole_files.writing(link) as file:
        file.write("half")
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == ["link"]
    with whole_files.writing(link) as file:
        file.write("whole")
    assert (tmp_path / "target").read_text() == "whole" and link.is_symlink()
    for name, target, message in (("lost", "no/where", "No such file"), ("loop", "loop", "levels")):
        (tmp_path / name).symlink_to(tmp_path / target)
        with pytest.raises(OSError, match=message):
            whole_files.check_writable(tmp_path / name)
