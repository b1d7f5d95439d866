"""Facts about `load_embeddings` and `apply_embeddings`."""

import gzip

import keras
import numpy as np
import pytest

from tfsoftmax import Embedding, FullSoftmax, Vocabulary
from tfsoftmax.lm.pretrained import apply_embeddings, load_embeddings

VOCABULARY = Vocabulary(["the", "<eos>", "café", "<unk>", "mat", "3"], [50, 20, 15, 10, 4, 1])
GLOVE = "mat 0.5 -1 2e-3\nThe 9 9 9\ncafé 1.25 0 -.5\nof 7 7 7\n3 4 5 6\n"
ROWS = [4, 2, 5]
VECTORS = np.array([[0.5, -1, 2e-3], [1.25, 0, -0.5], [4, 5, 6]], np.float32)


def load(path, text, size=3):
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    return load_embeddings(path, VOCABULARY, size)


def assert_expected(result):
    rows, vectors, _ = result
    assert rows.dtype == np.int32 and vectors.dtype == np.float32
    assert rows.tolist() == ROWS
    np.testing.assert_array_equal(vectors, VECTORS)


@pytest.mark.parametrize(
    "text",
    [
        GLOVE,
        "5 3\n" + GLOVE,
        GLOVE.rstrip("\n"),
        GLOVE.replace("\n", " \n"),
        GLOVE.replace("\n", "\r\n"),
        GLOVE.replace(" ", "\t"),
        "\ufeff" + GLOVE,
    ],
    ids=["glove", "word2vec", "no last newline", "blank at the end", "crlf", "tabs", "bom"],
)
def test_formats_give_the_same_rows_and_vectors(tmp_path, text):
    assert_expected(load(tmp_path / "vectors.txt", text))


def test_gzip_is_read(tmp_path):
    assert_expected(load(tmp_path / "vectors.txt.gz", gzip.compress(GLOVE.encode("utf-8"))))


def test_coverage_counts_types_and_tokens(tmp_path):
    coverage = load(tmp_path / "v", GLOVE)[2]
    assert (coverage.types, coverage.types_covered) == (6, 3)
    assert (coverage.tokens, coverage.tokens_covered) == (100, 20)
    assert str(coverage) == (
        "vectors for 3 of 6 words (50.0%), which are 20 of 100 training tokens (20.0%)"
    )


def test_words_match_with_their_case(tmp_path):
    assert load(tmp_path / "v", "The 1\nCafé 2\nMAT 3\nmat 4\n", 1)[0].tolist() == [4]


def test_other_spellings_of_unk_and_eos_are_read_where_they_are_no_words(tmp_path):
    rows, vectors, _ = load(tmp_path / "v", "</s> 1\n<UNK> 2\nmat 3\n<unk> 4\n<eos> 5\n", 1)
    assert (rows.tolist(), vectors.tolist()) == ([1, 3, 4], [[1], [2], [3]])
    words = Vocabulary(["<UNK>", "<eos>", "<unk>", "</s>"], [4, 3, 2, 1])
    rows, _, _ = load_embeddings(tmp_path / "v", words, 1)
    assert rows.tolist() == [3, 0, 2, 1]


def test_the_first_of_two_vectors_is_taken(tmp_path):
    rows, vectors, coverage = load(tmp_path / "v", "the 1 2\nmat 3 4\nthe 5 6\n", 2)
    assert (rows.tolist(), vectors.tolist()) == ([0, 4], [[1, 2], [3, 4]])
    assert coverage.tokens_covered == 54


def test_words_may_contain_blanks(tmp_path):
    text = ". . . 1 2 3\nthe mat 4 5 6\nmat 7 8 9\ncafé\u00a0noir 1 1 1\n"
    rows, vectors, _ = load(tmp_path / "v", text)
    assert (rows.tolist(), vectors.tolist()) == ([4], [[7, 8, 9]])


def test_lines_end_at_newline_only(tmp_path):
    rows, vectors, _ = load(tmp_path / "v", "\u0085 1\na\u2028the 2\nmat\u0085 3\nmat 4\n", 1)
    assert (rows.tolist(), vectors.tolist()) == ([4], [[4]])


@pytest.mark.parametrize(
    "text,message",
    [
        ("the 1 2 3\nmat 4 5\n", "v, line 2: must be a word and 3 values. Received: 3 fields, b'm"),
        ("the 1 2 3\nof 4 5\n", "v, line 2: must be a word and 3 values. Received: 3 fields"),
        ("of 1 2 3\nthe 1 2 3 4\n", "v, line 2: must be a word and 3 values. Received: 5 fields"),
        ("of 1 2 3\n\nthe 1 2 3\n", "v, line 2: must be a word and 3 values. Received: 0 fields"),
        ("2 3\nof 1 2 3\nthe 1 2\n", "v, line 3: must be a word and 3 values. Received: 3 f"),
        ("of 1 2 3\nthe 1 x 3\n", "v, line 2: must hold numbers. Received: b'x'"),
        ("the 1 x 3\n", "v, line 1: must hold numbers. Received: b'x'"),
        ("of 1 2 3\nthe 1 nan 3\n", "v, line 2: must hold finite values. Received: nan"),
        ("of 1 2 3\nthe 1 1e50 3\n", "v, line 2: must hold finite values. Received: inf"),
        (b"of 1 2 3\ncaf\xe9 1 2 3\n", r"v, line 2: must be UTF-8. Received: b'caf\\xe9 1"),
        (GLOVE.encode("utf-16"), "v, line 1: must be"),
        ("the 1 2\nmat 3 4\n", "`embedding_units` must be 2, the size of the vectors"),
        ("1 5\nthe 1 2 3 4 5\n", "`embedding_units` must be 5, the size of the vectors"),
        (". . 1 2 3 4 5\n", "`embedding_units` must be 5, the size of the vectors"),
        ("the cat sat on the mat\n", "v, line 1: must be a word and the values of its vector."),
        ("the\n", "v, line 1: must be a word and the values of its vector. Received: b'the'"),
        ("3 3\nthe 1 2 3\nof 1 2 3\n", "v: must hold as many vectors as its first line says, 3. "),
        (
            "of 1 2 3\nThe 1 2 3\n",
            "v: must hold words of the vocabulary. Received: none of the vocabulary's 6",
        ),
        ("", "v: must hold word vectors. Received: an empty file"),
        ("of 1 2 3\nthe" + " 1" * (1 << 20), "v, line 2: a line must have at most 1,048,576 bytes"),
        ("9" * 5000 + " 3\nthe 1 2 3\n", "`embedding_units` must be 1, the size of the vectors"),
    ],
)
def test_malformed_files_are_named(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "v", text)


@pytest.mark.parametrize("keep", [slice(None, -9), slice(3, None)])
def test_damaged_gzip_is_named(tmp_path, keep):
    data = gzip.compress(GLOVE.encode("utf-8"))[keep]
    with pytest.raises(ValueError, match="v.gz: must be an undamaged file"):
        load(tmp_path / "v.gz", data)


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent.txt"):
        load_embeddings(tmp_path / "absent.txt", VOCABULARY, 3)


@pytest.mark.parametrize("layer_class", [Embedding, keras.layers.Embedding])
def test_apply_assigns_these_rows_and_no_other(layer_class):
    layer = layer_class(len(VOCABULARY), 3)
    layer.build()
    before = layer.get_weights()[0]
    apply_embeddings(layer, ROWS, VECTORS)
    after = layer.get_weights()[0]
    np.testing.assert_array_equal(after[ROWS], VECTORS)
    others = [0, 1, 3]
    np.testing.assert_array_equal(after[others], before[others])
    np.testing.assert_array_equal(np.asarray(layer(np.array([5, 0]))), after[[5, 0]])


def test_apply_reaches_a_tied_head():
    layer = Embedding(len(VOCABULARY), 3)
    head = FullSoftmax(len(VOCABULARY), use_bias=False, tied_to=layer)
    head.build((None, 3))
    apply_embeddings(layer, ROWS, VECTORS)
    hidden = np.array([[1.0, 2.0, 4.0]], np.float32)
    np.testing.assert_allclose(np.asarray(head(hidden))[0, ROWS], VECTORS @ hidden[0], rtol=1e-6)


def test_apply_refuses_vectors_of_another_size():
    layer = Embedding(len(VOCABULARY), 4)
    layer.build()
    with pytest.raises(ValueError, match=r"shape \(3, 4\). Received: vectors of shape \(3, 3\)"):
        apply_embeddings(layer, ROWS, VECTORS)
