"""Facts about the public corpora, on tiny archives of the same layout."""

import dataclasses
import functools
import http.server
import io
import os
import socket
import threading
import time

import pytest
from dataset_files import EXPECTED, TEXTS, needs_tfds, read, use_tiny_archives, write_archive

from tfsoftmax.corpora import datasets
from tfsoftmax.corpora.catalogue import DATASETS
from tfsoftmax.corpora.config import PrepareConfig
from tfsoftmax.corpora.datasets import check, is_reachable


@pytest.fixture(autouse=True)
def empty_home_and_tiny_archives(tmp_path, monkeypatch):
    use_tiny_archives(tmp_path / "home", monkeypatch)


@pytest.fixture
def offline(monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError("no network")

    monkeypatch.setattr(socket, "create_connection", refuse)


@needs_tfds
@pytest.mark.parametrize("name", ["ptb", "wikitext2", "wikitext103"])
def test_archive_in_the_manual_folder_is_read_without_network(tmp_path, offline, name):
    write_archive(tmp_path / "manual", name, TEXTS)
    assert read(name, tmp_path / "manual", tmp_path) == EXPECTED


@needs_tfds
def test_unpacked_files_in_the_manual_folder_are_read(tmp_path, offline):
    folder = tmp_path / "data [1]"  # no glob
    folder.mkdir()
    for split, text in TEXTS.items():
        (folder / f"ptb.{split}.txt").write_text(text, encoding="utf-8")
    assert read("ptb", folder, tmp_path / "scratch") == EXPECTED


@needs_tfds
def test_builders_are_tfds_builders(tmp_path):
    import tensorflow_datasets as tfds

    from tfsoftmax.corpora.builders import Wikitext2

    write_archive(tmp_path / "manual", "wikitext2", TEXTS)
    builder = Wikitext2(data_dir=tmp_path / "data")
    assert isinstance(builder, tfds.core.GeneratorBasedBuilder)
    config = tfds.download.DownloadConfig(manual_dir=tmp_path / "manual")
    builder.download_and_prepare(download_config=config)
    assert builder.info.splits["train"].num_examples == 3
    reloaded = Wikitext2(data_dir=tmp_path / "data")
    assert [x["text"].decode() for x in tfds.as_numpy(reloaded.as_dataset("test"))] == [
        "a naïve cat"
    ]


@needs_tfds
def test_dataset_is_downloaded_once_and_then_kept(tmp_path, monkeypatch):
    write_archive(tmp_path / "served", "ptb", TEXTS)
    handler = functools.partial(
        http.server.SimpleHTTPRequestHandler, directory=str(tmp_path / "served")
    )
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/{DATASETS['ptb'].archive}"
    monkeypatch.setitem(DATASETS, "ptb", dataclasses.replace(DATASETS["ptb"], url=url))
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    assert read("ptb", None, tmp_path / "first") == EXPECTED
    server.shutdown()
    server.server_close()
    assert read("ptb", None, tmp_path / "second") == EXPECTED


@pytest.mark.parametrize("note, found", [
    (b'{"urls": ["http://www.statmt.org/%s"]}', True), (b'{"urls": ["http://x.org/%s"]}', False),
    (b"{", False), (b"\xff", False), (b"[]", False), (b'{"urls": 5}', False),
    (b'{"urls": [5]}', False),
])
def test_the_notes_of_downloads_may_be_damaged(tmp_path, note, found):
    dataset = DATASETS["lm1b"]
    (tmp_path / "home" / "downloads").mkdir(parents=True)
    kept = tmp_path / "home" / "downloads" / dataset.archive
    kept.write_bytes(b"")
    place = dataset.url.partition("statmt.org/")[2].encode()
    kept.with_name(kept.name + ".INFO").write_bytes(note.replace(b"%s", place))
    assert datasets._is_downloaded("lm1b", dataset) is found


@needs_tfds
def test_text8_ends_a_sentence_every_so_many_words_and_holds_out_the_end(tmp_path, monkeypatch):
    from tfsoftmax.corpora.builders import Text8

    monkeypatch.setattr(Text8, "VALID_BYTES", 12)
    monkeypatch.setattr(Text8, "SENTENCE_WORDS", 3)
    write_archive(tmp_path, "text8", {"train": " a bb ccc dd e ff ggg hh iii jjjj"})
    assert read("text8", tmp_path, tmp_path / "scratch") == {
        "train": ["a bb ccc", "dd e ff", "ggg"],
        "valid": ["hh iii jjjj"],
    }


@needs_tfds
@pytest.mark.parametrize("chunk_bytes", [1, 2, 7, 100])
def test_fixed_sentences_do_not_depend_on_the_chunks(chunk_bytes):
    from tfsoftmax.corpora.builders import fixed_sentences

    text = b" a bb ccc  dd e\nff g"
    chunks = [text[i : i + chunk_bytes] for i in range(0, len(text), chunk_bytes)]
    assert list(fixed_sentences(chunks, 3)) == ["a bb ccc", "dd e ff", "g"]


def test_unpacked_lm1b_is_read_as_text(tmp_path, offline):
    tmp_path = tmp_path / "data [1]"
    root = tmp_path / "1-billion-word-language-modeling-benchmark-r13output"
    for part, name in (
        ("training-monolingual.tokenized.shuffled", "news.en-00001-of-00100"),
        ("training-monolingual.tokenized.shuffled", "news.en-00002-of-00100"),
        ("heldout-monolingual.tokenized.shuffled", "news.en.heldout-00000-of-00050"),
    ):
        (root / part).mkdir(parents=True, exist_ok=True)
        (root / part / name).write_text(f"from {name}\n")
    lines = {s: [x for x in v if x] for s, v in read("lm1b", tmp_path, tmp_path).items()}
    assert lines == {
        "train": ["from news.en-00001-of-00100", "from news.en-00002-of-00100"],
        "valid": ["from news.en.heldout-00000-of-00050"],
    }


@pytest.mark.parametrize("name", list(DATASETS))
def test_offline_without_files_fails_at_once_and_says_what_to_do(tmp_path, offline, name):
    start = time.monotonic()
    with pytest.raises(ConnectionError) as error:
        check(name, str(tmp_path))
    assert time.monotonic() - start < 1
    for part in (DATASETS[name].url, DATASETS[name].archive, "manual_dir", str(tmp_path)):
        assert part in str(error.value)


def test_probe_gives_up_in_time_when_the_name_server_hangs(monkeypatch):
    def hang(*args, **kwargs):
        time.sleep(0.5)
        raise OSError("no such host")

    monkeypatch.setattr(socket, "create_connection", hang)
    start = time.monotonic()
    assert not is_reachable("https://example.invalid/x.zip", seconds=0.1)
    assert time.monotonic() - start < 0.4


def test_probe_asks_the_proxy_where_there_is_one(monkeypatch):
    asked = []

    def connect(address, timeout):
        asked.append(address)
        return io.BytesIO()

    monkeypatch.setattr(socket, "create_connection", connect)
    monkeypatch.setenv("https_proxy", "http://proxy.invalid:3128")
    monkeypatch.delenv("no_proxy", raising=False)
    assert is_reachable("https://example.invalid/x.zip", seconds=5)
    assert asked == [("proxy.invalid", 3128)]


def test_missing_manual_folder_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="`manual_dir` must be an existing folder"):
        check("ptb", str(tmp_path / "absent"))


def test_missing_undeclared_package_is_named(tmp_path, monkeypatch):
    write_archive(tmp_path, "ptb", TEXTS)
    monkeypatch.setattr(datasets.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install importlib_resources dill"):
        check("ptb", str(tmp_path))


@needs_tfds
def test_ptb_is_prepared_from_its_archive(tmp_path, offline):
    from tfsoftmax.corpora.prepare import prepare

    write_archive(tmp_path / "manual", "ptb", TEXTS)
    corpus = prepare(
        PrepareConfig("ptb", str(tmp_path / "out"), manual_dir=str(tmp_path / "manual"),
                      streams=2, time_steps=3),
        progress=False,
    )
    assert sorted(os.listdir(tmp_path)) == ["home", "manual", "out"]
    assert {name: split.tokens for name, split in corpus.splits.items()} == {
        "train": 13, "valid": 3, "test": 4
    }
    assert corpus.vocabulary.counts[corpus.vocabulary.oov_id] == 1


@needs_tfds
def test_prepared_corpus_is_found_again_without_archive_and_network(tmp_path, offline):
    from tfsoftmax.corpora.prepare import prepare

    write_archive(tmp_path / "manual", "ptb", TEXTS)
    out = str(tmp_path / "out")
    prepare(PrepareConfig("ptb", out, manual_dir=str(tmp_path / "manual")), progress=False)
    assert prepare(PrepareConfig("ptb", out), progress=False).name == "ptb"
    with pytest.raises(ConnectionError, match="`wikitext2` must be downloaded"):
        prepare(PrepareConfig("wikitext2", str(tmp_path / "other")), progress=False)
    assert sorted(os.listdir(tmp_path)) == ["home", "manual", "out"]
