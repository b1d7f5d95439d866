"""N-best lists and transcripts in the formats of Kaldi and SRILM."""

import gzip
import math

import numpy as np
import pytest

from nbest_helper import write
from refusals import refused
from tfsoftmax.nbest import lists as nbest
from tfsoftmax.nbest import transcripts

COLUMNS = """\
b -1.5 -2 the cat sat
b -1.25 -3e0 the mat
a -7 -8
a -7 -9 on the mat
"""


def test_lists_of_one_file_keep_order_scores_and_every_word(tmp_path):
    write(tmp_path, lists=COLUMNS)
    lists = nbest.read(tmp_path / "lists")
    assert lists.utterances == ("b", "a")
    assert lists.sentences == (("the", "cat", "sat"), ("the", "mat"), (), ("on", "the", "mat"))
    np.testing.assert_array_equal(lists.starts, [0, 2, 4])
    np.testing.assert_array_equal(lists.acoustic, [-1.5, -1.25, -7, -7])
    np.testing.assert_array_equal(lists.old_lm, [-2, -3, -8, -9])
    with gzip.open(tmp_path / "lists.gz", "wt") as file:
        file.write(COLUMNS)
    assert nbest.read(tmp_path / "lists.gz").sentences == lists.sentences


def test_a_byte_order_mark_is_no_part_of_an_utterance(tmp_path):
    write(tmp_path, lists="\ufeffa 1 2 x\na 1 2 y\n", said="\ufeffa x\n")
    assert nbest.read(tmp_path / "lists").utterances == ("a",)
    assert transcripts.read_transcripts(tmp_path / "said") == {"a": ("x",)}


def test_ids_and_upper_case_become_the_words_of_a_model(tmp_path):
    write(tmp_path, lists="a 1 2 3 0 12\na 1 2\n", **{"words.txt": "<eps> 0\nThe 3\nCAT 12\nx 7\n"})
    lists = nbest.read(tmp_path / "lists")
    symbols = transcripts.read_symbols(tmp_path / "words.txt")
    assert lists.with_words(symbols, False).sentences == (("The", "CAT"), ())
    assert lists.with_words(symbols, True).sentences == (("the", "cat"), ())
    assert lists.with_words(None, False).sentences == lists.sentences
    with pytest.raises(ValueError, match="`words` must have a word for .*none for '12'"):
        lists.with_words({"3": "the", "0": "a"}, False)
    write(tmp_path, said="A The CAT\n")
    assert transcripts.read_transcripts(tmp_path / "said", lowercase=True) == {"A": ("the", "cat")}


@pytest.mark.parametrize("text, message", [
    ("a 1\nb 1\n", "words.txt, line 2: ids must differ. Received: '1' again"),
    ("a 1\nb\n", "words.txt, line 2: must be `word id`. Received: 'b'"),
    ("1 a\n", "words.txt, line 1: must be `word id`. Received: '1 a'"),
])
def test_tables_of_words_that_are_none_are_named(tmp_path, text, message):
    write(tmp_path, **{"words.txt": text})
    refused(message, transcripts.read_symbols, tmp_path / "words.txt")


def test_kaldis_archive_is_read_by_rank_and_costs_are_negated(tmp_path):
    words = "u-b-1 the cat\nu-b-10 a dog\nu-b-2 the mat\nu-a-1\n"
    write(tmp_path, words_text=words)
    lists = nbest.read(tmp_path)
    assert lists.utterances == ("u-b", "u-a")
    assert lists.sentences == (("the", "cat"), ("the", "mat"), ("a", "dog"), ())
    assert lists.acoustic is None and lists.old_lm is None
    costs = "u-b-1 5\nu-b-10 6.5\nu-b-2 7\nu-a-1 8\n"
    write(tmp_path, acwt=costs, **{"lmwt.lmonly": costs.replace("5", "1")})
    lists = nbest.read(tmp_path)
    np.testing.assert_array_equal(lists.acoustic, [-5, -7, -6.5, -8])
    np.testing.assert_array_equal(lists.old_lm, [-1, -7, -6.1, -8])
    assert lists.graph is None
    write(tmp_path, **{"lmwt.nolm": costs.replace("5", "2")})
    np.testing.assert_array_equal(nbest.read(tmp_path).graph, [-2, -7, -6.2, -8])


def test_srilms_files_are_utterances_and_logarithms_are_to_base_10(tmp_path):
    write(tmp_path, utt2="-100 -2.5 3 <s> the cat </s>\n-101 -2 2 -pau- cat\n")
    with gzip.open(tmp_path / "utt1.gz", "wt") as file:
        file.write("-7 -1 1 dog\n")
    lists = nbest.read(tmp_path)
    assert lists.utterances == ("utt1", "utt2")
    assert lists.sentences == (("dog",), ("the", "cat"), ("cat",))
    np.testing.assert_allclose(lists.acoustic, np.array([-7, -100, -101]) * math.log(10))
    np.testing.assert_allclose(lists.old_lm, np.array([-1, -2.5, -2]) * math.log(10))


@pytest.mark.parametrize("files, message", [
    ({"lists": "a 1\n"}, "lists, line 1: must be `utterance acoustic lm word"),
    ({"lists": "a 1 2 x\na one 2 x\n"}, "lists, line 2: scores must be finite.*'one'"),
    ({"lists": "a 1 -inf x\n"}, "scores must be finite numbers. Received: '-inf'"),
    ({"lists": "a 1_0 2 x\n"}, "scores must be finite numbers. Received: '1_0'"),
    ({"lists": "\n"}, "must hold n-best lists. Received: none"),
    ({"words_text": "a the\n"}, "must begin with `utterance-RANK`. Received: 'a'"),
    ({"words_text": "a-1 the\n", "acwt": "a-2 1\n"}, "must have a cost in acwt.*'a-1'"),
    ({"words_text": "a-1 the\n", "acwt": "a-1 1 2\n"}, "must be `key cost`.*'a-1 1 2'"),
    ({"words_text": "a-1 the\na-1 mat\n"}, "words_text, line 2: each rank must.*'a-1' again"),
    ({"words_text": "a-1 the\na-01 mat\n"}, "line 2: each rank must .* one line.*'a-01' again"),
    ({"words_text": "a-1 the\n", "acwt": "a-1 1\na-1 2\n"},
     "acwt, line 2: keys must differ. Received: 'a-1' again"),
    ({"u1": "-7 -1 1 dog\n", "u1.gz": b"\x1f\x8b"}, "u1.gz: each utterance must have one file"),
    ({"u1.gz": gzip.compress(b"-7 -1 1 dog\n")[:-9]}, "u1.gz: must be an undamaged file"),
    ({"u1.gz": gzip.compress(b"-7 -1 1 dog\n")[:12] + b"\xff" * 9}, "u1.gz: must be an undam"),
    ({"lists": b"a 1 2 x\na 1 2 \xff\n"}, "lists, line 2: must be UTF-8. Received: b'.xff"),
    ({"u1": "-7 -1 3 a dog\n"}, "nwords must be the number .*, 2 with -pau-, .*ived: '3'"),
    ({"u1": "-7 -1 1 a dog\n-7 -1 1.5 a\n"}, "u1, line 2: nwords must be .* Received: '1.5'"),
    ({"u1": "NBestList3.0\n(-7) the\n", "u2": ""}, "must be `acoustic lm nwords word"),
])
def test_lines_of_another_kind_are_named(tmp_path, files, message):
    write(tmp_path, **files)
    refused(message, nbest.read, tmp_path / "lists" if "lists" in files else tmp_path)


def test_transcripts_are_read_back_as_written(tmp_path):
    said = {"u1": ("the", "cat"), "u2": (), "u-3": ("(mat)", "on")}
    write(tmp_path, text=transcripts.text(said, said.values()))
    (tmp_path / "x.trn").write_text(transcripts.trn(said, said.values()))
    assert (tmp_path / "x.trn").read_text() == "the cat (u1)\n(u2)\n(mat) on (u-3)\n"
    assert transcripts.read_transcripts(tmp_path / "text") == said
    assert transcripts.read_transcripts(str(tmp_path / "x.trn")) == said


def test_transcripts_that_do_not_fit_are_named(tmp_path):
    write(tmp_path, lists=COLUMNS, twice="a x\na y\n", short="b x\n")
    (tmp_path / "x.trn").write_text("the cat\n")
    refused("twice, line 2: each utterance .*'a'", transcripts.read_transcripts, tmp_path / "twice")
    with pytest.raises(ValueError, match="must end in `.utterance.`. Received: 'cat'"):
        transcripts.read_transcripts(tmp_path / "x.trn")
    lists = nbest.read(tmp_path / "lists")
    with pytest.raises(ValueError, match="`reference` must have a line .*none for 'a'"):
        lists.expect(transcripts.read_transcripts(tmp_path / "short"), "reference")


def test_the_best_of_each_list_is_the_first_of_the_highest():
    starts = np.array([0, 1, 4, 6])
    lists = nbest.NBest(("a", "b", "c"), starts, ((),) * 6, None, None)
    scores = np.array([[9, 1], [2, 5], [3, 5], [3, 4], [-2, -1], [-1, -7.0]])
    np.testing.assert_array_equal(lists.best(scores), [[0, 0], [2, 1], [5, 4]])
    refused("`scores` must not be NaN", lists.best, np.full((6, 2), np.nan))
