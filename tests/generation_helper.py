"""A small language model whose distribution is known, and a run that holds one."""

import keras
import numpy as np

from runs_helper import saved_run
from tfsoftmax import FullSoftmax, ModelConfig, Vocabulary, language_model
from tfsoftmax.layers.recurrent import recurrent_layer
from tfsoftmax.lm.generation import Generator

WORDS = ("the", "<unk>", "cat", "sat", "<eos>", "mat", "on")
VOCABULARY = Vocabulary(WORDS, [9, 8, 7, 6, 5, 4, 3])
CONFIG = ModelConfig(
    embedding_units=6, hidden_units=6, layers=2, tie_embeddings=True, init_scale=1.0
)


def make_model(streams, steps=None, cell="lstm", stateful=True, scale=1.0, seed=0):
    words = keras.Input(batch_shape=(streams, steps), dtype="int32")
    hidden = keras.layers.Embedding(len(WORDS), 5)(words)
    hidden = recurrent_layer(cell, 6, return_sequences=True, stateful=stateful)(hidden)
    hidden = keras.layers.Dropout(0.5)(hidden)
    model = keras.Model(words, FullSoftmax(len(WORDS), name="head")(hidden))
    rng = np.random.default_rng(seed)
    model.set_weights([rng.normal(scale=scale, size=w.shape) for w in model.get_weights()])
    return model


def generator(*arguments, **options):
    """A `Generator` with the model that `make_model` makes of these arguments."""
    return Generator(make_model(*arguments, **options), VOCABULARY)


def distribution(prompt, **kwargs):
    """P(next word | `<eos>`, prompt), (V,), read in one batch by a stateless model."""
    ids = VOCABULARY.encode(["<eos>", *prompt])[None]
    logits = make_model(1, ids.shape[1], stateful=False, **kwargs)(ids, training=False)
    return keras.ops.convert_to_numpy(keras.ops.softmax(logits[0, -1]))


def run_of_a_model(directory):
    """The folder of a run with a checkpoint, as training leaves it."""
    model = language_model(CONFIG, VOCABULARY, streams=3, time_steps=20)
    return saved_run(directory, CONFIG, VOCABULARY, model).directory
