"""Marks, pieces and alternatives in n-best lists and transcripts."""

import gzip
import itertools
import json

import numpy as np
import pytest

from nbest_helper import archive, integers, write
from tfsoftmax.nbest import alternatives, rescoring, transcripts
from tfsoftmax.nbest import lists as nbest
from tfsoftmax.nbest.spelling import Spelling
from tfsoftmax.nbest.word_errors import word_errors


def lists_of(words):
    """Files of all kinds with one hypothesis, and the place of its words."""
    said = " ".join(words)
    return {
        "columns": (f"a -1 -2 {said}\n", "columns, line 1"),
        "lines.jsonl": (json.dumps({"id": "a", "nbest": [words]}), "line 1, hypothesis 1"),
        "x.json": (json.dumps([{"id": "a", "nbest": [words]}]), "x.json, element 1, hypothesis 1"),
        "kaldi__words_text": (f"a-1 {said}\n", "words_text, line 1"),
        "espnet__1best_recog__text": (f"a {said}\n", "1best_recog/text, line 1"),
        "srilm__a": (f"-1 -2 {len(words)} {said}\n", "a, line 1"),
        "jobs__nbest.1.gz": (gzip.compress(f"a -1 -2 {said}\n".encode()), "nbest.1.gz, line 1"),
    }


KINDS = list(lists_of([]))


def written(tmp_path, kind, words):
    """Writes such a file, and returns what to read, and the place."""
    text, place = lists_of(words)[kind]
    write(tmp_path, **{kind: text})
    if kind.startswith("espnet"):
        write(tmp_path, espnet__1best_recog__score="a -1\n")
    name, _, rest = kind.partition("__")
    return tmp_path / (name if rest else kind), place


@pytest.mark.parametrize("kind", KINDS)
def test_marks_at_the_ends_of_hypotheses_are_left_out_and_counted(tmp_path, kind):
    path, _ = written(tmp_path, kind, ["<sos/eos>", "the", "cat", "<sos/eos>"])
    lists = nbest.read(path)
    assert lists.sentences == (("the", "cat"),)
    assert lists.spelling.marks.report("x").startswith("x: left out <sos/eos> at the ends of 1 s")
    path, place = written(tmp_path, kind, ["the", "<sos>", "cat", "</s>"])
    with pytest.raises(ValueError, match=f"{place}: must not contain <sos> inside a sentence"):
        nbest.read(path)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pieces", [["▁the", "▁ca", "t", "<sos/eos>"], ["the", "ca@@", "t"]])
def test_pieces_are_joined_or_refused_or_kept(tmp_path, kind, pieces):
    path, place = written(tmp_path, kind, pieces)
    with pytest.raises(ValueError, match=f"{place}: words must not be pieces.*`join_pieces` joins"):
        nbest.read(path)
    assert nbest.read(path, join_pieces=True).sentences == (("the", "cat"),)
    assert nbest.read(path, join_pieces=False).sentences == (tuple(pieces[:3]),)


def test_ids_of_marks_and_pieces_are_read_like_words(tmp_path):
    symbols = {"1": "▁the", "2": "▁ca", "3": "t", "4": "<sos/eos>", "5": "<eps>"}
    write(tmp_path, words=archive({"u-1": [4, 1, 2, 5, 3, 4]}, integers))
    lists = nbest.read(tmp_path, ids=True, join_pieces=True).with_words(symbols, False)
    assert lists.sentences == (("the", "cat"),) and lists.spelling.marks.sentences == 1
    with pytest.raises(ValueError, match="u: words must not be pieces"):
        nbest.read(tmp_path, ids=True).with_words(symbols, False)


def test_what_only_looks_like_pieces_are_words():
    spelling = Spelling()
    for words in (("a@@b", "@@", "a@", "the▁cat", "-@-"), ()):
        assert spelling.words(words, "x") == words
    assert Spelling(True).words(("你", "▁好", "吗"), "x") == ("你", "好吗")
    assert Spelling(True).words(("a@@", "b@@"), "x") == ("ab",)


def test_transcripts_have_no_marks_and_no_pieces(tmp_path):
    write(tmp_path, text="a <s> the cat </s>\nb ▁the ▁ca t\n", bad="a x\nb x </s> y\n")
    said = transcripts.read_transcripts(tmp_path / "text", spelling=Spelling(True))
    assert said == {"a": ("the", "cat"), "b": ("the", "cat")}
    with pytest.raises(ValueError, match="text, line 2: words must not be pieces"):
        transcripts.read_transcripts(tmp_path / "text")
    with pytest.raises(ValueError, match="bad, line 2: must not contain </s> inside"):
        transcripts.read_transcripts(tmp_path / "bad")


TRN = """\
i { um / uh / @ } see (u1)
{ I am / i'm { so / very very } / @ } sure (u2)
and/or } (u3)
{uh/um}@ x (u4)
"""


def readings(transcript):
    """All readings of a transcript, each a tuple of words."""
    parts = [[(part,)] if isinstance(part, str) else
             [reading for alternative in part for reading in readings(alternative)]
             for part in transcript]
    return [sum(chosen, ()) for chosen in itertools.product(*parts)]


def test_alternatives_are_read_by_the_grammar_of_sclite(tmp_path):
    (tmp_path / "x.trn").write_text(TRN.replace("and/or }", "and/or"))
    said = transcripts.read_transcripts(tmp_path / "x.trn", lowercase=True)
    assert readings(said["u1"]) == [("i", "um", "see"), ("i", "uh", "see"), ("i", "see")]
    assert readings(said["u2"]) == [
        ("i", "am", "sure"), ("i'm", "so", "sure"), ("i'm", "very", "very", "sure"), ("sure",)]
    assert said["u3"] == ("and/or",)
    assert readings(said["u4"]) == [("uh", "x"), ("um", "x")]
    (tmp_path / "y.trn").write_text(transcripts.trn(said, said.values()))
    assert (tmp_path / "y.trn").read_text().startswith("i { um / uh / @ } see (u1)\n")
    assert transcripts.read_transcripts(tmp_path / "y.trn") == said
    write(tmp_path, text="u1 i { um / uh }\n")  # of Kaldi, where braces are words
    assert transcripts.read_transcripts(tmp_path / "text")["u1"] == ("i", "{", "um", "/", "uh", "}")


@pytest.mark.parametrize("line", ["a } b", "{ a / b", "{ a / }", "{ }", "{ / a }", "{ { a / b }"])
def test_braces_that_do_not_match_are_named(tmp_path, line):
    (tmp_path / "x.trn").write_text(f"a (u1)\n{line} (u2)\n")
    with pytest.raises(ValueError, match="x.trn, line 2: must have alternatives between braces"):
        transcripts.read_transcripts(tmp_path / "x.trn")


def test_output_of_other_systems_has_no_alternatives(tmp_path):
    (tmp_path / "x.trn").write_text("i { um / uh } see (u1)\n")
    with pytest.raises(ValueError, match="x.trn, line 1: must have no alternatives, which only"):
        transcripts.read_transcripts(tmp_path / "x.trn", several=False)


def test_the_reading_with_the_fewest_errors_counts():
    pytest.importorskip("jiwer")
    rng, words = np.random.default_rng(0), list("abc")

    def random_transcript(depth):
        parts = []
        for _ in range(rng.integers(0 if depth else 1, 4)):
            several = depth < 2 and rng.random() < 0.4
            parts.append(tuple(random_transcript(depth + 1) for _ in range(rng.integers(1, 4)))
                         if several else str(rng.choice(words)))
        return tuple(parts)

    several = 0
    for _ in range(300):
        transcript = random_transcript(0)
        said = tuple(map(str, rng.choice(words, rng.integers(0, 6))))
        found = alternatives.nearest(transcript, said)
        possible = list(dict.fromkeys(readings(transcript)))
        assert tuple(found) in possible
        errors = word_errors([found, *possible], [said] * (1 + len(possible))).sum(axis=1)
        assert errors[0] == errors[1:].min()
        several += len(possible) > 1
    assert several > 100


def test_many_alternatives_do_not_multiply():
    transcript = (("a",), ("b",), ()), "x"
    found = alternatives.nearest(transcript * 30, ["a", "x", "x", "b", "x"] * 10)
    assert tuple(found) == ("a", "x", "x", "b", "x") * 10


def test_each_system_is_compared_with_its_own_reading(tmp_path):
    pytest.importorskip("jiwer")
    write(tmp_path, lists="u -1 0 i see you\nu -2 0 i um see\n", text="u i see\n")
    (tmp_path / "x.trn").write_text("i { um / uh / @ } see (u)\n")
    lists = nbest.read(tmp_path / "lists")
    references = lists.expect(transcripts.read_transcripts(tmp_path / "x.trn"), "reference")
    assert rescoring.hypothesis_errors(lists, references).tolist() == [1, 0]
    results = rescoring.compare(lists, references, np.array([1]))
    assert results["system_words"] == {"1-best": 2, "rescored": 3, "oracle": 3}
    assert results["words"] == 3 and results["difference"] == -1 / 2
    assert sum(results["systems"]["rescored"].values()) == 0


@pytest.mark.parametrize("word", ["{laugh}", "{", "a{b", "@"])
def test_words_that_sclite_would_take_for_alternatives_are_not_written(word):
    with pytest.raises(ValueError, match="`nbest` must have no words with {.*Received: "):
        alternatives.check_markless([("a",), ("b", word)], "nbest")
    alternatives.check_markless([(("um",), ("uh",)), ("}", "a/b", "a@b")], "reference")
