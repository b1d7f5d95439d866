"""Marks of other programs at the ends of sentences are no words of a corpus."""

import gzip
import json
import types

import pytest

from refusals import refused
from tfsoftmax.corpora import hub_datasets
from tfsoftmax.corpora.config import PrepareConfig
from tfsoftmax.corpora.prepare import prepare
from tfsoftmax.corpora.unmarked import Unmarked
from tfsoftmax.pairs import prepare as pairs
from tfsoftmax.pairs.config import PairsConfig
from tfsoftmax.pairs.texts import texts
from tfsoftmax.support.marks import MARKS, Marks

PLAIN = ["the cat sat", "a mat", "the mat"]


def prepared(path, name, **options):
    config = PrepareConfig(
        "text", str(path / name), train=str(path / name) + ".txt", streams=1, time_steps=2,
        **options,
    )
    return prepare(config)


def write_lines(path, lines):
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.mark.parametrize("begin, end", [
    ("<s>", "</s>"), ("<sos/eos>", "<sos/eos>"), ("<sos>", "<eos>"), ("", "<eos>"),
    ("<S>", "</S>"), ("</s>  <s>", ""),
])
def test_marks_at_the_ends_of_lines_make_the_corpus_that_there_is_without_them(
    tmp_path, capsys, begin, end
):
    write_lines(tmp_path / "plain.txt", PLAIN)
    write_lines(tmp_path / "marked.txt", [f"{begin} {line} {end}" for line in PLAIN])
    plain, marked = (prepared(tmp_path, name) for name in ("plain", "marked"))
    assert marked.vocabulary.sha256 == plain.vocabulary.sha256
    files = [[file.sha256 for file in each.split("train").files] for each in (plain, marked)]
    assert files[0] == files[1]
    names = ", ".join(dict.fromkeys(f"{begin} {end}".split()))
    assert capsys.readouterr().err == (
        f"note: train: left out {names} at the ends of 3 sentences, because <eos> is "
        "added to each sentence\n"
    )


@pytest.mark.parametrize("mark", sorted(MARKS))
def test_marks_inside_a_line_are_refused_with_the_file_and_the_line(tmp_path, mark):
    write_lines(tmp_path / "x.txt", ["a b", f"a {mark} b {mark}"])
    refused(f"x.txt, line 2: must not contain {mark} inside", prepared, tmp_path, "x")
    (tmp_path / "x.jsonl").write_text(json.dumps({"text": "a b\n"}) + "\n" * 2 + json.dumps(
        {"text": f"c\na {mark} b"}))
    config = PrepareConfig("text", str(tmp_path / "j"), train=str(tmp_path / "x.jsonl"), streams=1)
    refused(f"x.jsonl, line 3: must not contain {mark} inside", prepare, config, progress=False)
    with pytest.raises(ValueError, match="`valid`, line 2: must not contain <s> inside"):
        list(Unmarked([["a"], ["b <s> c"]], "valid", in_words=True))


class Rows:
    """What `hub_datasets` asks of a split of the package datasets."""

    def __init__(self, texts):
        self.texts, self.features = texts, {"text": types.SimpleNamespace(dtype="string")}

    def select_columns(self, names):
        assert names == ["text"]
        return self

    def iter(self, size):
        return ({"text": self.texts[i : i + size]} for i in range(0, len(self.texts), size))


def test_marks_in_data_sets_name_the_row():
    blocks = hub_datasets._Lines(Rows(["<s> a b </s>", "", "c\nd </s> e"]), "text", "data")
    assert [line for block in blocks for line in block] == ["<s> a b </s>", "", "c", "d </s> e"]
    with pytest.raises(ValueError, match="hf:data, row 3: must not contain </s> inside"):
        list(Unmarked(blocks, "train", in_words=True))


def test_to_pieces_marks_are_text_which_is_said():
    lines = ["<s>  a  b </s>  c </s> ", "x<s> >", "<s></s>", "<s> </s>", "a <UNK>"]
    found = Unmarked([lines], "train", in_words=False)
    assert list(found) == [lines]
    assert list(found.notes()) == [
        "train: kept <s>, </s> at the ends of 2 sentences, because the tokenizer treats them as "
        "text"]


def test_blanks_inside_a_line_stay():
    assert Marks().line("<s>  a  b </s>  c </s> ") == "a  b </s>  c"


def test_unknown_words_in_upper_case_are_unknown_words(tmp_path, capsys):
    write_lines(tmp_path / "x.txt", ["a <UNK> b", "<UNK>", "c<UNK>"])
    vocabulary = prepared(tmp_path, "x").vocabulary
    assert sorted(vocabulary.words) == ["<eos>", "<unk>", "a", "b", "c<UNK>"]
    assert vocabulary.counts[vocabulary.oov_id] == 2
    assert capsys.readouterr().err == "note: train: read <UNK> as <unk>, in 2 of the sentences\n"


def test_pairs_have_no_marks_at_their_ends(tmp_path, capsys):
    rows = [("the cat sat", "cat"), ("a mat", "mat")]
    for name, begin, end in (("plain", "", ""), ("marked", "<s> ", " </s>")):
        write_lines(tmp_path / f"{name}.tsv", [
            f"{begin}{source}{end}\t{begin}{target}{end}" for source, target in rows])
    corpora = [
        pairs.prepare(PairsConfig(corpus="text", out=str(tmp_path / name),
                                  train=str(tmp_path / f"{name}.tsv"), batch_size=2))
        for name in ("plain", "marked")
    ]
    assert [list(texts(corpus, "train")) for corpus in corpora] == [
        [(source, (target,)) for source, target in rows]] * 2
    assert len({corpus.vocabulary.sha256 for corpus in corpora}) == 1
    assert "note: train: left out <s>, </s> at the ends of 4 sentences" in capsys.readouterr().err


def test_unknown_words_of_pairs_in_upper_case_are_unknown_words(tmp_path, capsys):
    write_lines(tmp_path / "x.tsv", ["a <UNK> b\tc <UNK>", "<UNK>\t<s> <UNK> </s>", "d\te<UNK>"])
    corpus = pairs.prepare(PairsConfig(
        corpus="text", out=str(tmp_path / "out"), train=str(tmp_path / "x.tsv"), batch_size=2))
    assert sorted(corpus.vocabulary.words) == ["<eos>", "<unk>", "c", "e<UNK>"]
    assert corpus.vocabulary.counts[corpus.vocabulary.oov_id] == 2
    assert list(texts(corpus, "train")) == [
        ("a <unk> b", ("c <unk>",)), ("<unk>", ("<unk>",)), ("d", ("e<UNK>",))]
    assert "note: train: read <UNK> as <unk>, in 4 of the sentences" in capsys.readouterr().err


def test_marks_in_pairs_of_files_name_the_file_of_the_source(tmp_path):
    for name, lines in (("s1", ["a"]), ("s2", ["a", "b"]), ("t1", ["c"]), ("t2", ["c", "d <s> e"])):
        write_lines(tmp_path / name, lines)
    config = PairsConfig(
        corpus="text", out=str(tmp_path / "out"), train=str(tmp_path / "s?"),
        train_targets=str(tmp_path / "t?"), batch_size=1,
    )
    refused("s2, line 2: must not contain <s> inside", pairs.prepare, config, progress=False)


def test_words_that_merely_contain_marks_are_words():
    marks = Marks()
    for words in (["x<s>", "</s>y", "<eos>."], ["s>"], []):
        assert marks.words(words, lambda: "x") is words
    assert marks.report("x") is None


def test_one_empty_file_is_skipped_with_a_word_and_all_are_an_error(tmp_path, capsys):
    for name, text in (("a.txt", "the cat\n"), ("b.txt", ""), ("c.txt", " \n\n")):
        (tmp_path / name).write_text(text)
    with gzip.open(tmp_path / "d.txt.gz", "wt") as file:
        file.write("\n")
    options = {"streams": 1, "time_steps": 2}
    corpus = prepare(PrepareConfig(
        "text", str(tmp_path / "out"), train=[str(tmp_path / "*.txt"), str(tmp_path / "d.txt.gz")],
        **options))
    assert corpus.split("train").sentences == 1
    assert capsys.readouterr().err == "".join(
        f"note: {tmp_path / name}: skipped, as it has no line with words\n"
        for name in ("b.txt", "c.txt", "d.txt.gz"))
    with pytest.raises(ValueError, match="`train` must hold at least one sentence"):
        prepare(PrepareConfig("text", str(tmp_path / "none"), train=str(tmp_path / "[bc].txt"),
                              **options))
