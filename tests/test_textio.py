"""Facts about the one way to read text and JSON."""

import bz2
import errno
import gzip
import io
import lzma
import math
import os
import stat
import subprocess
import sys

import pytest

from tfsoftmax import textio

WRITERS = {"a.txt": open, "a.gz": gzip.open, "a.txt.xz": lzma.open, "a.bz2": bz2.open}


def write(path, data):
    with WRITERS.get(path.name, open)(path, "wb") as file:
        file.write(data)
    return str(path)


@pytest.mark.parametrize("name", list(WRITERS))
def test_lines_come_with_their_places(tmp_path, name):
    path = write(tmp_path / name, "\ufeffa b\n\nc\u2028d\r\n\ufeffé".encode())
    assert list(textio.lines(path)) == [
        (f"{path}, line 1", "a b"), (f"{path}, line 2", ""), (f"{path}, line 3", "c\u2028d"),
        (f"{path}, line 4", "\ufeffé"),
    ]


@pytest.mark.parametrize("block_bytes", [1, 2, 3, 5, 1000])
def test_numbers_of_lines_do_not_depend_on_the_blocks(tmp_path, block_bytes):
    path = write(tmp_path / "a.txt", b"a\n\nbb b\nccc\n")
    found = {}
    for first, block in textio.line_blocks(path, block_bytes):
        found.update(enumerate(block, start=first))
    assert found == {1: "a", 2: "", 3: "bb b", 4: "ccc"}


@pytest.mark.parametrize("name", ["a.gz", "a.txt.xz", "a.bz2"])
def test_every_damage_to_a_compressed_file_is_noticed(tmp_path, name):
    text = "".join(f"word{i} " for i in range(60)) + "\n"
    path = tmp_path / name
    write(path, text.encode())
    data = path.read_bytes()
    for bit in range(0, 8 * len(data), 13):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            read = [line for _, line in textio.lines(path)]
        except ValueError as error:
            assert name in str(error)
        else:
            assert read == [text[:-1]]
    for size in range(1, len(data)):
        path.write_bytes(data[:size])
        with pytest.raises(ValueError, match=f"{name}: must be an undamaged file"):
            list(textio.lines(path))


@pytest.mark.parametrize("spaces, place", [(9, None), (10, None), (11, 2), (200, 2)])
@pytest.mark.parametrize("end", ["", "\n", "\nx"])
def test_lines_have_at_most_so_many_bytes(tmp_path, spaces, place, end):
    path = write(tmp_path / "a.txt", ("a\n" + " " * spaces + end).encode())
    if place is None:
        assert [line for _, line in textio.lines(path, 10)][1] == " " * spaces
        return
    with pytest.raises(ValueError, match=rf"a.txt, line {place}: a line must have at most 10 byt"):
        list(textio.lines(path, 10))


def test_standard_input_is_named(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbfa\nb\xffc\n")))
    with pytest.raises(ValueError, match=r"standard input, line 2: must be UTF-8. Received: b'\\x"):
        list(textio.lines("-"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbfa\nb\n")))
    assert [line for _, line in textio.lines("-")] == ["a", "b"]
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ValueError, match="standard input must be open"):
        list(textio.lines("-"))


@pytest.mark.parametrize(
    "text, message",
    [
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "Received: the key 'c' twice"),
        ("[" * 100_000, "Received: too many levels of brackets"),
        ('{"a": NaN}', "Received: NaN, which is no JSON"), ("[-Infinity]", "-Infinity"),
        ("{", "Received: Expecting property name"), ("9" * 5000, "must be JSON"),
        (b"\xff", ", line 1: must be UTF-8"),
    ],
)
def test_what_is_no_json_is_named(tmp_path, text, message):
    data = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(ValueError, match=f"a.json.*{message}"):
        textio.read_json(write(tmp_path / "a.json", data))


def test_json_is_read(tmp_path):
    path = write(tmp_path / "a.json", '\ufeff{"a": [1, 2.5, null], "é": {}}'.encode())
    assert textio.read_json(path) == {"a": [1, 2.5, None], "é": {}}


def test_what_python_writes_for_numbers_that_are_not_finite_is_read_if_asked_for(tmp_path):
    path = write(tmp_path / "a.json", b'{"best": Infinity}')
    assert textio.read_json(path, finite=False) == {"best": math.inf}


def test_a_full_disk_names_the_file(tmp_path):
    with pytest.raises(OSError, match="No space left on device: '.*out.txt'") as raised:
        with textio.writing(tmp_path / "out.txt"):
            raise OSError(errno.ENOSPC, "No space left on device")
    assert raised.value.filename == str(tmp_path / "out.txt")


def test_a_written_file_is_old_or_new(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), textio.writing(path) as file:
        file.write("new")
        file.flush()
        assert path.read_text() == "old"
        raise KeyboardInterrupt
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["out.txt"]
    with textio.writing(path) as file:
        file.write("né\n")
    assert path.read_bytes() == "né\n".encode() and os.listdir(tmp_path) == ["out.txt"]


def test_what_a_killed_writer_left_is_removed_but_not_what_another_one_writes(tmp_path):
    path, left = tmp_path / "out.txt", tmp_path / ".out.txt.0123456789abcdef.partial"
    others = [tmp_path / ".out.txt.mine.partial", tmp_path / ".out.0123456789abcdef.partial"]
    for each in (left, *others):
        each.touch()
    with textio.writing(path) as one:
        assert not left.exists()
        with textio.writing(path) as other:
            other.write("other")
        one.write("one")
    assert path.read_text() == "one" and all(each.exists() for each in others)
    assert len(os.listdir(tmp_path)) == 3


def test_what_is_written_goes_along_a_link_and_to_a_device(tmp_path):
    (tmp_path / "link").symlink_to("elsewhere")
    with textio.writing(tmp_path / "link") as file:
        file.write("text")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "elsewhere").read_text() == "text"
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        with textio.writing("/dev/full") as file:
            file.write("text")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_a_path_that_cannot_be_written_is_found_before(tmp_path):
    (tmp_path / "mine").write_text("mine")
    textio.check_writable(tmp_path / "new")
    textio.check_writable(tmp_path / "mine")
    assert os.listdir(tmp_path) == ["mine"] and (tmp_path / "mine").read_text() == "mine"
    for path in (tmp_path, tmp_path / "nowhere" / "file"):
        with pytest.raises(OSError) as raised:
            textio.check_writable(path)
        assert raised.value.filename == str(path)


@pytest.mark.parametrize("mode", ["w", "a"])
def test_a_redirected_standard_output_keeps_its_other_lines(tmp_path, mode):
    """`--out=/dev/stdout > file` must not put another file in the place of `file`."""
    program = (
        "from tfsoftmax import textio\n"
        "print('before')\n"
        "with textio.writing('/dev/stdout') as file:\n"
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
        monkeypatch.setattr(textio, "_lock", lambda *_, **__: os.stat(tmp_path / "none"))
    path = tmp_path / "private"
    path.write_text("old")
    path.chmod(0o600)
    with textio.writing(path) as file:
        file.write("new")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o600)


def test_a_read_only_file_is_not_replaced(tmp_path, monkeypatch):
    path = tmp_path / "kept"
    path.write_text("old")
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    for use in (textio.check_writable, lambda p: textio.writing(p).__enter__()):
        with pytest.raises(PermissionError, match="kept"):
            use(path)
    assert path.read_text() == "old" and len(list(tmp_path.iterdir())) == 1
