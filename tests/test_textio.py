"""Facts about the one way to read text and JSON."""

import bz2
import gzip
import io
import json
import lzma
import math
import sys

import numpy as np
import pytest

from refusals import refused
from tfsoftmax.support import textio

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
    path, found = write(tmp_path / "a.txt", "é\n\nbb b\nc\rc\u2028c\r\r\nno newline".encode()), {}
    for first, block in textio.line_blocks(path, block_bytes):
        found.update(enumerate(block, start=first))
    assert found == {1: "é", 2: "", 3: "bb b", 4: "c\rc\u2028c\r", 5: "no newline"}
    path = write(tmp_path / "a.txt", b"good\ngood\nna\xefve\ngood\n")
    message = r"a.txt, line 3: must be UTF-8. Received: b'\\xefve"
    refused(message, list, textio.line_blocks(path, block_bytes))


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
        refused(f"{name}: must be an undamaged file", list, textio.lines(path))


@pytest.mark.parametrize("end", textio.NOT_READ)
def test_other_kinds_of_compression_are_named(tmp_path, end):
    path = write(tmp_path / f"a.txt{end}", b"\x28\xb5\x2f\xfd")
    refused(rf"a.txt{end}: must be plain, or one of .gz, .*Received: '{end}'", list,
            textio.lines(path))


def test_what_is_not_finite_is_null_in_a_line_of_json():
    values = {"perplexity": math.inf, "nats": np.float64("nan"), "tokens": 3, "split": "test"}
    assert json.loads(textio.json_line(values), parse_constant=pytest.fail) == {
        "perplexity": None, "nats": None, "tokens": 3, "split": "test",
    }


@pytest.mark.parametrize("spaces, place", [(9, None), (10, None), (11, 2), (200, 2)])
@pytest.mark.parametrize("end", ["", "\n", "\nx"])
def test_lines_have_at_most_so_many_bytes(tmp_path, spaces, place, end):
    path = write(tmp_path / "a.txt", ("a\n" + " " * spaces + end).encode())
    if place is None:
        assert [line for _, line in textio.lines(path, 10)][1] == " " * spaces
        return
    refused(rf"a.txt, line {place}: a line must have at most 10 byt", list, textio.lines(path, 10))


def test_standard_input_is_named(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbfa\nb\xffc\n")))
    refused(r"standard input, line 2: must be UTF-8. Received: b'\\x", list, textio.lines("-"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbfa\nb\n")))
    assert [line for _, line in textio.lines("-")] == ["a", "b"]
    monkeypatch.setattr(sys, "stdin", None)
    refused("standard input must be open", list, textio.lines("-"))


@pytest.mark.parametrize("text, message", [
    ('{"a": 1, "b": {"c": 1, "c": 2}}', "Received: the key 'c' twice"),
    ("[" * 100_000, "Received: too many levels of brackets"),
    ('{"a": NaN}', "Received: NaN, which is no JSON"), ("[-Infinity]", "-Infinity"),
    ("{", "Received: Expecting property name"), ("9" * 5000, "must be JSON"),
    (b"\xff", ", line 1: must be UTF-8"),
])
def test_what_is_no_json_is_named(tmp_path, text, message):
    data = text if isinstance(text, bytes) else text.encode()
    refused(f"a.json.*{message}", textio.read_json, write(tmp_path / "a.json", data))


def test_json_is_read(tmp_path):
    path = write(tmp_path / "a.json", '\ufeff{"a": [1, 2.5, null], "é": {}}'.encode())
    assert textio.read_json(path) == {"a": [1, 2.5, None], "é": {}}


def test_what_python_writes_for_numbers_that_are_not_finite_is_read_if_asked_for(tmp_path):
    path = write(tmp_path / "a.json", b'{"best": Infinity}')
    assert textio.read_json(path, finite=False) == {"best": math.inf}
