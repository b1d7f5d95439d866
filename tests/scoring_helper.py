"""A small model, sentences for it, and what each of their words costs, one word after the other."""

import dataclasses

import numpy as np

from cases import randomise
from tfsoftmax import ModelConfig, Vocabulary, language_model
from tfsoftmax.lm import model as building

WORDS = ("the", "<unk>", "cat", "sat", "<eos>", "mat", "on", "dog")
VOCABULARY = Vocabulary(WORDS, [9, 8, 7, 6, 5, 4, 3, 2])
CONFIG = ModelConfig(embedding_units=5, hidden_units=6, init_scale=1.0)
SENTENCES = [line.split() for line in (
    "the cat sat on the mat", "the cat", "", "a zebra sat on the dog", "the cat sat on the mat",
    "dog", "the cat sat", "on " * 40, "the dog sat",
)]


def make_model(streams, steps=None, seed=0, **options):
    model = language_model(dataclasses.replace(CONFIG, **options), VOCABULARY, streams, steps)
    randomise(model, seed)
    return model


def reference(words, model):
    """ln P of each word and `<eos>` by the logits of a model of one stream, word by word."""
    ids = VOCABULARY.encode(["<eos>", *words, "<eos>"])
    building.reset_states(model)
    logits = model(ids[None, :-1], training=False).numpy()[0].astype(np.float64)
    log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return log_probs[np.arange(len(ids) - 1), ids[1:]]
