"""The heads that every contract test runs through: a new head joins by one line."""

import keras
import numpy as np

from tfsoftmax.heads import FullSoftmax

UNITS = 7

CASES = {
    "full": lambda vocab_size: FullSoftmax(vocab_size),
    "full without bias": lambda vocab_size: FullSoftmax(vocab_size, use_bias=False),
    "full capped": lambda vocab_size: FullSoftmax(vocab_size, soft_cap=2.0),
    "full smoothed": lambda vocab_size: FullSoftmax(vocab_size, label_smoothing=0.2, z_loss=0.01),
}


def built(case, vocab_size, seed=0):
    """A built head of the case with distinct random weights."""
    head = CASES[case](vocab_size)
    head.build((None, UNITS))
    randomise(head, seed)
    return head


def randomise(layer, seed=0):
    """Gives every weight distinct values of order one."""
    rng = np.random.default_rng(seed)
    layer.set_weights([rng.normal(size=w.shape).astype(w.dtype) for w in layer.get_weights()])


def positions(vocab_size, count, seed=1):
    """Random hidden states (count, UNITS) and labels that include both ends of the vocabulary."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, vocab_size, size=count).astype(np.int32)
    labels[: min(2, count)] = [0, vocab_size - 1][: min(2, count)]
    return rng.normal(size=(count, UNITS)).astype(np.float32), labels


def language_model(head, layers="functional", steps=5, streams=4, masked=False, seed=0):
    """A small Keras model that ends in `head`, in each of the ways Keras builds models."""
    embed = keras.layers.Embedding(head.vocab_size, UNITS, mask_zero=masked)
    recur = keras.layers.SimpleRNN(UNITS, return_sequences=True)
    if layers == "sequential":
        model = keras.Sequential([keras.Input((steps,), dtype="int32"), embed, recur, head])
    elif layers == "subclassed":
        model = Subclassed(embed, recur, head)
        model(np.zeros((streams, steps), np.int32))
    else:
        words = keras.Input((steps,), dtype="int32")
        hidden = recur(embed(words))
        if layers == "nested":
            inner = keras.Input(hidden.shape[1:])
            top = keras.Model(inner, head(inner))
            model = keras.Model(words, top(hidden))
        else:
            model = keras.Model(words, head(hidden))
    randomise(model, seed)
    return model


class Subclassed(keras.Model):
    """The subclassed form of `language_model`."""

    def __init__(self, embed, recur, head):
        super().__init__()
        self.embed, self.recur, self.head = embed, recur, head

    def call(self, words):
        return self.head(self.recur(self.embed(words)))
