"""Which format n-best lists are taken for where several are near; and those of Moses and NeMo."""

import json
import tracemalloc

import numpy as np
import pytest

from nbest_helper import write
from refusals import refused
from tfsoftmax.nbest import lists as nbest
from tfsoftmax.nbest import writing

PLAIN = "-100 -2.5 3 <s> the cat </s>\n-101 -2 1 cat\n"


@pytest.mark.parametrize("first", [PLAIN, "-1 -2 0\n", "-1 -2 0 <s> </s>\n"])
def test_a_file_of_srilm_is_no_file_of_lines(tmp_path, first):
    write(tmp_path, u1=first, alone__u1=first)
    lists, of_folder = nbest.read(tmp_path / "u1"), nbest.read(tmp_path / "alone")
    assert (lists.kind, lists.utterances) == ("srilm", ("u1",))
    assert lists.sentences == of_folder.sentences
    np.testing.assert_array_equal(lists.old_lm, of_folder.old_lm)


@pytest.mark.parametrize("first", ["7 -10.5 0 the cat", "7 -10.5 -3 the", "7 -1 2.5 a", "1_0 -1 2"])
def test_utterances_may_be_numbers(tmp_path, first):
    write(tmp_path, lists=first + "\n")
    lists = nbest.read(tmp_path / "lists")
    assert (lists.kind, lists.utterances) == ("columns", (first.split()[0],))


@pytest.mark.parametrize("text", [PLAIN, "NBestList1.0\n(-300) the cat\n(-310) mat\n"])
def test_files_of_srilm_may_have_the_names_of_jobs(tmp_path, text):
    write(tmp_path, **{"x__nbest.2": text, "x__nbest.10": text, "x__nbest.4": ""})
    lists = nbest.read(tmp_path / "x")
    assert (lists.kind, lists.utterances) == ("srilm", ("nbest.10", "nbest.2"))
    writing.write(tmp_path, lists)
    read = nbest.read(tmp_path / "nbest")
    assert (read.kind, read.utterances) == ("srilm", lists.utterances)
    assert read.sentences == lists.sentences
    np.testing.assert_allclose(read.acoustic, lists.acoustic)


def test_jobs_are_not_of_srilm_and_of_lines(tmp_path):
    write(tmp_path, **{"nbest.1": PLAIN, "nbest.2": "a 1 2 x\n"})
    refused("must have jobs of one format. Received: columns, srilm", nbest.read, tmp_path)
    write(tmp_path, **{"nbest.1": "", "nbest.2": ""})
    refused("must hold n-best lists. Received: none", nbest.read, tmp_path)


def test_documents_may_be_jobs(tmp_path, monkeypatch):
    monkeypatch.setattr("tfsoftmax.nbest.json_lists.LINE_BYTES", 9)
    write(tmp_path, **{"nbest.1.json": '[{"id": "a", "nbest": ["the cat"]}]'})
    assert nbest.read(tmp_path).sentences == (("the", "cat"),)


def test_ranks_of_espnet_are_complete(tmp_path):
    for rank, text in ((1, "a x\n"), (2, "a y\n"), (3, "a z\n")):
        write(tmp_path, **{f"{rank}best_recog__text": text, f"{rank}best_recog__score": "a -1\n"})
    assert len(nbest.read(tmp_path).sentences) == 3
    write(tmp_path, **{"2best_recog__text": "b y\n", "2best_recog__score": "b -1\n"})
    with pytest.raises(ValueError, match="2best_recog/text, line 1: each .* also be in 1best_recog"
                                         ". Received: 'b'"):
        nbest.read(tmp_path)
    write(tmp_path, **{"2best_recog__text": "", "2best_recog__score": ""})
    refused("3best_recog/text, line 1: each .* be in 2best_recog", nbest.read, tmp_path)
    (tmp_path / "2best_recog").rename(tmp_path / "away")
    refused("must have 1best_recog to 3best_recog. Received: no 2b", nbest.read, tmp_path)


def test_the_folder_above_the_lists_names_the_one_below(tmp_path):
    write(tmp_path, **{"asr.log": "x", "logdir__output.1__1best_recog__text": "a x\n"})
    refused("Received: the folder .*/logdir, which must be given", nbest.read, tmp_path)


@pytest.mark.parametrize("lowercase", [False, True])
def test_each_word_is_kept_once(tmp_path, lowercase):
    words = " ".join(f"Word{i}" for i in range(20))
    write(tmp_path, lists=f"a -1 -2 {words}\n" * 4000)
    tracemalloc.start()
    lists = nbest.read(tmp_path / "lists").with_words(None, lowercase)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(lists.sentences) == 4000 and kept < 4000 * 400


@pytest.mark.parametrize("ids, kind", [("1 2", "columns"), ("-1.5 -2.5", "srilm")])
def test_silence_at_the_start_does_not_tell_the_format(tmp_path, ids, kind):
    """`1 -5 0` may be an utterance and two scores, or two scores and no words."""
    (a, b), words = ids.split(), "2" if kind == "srilm" else "0"
    write(tmp_path, u=f"{a} -5 0\n{a} -7 {words} the cat\n{b} -3 {words} on it\n")
    lists = nbest.read(tmp_path / "u")
    assert lists.kind == kind and lists.sentences == ((), ("the", "cat"), ("on", "it"))
    assert lists.utterances == (("1", "2") if kind == "columns" else ("u",))


MOSES = """\
0 ||| we must discuss on greater vision . ||| d: 0 -5.56 lm: -36.09 tm: -39.69 w: -7 ||| -9.2298
0 ||| it is also discuss a vision . ||| LM0= -31.9 TM0= -40.4 -46.8 ||| -9.3 ||| 0=0 1-2=1
1 |||  ||| LM0= -1 ||| -2
"""


def test_lists_of_moses_have_the_score_of_the_whole_search(tmp_path):
    write(tmp_path, lists=MOSES, **{"y__nbest.1": MOSES})
    for name in ("lists", "y"):
        lists = nbest.read(tmp_path / name)
        assert (lists.utterances, lists.sizes.tolist()) == (("0", "1"), [2, 1])
        assert lists.sentences[0] == ("we", "must", "discuss", "on", "greater", "vision", ".")
        assert lists.sentences[2] == () and lists.old_lm is None
        assert lists.acoustic.tolist() == [-9.2298, -9.3, -2]
    writing.write(tmp_path, lists)
    assert nbest.read(tmp_path / "nbest.jsonl").sentences == lists.sentences
    for line in ("0 ||| x ||| y\n", "0 1 ||| x ||| y ||| -1\n", " ||| x ||| y ||| -1\n"):
        write(tmp_path, lists=MOSES + line)
        refused("lists, line 4: must be `number ||| text", nbest.read, tmp_path / "lists")
    write(tmp_path, lists=MOSES + "0 ||| x ||| y ||| z\n")
    refused("line 4: scores must be finite numbers. Received: 'z'", nbest.read, tmp_path / "lists")


def test_lists_of_nemo_have_equally_many_lines_for_each_utterance(tmp_path):
    text = "the cat\t-1.5\na cat\t-2.5\n\t-3\nmat\t-4.25\n"
    write(tmp_path, **{"preds.tsv": text, "odd.tsv": text + "x\t-1\n", "bad.tsv": text + "x -1\n"})
    lists = nbest.read(tmp_path / "preds.tsv", beam_size=2)
    assert lists.utterances == ("0", "1") and lists.old_lm is None
    assert lists.sentences == (("the", "cat"), ("a", "cat"), (), ("mat",))
    assert lists.acoustic.tolist() == [-1.5, -2.5, -3, -4.25]
    with pytest.raises(ValueError, match="preds.tsv, line 1: .* those of NeMo, which need `beam"):
        nbest.read(tmp_path / "preds.tsv")
    with pytest.raises(ValueError, match="odd.tsv, line 5: .* of the 2 lines .* 5 lines"):
        nbest.read(tmp_path / "odd.tsv", beam_size=2)
    with pytest.raises(ValueError, match="bad.tsv, line 5: must be `text<TAB>score`"):
        nbest.read(tmp_path / "bad.tsv", beam_size=1)
    refused("`beam_size` must lie in", nbest.read, tmp_path / "preds.tsv", beam_size=0)
    write(tmp_path, **{"empty.tsv": ""})
    refused("empty.tsv: must hold n-best lists", nbest.read, tmp_path / "empty.tsv", beam_size=2)
    write(tmp_path, kaldi__words_text="u-1 cat\n", **{"d.json": '[{"id": "u", "hyps": ["cat"]}]'})
    refused("be given for a file of NeMo", nbest.read, tmp_path / "kaldi", beam_size=2)
    refused("d.json, line 1: must be `text<TAB>", nbest.read, tmp_path / "d.json", beam_size=2)
    write(tmp_path, columns="u1 -1\t-2\nu1\t-1 -2 the\n")
    assert nbest.read(tmp_path / "columns").sentences == ((), ("the",))


def test_manifests_of_nemo_are_lines_whatever_their_name(tmp_path):
    record = {"audio_filepath": "/audio/a-1.2.wav", "duration": 3.5, "text": "x",
              "pred_text": "the cat", "beams": [["the cat", -1.5], ["mat", -2]]}
    other = record | {"audio_filepath": "b.flac"}
    write(tmp_path, **{"x.json": f"{json.dumps(record)}\n{json.dumps(other)}\n",
                       "one.json": json.dumps(record), "twice": f"{json.dumps(record)}\n" * 2})
    lists = nbest.read(tmp_path / "x.json")
    assert lists.utterances == ("a-1.2", "b")
    assert lists.sentences[:2] == (("the", "cat"), ("mat",))
    assert lists.acoustic.tolist() == [-1.5, -2] * 2
    assert nbest.read(tmp_path / "one.json").utterances == ("a-1.2",)
    refused("line 2: each utterance must have one record.*'a-1.2'", nbest.read, tmp_path / "twice")
