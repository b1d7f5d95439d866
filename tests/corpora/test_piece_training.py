"""Facts about the training of pieces."""

import pytest
from tokenizer_files import TEXT

from tfsoftmax.corpora.piece_training import train_sentencepiece


def test_the_same_seed_trains_the_same_model(tmp_path):
    pytest.importorskip("sentencepiece")
    for name in "ab":
        train_sentencepiece([TEXT], str, tmp_path / name, "unigram", 300, 1)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("error", [ValueError("a.txt, line 3"), KeyboardInterrupt()])
def test_errors_of_the_text_are_not_blamed_on_the_size(tmp_path, error):
    pytest.importorskip("sentencepiece")

    def blocks():
        yield TEXT
        raise error

    with pytest.raises(type(error)) as caught:
        train_sentencepiece(blocks(), str, tmp_path / "a", "unigram", 300, 1)
    assert caught.value is error
