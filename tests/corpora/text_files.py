"""Small texts to prepare, and what was made of them."""

import gzip
import os

import numpy as np

from tfsoftmax.corpora.config import PrepareConfig
from tfsoftmax.corpora.pipeline import batches
from tfsoftmax.corpora.prepare import prepare

WORDS = ["the", "cat", "sat", "naïve", "on", "a", "mat", "of", "<unk>", "straw"]


def make_text(sentences, seed):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(1, 12))) for _ in range(sentences)]


def write_texts(folder):
    """Writes three files of sentences; returns a dict from split to sentences."""
    texts = {"train": make_text(200, 0), "valid": make_text(30, 1), "test": make_text(20, 2)}
    texts["valid"][3] += " unseen"
    texts["train"][7] += " rare"
    for split, lines in texts.items():
        with gzip.open(folder / f"{split}.gz", "wt", encoding="utf-8") as file:
            file.write("\n\n".join(lines))
    return texts


def config(tmp_path, **changes):
    files = {split: str(tmp_path / f"{split}.gz") for split in ("train", "valid", "test")}
    settings = {"corpus": "text", "out": str(tmp_path / "out"), "streams": 5, "time_steps": 4}
    return PrepareConfig(**settings | files | changes)


def prepared(tmp_path, **changes):
    """The corpus that `prepare` makes of such texts; it shows nothing."""
    return prepare(config(tmp_path, **changes), progress=False)


def read_back(corpus, split):
    """Returns the sentences of a split as the weighted targets spell them."""
    targets = [[] for _ in range(corpus.streams)]
    for _, next_words, weights in batches(corpus, split).as_numpy_iterator():
        for stream, row, weight in zip(targets, next_words, weights):
            stream += corpus.vocabulary.decode(row[weight > 0])
    text = "".join("\n" if word == "<eos>" else f" {word}" for words in targets for word in words)
    return [line.strip() for line in text.splitlines()]


def contents(directory):
    return {name: (directory / name).read_bytes() for name in os.listdir(directory)}
