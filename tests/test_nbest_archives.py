"""N-best lists in Kaldi's archives."""

import gzip

import numpy as np
import pytest

from nbest_helper import COSTS, IDS, SYMBOLS, WORDS, archive, binary_float, checked, write
from refusals import refused
from tfsoftmax.nbest import lists as nbest
from tfsoftmax.nbest import transcripts


@pytest.fixture
def symbols(tmp_path):
    write(tmp_path, symbols=SYMBOLS)
    return transcripts.read_symbols(tmp_path / "symbols")


@pytest.mark.parametrize("kind", ["<f4", "<f8"])
def test_binary_archives_of_ids_and_costs_are_read(tmp_path, symbols, kind):
    costs = archive(COSTS, lambda value: binary_float(value, kind))
    write(tmp_path, **{"x__words.ark": WORDS, "x__acwt.ark.gz": gzip.compress(costs)})
    checked(nbest.read(tmp_path / "x", ids=True), symbols)
    checked(nbest.read(tmp_path / "x" / "words.ark", ids=True), symbols)
    refused("words.ark: `words` must be given, with the words of", nbest.read, tmp_path / "x")


def test_ids_are_read_where_both_they_and_their_words_are(tmp_path, symbols):
    write(tmp_path, x__words="u-1 3 12\n", x__words_text="u-1 the cat\n")
    assert nbest.read(tmp_path / "x").sentences == (("the", "cat"),)
    assert nbest.read(tmp_path / "x", ids=True).sentences == (("3", "12"),)


def test_costs_with_the_graph_stand_for_the_language_model(tmp_path):
    costs = {name: "u-1 1\n" for name in ("x__lmwt.lmonly", "x__lmwt.nolm")}
    costs["x__words_text"] = "u-1 the\n"
    write(tmp_path, x__words_text="u-1 the\n", **{"x__lmwt.withlm": "u-1 2.5\n"})
    assert nbest.read(tmp_path / "x").old_lm.tolist() == [-2.5]
    # Of the sum and one of its terms, the other term follows.
    for missing, scores in (("lmonly", (-1.5, -1)), ("nolm", (-1, -1.5)), ("withlm", (-1, -1))):
        folder = write(tmp_path / missing, **costs, **{"x__lmwt.withlm": "u-1 2.5\n"}) / "x"
        (folder / f"lmwt.{missing}").unlink()
        lists = nbest.read(folder)
        assert (lists.old_lm.tolist(), lists.graph.tolist()) == ([scores[0]], [scores[1]])


def test_tables_lead_to_places_in_archives(tmp_path, symbols, monkeypatch):
    monkeypatch.chdir(tmp_path)
    places = {key: WORDS.index(f"{key} ".encode()) + len(key) + 1 for key in IDS}
    table = "".join(f"{key} the words.ark:{at}\n" for key, at in places.items())
    texts = "".join(f"{key} one.txt:{at}\n" for key, at in zip(COSTS, (0, 4, 9, 13), strict=True))
    write(tmp_path, **{
        "the words.ark": WORDS, "x__words.scp": table, "x__acwt.scp": texts,
        "one.txt": "5.5\n7.25\n8.0\n6\n",
    })
    checked(nbest.read(tmp_path / "x", ids=True), symbols)


@pytest.mark.parametrize("place", ["cat words.ark |", "| cat", "-"])
def test_tables_run_nothing(tmp_path, place):
    write(tmp_path, **{"words.scp": f"u-1 {place}\n"})
    with pytest.raises(ValueError, match="words.scp, line 1: must be `key file:offset`; commands"):
        nbest.read(tmp_path / "words.scp", ids=True)


@pytest.mark.parametrize("place, message", [
    ("none.ark:3", "line 1: must name a readable file. Received: 'none.ark', No such file"),
    ("no\0ne.ark:3", "line 1: must be `key file:offset`"),
    ("words.ark:5000", "line 1: must name a place in the file. Received: 'words.ark:5000'"),
    ("words.ark:4", "line 1: must be an undamaged entry"),
])
def test_places_that_are_none_are_named(tmp_path, monkeypatch, place, message):
    monkeypatch.chdir(tmp_path)
    data = WORDS.replace(b"\4\3\0\0\0\4", b"\4\3\0\0\0\5")
    write(tmp_path, **{"words.ark": data, "words.scp": f"u-1 {place}\n"})
    refused(message, nbest.read, tmp_path / "words.scp", ids=True)


def test_what_kaldiio_writes_is_read(tmp_path, symbols):
    kaldiio = pytest.importorskip("kaldiio")
    ids = {key: np.array(value, np.int32) for key, value in IDS.items() if value}
    costs = {key: np.array([COSTS[key]], np.float32) for key in ids}
    for text in (False, True):
        folder = tmp_path / f"x{text}"
        folder.mkdir()
        kaldiio.save_ark(str(folder / "words.ark"), ids, scp=str(folder / "words.scp"), text=text)
        kaldiio.save_ark(str(folder / "acwt.ark"), costs, text=text)
        lists = nbest.read(folder, ids=True)
        assert lists.with_words(symbols, False).sentences == (("the", "cat"), ("mat",), ("the",))
        np.testing.assert_array_equal(lists.acoustic, [-5.5, -7.25, -6])
        assert nbest.read(folder / "words.scp", ids=True).sentences == lists.sentences
    # What this file holds as Kaldi's binary form, kaldiio reads.
    write(tmp_path, ark=WORDS)
    read = dict(kaldiio.load_ark(str(tmp_path / "ark")))
    assert {key: value.tolist() for key, value in read.items()} == IDS


@pytest.mark.parametrize("data, message", [
    (WORDS[:-3], "words.ark, byte 53: must be an undamaged entry of an archive of ids of words"),
    (WORDS.replace(b"\4\x07", b"\5\x07"), "byte 26: must be an undamaged entry"),
    (WORDS + b"junk", "byte 70: must be a key and a binary value. Received: other bytes"),
    (b"u-1 \0B\4\xff\xff\xff\xff", "byte 0: must be an undamaged entry"),
    (b"u-1 \0BPKL", "byte 0: must be an undamaged entry"),
    (b"u-1 PKL\x80\x04N.", "words.ark, line 1: must be UTF-8"),
])
def test_damaged_archives_are_named(tmp_path, data, message):
    write(tmp_path, **{"words.ark": data})
    refused(message, nbest.read, tmp_path / "words.ark", ids=True)


@pytest.mark.parametrize("cost", [b"\0B\4\0\0", b"\0B\3\0\0\0", b"\0BFV \4\2\0\0\0" + b"\0" * 8])
def test_damaged_costs_are_named(tmp_path, cost):
    write(tmp_path, x__words_text="u-1 the\n", **{"x__acwt.ark": b"u-1 " + cost})
    refused("acwt.ark, byte 0: must be an undamaged entry .* costs", nbest.read, tmp_path / "x")


def test_tables_do_not_copy_the_rest_of_an_archive_for_each_entry(tmp_path, monkeypatch):
    class Bytes(bytes):
        def __getitem__(self, at):
            part = super().__getitem__(at)
            assert isinstance(part, int) or len(part) < 9
            return part

    monkeypatch.chdir(tmp_path)
    data = Bytes(b"the cat\nmat\n" * 9 + b"x")
    monkeypatch.setattr("tfsoftmax.support.textio.read_bytes", lambda _: data)
    write(tmp_path, **{"words.scp": "u-1 w:0\nu-2 w:8\nu-3 w:108\n"})
    assert nbest.read("words.scp").sentences == (("the", "cat"), ("mat",), ("x",))
