"""Facts about reading text files."""

import json

import pytest

from refusals import refused
from tfsoftmax.corpora import text
from tfsoftmax.corpora.text import TextFiles, expand


def write(path, data):
    path.write_bytes(data)
    return str(path)


def lines(*paths, **options):
    return [line for block in TextFiles(paths, **options) for line in block if line]


def test_files_can_be_read_twice_in_the_order_given(tmp_path):
    paths = [write(tmp_path / name, name.encode()) for name in ("b.txt", "a.txt")]
    files = TextFiles(paths)
    assert [list(files), list(files)] == [[["b.txt"], ["a.txt"]]] * 2


@pytest.mark.parametrize("data", [b"", b"\n \n\t\n"])
def test_empty_files_are_skipped_and_named(tmp_path, data):
    paths = [write(tmp_path / "a.txt", data), write(tmp_path / "b.txt", b"the cat")]
    files = TextFiles(paths)
    for _ in range(2):
        assert [line for block in files for line in block if line.strip()] == ["the cat"]
        assert files.without_words == paths[:1]


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_places_of_lines_have_files_and_numbers(tmp_path, ends):
    texts = ["a", "", "b", "c"]
    plain = write(tmp_path / "a.txt", ends.join(texts).encode())
    rows = [json.dumps({"text": text}) for text in ("d\ne", "f")]
    table = write(tmp_path / "b.jsonl", ("\n\n".join(rows) + "\n").encode())
    files = TextFiles([plain, table])
    numbered = list(enumerate(line for block in files for line in block))
    places = {line: files.place(number) for number, line in numbered if line}
    assert places == {
        "a": f"{plain}, line 1", "b": f"{plain}, line 3", "c": f"{plain}, line 4",
        "d": f"{table}, line 1", "e": f"{table}, line 1", "f": f"{table}, line 3",
    }


def test_endless_line_is_refused_in_bounded_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "LINE_BYTES", 100)
    path = write(tmp_path / "a.txt", b"word " * 60)
    refused("a.txt, line 1: a line must have at most 100 bytes", lines, path, block_bytes=10)


def test_globs_expand_sorted_and_each_file_once(tmp_path):
    a, b = (write(tmp_path / name, b"x") for name in ("a.txt", "b.txt"))
    assert expand([b, str(tmp_path / "*.txt")], "train") == [b, a]
    assert expand([a, f"{tmp_path}/./a.txt", b], "train") == [a, b]


def test_pattern_without_a_file_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="`valid` must name existing files.*none-"):
        expand([str(tmp_path / "none-*")], "valid")
    refused("`train` must name files", expand, [str(tmp_path)], "train")
