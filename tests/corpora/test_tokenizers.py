"""Facts about pieces: what they restore, how the vocabulary spells them, and their corpora."""

import json
import sys

import numpy as np
import pytest
import text_files
from tokenizer_files import TEXT, byte_level, lower_case

from refusals import refused
from tfsoftmax.corpora import prepare as prepare_module
from tfsoftmax.corpora import tokenizers
from tfsoftmax.corpora.config import PrepareConfig
from tfsoftmax.corpora.counting import Tally, count, kept_vocabulary
from tfsoftmax.corpora.piece_training import train_sentencepiece
from tfsoftmax.corpora.prepare import prepare, summary
from tfsoftmax.corpora.records import Corpus
from tfsoftmax.corpora.tokenizers import Tokenizer, Words, load_tokenizer, word_numbers
from tfsoftmax.support.vocabulary import EOS, UNK

HARD = [
    "the cat", "  two  blanks,   three ", "tab\there", "\x00 and \x1b[2J and \x1f", "e\u0301 is é",
    "😀 and \U0010ffff", "a\u00a0b\u2028c\u3000d\x85e", "▁", "a▁b ▁▁", "a▁\ue000\ue001b", "\ufeffx",
    "<unk> <eos> <s> </s> <0x41>", "\\u0009 \\ \\\\", "\r", "▅ ⁇ ﷽", " ",
]


class Letters(Tokenizer):
    """Splits sentences into letters, with `_` for a blank, without any package."""

    pieces = tuple("abcdefghijklmnopqrstuvwxyz0123456789_")

    def encode_all(self, sentences):
        return [list(s.replace(" ", "_")) if s.strip() else [] for s in sentences]

    def chunks(self, pieces):
        yield from (piece.replace("_", " ") for piece in pieces)
        yield ""


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def trained(request, tmp_path_factory):
    pytest.importorskip("sentencepiece")
    path = tmp_path_factory.mktemp("pieces") / "tokenizer.model"
    train_sentencepiece([TEXT], str, path, request.param, 300, 1)
    return load_tokenizer(path)


TEXTS = {"train": TEXT, "valid": [s for s in HARD if s != "\r"]}


def config(tmp_path, tokenizer="sentencepiece", texts=TEXTS, **changes):
    settings = {"streams": 3, "time_steps": 5, "order": "text", "tokenizer": tokenizer}
    for name, lines in texts.items():
        path = tmp_path / f"{name}.txt"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
        settings[name] = str(path)
    if tokenizer.startswith("sentencepiece"):
        settings["max_vocab"] = 310
    return PrepareConfig("text", str(tmp_path / "out"), **settings | changes)


def prepared(tmp_path, *tokenizer, **changes):
    return prepare(config(tmp_path, *tokenizer, **changes), progress=False)


def read_back(corpus, split, tokenizer):
    """The sentences of a corpus in the order of the text, as its targets spell them."""
    return [tokenizer.decode(line.split()) for line in text_files.read_back(corpus, split)]


@pytest.mark.parametrize("text", HARD)
def test_trained_pieces_restore_every_text(trained, text):
    pieces = trained.encode(text)
    assert trained.decode(pieces) == (text if text.strip() else "")
    assert set(pieces) <= set(trained.pieces)


@pytest.mark.parametrize("text", HARD)
def test_byte_level_pieces_restore_every_text(tmp_path, text):
    tokenizer = load_tokenizer(byte_level(tmp_path / "a.json"))
    pieces = tokenizer.encode(text)
    assert tokenizer.decode(pieces) == "".join(tokenizer.chunks(pieces))
    assert tokenizer.decode(pieces) == (text if text.strip() else "")


def test_the_pieces_are_those_of_sentencepiece_itself(trained, tmp_path):
    for text in TEXT[:1] + ["😀  x"]:
        assert trained.encode(text) == trained._model.encode(text, out_type=str)


def test_names_of_pieces_have_no_blanks_and_differ():
    pieces = ["\t", "\\u0009", "\\", "\\\\", "\u3000", " ", "<eos>", "\\<eos>", "<unk>", "", "▁a"]
    names = [tokenizers._name(piece) for piece in pieces]
    assert len(set(names)) == len(pieces) and not {UNK, EOS} & set(names)
    assert all(name.split() == [name] for name in names)
    assert names[-1] == "▁a"


def test_unfinished_characters_are_held_back(trained):
    pieces = trained.encode("a😀b")
    chunks = list(trained.chunks(pieces))
    assert "😀" in chunks and "".join(chunks) == "a😀b"
    assert list(trained.chunks(pieces[: pieces.index("<0x9F>") + 1]))[-1] == "\ufffd"


@pytest.mark.parametrize("tokenizer", [Words(), Letters()])
def test_chunks_join_to_the_sentence(tokenizer):
    assert "".join(tokenizer.chunks(tokenizer.encode("the cat"))) == "the cat"
    assert tokenizer.encode("  ") == [] and tokenizer.decode([]) == ""


def test_pieces_and_blanks_belong_to_words():
    assert word_numbers(Letters(), "_ab__c_") == (["ab", "c"], [0, 0, 0, 1, 1, 1, 1])
    assert word_numbers(Words(), ["ab", "c"]) == (["ab", "c"], [0, 1])
    assert word_numbers(Letters(), []) == ([], [])


def test_pieces_of_an_emoji_belong_to_its_word(trained):
    words, numbers = word_numbers(trained, trained.encode("the 😀cat"))
    assert words == ["the", "😀cat"] and sorted(set(numbers)) == [0, 1]
    assert numbers == sorted(numbers) and numbers.count(1) >= 4  # the bytes are four pieces


def test_a_text_is_counted_in_bytes_words_and_pieces():
    tally = count([["été  a", " ", ""], ["b"]], "train", Letters(), True, lambda pieces: None)
    assert (tally.sentences, tally.words, tally.pieces) == (2, 3, 7)
    assert tally.text_bytes == len("été  a\nb\n".encode())
    assert tally.changed_lines == 0 and tally.tokens == 9
    vocabulary = kept_vocabulary(Letters.pieces, tally)
    assert len(vocabulary) == len(Letters.pieces) + 2  # those that do not occur are kept
    assert dict(zip(vocabulary.words, vocabulary.counts.tolist()))[UNK] == 2  # é
    words = count([["a  b", "c d"]], "train", Words(), True, lambda words: None)
    assert (words.words, words.pieces, words.changed_lines) == (4, 4, 1)


class Known(Letters):
    """Splits sentences into letters, and makes nothing of the characters that it does not know."""

    def encode_all(self, sentences):
        return [[p for p in found if p in self.pieces] for found in super().encode_all(sentences)]


def test_a_line_of_which_the_tokenizer_makes_nothing_is_a_changed_sentence():
    lines = ["a b", "ππρ", " ", "b"]
    tally = count([lines], "test", Known(), True, lambda pieces: None)
    assert (tally.sentences, tally.words, tally.pieces) == (3, 4, 4)
    assert tally.text_bytes == len("a b\nππρ\nb\n".encode()) and tally.changed_lines == 1


def test_only_tokens_that_determine_the_text_are_restorable():
    assert Tally().is_restorable
    assert not Tally(oov=1).is_restorable and not Tally(changed_lines=1).is_restorable


@pytest.fixture
def letters(monkeypatch, tmp_path):
    """A file that `prepare` takes for the tokenizer `Letters`, without any package."""
    (tmp_path / "letters.model").write_text("letters")
    monkeypatch.setattr(tokenizers, "SentencePieces", lambda path: Letters())
    return str(tmp_path / "letters.model")


@pytest.mark.parametrize("order", ["text", "shuffled"])
def test_a_corpus_of_pieces_has_every_sentence_once(tmp_path, letters, order):
    texts = {"train": ["the cat ", "", " a  cat"] * 9, "valid": ["a1", "b c"]}
    corpus = prepared(tmp_path, letters, texts, order=order)
    found = read_back(corpus, "train", Letters())
    expected = ["the cat ", " a  cat"] * 9
    assert (found if order == "text" else sorted(found)) == (
        expected if order == "text" else sorted(expected)
    )
    split = corpus.split("train")
    assert (split.words, split.sentences, split.tokens) == (36, 18, 9 * (8 + 7 + 2))
    assert split.text_bytes == 9 * (9 + 8) and split.is_restorable and split.oov_rate == 0
    assert "train: 3.750 pieces a word" in summary(corpus)


def test_a_corpus_has_the_lines_of_which_the_tokenizer_makes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(tokenizers, "SentencePieces", lambda path: Known())
    (tmp_path / "a.model").write_text("known")
    corpus = prepared(tmp_path, str(tmp_path / "a.model"), {"train": ["a b", "ππ", "b"] * 9})
    assert read_back(corpus, "train", Known()) == ["a b", "", "b"] * 9
    assert corpus.split("train").changed_lines == 9 and not corpus.split("train").is_restorable


def test_a_corpus_does_not_depend_on_the_kind_of_line_ends(tmp_path, letters):
    splits = []
    for end in ("", "\r"):
        texts = {"train": [f"the cat{end}", end, f"a cat{end}"] * 9}
        corpus = prepared(tmp_path, letters, texts, overwrite=True)
        splits.append(corpus.split("train"))
    assert splits[0] == splits[1] and splits[1].is_restorable
    assert splits[1].text_bytes == 9 * len("the cat\na cat\n")


@pytest.mark.parametrize("line", ["π<eos>", "a <eos> b"])
def test_an_end_within_a_sentence_is_refused(line):
    class Runs(Letters):
        def encode_all(self, sentences):
            return [["a", EOS] if EOS in s else list(s) for s in sentences]

    with pytest.raises(ValueError, match=f"must not contain `<eos>`.*{line}"):
        count([["a", line]], "test", Runs(), False, lambda pieces: None)


def test_a_tokenizer_is_kept_with_the_corpus_and_its_digest_is_checked(tmp_path, letters):
    given = config(tmp_path, letters)
    with pytest.raises(ValueError, match="`max_vocab` must not be given with this tokenizer"):
        config(tmp_path, letters, max_vocab=5)
    corpus = prepare(given, progress=False)
    kept = tmp_path / "out" / "tokenizer.model"
    assert corpus.tokenizer == str(kept) and kept.read_text() == "letters"
    before = kept.stat().st_mtime_ns
    prepare(given, progress=False)  # is already there
    assert kept.stat().st_mtime_ns == before
    (tmp_path / "letters.model").write_text("others")
    refused("`out` must not hold another corpus.*tokenizer is", prepare, given, progress=False)
    prepared(tmp_path, letters, overwrite=True)
    kept.write_text("damaged")
    refused("must be as it was written", Corpus.load, tmp_path / "out")
    kept.unlink()
    with pytest.raises(FileNotFoundError, match="tokenizer.model: must exist next to its manifest"):
        Corpus.load(tmp_path / "out")


def test_a_manifest_may_name_no_other_file(tmp_path, letters):
    prepared(tmp_path, letters)
    path = tmp_path / "out" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["tokenizer"]["path"] = "../../secret"
    path.write_text(json.dumps(manifest))
    refused("`tokenizer.path` must be tokenizer.model or", Corpus.load, tmp_path / "out")


@pytest.mark.parametrize("kind", ["sentencepiece", "sentencepiece_bpe"])
def test_a_corpus_of_trained_pieces_restores_its_text(tmp_path, kind):
    pytest.importorskip("sentencepiece")
    corpus = prepared(tmp_path, kind)
    tokenizer = load_tokenizer(corpus.tokenizer)
    assert read_back(corpus, "train", tokenizer) == TEXT
    assert read_back(corpus, "valid", tokenizer) == [s for s in HARD if s.strip()]
    assert len(corpus.vocabulary) == len(tokenizer.pieces) + 2 <= 310
    assert all(split.is_restorable for split in corpus.splits.values())
    counts = corpus.vocabulary.counts
    assert (np.diff(counts) <= 0).all() and counts[corpus.vocabulary.oov_id] == 0


def test_lines_that_a_tokenizer_changes_are_counted(tmp_path):
    path = lower_case(tmp_path / "lower.json")
    corpus = prepared(tmp_path, path)
    split = corpus.split("valid")
    assert not split.is_restorable and split.changed_lines > 5 and split.oov > 5
    assert "they do not restore" in summary(corpus)
    assert corpus.tokenizer.endswith("tokenizer.json")


def test_a_vocabulary_too_small_for_the_characters_is_named(tmp_path):
    pytest.importorskip("sentencepiece")
    with pytest.raises(ValueError, match="`max_vocab` must suit the text.*Received: max_vocab=100"):
        prepared(tmp_path, max_vocab=100)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("package, tokenizer", [
    ("sentencepiece", "sentencepiece"), ("sentencepiece", "a.model"), ("tokenizers", "a.json"),
])
def test_a_missing_package_is_named_before_the_work(monkeypatch, tmp_path, package, tokenizer):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(prepare_module, "_write_sentences", lambda *args: pytest.fail("began"))
    if "." in tokenizer:
        (tmp_path / tokenizer).write_text("{}")
        tokenizer = str(tmp_path / tokenizer)
    with pytest.raises(RuntimeError, match=f"needs {package}: pip install {package}"):
        prepared(tmp_path, tokenizer)


@pytest.mark.parametrize("name, package", [("a.json", "tokenizers"), ("a.model", "sentencepiece")])
def test_a_file_that_is_no_tokenizer_is_named(tmp_path, name, package):
    pytest.importorskip(package)
    (tmp_path / name).write_text("{}")
    refused(f"{name}: must be a model of sentencepiece, or", load_tokenizer, tmp_path / name)


@pytest.mark.parametrize("changes, message", [
    ({"tokenizer": "sentencepeice"}, "must be words, sentencepiece, sentencepiece_bpe or a file"),
    ({"min_count": 2}, "`min_count` must not be given with this tokenizer"),
    ({"seed": 1 << 32}, "`seed` must be below 2..32 for sentencepiece. Received: seed=4294967296"),
])
def test_wrong_choices_are_named(tmp_path, changes, message):
    refused(message, prepared, tmp_path, **{"max_vocab": None, **changes})
