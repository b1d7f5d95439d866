"""A small corpus of pairs, and the settings of runs on it that take seconds."""

import dataclasses

import numpy as np

from tfsoftmax.lm.config import TrainingConfig
from tfsoftmax.pairs.config import PairsConfig, Seq2SeqConfig
from tfsoftmax.pairs.prepare import prepare
from tfsoftmax.pairs.task import PAIRS
from tfsoftmax.runs import training

MODEL = Seq2SeqConfig(embedding_units=12, hidden_units=16, dropout=0.1, init_scale=0.5)
CONFIG = TrainingConfig(
    optimizer="adam", learning_rate=0.02, clip_norm=5.0, reduce="token", epochs=2, log_steps=1,
    checkpoint_steps=7,
)
FLAGS = ["--embedding_units=12", "--hidden_units=16", "--dropout=0.1", "--init_scale=0.5",
         "--optimizer=adam", "--learning_rate=0.02", "--clip_norm=5", "--reduce=token",
         "--epochs=2", "--log_steps=1", "--checkpoint_steps=7"]


def train_pairs(corpus, directory, model=MODEL, **changes):
    """What `training.train` returns for a run on pairs with changes; it shows nothing."""
    config = dataclasses.replace(CONFIG, **changes)
    return training.train(
        corpus.directory, str(directory), model, config, verbose=False, task=PAIRS
    )


def make_pairs(count, seed):
    """Texts of words w0 to w29, each with its last word, repeated, as its summary."""
    rng, pairs = np.random.default_rng(seed), []
    for _ in range(count):
        words = rng.integers(0, 30, rng.integers(3, 14))
        summary = [words[-1]] * rng.integers(1, 5)
        pairs.append([" ".join(f"w{i}" for i in text) for text in (words, summary)])
    return pairs


def small_pairs(directory, train=400):
    """Prepares a corpus; the sources of valid and test also have words it does not know."""
    files = {}
    for seed, (split, count) in enumerate({"train": train, "valid": 40, "test": 23}.items()):
        files[split] = str(directory / f"{split}.tsv")
        with open(files[split], "w", encoding="utf-8") as file:
            for source, target in make_pairs(count, seed):
                rare = "" if split == "train" else f"rare{len(source)} "
                file.write(f"{rare}{source}\t{target}\n")
    return prepare(
        PairsConfig(
            corpus="text", out=str(directory / "data"), batch_size=8,
            vocabulary_from="both", **files,
        ),
        progress=False,
    )
