"""Archives and files of public corpora that are damaged, or not those that were meant."""

import dataclasses
import hashlib
import os
import tarfile
import zipfile

import numpy as np
import pytest
from dataset_files import EXPECTED, TEXTS, needs_tfds, read, use_tiny_archives, write_archive

from tfsoftmax.corpora.archives import open_member
from tfsoftmax.corpora.catalogue import DATASETS, find_manual

CATALOGUE = dict(DATASETS)


@pytest.fixture(autouse=True)
def empty_home_and_tiny_archives(tmp_path, monkeypatch):
    use_tiny_archives(tmp_path / "home", monkeypatch)


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
def test_archive_without_the_member_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / DATASETS["wikitext2"].archive, "w") as archive:
        archive.writestr("other.txt", "x")
    with pytest.raises(ValueError, match="must contain wikitext-2/wiki.*Received: other.txt"):
        read("wikitext2", tmp_path, tmp_path / "scratch")


def test_files_of_only_some_splits_are_not_taken_for_the_dataset(tmp_path):
    (tmp_path / "ptb.train.txt").write_text("a\n")
    assert find_manual(DATASETS["ptb"], os.fspath(tmp_path)) is None
