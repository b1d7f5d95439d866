"""Facts about `Vocabulary`."""

import hashlib

import numpy as np
import pytest

from refusals import refuses
from tfsoftmax.support.vocabulary import Vocabulary

COUNTS = {"the": 9, "cat": 4, "sat": 4, "mat": 1, "zebra": 1, "<eos>": 5, "<unk>": 2}


@pytest.mark.parametrize("counts, options, words, expected", [
    (COUNTS, {}, "the <eos> cat sat <unk> mat zebra", [9, 5, 4, 4, 2, 1, 1]),  # ties: alphabetical
    (COUNTS, {"min_count": 2}, "the <eos> <unk> cat sat", [9, 5, 4, 4, 4]),  # rare: as <unk>
    (COUNTS, {"max_size": 4}, "the <unk> <eos> cat", [9, 8, 5, 4]),  # with the specials
    ({"a": 3}, {"min_count": 2}, "a <eos> <unk>", [3, 0, 0]),  # specials need no counts
])
def test_ids_fall_with_frequency_and_no_token_is_lost(counts, options, words, expected):
    vocabulary = Vocabulary.build(counts, **options)
    assert vocabulary.words == tuple(words.split())
    assert vocabulary.counts.tolist() == expected
    assert vocabulary.words[vocabulary.oov_id] == "<unk>"
    assert vocabulary.words[vocabulary.eos_id] == "<eos>"


def test_encode_maps_unknown_words_to_oov():
    vocabulary = Vocabulary.build(COUNTS)
    ids = vocabulary.encode(iter(["cat", "dog", "<eos>", "<unk>"]))
    assert ids.dtype == np.int32
    assert vocabulary.decode(ids) == ["cat", "<unk>", "<eos>", "<unk>"]
    assert vocabulary.encode([]).shape == (0,)
    assert "cat" in vocabulary and "dog" not in vocabulary and len(vocabulary) == 7


def test_encode_refuses_one_string():
    with refuses("words", "not one string", TypeError):
        Vocabulary.build(COUNTS).encode("the cat")


@pytest.mark.parametrize("ids, wrong", [([0, -1], "ids=[-1]"), ([7], "ids=[7]")])
def test_decode_refuses_ids_outside(ids, wrong):
    with refuses("ids", f"lie in [0, 7). Received: {wrong}"):
        Vocabulary.build(COUNTS).decode(ids)


def test_file_round_trip_is_readable_and_hashed(tmp_path):
    vocabulary = Vocabulary.build(COUNTS | {"naïve": 3, "\u200b": 2})
    path = tmp_path / "vocabulary.txt"
    vocabulary.save(path)
    assert path.read_text("utf-8").split("\n")[:2] == ["the\t9", "<eos>\t5"]
    loaded = Vocabulary.load(path)
    assert loaded.words == vocabulary.words
    np.testing.assert_array_equal(loaded.counts, vocabulary.counts)
    assert loaded.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_edited_file_with_windows_line_ends_and_no_last_newline_loads(tmp_path):
    path = tmp_path / "vocabulary.txt"
    path.write_bytes(b"a\t2\r\n<unk>\t0\r\n<eos>\t1")
    assert Vocabulary.load(path).words == ("a", "<unk>", "<eos>")


SPECIALS = b"<unk>\t0\n<eos>\t1\n"


@pytest.mark.parametrize("data, message", [
    (b"a\t2\nb 3\n" + SPECIALS, "line 2: must be `word<TAB>count`. Received: 'b 3'"),
    (b"a\t2\n\n" + SPECIALS, "line 2: must be `word<TAB>count`. Received: ''"),
    (b"a\t2\t3\n" + SPECIALS, "line 1: must be `word<TAB>count`"),
    (b"a\t2\na\t3\n" + SPECIALS, "line 2: words must differ.*'a'.*line 1"),
    (b"a\t-2\n" + SPECIALS, "line 1: the count must be a whole number. Received: '-2'"),
    (b"a b\t2\n" + SPECIALS, "line 1: the word must not be empty or contain blanks"),
    (b"\xff\t2\n" + SPECIALS, "line 1: must be UTF-8"),
    (b"a\t2\n<eos>\t1\n", "one of the 2 lines must be `<unk><TAB>count`"),
    (b"a\t2\n<unk>\t1\n", "one of the 2 lines must be `<eos><TAB>count`"),
    (b"", "one of the 0 lines must be `<unk><TAB>count`"),
])
def test_malformed_files_are_refused_with_file_and_line(tmp_path, data, message):
    path = tmp_path / "vocabulary.txt"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=f"vocabulary.txt.*{message}"):
        Vocabulary.load(path)


@pytest.mark.parametrize("words, counts, name, rule", [
    (["<unk>", "<eos>", "a", "a"], [1, 1, 1, 1], "words", "'a' at 2 and 3"),
    (["<unk>", "<eos>", "a b"], [1, 1, 1], "words", "words[2]='a b'"),
    (["<unk>", "a"], [1, 1], "words", "contain `<eos>`"),
    (["<unk>", "<eos>"], [1, 1, 1], "counts", "counts of shape (3,)"),
    (["<unk>", "<eos>"], [1, -1], "counts", "not be negative. Received: -1"),
])
def test_bad_words_and_counts_are_refused(words, counts, name, rule):
    with refuses(name, rule):
        Vocabulary(words, counts)


def test_a_byte_order_mark_is_no_part_of_a_word_unless_it_was_one(tmp_path):
    path = tmp_path / "vocabulary.txt"
    path.write_bytes("\ufeffa\t2\n<unk>\t0\n<eos>\t1\n".encode())
    assert Vocabulary.load(path).words == ("a", "<unk>", "<eos>")
    marked = Vocabulary(["\ufeffa", "a", "<unk>", "<eos>"], [2, 1, 0, 1])
    marked.save(path)
    assert Vocabulary.load(path).words == marked.words
    assert Vocabulary.load(path).sha256 == marked.sha256


@pytest.mark.parametrize("name, value", [("min_count", 0), ("max_size", 1)])
def test_build_refuses_impossible_limits(name, value):
    with refuses(name, "be at least"):
        Vocabulary.build(COUNTS, **{name: value})
