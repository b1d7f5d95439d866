"""Facts about `prepare` on small text files."""

import builtins
import collections
import dataclasses
import errno
import gzip
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from tfsoftmax.commands.shared_flags import attribute_helps
from tfsoftmax.corpora import encoding, replacing, shuffle, writer
from tfsoftmax.corpora import manifest as manifests
from tfsoftmax.corpora import prepare as prepare_module
from tfsoftmax.corpora.catalogue import MIN_COUNTS
from tfsoftmax.corpora.config import PrepareConfig
from tfsoftmax.corpora.pipeline import batches
from tfsoftmax.corpora.prepare import prepare, summary
from tfsoftmax.corpora.replacing import alone
from tfsoftmax.corpora.sources import CORPORA

WORDS = ["the", "cat", "sat", "naïve", "on", "a", "mat", "of", "<unk>", "straw"]


def make_text(sentences, seed):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(1, 12))) for _ in range(sentences)]


@pytest.fixture
def texts(tmp_path):
    """Three files of sentences; returns a dict from split to sentences."""
    texts = {"train": make_text(200, 0), "valid": make_text(30, 1), "test": make_text(20, 2)}
    texts["valid"][3] += " unseen"
    texts["train"][7] += " rare"
    for split, lines in texts.items():
        with gzip.open(tmp_path / f"{split}.gz", "wt", encoding="utf-8") as file:
            file.write("\n\n".join(lines))
    return texts


def config(tmp_path, **changes):
    files = {split: str(tmp_path / f"{split}.gz") for split in ("train", "valid", "test")}
    settings = {"corpus": "text", "out": str(tmp_path / "out"), "streams": 5, "time_steps": 4}
    return PrepareConfig(**settings | files | changes)


def read_back(corpus, split):
    """Returns the sentences of a split as the weighted targets spell them."""
    targets = [[] for _ in range(corpus.streams)]
    for _, next_words, weights in batches(corpus, split).as_numpy_iterator():
        for stream, row, weight in zip(targets, next_words, weights):
            stream += corpus.vocabulary.decode(row[weight > 0])
    text = "".join("\n" if word == "<eos>" else f" {word}" for words in targets for word in words)
    return [line.strip() for line in text.splitlines()]


def contents(directory):
    return {name: (directory / name).read_bytes() for name in os.listdir(directory)}


def test_every_sentence_of_every_split_is_in_the_records_once(tmp_path, texts):
    corpus = prepare(config(tmp_path), progress=False)
    for split, lines in texts.items():
        expected = [line.replace("unseen", "<unk>") for line in lines]
        assert sorted(read_back(corpus, split)) == sorted(expected)
        found = corpus.splits[split]
        assert found.sentences == len(lines)
        assert found.words == sum(len(line.split()) for line in lines)
        assert found.tokens == found.words + found.sentences
        assert found.oov == sum(line.split().count("<unk>") for line in expected)


def test_sentences_are_shuffled(tmp_path, texts):
    corpus = prepare(config(tmp_path, streams=1), progress=False)
    assert read_back(corpus, "train") != texts["train"]


def test_many_buckets_lose_nothing(tmp_path, texts, monkeypatch):
    monkeypatch.setattr(shuffle.ExternalShuffle.__init__, "__defaults__", (50,))
    corpus = prepare(config(tmp_path), progress=False)
    assert sorted(read_back(corpus, "train")) == sorted(texts["train"])


def test_vocabulary_has_the_counts_of_the_training_split(tmp_path, texts):
    corpus = prepare(config(tmp_path, min_count=2), progress=False)
    expected = collections.Counter(" ".join(texts["train"]).split())
    assert expected.pop("rare") == 1
    expected["<unk>"] += 1
    expected["<eos>"] = len(texts["train"])
    vocabulary = corpus.vocabulary
    assert dict(zip(vocabulary.words, vocabulary.counts.tolist())) == expected


def test_max_vocab_limits_the_vocabulary(tmp_path, texts):
    corpus = prepare(config(tmp_path, max_vocab=5), progress=False)
    assert len(corpus.vocabulary) == 5
    assert corpus.vocabulary.counts.sum() == corpus.splits["train"].tokens


def test_same_seed_gives_the_same_bytes_and_another_seed_does_not(tmp_path, texts):
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        prepare(config(tmp_path, out=str(tmp_path / name), seed=seed), progress=False)
    a, b, c = (contents(tmp_path / name) for name in "abc")
    assert a == b
    assert a["vocabulary.txt"] == c["vocabulary.txt"]
    assert a["train-00000.tfrecord"] != c["train-00000.tfrecord"]


def test_prepared_again_with_the_same_settings_it_is_left_alone(tmp_path, texts, capsys):
    prepare(config(tmp_path))
    before = {name: os.stat(tmp_path / "out" / name) for name in os.listdir(tmp_path / "out")}
    corpus = prepare(config(tmp_path))
    assert {n: os.stat(tmp_path / "out" / n) for n in os.listdir(tmp_path / "out")} == before
    assert "it is intact" in capsys.readouterr().err
    assert corpus.splits["train"].sentences == 200


def test_corpora_that_are_older_than_tasks_are_left_alone(tmp_path, texts, capsys):
    prepare(config(tmp_path), progress=False)
    path = tmp_path / "out" / manifests.MANIFEST
    manifest = json.loads(path.read_text())
    del manifest["settings"]["task"]
    path.write_text(json.dumps(manifest))
    assert prepare(config(tmp_path)).task == "sentences"
    assert "it is intact" in capsys.readouterr().err


@pytest.mark.parametrize(
    "change, message",
    [({"min_count": 2}, "min_count is 1, not 2"), ({"seed": 9}, "seed is 1, not 9"),
     ({"time_steps": 7}, "time_steps is 4, not 7")],
)
def test_other_settings_are_refused_by_name_unless_overwritten(tmp_path, texts, change, message):
    prepare(config(tmp_path), progress=False)
    before = contents(tmp_path / "out")
    with pytest.raises(ValueError, match=f"`out` already holds a corpus.*{message}"):
        prepare(config(tmp_path, **change), progress=False)
    assert contents(tmp_path / "out") == before
    corpus = prepare(config(tmp_path, **change, overwrite=True), progress=False)
    assert corpus.settings.items() >= change.items()
    assert sorted(os.listdir(tmp_path)) == ["out", "test.gz", "train.gz", "valid.gz"]


def test_changed_input_is_noticed(tmp_path, texts):
    prepare(config(tmp_path), progress=False)
    with gzip.open(tmp_path / "valid.gz", "at") as file:
        file.write("\none more\n")
    with pytest.raises(ValueError, match="the input files were different"):
        prepare(config(tmp_path), progress=False)


def test_damaged_corpus_is_refused_unless_overwritten(tmp_path, texts):
    prepare(config(tmp_path), progress=False)
    path = tmp_path / "out" / "train-00000.tfrecord"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match="it is damaged: .*train-00000.tfrecord: the SHA-256"):
        prepare(config(tmp_path), progress=False)
    prepare(config(tmp_path, overwrite=True), progress=False)
    assert path.read_bytes() != data


@pytest.mark.parametrize("name", ["thesis.tex", manifests.MANIFEST])
def test_directory_of_something_else_is_never_replaced(tmp_path, texts, name):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("{}")
    with pytest.raises(ValueError, match="`out` must be new, empty, or a corpus that `prep"):
        prepare(config(tmp_path, overwrite=True), progress=False)
    assert contents(tmp_path / "out") == {name: b"{}"}


def test_corpus_with_foreign_files_is_not_overwritten(tmp_path, texts):
    prepare(config(tmp_path), progress=False)
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="also holds notes.txt"):
        prepare(config(tmp_path, seed=2, overwrite=True), progress=False)
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"


def test_empty_directory_of_any_name_is_used(tmp_path, texts):
    out = tmp_path / "a {b} [c]"
    out.mkdir()
    corpus = prepare(config(tmp_path, out=str(out)), progress=False)
    assert corpus.splits["train"].sentences == 200


@pytest.mark.parametrize("overwrite", [False, True])
def test_full_disk_is_one_sentence_and_leaves_everything_as_it_was(
    tmp_path, texts, monkeypatch, overwrite
):
    if overwrite:
        prepare(config(tmp_path, seed=2), progress=False)
    before = contents(tmp_path / "out") if overwrite else None
    monkeypatch.setattr(
        writer, "open", lambda path, mode: builtins.open("/dev/full", mode), raising=False
    )
    with pytest.raises(OSError, match="The disk is full: preparing .*out.*Nothing was written"):
        prepare(config(tmp_path, overwrite=overwrite), progress=False)
    names = ["out"] * overwrite + ["test.gz", "train.gz", "valid.gz"]
    assert sorted(os.listdir(tmp_path)) == names
    assert not overwrite or contents(tmp_path / "out") == before


def test_interruption_leaves_nothing(tmp_path, texts, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(prepare_module, "encode_split", interrupt)
    with pytest.raises(KeyboardInterrupt):
        prepare(config(tmp_path), progress=False)
    assert sorted(os.listdir(tmp_path)) == ["test.gz", "train.gz", "valid.gz"]


@pytest.mark.parametrize("renames", [0, 1, 2])
def test_what_a_killed_process_left_is_cleared_up_by_the_next(
    tmp_path, texts, monkeypatch, renames
):
    """Also by one that has nothing to prepare, and on whatever machine the other one was."""
    prepare(config(tmp_path, seed=2), progress=False)
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
            prepare(config(tmp_path, overwrite=True), progress=False)
    (tmp_path / ".out.tfsoftmax.lock").touch()
    names = ["out", "test.gz", "train.gz", "valid.gz"]
    assert sorted(os.listdir(tmp_path)) != names
    prepare(config(tmp_path, seed=2 if renames < 2 else 1), progress=False)
    assert sorted(os.listdir(tmp_path)) == names
    assert (contents(tmp_path / "out") == old) == (renames < 2)


def test_a_second_process_is_refused_and_a_foreign_lock_is_not_followed(tmp_path, texts):
    with alone(str(tmp_path / "out")):
        with pytest.raises(ValueError, match="`out` must not be written by another process. Rec"):
            prepare(config(tmp_path), progress=False)
    prepare(config(tmp_path), progress=False)
    (tmp_path / "mine").write_text("mine")
    os.symlink(tmp_path / "mine", tmp_path / ".out.tfsoftmax.lock")
    with pytest.raises(OSError, match="tfsoftmax.lock"):
        prepare(config(tmp_path), progress=False)
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_corpus_is_found_where_nothing_can_be_written(tmp_path, texts, monkeypatch):
    prepare(config(tmp_path), progress=False)

    def refuse(path, *arguments):
        raise OSError(errno.EROFS, "Read-only file system", path)

    monkeypatch.setattr(replacing.os, "open", refuse)
    assert prepare(config(tmp_path), progress=False).splits["train"].sentences == 200


def test_text_that_changes_between_the_passes_is_noticed(tmp_path, texts, monkeypatch):
    original = encoding.encode_blocks

    def swapped(blocks, tokenizer, vocabulary):
        for ids, lengths in original(blocks, tokenizer, vocabulary):
            ids[0] = (ids[0] + 1) % 3 if ids[0] != vocabulary.eos_id else ids[0]
            yield ids, lengths

    monkeypatch.setattr(encoding, "encode_blocks", swapped)
    with pytest.raises(RuntimeError, match="did the text change meanwhile"):
        prepare(config(tmp_path), progress=False)
    monkeypatch.setattr(encoding, "encode_blocks", lambda *given: list(original(*given))[:-1])
    with pytest.raises(RuntimeError, match="as many tokens must be written as were counted"):
        prepare(config(tmp_path), progress=False)


def test_end_of_sentence_in_the_text_is_refused(tmp_path, texts):
    with gzip.open(tmp_path / "valid.gz", "at") as file:
        file.write("\nthe <eos> cat\n")
    with pytest.raises(ValueError, match="`valid`: the text must not contain `<eos>`.*the <eos> c"):
        prepare(config(tmp_path), progress=False)
    assert not (tmp_path / "out").exists()


def test_word_that_merely_contains_the_end_of_sentence_is_a_word(tmp_path, texts):
    with gzip.open(tmp_path / "train.gz", "at") as file:
        file.write("\nthe x<eos>y cat\n")
    assert "x<eos>y" in prepare(config(tmp_path), progress=False).vocabulary


def test_min_count_above_every_word_is_refused(tmp_path, texts):
    with pytest.raises(ValueError, match="`min_count` must leave words.*min_count=10000"):
        prepare(config(tmp_path, min_count=10_000), progress=False)


def test_manifest_tells_what_was_made(tmp_path, texts):
    corpus = prepare(config(tmp_path), progress=False)
    manifest = json.loads((tmp_path / "out" / manifests.MANIFEST).read_text())
    assert manifest["vocabulary"] == {
        "size": len(corpus.vocabulary), "sha256": corpus.vocabulary.sha256
    }
    assert str(tmp_path) not in json.dumps(manifest)
    table = summary(corpus)
    assert f"{corpus.splits['train'].tokens:,}" in table and "OOV" in table


def test_unknown_corpus_and_misplaced_files_are_refused(tmp_path, texts):
    with pytest.raises(ValueError, match="`corpus` must be one of docstrings, text.*'novel'"):
        prepare(config(tmp_path, corpus="novel"), progress=False)
    with pytest.raises(ValueError, match="`train` must be given with corpus=.text. only"):
        prepare(config(tmp_path, corpus="ptb"), progress=False)
    with pytest.raises(ValueError, match="`train` must name files"):
        prepare(config(tmp_path, train=()), progress=False)


@pytest.mark.parametrize(
    "setting", [{"min_count": 0}, {"max_vocab": 2}, {"streams": 0}, {"time_steps": 0}, {"seed": -1}]
)
def test_impossible_settings_are_refused(setting):
    (name, value), = setting.items()
    with pytest.raises(ValueError, match=f"`{name}` must be at least .*{name}={value}"):
        PrepareConfig(out="x", **setting)
    with pytest.raises(ValueError, match="`out` must name a directory"):
        PrepareConfig()


def test_the_help_names_every_corpus_and_its_smallest_count():
    helps = attribute_helps(PrepareConfig)
    assert list(helps) == [field.name for field in dataclasses.fields(PrepareConfig)]
    assert re.findall(r"- (\w+): ", helps["corpus"]) == list(
        dict.fromkeys(name for corpora in CORPORA.values() for name in corpora)
    )
    counts = [(name, int(n)) for n, name in re.findall(r"(\d+) for (\w+)", helps["min_count"])]
    assert counts == [(name, n) for name, n in MIN_COUNTS.items() if n > 1]


def test_preparing_text_does_not_load_tensorflow(tmp_path, texts):
    code = (
        "import sys, tfsoftmax_command; from tfsoftmax.corpora.config import PrepareConfig\n"
        "assert 'numpy' not in sys.modules\n"
        "from tfsoftmax.corpora.prepare import prepare\n"
        "prepare(PrepareConfig('text', 'out', 'train.gz'))\n"
        "assert 'tensorflow' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path).returncode == 0
