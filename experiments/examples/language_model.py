# %% [markdown]
# A language model of 20,000 words in Keras: `Dense` against heads of tfsoftmax, all else equal.
#
#     python -m experiments.examples.language_model
#
# The text is made up: a word belongs to one of 300 classes, the class of the next word depends on
# the class of this one, and the words of a class follow Zipf's law. The perplexity of the source
# itself is known, and no model can do better. Every model takes the same steps. The first, which
# compiles, is not timed.

# %%
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import time

import keras
import numpy as np

import tfsoftmax
from tfsoftmax.support.hardware import hardware

WORDS = 20_000
CLASSES = 300
UNITS = 128
SENTENCES = 16_000
STEPS = 20
BATCH = 32

# %% [markdown]
# The source: `SENTENCES` sequences for training and a few for evaluation.

# %%
rng = np.random.default_rng(0)
class_of = rng.integers(0, CLASSES, WORDS)
class_of[:CLASSES] = np.arange(CLASSES)
frequency = 1 / np.arange(1.0, WORDS + 1)
members = [np.flatnonzero(class_of == c) for c in range(CLASSES)]
within = [frequency[m] / frequency[m].sum() for m in members]
popularity = np.bincount(class_of, frequency)
following = popularity * rng.exponential(size=(CLASSES, CLASSES)) ** 4
following /= following.sum(1, keepdims=True)


def text(sentences):
    """Words (sentences, STEPS + 1) int32."""
    rise, classes = following.cumsum(1), np.zeros((sentences, STEPS + 1), int)
    classes[:, 0] = rng.choice(CLASSES, sentences, p=popularity / popularity.sum())
    for t in range(STEPS):
        chance = rng.random((sentences, 1))
        classes[:, t + 1] = (chance > rise[classes[:, t]]).sum(1).clip(max=CLASSES - 1)
    words = np.zeros_like(classes, dtype=np.int32)
    for c, (m, p) in enumerate(zip(members, within)):
        words[classes == c] = rng.choice(m, (classes == c).sum(), p=p)
    return words


def source_perplexity(words):
    share = np.zeros(WORDS)
    for m, p in zip(members, within):
        share[m] = p
    now, then = words[:, :-1], words[:, 1:]
    return np.exp(-np.log(following[class_of[now], class_of[then]] * share[then]).mean())


train, held_out = text(SENTENCES), text(500)
counts = np.bincount(train.ravel(), minlength=WORDS)

# %% [markdown]
# Models that differ in their last layer, their loss and their optimiser.


# %%
def with_dense():
    words, hidden = body()
    model = keras.Model(words, keras.layers.Dense(WORDS)(hidden))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.003), loss=loss)
    return model


def with_head(head):
    words, hidden = body()
    model = keras.Model(words, head(hidden))
    model.compile(tfsoftmax.optimizers.Adam(0.003), loss=tfsoftmax.SoftmaxLoss())
    return model


def body():
    words = keras.Input((STEPS,), dtype="int32")
    hidden = keras.layers.Embedding(WORDS, UNITS)(words)
    return words, keras.layers.LSTM(UNITS, return_sequences=True)(hidden)


# %%
MODELS = {
    "Dense": with_dense,
    "FullSoftmax": lambda: with_head(tfsoftmax.FullSoftmax(WORDS)),
    "AdaptiveSoftmax": lambda: with_head(
        tfsoftmax.AdaptiveSoftmax(WORDS, [WORDS // 25, WORDS // 5], counts=counts)
    ),
    "SampledSoftmax": lambda: with_head(tfsoftmax.SampledSoftmax(WORDS, 1024, counts=counts)),
    "TreeSoftmax": lambda: with_head(tfsoftmax.TreeSoftmax(WORDS, counts=counts)),
}
steps = -(-SENTENCES // BATCH)
print(f"{WORDS:,} words, {hardware()}, {steps:,} steps with batches of {BATCH} sentences")
print(f"perplexity of the source: {source_perplexity(held_out):,.0f}\n")
print("| | ms a step | perplexity |")
print("|---|---|---|")
for name, build in MODELS.items():
    keras.utils.set_random_seed(1)
    model = build()
    model.fit(train[:BATCH, :-1], train[:BATCH, 1:], batch_size=BATCH, verbose=0)
    start = time.perf_counter()
    model.fit(train[:, :-1], train[:, 1:], batch_size=BATCH, verbose=0)
    step = 1000 * (time.perf_counter() - start) / steps
    # The perplexity is exact for every head: it is normalised over the whole vocabulary.
    nats = model.evaluate(held_out[:, :-1], held_out[:, 1:], batch_size=BATCH, verbose=0)
    print(f"| {name} | {step:,.1f} | {np.exp(nats):,.0f} |", flush=True)
