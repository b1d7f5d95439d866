"""Facts about the JSON files of Hugging Face's package `tokenizers`."""

import pytest
from tokenizer_files import byte_level, saved

from tfsoftmax.corpora.tokenizers import load_tokenizer
from tfsoftmax.support.vocabulary import UNK


def test_an_unknown_character_of_a_unigram_json_is_unknown(tmp_path):
    vocab = [("what?", 0.0), ("a", -1.0), ("b", -1.0), ("<unk>", -2.0)]
    tokenizer = saved(lambda models: models.Unigram(vocab, unk_id=0), tmp_path / "a.json")
    assert tokenizer.encode("abπ b") == ["a", "b", UNK, "b"]
    assert sorted(tokenizer.pieces) == ["\\<unk>", "a", "b"]


def test_a_json_without_an_unknown_token_is_named(tmp_path):
    tokenizer = saved(lambda models: models.WordLevel({"a": 0}, "<unk>"), tmp_path / "a.json")
    assert tokenizer.encode("a a") == ["a", "a"]
    with pytest.raises(ValueError, match="`tokenizer` must have a token for what it does not know"):
        tokenizer.encode("a b")


def test_pieces_of_a_json_are_not_drawn_at_random(tmp_path):
    vocab = {piece: number for number, piece in enumerate(["a", "b", "c", "ab", "abc"])}
    merges = [("a", "b"), ("ab", "c")]
    tokenizer = saved(lambda models: models.BPE(vocab, merges, dropout=0.9), tmp_path / "a.json")
    assert tokenizer.encode(" ".join(["abc"] * 20)) == ["abc"] * 20


def test_a_json_keeps_an_unfinished_character(tmp_path):
    tokenizer = load_tokenizer(byte_level(tmp_path / "a.json"))
    pieces = tokenizer.encode("a😀")[:-1]
    assert "".join(tokenizer.chunks(pieces)) == tokenizer.decode(pieces) != "a"
