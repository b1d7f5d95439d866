# %% [markdown]
# A classifier of texts with 30,000 labels, of which a text has several, in Keras: `Dense` against
# heads of tfsoftmax.
#
#     python -m experiments.examples.text_classifier
#
# Softmax has one label for each text. So the labels of a text are reduced to one, which is drawn
# anew in each epoch, all of them with the same chance. On average that is cross-entropy against
# 1 / n on each of the n labels, whose minimum ranks labels by E[y / n]. This ranking is right for
# recall, and also for precision if every text has the same number of labels (Menon et al. 2019,
# "pick one label").
#
# Texts are made up: each label has its own words, and the labels of a text are related. All models
# take the same steps. The first, which compiles, is not timed.

# %%
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import time

import keras
import numpy as np
import tensorflow as tf

import tfsoftmax
from tfsoftmax.support.hardware import hardware

LABELS = 30_000
MOST = 5  # labels of a text
WORDS = 20_000
UNITS = 128
TEXTS = 100_000
HELD_OUT = 2_000
LENGTH = 30
BATCH = 256
EPOCHS = 2

# %% [markdown]
# A text has one label drawn by Zipf's law and some of the nine neighbours of that label. Four
# fifths of its words are words of its labels; the others are any words.

# %%
rng = np.random.default_rng(0)
words_of = rng.integers(1, WORDS, (LABELS, 6))
frequency = 1 / (10 + np.arange(LABELS))


def texts(count):
    """Words (count, LENGTH), labels (count, MOST) and numbers of labels (count,), all int32."""
    first = rng.choice(LABELS, count, p=frequency / frequency.sum())
    numbers = rng.integers(1, MOST + 1, count)
    others = rng.random((count, 9)).argsort(1)[:, : MOST - 1] + 1
    tens, unit = first // 10 * 10, first % 10
    labels = np.c_[first, (tens[:, None] + (unit[:, None] + others) % 10) % LABELS]
    chosen = (rng.random((count, LENGTH)) * numbers[:, None]).astype(int)
    words = words_of[
        np.take_along_axis(labels, chosen, 1), rng.integers(0, words_of.shape[1], chosen.shape)
    ]
    noise = rng.random(words.shape) < 0.2
    words = np.where(noise, rng.integers(1, WORDS, words.shape), words)
    return words.astype(np.int32), labels.astype(np.int32), numbers.astype(np.int32)


words, labels, numbers = texts(TEXTS)
held_out = texts(HELD_OUT)


def one_label(words, labels, number):
    """Draws one of the labels of a text, anew in each epoch."""
    return words, labels[tf.random.uniform([], 0, number, tf.int32)]


def batches():
    data = tf.data.Dataset.from_tensor_slices((words, labels, numbers))
    return data.shuffle(10_000).map(one_label).batch(BATCH).prefetch(4)


present = np.arange(MOST) < numbers[:, None]
counts = np.bincount(labels[present], minlength=LABELS)

# %% [markdown]
# Models that differ in their last layer, their loss and their optimiser.


# %%
def with_dense():
    inputs, hidden = body()
    model = keras.Model(inputs, keras.layers.Dense(LABELS)(hidden))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.003), loss=loss)
    return model


def with_head(head):
    inputs, hidden = body()
    model = keras.Model(inputs, head(hidden))
    model.compile(tfsoftmax.optimizers.Adam(0.003), loss=tfsoftmax.SoftmaxLoss())
    return model


def body():
    inputs = keras.Input((LENGTH,), dtype="int32")
    hidden = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(WORDS, UNITS)(inputs))
    return inputs, keras.layers.Dense(UNITS, "relu")(hidden)


def precision_and_recall(model):
    """Precision of the best label and recall of the `MOST` best, averaged over held-out texts."""
    scores = [model(part) for part in np.array_split(held_out[0], -(-HELD_OUT // 200))]
    found = np.concatenate([tf.math.top_k(part, MOST).indices for part in scores])
    _, labels, numbers = held_out
    present = np.arange(MOST) < numbers[:, None]
    hits = (found[:, :, None] == np.where(present, labels, -1)[:, None]).any(2)
    return hits[:, 0].mean(), (hits.sum(1) / numbers).mean()


# %%
MODELS = {
    "Dense": with_dense,
    "AdaptiveSoftmax": lambda: with_head(
        tfsoftmax.AdaptiveSoftmax(LABELS, [LABELS // 25, LABELS // 5], 2.0, counts=counts)
    ),
    "SampledSoftmax": lambda: with_head(tfsoftmax.SampledSoftmax(LABELS, 1024, counts=counts)),
    "TreeSoftmax": lambda: with_head(tfsoftmax.TreeSoftmax(LABELS, "balanced")),
}
steps = EPOCHS * -(-TEXTS // BATCH)
print(f"{LABELS:,} labels, {hardware()}, {steps:,} steps with batches of {BATCH}\n")
print(f"| | ms a step | precision@1 | recall@{MOST} |")
print("|---|---|---|---|")
for name, build in MODELS.items():
    keras.utils.set_random_seed(1)
    model = build()
    model.fit(batches().take(1), verbose=0)
    start = time.perf_counter()
    model.fit(batches(), shuffle=False, epochs=EPOCHS, verbose=0)
    step = 1000 * (time.perf_counter() - start) / steps
    precision, recall = precision_and_recall(model)
    print(f"| {name} | {step:,.1f} | {precision:.1%} | {recall:.1%} |", flush=True)
