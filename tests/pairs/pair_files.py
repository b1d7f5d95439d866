"""Small corpora of pairs of texts, and what their batches spell."""

import numpy as np

from tfsoftmax.corpora.pipeline import batches
from tfsoftmax.pairs.config import PairsConfig
from tfsoftmax.pairs.model import real_words
from tfsoftmax.pairs.prepare import prepare

WORDS = ["the", "cat", "sat", "naïve", "on", "a", "mat", "of", "<unk>", "straw", "."]
BATCH = 6


def make_pairs(count, seed):
    rng = np.random.default_rng(seed)

    def text(most):
        return " ".join(rng.choice(WORDS, rng.integers(1, most)))

    # More words are "the" than there are pairs, so that `<eos>` is not the word of id 0.
    return [(f"{text(25)} s{i % 7}", f"the {text(9)}") for i in range(count)]


def config(tmp_path, **changes):
    files = {split: str(tmp_path / f"{split}.tsv.gz") for split in ("train", "valid", "test")}
    settings = {"corpus": "text", "out": str(tmp_path / "out"), "batch_size": BATCH}
    return PairsConfig(**settings | files | changes)


def prepared(tmp_path, **changes):
    return prepare(config(tmp_path, **changes), progress=False)


def read_back(corpus, split):
    """The pairs that the batches of a split spell, in order, as lists of words."""
    found, vocabulary = [], corpus.vocabulary
    for (source, words), next_words, weights in batches(corpus, split).as_numpy_iterator():
        real = real_words(source, vocabulary.eos_id).numpy()
        for s, r, w, n, weight in zip(source, real, words, next_words, weights):
            length = int(weight.sum())
            if not length:
                assert r.sum() == 1 and (w == vocabulary.eos_id).all()
                continue
            assert weight[:length].all()
            target, text = n[:length].tolist(), s[r].tolist()
            assert target[-1] == text[-1] == vocabulary.eos_id == w[0]
            assert w[1:length].tolist() == target[:-1]
            found.append((vocabulary.decode(text[:-1]), vocabulary.decode(target[:-1])))
    return found


def as_words(pairs, vocabulary):
    def known(text):
        return [word if word in vocabulary else "<unk>" for word in text.split()]

    return [(known(source), known(target)) for source, target in pairs]
