"""Pairs and settings that nothing can be learned from are counted or refused."""

import gzip
import json

import pytest
from pair_files import config, prepared, read_back

from refusals import refused
from tfsoftmax.corpora import manifest as manifests
from tfsoftmax.corpora.records import Corpus
from tfsoftmax.pairs import batches as pair_batches
from tfsoftmax.pairs.corpus import PairCorpus
from tfsoftmax.pairs.prepare import prepare
from tfsoftmax.pairs.texts import texts


def test_bad_pairs_are_counted_and_long_sources_cut(tmp_path, pairs):
    with gzip.open(tmp_path / "train.tsv.gz", "at", encoding="utf-8") as file:
        file.write("\n \t \nno target\t\n\tno source\n" + "a " * 40 + "\t" + "cat " * 12 + "\n")
        file.write("a " * 40 + "\tcat\n")
    with gzip.open(tmp_path / "test.tsv.gz", "at", encoding="utf-8") as file:
        file.write("of straw\t" + "cat " * 12 + "\n")
    corpus = prepared(tmp_path, max_source=30, max_target=11)
    train, test = corpus.split("train"), corpus.split("test")
    assert train.sentences == 201
    assert (train.cut_sources, train.empty_pairs, train.long_targets) == (1, 4, 1)
    assert (["a"] * 30, ["cat"]) in read_back(corpus, "train")
    assert (train.texts.records, test.sentences, test.texts.records) == (201, 12, 13)
    manifest = json.loads((tmp_path / "out" / manifests.MANIFEST).read_text())
    assert manifest["splits"]["train"]["empty_pairs"] == 4


def damage(tmp_path, name, text):
    with open(tmp_path / name, "wb") as file:
        file.write(text)
    return str(tmp_path / name)


@pytest.mark.parametrize("line, columns", [(b"no tab here", 1), (b"a\tb\tc", 3)])
def test_wrong_columns_are_refused_with_their_line(tmp_path, pairs, line, columns):
    path = damage(tmp_path, "bad.tsv", b"a\tb\n" + line + b"\n")
    refused(f"bad.tsv, line 2: must have two columns.*{columns} in", prepared, tmp_path, train=path)


def test_files_of_different_length_are_refused_with_both_lengths(tmp_path, pairs):
    source = damage(tmp_path, "s.txt", b"a\n" * 5)
    target = damage(tmp_path, "t.txt", b"b\n" * 3)
    for files, message in (((source, target), "5 in .*s.txt, 3 in .*t.txt"),
                           ((target, source), "3 in .*t.txt, 5 in .*s.txt")):
        with pytest.raises(ValueError, match=f"have a line for each line.*Received: {message}"):
            prepared(tmp_path, train=files[0], train_targets=files[1])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("content, message", [
    (b"a\tb\xff\n", "train.bad, line 1: must be UTF-8"),
    (b"a\tb <eos> c\n", "train.bad, line 1: must not contain <eos> inside"),
    (b"a\tb\nb <s> c\td\n", "train.bad, line 2: must not contain <s> inside"),
    (b"a\t\n\n", "`train` must hold at least one pair .*Received: 2 pairs with an empty side"),
    (b"", "`train` must hold at least one pair"),
    (b"a\t" + b"b " * 31 + b"\n", "`train` must hold.*1 with a longer target"),
])
def test_texts_that_make_no_pairs_are_refused(tmp_path, pairs, content, message):
    refused(message, prepared, tmp_path, train=damage(tmp_path, "train.bad", content))


@pytest.mark.parametrize("changes, message", [
    ({"train_targets": ["train.tsv.gz"], "train": ["train.tsv.gz"] * 2}, "existing files"),
    ({"train": ()}, "`train` must name files"),
    ({"valid": (), "valid_targets": "x"}, "`valid_targets` must be given with `valid` only"),
    ({"corpus": "ptb"}, "`corpus` must be one of docstring_pairs, text, gigaword"),
    ({"batch_size": 5000}, "`batch_size` must be at most 1000"),
    ({"max_target": 0}, "`max_target` must be at least 1"),
    ({"vocabulary_from": "sources"}, "`vocabulary_from` must be one of targets, both"),
])
def test_settings_that_do_not_fit_are_refused(tmp_path, pairs, changes, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        prepared(tmp_path, **changes)


def test_prepared_again_it_is_left_alone_and_damage_and_changes_are_noticed(
    tmp_path, pairs, capsys
):
    prepared(tmp_path)
    prepare(config(tmp_path))
    assert "it is intact" in capsys.readouterr().err
    refused("max_source is 100, not 9", prepared, tmp_path, max_source=9)
    path = tmp_path / "out" / "valid-texts.tsv.gz"
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)
    refused("it is damaged: .*valid-texts.tsv.gz: must be as it was", prepared, tmp_path)
    with pytest.raises(ValueError, match="valid-texts.tsv.gz: must be as it was"):
        list(texts(PairCorpus.load(tmp_path / "out"), "valid"))
    prepared(tmp_path, overwrite=True)


def test_a_reader_of_sentences_refuses_pairs(tmp_path, pairs):
    prepared(tmp_path)
    refused("must be a corpus of sentences; .* one of pairs", Corpus.load, tmp_path / "out")


@pytest.mark.parametrize("side, lost", [("targets", False), ("targets", True), ("sources", True)])
def test_texts_that_change_between_the_passes_are_noticed(tmp_path, pairs, monkeypatch, side, lost):
    original = pair_batches.EncodedTexts.add

    def changed(self, ids, lengths):
        if self._path.endswith(side):
            ids, lengths = ids.copy(), lengths.copy()
            if lost:
                lengths[0] -= 1
                ids = ids[1:]
            else:
                ids[0] = (ids[0] + 1) % 9
        original(self, ids, lengths)

    monkeypatch.setattr(pair_batches.EncodedTexts, "add", changed)
    refused("did the text change meanwhile", prepared, tmp_path, error=RuntimeError)
