"""N-best lists in jobs, of ESPnet, in lines of JSON and of SRILM, and damaged ones."""

import bz2
import dataclasses
import gzip
import io
import json
import lzma
import math
import sys

import numpy as np
import pytest

from nbest_helper import COSTS, WORDS, archive, binary_float, write
from refusals import refused
from tfsoftmax.nbest import lists as nbest
from tfsoftmax.nbest import srilm, transcripts, writing
from tfsoftmax.nbest.rows import Row

DECIPHER_2 = """\
NBestList2.0
(-300) the ( st: 0.00 et: 0.09 g: -20 a: -80 ) dh[ax ( st: 0.00 et: 0.04 g: 0 a: -40 ) \
cat ( st: 0.10 et: 0.30 g: -50 a: -140 ) -pau- ( st: 0.31 et: 0.40 g: -1 a: -9 )
(-310) a ( st: 0.00 et: 0.09 g: -30 a: -90 ) ax-2 ( st: 0.50 et: 0.60 g: -7 a: -7 ) \
mat ( st: 0.10 et: 0.40 g: -60 a: -130 )
"""


def test_jobs_are_joined_in_the_order_of_their_numbers(tmp_path):
    jobs = {f"archives.{n}__words_text": f"u{n}-1 the\n" for n in (1, 10, *range(2, 10))}
    write(tmp_path, **jobs, **{"archives.1__acwt": "u1-1 1\n"}, num_jobs="10\n", log__x="")
    refused("must have a score 'acoustic', or none. .* one of 'u2'", nbest.read, tmp_path)
    (tmp_path / "archives.1" / "acwt").unlink()
    assert nbest.read(tmp_path).utterances == tuple(f"u{n}" for n in range(1, 11))
    (tmp_path / "archives.3" / "words_text").unlink()
    refused(r"must have archives.1 to archives.10 once each.*ves.3$", nbest.read, tmp_path)
    write(tmp_path, **{"archives.3__words_text": "u1-2 the\n"})
    refused("archives.3: each utterance must be in one job.*'u1', wh", nbest.read, tmp_path)
    write(tmp_path, **{"output.1__words_text": "v-1 the\n"})
    refused("one kind of jobs. Received: archives, output", nbest.read, tmp_path)


def test_jobs_may_be_files_of_lines(tmp_path):
    write(tmp_path, **{"nbest.2": "b 1 2 x\n", "nbest.1.gz": gzip.compress(b"a 1 2 y\n")})
    assert nbest.read(tmp_path).utterances == ("a", "b")
    write(tmp_path, **{"nbest.3.jsonl": '{"utt_id": "c", "nbest": ["x"]}\n'})
    refused("must have jobs of one format. Received: columns, json", nbest.read, tmp_path)
    write(tmp_path, **{"nbest.3.jsonl": "b 1 2 x\n", "nbest.3": ""})
    refused("none or several of nbest", nbest.read, tmp_path)


@pytest.mark.parametrize("end, compress", [
    ("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)
])
def test_files_of_every_kind_may_be_compressed(end, compress, tmp_path):
    files = {
        "srilm__u": "-1 -2 1 cat\n", "kaldi__words_text": "u-1 cat\n", "a.ark": "u-1 cat\n",
        "b.scp": f"u-1 {tmp_path}/c.ark:4\n", "d.json": '[{"id": "u", "hyps": ["cat"]}]',
        "said.trn": "cat (u)\n",
    }
    packed = {f"{name}.{end}": compress(text.encode()) for name, text in files.items()}
    write(tmp_path, **packed, **{"c.ark": "u-1 cat\n"})
    single = (f"{name}.{end}" for name in ("srilm/u", "a.ark", "b.scp", "d.json"))
    for name in ("srilm", "kaldi", *single):
        lists = nbest.read(tmp_path / name)
        assert (lists.utterances, lists.sentences) == (("u",), (("cat",),)), name
    assert transcripts.read_transcripts(tmp_path / f"said.trn.{end}") == {"u": ("cat",)}


def test_folders_of_espnet_are_read_by_rank_and_job(tmp_path):
    first = {"1best_recog__text": "a the cat\nb \n", "2best_recog__text": "a the mat\n",
             "1best_recog__score": "a tensor(-1.5, device='cuda:0')\nb tensor(-2.)\n",
             "2best_recog__score": "a -3.25\n"}
    write(tmp_path / "logdir", **{f"output.1__{name}": text for name, text in first.items()})
    for path in (tmp_path / "logdir", tmp_path / "logdir" / "output.1"):
        lists = nbest.read(path)
        assert lists.sentences == (("the", "cat"), ("the", "mat"), ())
        assert lists.acoustic.tolist() == [-1.5, -3.25, -2] and lists.old_lm is None
    scores = tmp_path / "logdir" / "output.1" / "2best_recog" / "score"
    for text, message in (("b -1\n", "2best_recog/text, line 1: must have a line in the file sco"),
                          ("a -1\na -1\n", "score, line 2: each utterance must have one line"),
                          ("a tensor(x)\n", "score, line 1: scores must be finite .*'x'")):
        scores.write_text(text)
        refused(message, nbest.read, tmp_path / "logdir")


JSON = [
    # icefall's scores, in lists beside the hypotheses, which are lists of words
    '{"id": 7, "hyps": [["the", "cat"], ["mat"]], "am_scores": [-1, -2.5], "lm_scores": [-3, -4]}',
    '{"utt_id": "7", "nbest": [{"text": "the cat", "am_score": -1, "lm_score": -3},'
    ' {"text": "mat", "am_score": -2.5, "lm_score": -4}]}',
    # HypR, and what ESPnet1 writes
    '{"utt_id": "7", "ref": "x", "hyps": ["the cat", "mat"], "att_score": [0, 0],'
    ' "score": [-1, -2.5], "lm_score": [-3, -4]}',
    '{"utt": "7", "output": [{"rec_text": "▁the▁cat<eos>", "text": "x", "score": -1,'
    ' "lm_score": -3}, {"rec_text": "mat", "score": -2.5, "lm_score": -4, "text": "the cat"}]}',
]


@pytest.mark.parametrize("line", JSON)
def test_lines_of_json_are_read_by_their_keys(tmp_path, line):
    write(tmp_path, lists=f"\n{line}\n", **{"lists.json": f"[{line}]"})
    for name in ("lists", "lists.json"):
        ignored = ("att_score",) if "att_score" in line else ()
        lists = nbest.read(tmp_path / name, ignore_keys=ignored)
        assert (lists.utterances, lists.sentences) == (("7",), (("the", "cat"), ("mat",)))
        assert (lists.acoustic.tolist(), lists.old_lm.tolist()) == ([-1, -2.5], [-3, -4])


@pytest.mark.parametrize("line, keys", [
    # pyctcdecode's, whose lm_score is the total of both
    ('{"id": "a", "nbest": [{"text": "x", "logit_score": -1, "lm_score": -3}]}', ["logit_score"]),
    ('{"id": "a", "nbest": [{"text": "x", "am_score": -1, "score": -3}]}', ["score"]),
    ('{"id": "a", "nbest": [{"text": "x", "id": 1, "scores": {"ctc": -1}, "ctc": 2}]}',
     ["scores", "ctc"]),
    ('{"id": "a", "nbest": ["x", "y"], "ctc_score": [-1, -2], "score": [-3, -4]}', ["ctc_score"]),
    ('{"id": "a", "nbest": ["x"], "score": [-3], "scores": [-1]}', ["scores"]),
])
def test_numbers_that_are_not_read_are_refused_by_name_or_ignored_by_name(tmp_path, line, keys):
    write(tmp_path, lists=line, **{"lists.json": f"[{line}]"}, columns="a -1 -2 x\n")
    for name in ("lists", "lists.json"):
        with pytest.raises(ValueError, match="`ignore_keys` names .*: " + ", ".join(
            map(repr, keys)) + "$"):
            nbest.read(tmp_path / name)
        lists = nbest.read(tmp_path / name, ignore_keys=(*keys, "lm_score"))
        assert lists.sentences[0] == ("x",) and lists.old_lm is None
    with pytest.raises(ValueError, match="`ignore_keys` must be given for lists of JSON only"):
        nbest.read(tmp_path / "columns", ignore_keys=keys)


def test_what_is_no_score_of_a_hypothesis_needs_no_name(tmp_path):
    write(tmp_path, lists='{"id": "a", "duration": 3.5, "ref_len": [4], "nbest": ["x", '
          '{"text": "y", "tokens": [1, 2], "timestamps": [0.5], "final": true}]}')
    assert nbest.read(tmp_path / "lists").sentences == (("x",), ("y",))


def test_scores_may_stand_in_a_hypothesis_or_beside_them_in_one_file(tmp_path):
    write(tmp_path, lists=f"{JSON[0]}\n{JSON[1].replace('7', '8')}\n")
    lists = nbest.read(tmp_path / "lists")
    assert lists.utterances == ("7", "8") and lists.acoustic.tolist() == [-1, -2.5] * 2


def test_means_of_whisper_are_sums_again(tmp_path):
    line = {"key": "a", "nbest": [{"text": " The cat.", "tokens": [1, 2, 3], "avg_logprob": -0.5}]}
    write(tmp_path, lists=json.dumps(line))
    lists = nbest.read(tmp_path / "lists")
    assert (lists.sentences, lists.acoustic.tolist()) == ((("The", "cat."),), [-2])
    del line["nbest"][0]["tokens"]
    write(tmp_path, lists=json.dumps(line))
    refused("line 1, hypothesis 1: must have the key 'tokens'", nbest.read, tmp_path / "lists")


def test_pairs_and_documents_of_espnet_are_read(tmp_path):
    output = [{"text": "a cat", "rec_text": text, "score": score} for text, score in (
        ("the cat", -1.5), ("mat", -2))]  # "text" is the reference
    document = {"utts": {"a": {"output": output, "input": [{"name": "input1"}]}}}
    write(tmp_path, **{
        "data.json": json.dumps(document, indent=4),
        "pairs.jsonl": '{"utt_id": "a", "beams": [["the cat", -1.5], ["mat", -2]]}',
    })
    for name in ("data.json", "pairs.jsonl"):
        lists = nbest.read(tmp_path / name)
        assert lists.sentences == (("the", "cat"), ("mat",))
        assert lists.acoustic.tolist() == [-1.5, -2] and lists.old_lm is None


@pytest.mark.parametrize("line, message", [
    ('{"utt_id": "a"', "lists, line 2: must be JSON"),
    ('{"nbest": ["x"]}', "line 2: must have its utterance under one of .*utt_id, .*ved: nbest"),
    ('{"utt_id": "a", "text": "x"}', "line 2: must have a list of hypotheses .*: utt_id, text"),
    ('{"id": "a", "nbest": [{"score": -1}]}', "hypothesis 1: must have its text under .*: score"),
    ('{"id": "a", "nbest": ["x"]}', "scores of the first, score. Received: none"),
    ('{"id": "a", "nbest": [{"text": "x", "score": -1}, {"text": "y"}]}',
     "line 2, hypothesis 2: all hypotheses must have the scores of the first"),
    ('{"id": "a", "nbest": ["x"], "score": [1, 2]}', "'score' must have a score for each of 1 hyp"),
    ('{"id": "a", "nbest": ["x"], "score": ["1"]}', 'scores must be finite numbers. .*"1"'),
    ('{"id": "a", "nbest": [{"text": "x", "score": true}]}', "must be finite numbers. .*true"),
    ('{"id": "a", "nbest": [{"text": "x", "score": 1' + "0" * 400 + "}]}", "must be finite numb"),
    ('{"id": "a", "nbest": [["x", 1, 2]]}', "hypothesis 1: must be a text, a list of words"),
    ('{"id": "z", "nbest": ["x"]}', "line 2: each utterance must have one record. .*'z' again"),
    ('{"id": "a", "nbest": []}', "line 2: must have one hypothesis or more, which may be empty"),
    ('{"id": "a\\nb", "nbest": ["x"]}', "line 2: utterances must have no blanks. .*'a.{1,2}nb'"),
    ('{"id": "", "nbest": ["x"]}', "line 2: utterances must have no blanks. Received: ''"),
    (r'{"id": "\ud800", "nbest": ["x"]}', r"line 2: must be Unicode. Received: '.ud800'"),
    (r'{"id": "a", "nbest": ["\ud800"]}', r"hypothesis 1: must be Unicode. Received: '.ud800'"),
    (r'{"id": "a", "nbest": [["b", "\udfff"]]}', "hypothesis 1: must be Unicode. .*'b .udfff'"),
    ('{"id": "a", "nbest": ["x"], "avg_logprobs": [-1]}', "1: must have 'avg_logprob' and 'toke"),
    ('["a"]', 'must be a JSON object. Received: ."a".'),
])
def test_the_missing_key_is_named(tmp_path, line, message):
    write(tmp_path, lists='{"id": "z", "nbest": [{"text": "x", "score": -1}]}\n' + line)
    refused(message, nbest.read, tmp_path / "lists")


@pytest.mark.parametrize("text, message", [
    ('{"a": 1}', "lists.json: must be a list of utterances, or have the key 'utts'"),
    ('{"utts": {"a": {}}}', "lists.json, utterance 'a': must have a list of hypotheses"),
    ('{"utts": {"a": 1}}', "utterance 'a': must be a JSON object. Received: 1"),
    ("[1]", "lists.json, element 1: must be a JSON object"),
])
def test_documents_of_another_kind_are_named(tmp_path, text, message):
    write(tmp_path, **{"lists.json": text})
    refused(message, nbest.read, tmp_path / "lists.json")


def test_bytelogs_of_decipher_become_natural_logarithms(tmp_path):
    write(tmp_path, one__u1="NBestList1.0\n(-300) the cat\n(-310.5) -pau- mat\n")
    lists = nbest.read(tmp_path / "one")
    assert lists.sentences == (("the", "cat"), ("mat",)) and lists.old_lm is None
    bytelog = 1024 * math.log(1.0001)
    np.testing.assert_allclose(lists.acoustic, np.array([-300, -310.5]) * bytelog)
    # SRILM itself divides by this to get logarithms to base 10.
    assert srilm.BYTELOG == pytest.approx(math.log(10) / (2.30258509299404568 * 10000.5 / 1024))
    write(tmp_path, **{"two__u1.gz": gzip.compress(DECIPHER_2.encode())})
    lists = nbest.read(tmp_path / "two")
    assert lists.sentences == (("the", "cat"), ("a", "mat"))
    np.testing.assert_allclose(lists.acoustic, np.array([-80 - 140 - 9, -90 - 130]) * bytelog)
    np.testing.assert_allclose(lists.old_lm, np.array([-20 - 50 - 1, -30 - 60]) * bytelog)
    lists = nbest.read(tmp_path / "two" / "u1.gz")
    assert (lists.utterances, lists.kind) == (("u1",), "srilm")


@pytest.mark.parametrize("line, message", [
    ("-7 the", r"u1, line 2: must be `\(score\) word ( st: s et: e g: g a: a ) ...`".replace(
        "word (", r"word \(").replace("a )", r"a \)")),
    ("(x) the ( st: 0 et: 0 g: 0 a: 0 )", "u1, line 2: scores must be finite numbers.*'x'"),
    ("(-7) the ( st: 0 et: 0 g: 0 a: 0 ) cat ( st: 1", "line 2: must be .*Received: 'cat"),
    ("(-7) the ( st: 0 et: 0 a: 0 g: 0 )", "line 2: must be .*Received: 'the"),
    ("(-7) the cat", "line 2: must be .*Received: 'the cat'"),
    ("(-7) the ( st: 0 et: 0 g: 0 a: nan )", "line 2: scores must be finite numbers.*'nan'"),
])
def test_words_without_times_and_scores_are_named(tmp_path, line, message):
    write(tmp_path, u1=f"NBestList2.0\n{line}\n")
    refused(message, nbest.read, tmp_path / "u1")


@pytest.mark.parametrize("text", ["a -1 -2 the cat\n", '{"id": "a", "nbest": [["the cat", -1]]}'])
def test_standard_input_is_read_once(monkeypatch, text):
    stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(text.encode())))
    monkeypatch.setattr(sys, "stdin", stdin)
    lists = nbest.read("-")
    assert (lists.utterances, lists.sentences) == (("a",), (("the", "cat"),))
    refused("standard input: must hold n-best lists. Received: none", nbest.read, "-")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"NBestList1.0\n(-1) x\n")))
    refused("SRILM's lists must be in files, which are named aft", nbest.read, "-")


@pytest.mark.parametrize("kind, name", [
    ("columns", "nbest"), ("json", "nbest.jsonl"), ("kaldi", "nbest"), ("srilm", "nbest"),
])
def test_lists_are_written_in_the_format_they_were_read_in(tmp_path, kind, name):
    rank = np.array(["1", "02", "7"]) if kind == "kaldi" else None
    graph = np.array([-0.5, -1, -2]) if kind == "kaldi" else None
    acoustic, old_lm = np.array([-1.25, -2.5, -1e3]), np.array([-0.1, -1 / 3, -7])
    sentences = (("the", "cat"), (), ("über",))
    lists = nbest.NBest(
        ("a", "b"), np.array([0, 2, 3]), sentences, acoustic, old_lm, graph, rank, kind
    )
    writing.check_writable(tmp_path, lists)
    writing.write(tmp_path, lists)
    # The same lists, before they get the scores of a model, may be written again.
    writing.check_writable(tmp_path, dataclasses.replace(lists, old_lm=None))
    read = nbest.read(tmp_path / name)
    assert read.kind == kind and read.utterances == lists.utterances
    assert read.sentences == sentences
    for column in ("acoustic", "old_lm", "graph", "rank"):
        expected = getattr(lists, column)
        if expected is None or column == "rank":
            np.testing.assert_array_equal(getattr(read, column), expected)
        else:
            np.testing.assert_allclose(getattr(read, column), expected, rtol=1e-12)
    if (tmp_path / name).is_dir():
        (tmp_path / name / "acwt.scp").write_text("")
        with pytest.raises(ValueError, match="nothing but the lists to be written.*'acwt.scp'"):
            writing.check_writable(tmp_path, lists)


@pytest.mark.parametrize("words", [("▁the", "cat"), ("▁",), ("the▁cat",), ("a", "▁b")])
def test_marks_of_pieces_are_kept_where_they_join_nothing(tmp_path, words):
    write(tmp_path, lists=json.dumps({"id": "a", "nbest": [words]}))
    lists = nbest.read(tmp_path / "lists", join_pieces=False)
    writing.write(tmp_path, lists)
    again = nbest.read(tmp_path / "nbest.jsonl", join_pieces=False)
    assert lists.sentences == again.sentences == (words,)
    write(tmp_path, lists=json.dumps({"id": "a", "nbest": ["▁the cat", "▁the▁cat"]}))
    lists = nbest.read(tmp_path / "lists", join_pieces=False)
    assert lists.sentences == (("▁the", "cat"), ("the", "cat"))


def test_brackets_are_words_of_texts_and_no_ids(tmp_path):
    write(tmp_path, x__words_text="u-1 [ noise ]\n", x__words="u-1 [ 3 12 ]\n",
          x__acwt="u-1 [ 2 ]\n")
    assert nbest.read(tmp_path / "x").sentences == (("[", "noise", "]"),)
    lists = nbest.read(tmp_path / "x", ids=True)
    assert (lists.sentences, lists.acoustic.tolist()) == ((("3", "12"),), [-2])


def test_rows_are_the_hypotheses_that_were_read(tmp_path):
    write(tmp_path, lists="b -1 -2 the\nb -3 -4\n")
    rows = list(nbest.read(tmp_path / "lists").rows())
    assert rows == [Row("b", ("the",), -1.0, -2.0), Row("b", (), -3.0, -4.0)]


def test_speakers_come_from_a_table_or_the_beginning_of_ids(tmp_path):
    write(tmp_path, utt2spk="u1 s1\nu2 s1\n", wrong="u1 s1\nu1 s2\n", short="u1\n")
    assert transcripts.read_speakers(tmp_path / "utt2spk") == {"u1": "s1", "u2": "s1"}
    with pytest.raises(ValueError, match="wrong, line 2: each utterance must have one line"):
        transcripts.read_speakers(tmp_path / "wrong")
    with pytest.raises(ValueError, match="short, line 1: must be `utterance speaker`"):
        transcripts.read_speakers(tmp_path / "short")
    assert [transcripts.speaker_of(name) for name in ("1089-134-1", "sw_A-2")] == ["1089", "sw"]
    refused("`utt2spk` must be given .* with the utterance 'u1'", transcripts.speaker_of, "u1")


SOUND = {
    "archives": {"words.ark": WORDS, "acwt.ark": archive(COSTS, binary_float)},
    "tables": {"words.scp": b"u-1 w.ark:4\nu-2 w.ark:30\n", "w.ark": WORDS},
    "espnet": {"1best_recog__text": b"a the\nb \n", "1best_recog__score": b"a tensor(-1)\nb 2\n"},
    "decipher": {"u1": DECIPHER_2.encode(), "u2": DECIPHER_2.encode()},
    "jobs": {"nbest.1": JSON[1].encode(), "nbest.2": JSON[0].replace("7", "8", 1).encode()},
    "document": {"lists.json": f"[{JSON[3]}, {JSON[0]}]".replace('"7"', '"8"').encode()},
}
PIECES = [b"(", b")", b" ", b"\n", b"\0B", b"\4", b"{", b"]", b'"', b":", b"-", b"nan", b"null"]


@pytest.mark.parametrize("kind", SOUND)
def test_damage_is_found_or_harmless_and_names_the_file(tmp_path, kind, monkeypatch):
    rng, found = np.random.default_rng(3), 0
    for trial in range(60):
        folder = tmp_path / str(trial)
        for name, data in SOUND[kind].items():
            at, piece = rng.integers(len(data)), PIECES[rng.integers(len(PIECES))]
            damaged = (data[:at] + piece + data[at:], data[:at], data[:at] + data[at + 3 :])
            write(folder, **{name: damaged[rng.integers(3)]})
        monkeypatch.chdir(folder)
        path = {"tables": folder / "words.scp", "document": folder / "lists.json"}.get(kind, folder)
        try:
            assert list(nbest.read(path, ids=True).rows())
        except ValueError as error:
            assert str(error).startswith(str(folder))
            found += 1
    assert 10 < found
