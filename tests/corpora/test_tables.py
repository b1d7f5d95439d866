"""Facts about texts in files of JSON and Parquet, and in data sets of Hugging Face."""

import gzip
import json
import sys

import pytest

from refusals import refused
from tfsoftmax.corpora import hub_datasets
from tfsoftmax.corpora.config import PrepareConfig
from tfsoftmax.corpora.prepare import prepare
from tfsoftmax.corpora.text import TextFiles

TEXTS = ["the cat\nsat down\n\n", "été 😀", "", "a mat"]
LINES = ["the cat", "sat down", "été 😀", "a mat"]


def lines(path, **options):
    return [line for block in TextFiles([path], **options) for line in block if line]


def json_lines(path, texts=TEXTS, field="text"):
    data = "".join(json.dumps({"id": n, field: text}) + "\n" for n, text in enumerate(texts))
    with (gzip.open if path.name.lower().endswith(".gz") else open)(path, "wb") as file:
        file.write(data.encode())
    return path


def parquet(path, texts=TEXTS, field="text"):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    table = pyarrow.table({"id": list(range(len(texts))), field: pyarrow.array(texts)})
    write_table(table, path, row_group_size=2)
    return path


@pytest.mark.parametrize("block_bytes", [1, 1 << 20])
@pytest.mark.parametrize("name, write", [
    ("a.jsonl", json_lines), ("a.jsonl.gz", json_lines), ("a.parquet", parquet),
])
def test_the_lines_of_texts_in_a_field_are_read(tmp_path, name, write, block_bytes):
    assert lines(write(tmp_path / name), block_bytes=block_bytes) == LINES
    write(tmp_path / name, field="content")
    assert lines(tmp_path / name, block_bytes=block_bytes, field="content") == LINES


@pytest.mark.parametrize("name", ["a.ndjson", "a.json", "A.JSONL", "A.Jsonl.GZ", "A.PARQUET"])
def test_names_of_tables_may_end_in_other_ways(tmp_path, name):
    write = parquet if name.endswith("PARQUET") else json_lines
    assert lines(write(tmp_path / name)) == LINES


@pytest.mark.parametrize("name, write, place", [
    ("a.jsonl", json_lines, "line 2"), ("a.parquet", parquet, "row 2"),
])
def test_a_null_is_no_empty_text(tmp_path, name, write, place):
    with pytest.raises(ValueError, match=f"{name}, {place}: .*must .* a text under 'text'"):
        lines(write(tmp_path / name, ["a b", None]))
    assert lines(write(tmp_path / name, ["a b", ""])) == ["a b"]


def test_repeated_texts_do_not_make_a_large_block(tmp_path):
    path = parquet(tmp_path / "a.parquet", ["word " * 100] * 50)
    blocks = list(TextFiles([path], block_bytes=2000))
    assert [len(block) for block in blocks] == [4] * 12 + [2]


def test_half_a_surrogate_pair_is_named(tmp_path):
    json_lines(tmp_path / "a.jsonl", ["a", "a \ud800 b"])
    refused("a.jsonl, line 2: each line must hold whole characters", lines, tmp_path / "a.jsonl")


def test_a_table_that_is_not_utf8_is_named(tmp_path):
    path = parquet(tmp_path / "a.parquet", ["a b", "aXb", "c"])
    path.write_bytes(path.read_bytes().replace(b"aXb", b"a\xffb"))
    refused("a.parquet, row 2: must be UTF-8. Received: .*0xff", lines, path)


def test_files_without_the_field_are_named(tmp_path):
    json_lines(tmp_path / "a.jsonl")
    with pytest.raises(ValueError, match="a.jsonl, line 1: each line must .* under 'body', which"):
        lines(tmp_path / "a.jsonl", field="body")
    parquet(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="column of strings 'id'.*id .int64., text .string."):
        lines(tmp_path / "a.parquet", field="id")


@pytest.mark.parametrize("line, message", [
    ('{"text": 3}', "line 2: each line must be a JSON object with a text under"),
    ('["text"]', "line 2: each line must be a JSON object"),
    ("{", "line 2: each line must be JSON"),
])
def test_wrong_lines_of_json_are_named(tmp_path, line, message):
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n' + line)
    refused(message, lines, tmp_path / "a.jsonl")


def test_damaged_tables_are_named(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "a.parquet").write_text("no table")
    refused("a.parquet: must be an undamaged file. Received: ", lines, tmp_path / "a.parquet")


def test_every_flipped_byte_of_a_table_that_is_noticed_is_an_error_with_the_name(tmp_path):
    path = parquet(tmp_path / "a.parquet")
    data, noticed = path.read_bytes(), 0
    for place in range(len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 255]) + data[place + 1 :])
        try:
            lines(path)
        except ValueError as error:
            assert str(error).startswith(f"{path}")
            noticed += 1
    assert noticed > len(data) / 10


def test_a_corpus_is_the_same_from_text_json_and_parquet(tmp_path):
    (tmp_path / "a.txt").write_text("\n".join(LINES))
    json_lines(tmp_path / "a.jsonl")
    parquet(tmp_path / "a.parquet")
    corpora = [
        prepare(PrepareConfig("text", str(tmp_path / end), train=str(tmp_path / f"a.{end}"),
                              streams=2, time_steps=3), progress=False)
        for end in ("txt", "jsonl", "parquet")
    ]
    assert len({corpus.vocabulary.sha256 for corpus in corpora}) == 1
    assert len({corpus.split("train").files[0].sha256 for corpus in corpora}) == 1
    other = PrepareConfig("text", str(tmp_path / "jsonl"), train=str(tmp_path / "a.jsonl"),
                          streams=2, time_steps=3, field="body")
    refused("field is 'text', not 'body'", prepare, other, progress=False)


def of_hub(tmp_path, name, **changes):
    settings = {"out": str(tmp_path / "out"), "streams": 2, "time_steps": 3} | changes
    return prepare(PrepareConfig(f"hf:{name}", **settings), progress=False)


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """The package `datasets`, without its hub and with a cache of its own."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(hub_datasets, "is_reachable", lambda url: False)
    return pytest.importorskip("datasets")


def test_a_folder_of_files_is_a_data_set(tmp_path, offline, monkeypatch):
    monkeypatch.setattr(offline.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    folder = tmp_path / "mine"
    folder.mkdir()
    json_lines(folder / "train.jsonl")
    json_lines(folder / "validation.jsonl", ["the mat"])
    corpus = of_hub(tmp_path, folder)
    assert sorted(corpus.splits) == ["train", "valid"]
    assert (corpus.split("train").sentences, corpus.split("valid").words) == (4, 2)
    of_hub(tmp_path, folder)  # is already there
    json_lines(folder / "validation.jsonl", ["another mat"])
    refused("the input files were different", of_hub, tmp_path, folder)


def test_a_data_set_on_disk_is_read(tmp_path, offline):
    saved = offline.DatasetDict({
        "train": offline.Dataset.from_dict({"body": TEXTS, "id": [0, 1, 2, 3]}),
        "test": offline.Dataset.from_dict({"body": ["a cat"], "id": [0]}),
    })
    saved.save_to_disk(tmp_path / "saved")
    corpus = of_hub(tmp_path, tmp_path / "saved", field="body")
    assert sorted(corpus.splits) == ["test", "train"] and corpus.split("train").sentences == 4
    with pytest.raises(ValueError, match="`field` must be a column of strings in .*body, id"):
        of_hub(tmp_path, tmp_path / "saved", out=str(tmp_path / "b"))


def test_a_data_set_of_one_split_on_disk_is_for_training(tmp_path, offline):
    offline.Dataset.from_dict({"text": TEXTS}).save_to_disk(tmp_path / "one")
    assert of_hub(tmp_path, tmp_path / "one").split("train").sentences == 4
    offline.Dataset.from_dict({"text": ["a", None]}).save_to_disk(tmp_path / "null")
    with pytest.raises(ValueError, match="null, row 2: must have a text under 'text', be it empty"):
        of_hub(tmp_path, tmp_path / "null", out=str(tmp_path / "b"))


def test_a_data_set_that_is_not_there_is_named(tmp_path, offline):
    with pytest.raises(ConnectionError, match="must name a folder or a data set .*hf:nobody/none"):
        of_hub(tmp_path, "nobody/none")


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(RuntimeError, match=r"`corpus` needs datasets: pip install datasets"):
        of_hub(tmp_path, tmp_path)


def test_a_field_is_refused_where_it_has_no_effect(tmp_path):
    with pytest.raises(ValueError, match="`field` must be given with corpus=text, hf:NAME"):
        prepare(PrepareConfig("docstrings", str(tmp_path / "out"), field="body"), progress=False)


@pytest.mark.parametrize("corpus", ["hf", "text:a", "nothing"])
def test_corpora_without_a_name_or_with_a_wrong_one_are_named(tmp_path, corpus):
    with pytest.raises(ValueError, match="`corpus` must be one of docstrings, text, hf:NAME, "):
        prepare(PrepareConfig(corpus, str(tmp_path / "out")), progress=False)
