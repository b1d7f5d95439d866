"""Facts about `prepare` on small text files."""

import collections
import dataclasses
import gzip
import json
import os
import re
import subprocess
import sys

import pytest
from text_files import config, contents, prepared, read_back, write_texts

from refusals import refused
from tfsoftmax.commands.options import attribute_helps
from tfsoftmax.corpora import catalogue, encoding, sources
from tfsoftmax.corpora import manifest as manifests
from tfsoftmax.corpora import prepare as preparing
from tfsoftmax.corpora.config import PrepareConfig
from tfsoftmax.corpora.prepare import prepare, summary
from tfsoftmax.pairs import prepare as pairs
from tfsoftmax.pairs import sources as pair_sources
from tfsoftmax.pairs.config import PairsConfig


@pytest.fixture
def texts(tmp_path):
    return write_texts(tmp_path)


def test_every_sentence_of_every_split_is_in_the_records_once(tmp_path, texts):
    corpus = prepared(tmp_path)
    for split, lines in texts.items():
        expected = [line.replace("unseen", "<unk>") for line in lines]
        assert sorted(read_back(corpus, split)) == sorted(expected)
        found = corpus.splits[split]
        assert found.sentences == len(lines)
        assert found.words == sum(len(line.split()) for line in lines)
        assert found.tokens == found.words + found.sentences
        assert found.oov == sum(line.split().count("<unk>") for line in expected)


def test_sentences_are_shuffled(tmp_path, texts):
    corpus = prepared(tmp_path, streams=1)
    assert read_back(corpus, "train") != texts["train"]


@pytest.mark.parametrize("order, warns", [("shuffled", True), ("text", False)])
def test_records_of_much_padding_are_warned_of(tmp_path, texts, order, warns):
    (tmp_path / "long.txt").write_text("a b c d e " * 1000 + "\n" + "a b\n" * 200)
    corpus = prepared(tmp_path, train=str(tmp_path / "long.txt"), streams=20, order=order)
    assert ("positions of train are padding: take" in summary(corpus)) == warns
    assert ("fewer --streams or --time_steps, or --order=text" in summary(corpus)) == warns


def test_records_longer_than_the_text_are_warned_of(tmp_path, texts):
    corpus = prepared(tmp_path, streams=900, time_steps=999, order="text")
    train = corpus.splits["train"]
    positions = 900 * 999 * train.records
    assert 0.995 < 1 - train.tokens / positions < 1  # which as a percentage would be "100%"
    assert summary(corpus).endswith(
        f"warning: {positions - train.tokens:,} of the {positions:,} positions of train are "
        "padding: take fewer --streams or --time_steps"
    )


@pytest.mark.parametrize("missing", ["valid", "test"])
def test_a_corpus_that_cannot_be_trained_on_yet_says_so(tmp_path, texts, missing):
    corpus = prepared(tmp_path, **{missing: ()})
    assert ("also needs a split valid" in summary(corpus)) == (missing == "valid")


def test_vocabulary_has_the_counts_of_the_training_split(tmp_path, texts):
    corpus = prepared(tmp_path, min_count=2)
    expected = collections.Counter(" ".join(texts["train"]).split())
    assert expected.pop("rare") == 1
    expected["<unk>"] += 1
    expected["<eos>"] = len(texts["train"])
    vocabulary = corpus.vocabulary
    assert dict(zip(vocabulary.words, vocabulary.counts.tolist())) == expected


def test_max_vocab_limits_the_vocabulary(tmp_path, texts):
    corpus = prepared(tmp_path, max_vocab=5)
    assert len(corpus.vocabulary) == 5
    assert corpus.vocabulary.counts.sum() == corpus.splits["train"].tokens


def test_same_seed_gives_the_same_bytes_and_another_seed_does_not(tmp_path, texts):
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        prepared(tmp_path, out=str(tmp_path / name), seed=seed)
    a, b, c = (contents(tmp_path / name) for name in "abc")
    assert a == b
    assert a["vocabulary.txt"] == c["vocabulary.txt"]
    assert a["train-00000.tfrecord"] != c["train-00000.tfrecord"]


def test_text_that_changes_between_the_passes_is_noticed(tmp_path, texts, monkeypatch):
    original = encoding.encode_blocks

    def swapped(blocks, tokenizer, vocabulary):
        for ids, lengths in original(blocks, tokenizer, vocabulary):
            ids[0] = (ids[0] + 1) % 3 if ids[0] != vocabulary.eos_id else ids[0]
            yield ids, lengths

    monkeypatch.setattr(encoding, "encode_blocks", swapped)
    refused("did the text change meanwhile", prepared, tmp_path, error=RuntimeError)
    monkeypatch.setattr(encoding, "encode_blocks", lambda *given: list(original(*given))[:-1])
    with pytest.raises(RuntimeError, match="as many tokens must be written as were counted"):
        prepared(tmp_path)


def test_end_of_sentence_in_the_text_is_refused(tmp_path, texts):
    with gzip.open(tmp_path / "valid.gz", "at") as file:
        file.write("\nthe <eos> cat\n")
    refused("valid.gz, line .*: must not contain <eos> .*the <eos> c", prepared, tmp_path)
    assert not (tmp_path / "out").exists()


def test_word_that_merely_contains_the_end_of_sentence_is_a_word(tmp_path, texts):
    with gzip.open(tmp_path / "train.gz", "at") as file:
        file.write("\nthe x<eos>y cat\n")
    assert "x<eos>y" in prepared(tmp_path).vocabulary


def test_min_count_above_every_word_is_refused(tmp_path, texts):
    refused("`min_count` must leave words.*min_count=10000", prepared, tmp_path, min_count=10_000)
    (tmp_path / "x.txt").write_text("<unk> <unk> <unk> a\n")
    refused("words besides <unk>. Received: min_count=2, and the most frequent of them occurs 1 t",
            prepared, tmp_path, min_count=2, train=str(tmp_path / "x.txt"))


def test_manifest_tells_what_was_made(tmp_path, texts):
    corpus = prepared(tmp_path)
    manifest = json.loads((tmp_path / "out" / manifests.MANIFEST).read_text())
    assert manifest["vocabulary"] == {
        "size": len(corpus.vocabulary), "sha256": corpus.vocabulary.sha256
    }
    assert str(tmp_path) not in json.dumps(manifest)
    table = summary(corpus)
    assert f"{corpus.splits['train'].tokens:,}" in table and "OOV" in table


def test_unknown_corpus_and_misplaced_files_are_refused(tmp_path, texts):
    refused("`corpus` must be one of docstrings, text.*'novel'", prepared, tmp_path, corpus="novel")
    refused("`train` must be given with corpus=text only", prepared, tmp_path, corpus="ptb")
    refused("`train` must name files", prepared, tmp_path, train=())


@pytest.mark.parametrize(
    "setting", [{"min_count": 0}, {"max_vocab": 2}, {"streams": 0}, {"time_steps": 0}, {"seed": -1}]
)
def test_impossible_settings_are_refused(setting):
    (name, value), = setting.items()
    refused(f"`{name}` must be at least .*{name}={value}", PrepareConfig, out="x", **setting)
    refused("`out` must name a directory", PrepareConfig)


def test_the_help_names_every_corpus_and_its_smallest_count():
    for kind, corpora, lowest in (
        (PrepareConfig, sources.CORPORA, catalogue.MIN_COUNTS),
        (PairsConfig, pair_sources.CORPORA, pairs.MIN_COUNTS),
    ):
        helps = attribute_helps(kind)
        assert list(helps) == [field.name for field in dataclasses.fields(kind)]
        assert re.findall(r"- (\w+): ", helps["corpus"]) == list(corpora)
        counts = [(name, int(n)) for n, name in re.findall(r"(\d+) for (\w+)", helps["min_count"])]
        assert counts == [(name, n) for name, n in lowest.items() if n > 1]


def test_preparing_text_does_not_load_tensorflow(tmp_path, texts):
    code = (
        "import sys, tfsoftmax_command; from tfsoftmax.corpora.config import PrepareConfig\n"
        "assert 'numpy' not in sys.modules\n"
        "from tfsoftmax.corpora.prepare import prepare\n"
        "prepare(PrepareConfig('text', 'out', 'train.gz'))\n"
        "assert 'tensorflow' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path).returncode == 0


def test_input_that_changes_while_it_is_read_is_noticed(tmp_path, texts, monkeypatch):
    settings, write = config(tmp_path), preparing._write_sentences

    def write_and_append(*arguments):
        write(*arguments)
        with gzip.open(settings.valid[0], "at", encoding="utf-8") as file:
            file.write("one more line\n")

    monkeypatch.setattr(preparing, "_write_sentences", write_and_append)
    with pytest.raises(RuntimeError, match="input files must not change while they are read"):
        prepare(settings, progress=False)
    assert not os.path.exists(settings.out)


def test_the_working_directory_is_not_replaced(tmp_path, texts, monkeypatch):
    out = tmp_path / "out"
    out.mkdir()
    monkeypatch.chdir(out)
    refused("`out` must not be the working directory", prepared, tmp_path, out=".")


def test_a_sentence_of_a_whole_text_is_refused_before_it_is_padded(tmp_path, texts, monkeypatch):
    monkeypatch.setattr(preparing, "PADDING", 1000)
    settings = config(tmp_path)
    with gzip.open(settings.train[0], "at", encoding="utf-8") as file:
        file.write("\n" + "word " * 5000)
    settings = dataclasses.replace(settings, streams=40, order="shuffled")
    with pytest.raises(ValueError, match="`streams` must be fewer.* a sentence of 5,001 tokens"):
        prepare(settings, progress=False)
    prepare(dataclasses.replace(settings, order="text"), progress=False)


def test_field_is_for_files_with_fields(tmp_path, texts):
    refused("`field` must be given where a file has fields", prepared, tmp_path, field="body")
