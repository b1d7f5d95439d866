"""Facts about the public corpora, on tiny archives of the same layout."""

import dataclasses
import functools
import hashlib
import http.server
import io
import os
import socket
import tarfile
import threading
import time
import zipfile

import numpy as np
import pytest

from tfsoftmax.corpora import datasets
from tfsoftmax.corpora.archives import open_member
from tfsoftmax.corpora.catalogue import DATASETS, find_manual
from tfsoftmax.corpora.config import PrepareConfig
from tfsoftmax.corpora.datasets import check, is_reachable

CATALOGUE = dict(DATASETS)
TEXTS = {
    "train": " the cat sat \n \n = A Heading = \n the <unk> sat \n",
    "valid": " the cat \n",
    "test": " a naïve cat \n",
}
needs_tfds = pytest.mark.skipif(
    not datasets.importlib.util.find_spec("importlib_resources"),
    reason="tensorflow-datasets needs importlib_resources",
)


@pytest.fixture(autouse=True)
def empty_home_and_tiny_archives(tmp_path, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "home"))
    for name, dataset in DATASETS.items():
        unknown = dataclasses.replace(dataset, digest=None, digests={})
        monkeypatch.setitem(DATASETS, name, unknown)


@pytest.fixture
def offline(monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError("no network")

    monkeypatch.setattr(socket, "create_connection", refuse)


def write_archive(folder, name, texts):
    """Writes the archive of a dataset into a folder."""
    folder.mkdir(exist_ok=True)
    path = folder / DATASETS[name].archive
    members = {DATASETS[name].members[split]: text.encode() for split, text in texts.items()}
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for member, data in members.items():
                archive.writestr(member, data)
    else:
        with tarfile.open(path, "w:gz") as archive:
            for member, data in members.items():
                info = tarfile.TarInfo(f"./{member}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))


def read(name, manual_dir, scratch):
    """Opens a dataset; returns a dict from split to its sentences."""
    opened = check(name, str(manual_dir) if manual_dir else None)(str(scratch), lambda words: None)
    return {split: [line for block in blocks for line in block] for split, blocks in opened.items()}


EXPECTED = {
    "train": ["the cat sat", "= A Heading =", "the <unk> sat"],
    "valid": ["the cat"],
    "test": ["a naïve cat"],
}


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
    with pytest.raises(ImportError, match=r"pip install 'tfsoftmax\[tfds\]'"):
        check("ptb", str(tmp_path))


def test_downloads_are_encrypted_and_have_digests():
    for dataset in CATALOGUE.values():
        assert dataset.url.startswith("https://")
        if dataset.builder:
            assert dataset.digest and dataset.digests.keys() <= dataset.members.keys()
            for digest in (dataset.digest, *dataset.digests.values()):
                algorithm, _, digits = digest.partition(":")
                assert 4 * len(digits) == 8 * hashlib.new(algorithm).digest_size


@needs_tfds
@pytest.mark.parametrize("packed", [True, False])
def test_a_file_of_another_digest_is_refused(tmp_path, monkeypatch, packed):
    write_archive(tmp_path, "ptb", TEXTS) if packed else [
        (tmp_path / f"ptb.{split}.txt").write_bytes(text.encode()) for split, text in TEXTS.items()
    ]
    found = {s: f"sha256:{hashlib.sha256(t.encode()).hexdigest()}" for s, t in TEXTS.items()}
    digests = dataclasses.replace(DATASETS["ptb"], digests=found)
    monkeypatch.setitem(DATASETS, "ptb", digests)
    assert read("ptb", tmp_path, tmp_path / "first") == EXPECTED
    digests.digests["valid"] = "sha1:" + 40 * "0"
    with pytest.raises(ValueError, match=r"the SHA1.* must be 0+; delete the file.*Received: \w"):
        read("ptb", tmp_path, tmp_path / "second")


@needs_tfds
def test_an_archive_of_another_digest_is_refused(tmp_path, monkeypatch):
    write_archive(tmp_path, "ptb", TEXTS)
    right = hashlib.sha256((tmp_path / "simple-examples.tgz").read_bytes()).hexdigest()
    for digits in (right, "0" * 64):
        changed = dataclasses.replace(DATASETS["ptb"], digest=f"sha256:{digits}")
        monkeypatch.setitem(DATASETS, "ptb", changed)
        if digits == right:
            assert read("ptb", tmp_path, tmp_path / "first") == EXPECTED
        else:
            with pytest.raises(ValueError, match=f"tgz: the SHA256 must be 0.*Received: {right}"):
                read("ptb", tmp_path, tmp_path / "second")


@pytest.mark.parametrize("name", ["ptb", "wikitext2"])
def test_no_flipped_bit_of_an_archive_changes_its_text(tmp_path, name):
    rng = np.random.default_rng(0)
    letters = list("abcdefghijkl mno pqr stu\n")
    texts = {split: "".join(rng.choice(letters, 700)) for split in ("train", "valid", "test")}
    write_archive(tmp_path, name, texts)
    path = tmp_path / DATASETS[name].archive
    data, refused = path.read_bytes(), 0
    for bit in rng.choice(8 * len(data), 150, replace=False):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        for split, member in DATASETS[name].members.items():
            try:
                with open_member(str(path), member) as (file, size):
                    text = file.read()
            except ValueError as error:
                assert str(error).startswith(f"{path}: must ")
                refused += 1
            else:
                assert text == texts[split].encode() and size == len(text)
    assert refused > 100
    for size in range(0, len(data), 37):
        path.write_bytes(data[:size])
        with pytest.raises(ValueError, match="must be an undamaged archive"):
            with open_member(str(path), DATASETS[name].members["train"]):
                pass


@needs_tfds
def test_text_of_another_encoding_is_named(tmp_path):
    for split in TEXTS:
        (tmp_path / f"ptb.{split}.txt").write_bytes(b"a cat\nna\xefve\n")
    with pytest.raises(ValueError, match="ptb.train.txt: must be UTF-8"):
        read("ptb", tmp_path, tmp_path / "scratch")


def test_a_folder_in_place_of_a_member_is_refused(tmp_path):
    with tarfile.open(tmp_path / "a.tgz", "w:gz") as archive:
        info = tarfile.TarInfo("text")
        info.type = tarfile.DIRTYPE
        archive.addfile(info)
    with pytest.raises(ValueError, match="must be an undamaged archive. .*text is no file"):
        with open_member(str(tmp_path / "a.tgz"), "text"):
            pass


@needs_tfds
def test_damaged_archive_is_refused(tmp_path):
    (tmp_path / DATASETS["ptb"].archive).write_bytes(b"no archive")
    with pytest.raises(ValueError, match="simple-examples.tgz: must be an undamaged archive"):
        read("ptb", tmp_path, tmp_path / "scratch")


@needs_tfds
def test_archive_without_the_member_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / DATASETS["wikitext2"].archive, "w") as archive:
        archive.writestr("other.txt", "x")
    with pytest.raises(ValueError, match="must contain wikitext-2/wiki.*Received: other.txt"):
        read("wikitext2", tmp_path, tmp_path / "scratch")


def test_files_of_only_some_splits_are_not_taken_for_the_dataset(tmp_path):
    (tmp_path / "ptb.train.txt").write_text("a\n")
    assert find_manual(DATASETS["ptb"], os.fspath(tmp_path)) is None


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
