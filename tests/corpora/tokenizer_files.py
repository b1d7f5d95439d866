"""Files of tokenizers for tests, and the text that they have learnt from."""

import pytest

from tfsoftmax.corpora.tokenizers import load_tokenizer

TEXT = ["the cat sat on the mat", "a cat\u00a0sat on a tab\there \\ <eos>"] * 40


def byte_level(path):
    """Writes a byte-level BPE JSON, which restores every text."""
    package = pytest.importorskip("tokenizers")
    model = package.Tokenizer(package.models.BPE())
    level = package.pre_tokenizers.ByteLevel
    model.pre_tokenizer, model.decoder = level(False), package.decoders.ByteLevel()
    trainer = package.trainers.BpeTrainer(
        vocab_size=300, show_progress=False, initial_alphabet=level.alphabet()
    )
    model.train_from_iterator(TEXT, trainer)
    model.save(str(path))
    return str(path)


def lower_case(path):
    """Writes a WordPiece JSON that lowers the case and knows few characters."""
    package = pytest.importorskip("tokenizers")
    model = package.Tokenizer(package.models.WordPiece(unk_token="[UNK]"))
    model.normalizer = package.normalizers.Lowercase()
    model.pre_tokenizer = package.pre_tokenizers.Whitespace()
    model.decoder = package.decoders.WordPiece()
    trainer = package.trainers.WordPieceTrainer(
        vocab_size=60, show_progress=False, special_tokens=["[UNK]"]
    )
    model.train_from_iterator(TEXT, trainer)
    model.save(str(path))
    return str(path)


def saved(model, path):
    """Writes a JSON of a model of `tokenizers` that splits text at blanks, and loads it."""
    package = pytest.importorskip("tokenizers")
    tokenizer = package.Tokenizer(model(package.models))
    tokenizer.pre_tokenizer = package.pre_tokenizers.Whitespace()
    tokenizer.save(str(path))
    return load_tokenizer(path)
