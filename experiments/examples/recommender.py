# %% [markdown]
# Two towers over 500,000 items in Keras: `Dense` against `SampledSoftmax` with negatives drawn by
# popularity, and with in-batch negatives, with and without the correction by ln q.
#
#     python -m experiments.examples.recommender
#
# The tower of an item is its embedding. The tower of users reads the embeddings of the items that
# the user had before. The score of an item is the product of the two. Users are made up: each has a
# topic, and most of a user's items are of that topic, popular ones more often. All models are
# trained for the same number of seconds, not counting the first step, which compiles.
#
# Popular items are often negatives. With the correction by ln q, scores approach log-probabilities.
# Without it they approach ln P - ln q: how much more a user likes an item than others do.
# Perplexity tells the two apart.

# %%
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

import tfsoftmax
from experiments.stop_after import StopAfter
from tfsoftmax.hardware import hardware
from tfsoftmax.samplers import InBatch

ITEMS = 500_000
TOPICS = 100
UNITS = 32
USERS = 400_000
HELD_OUT = 2_000
HISTORY = 10
BATCH = 256
NEAREST = 100
SECONDS = 8.0

# %% [markdown]
# A user's `HISTORY` items, and the item that comes next.

# %%
rng = np.random.default_rng(0)
topic_of = rng.integers(0, TOPICS, ITEMS)
topic_of[:TOPICS] = np.arange(TOPICS)
popularity = rng.permutation(np.arange(1.0, ITEMS + 1) ** -0.8)
by_topic = np.argsort(topic_of, kind="stable")
rise = np.concatenate([[0], popularity[by_topic].cumsum()])
ends = np.searchsorted(topic_of[by_topic], np.arange(TOPICS), side="right")
starts = np.concatenate([[0], ends[:-1]])


def users(count):
    """Items (count, HISTORY + 1) int32, and the users' topics."""
    topics = rng.integers(0, TOPICS, count)
    own = rng.random((count, HISTORY + 1)) < 0.8
    low = np.where(own, rise[starts[topics]][:, None], 0)
    high = np.where(own, rise[ends[topics]][:, None], rise[-1])
    place = np.searchsorted(rise, rng.uniform(low, high), side="right") - 1
    return by_topic[place.clip(max=ITEMS - 1)].astype(np.int32), topics


train, _ = users(USERS)
held_out, topics = users(HELD_OUT)
counts = np.bincount(train[:, -1], minlength=ITEMS)

# %% [markdown]
# The towers. `tied_to` makes the items' embedding the kernel of the head. An item's bias starts at
# the logarithm of its popularity, so that the untrained model recommends the most popular items.

# %%
bias = keras.initializers.Constant(np.log((counts + 1) / (counts + 1).sum()))


def tower(items, embedding):
    hidden = keras.layers.GlobalAveragePooling1D()(embedding(items))
    return keras.layers.Dense(UNITS)(keras.layers.Dense(2 * UNITS, "relu")(hidden))


def with_dense():
    items = keras.Input((HISTORY,), dtype="int32")
    hidden = tower(items, keras.layers.Embedding(ITEMS, UNITS))
    model = keras.Model(items, keras.layers.Dense(ITEMS, bias_initializer=bias)(hidden))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss=loss)
    return model


def with_samples(sampler, num_samples=None, bias=bias):
    items = keras.Input((HISTORY,), dtype="int32")
    embedding = tfsoftmax.Embedding(ITEMS, UNITS)
    head = tfsoftmax.SampledSoftmax(
        ITEMS, num_samples, sampler, counts=counts, tied_to=embedding, bias_initializer=bias,
        name="head",
    )
    model = keras.Model(items, head(tower(items, embedding)))
    model.compile(tfsoftmax.optimizers.Adam(0.01), loss=tfsoftmax.SoftmaxLoss())
    return model


MODELS = {
    "Dense": with_dense,
    "SampledSoftmax, 2,048 by popularity": lambda: with_samples("unigram", 2048),
    "SampledSoftmax, in-batch, corrected by ln q": lambda: with_samples(InBatch(ITEMS, counts)),
    "the same without the correction": lambda: with_samples(InBatch(ITEMS, np.ones(ITEMS))),
    "the same, biases from zero": lambda: with_samples(
        InBatch(ITEMS, np.ones(ITEMS)), bias="zeros"
    ),
}


# %% [markdown]
# Recall: how often the item that came next is among the `NEAREST` best of all items. The head's
# `top_k` and `evaluate` hold the scores of a few users at a time; with `Dense` we must do so.


# %%
def recall(found):
    return (found == held_out[:, -1:]).any(1).mean()


def likeliest(model):
    """The best items (HELD_OUT, NEAREST) of each held-out user."""
    history = held_out[:, :-1]
    if model.layers[-1].name == "head":
        hidden = keras.Model(model.input, model.layers[-1].input).predict(history, verbose=0)
        return model.layers[-1].top_k(hidden, NEAREST)[0].numpy()
    parts = [model(part) for part in np.array_split(history, -(-HELD_OUT // 100))]
    return np.concatenate([tf.math.top_k(part, NEAREST).indices for part in parts])


# %%
popular = np.argsort(-counts)[:NEAREST]
best_of_topic = [
    by_topic[s:e][np.argsort(-popularity[by_topic[s:e]])[:NEAREST]] for s, e in zip(starts, ends)
]
known = np.mean([item in best_of_topic[t] for item, t in zip(held_out[:, -1], topics)])
print(f"{ITEMS:,} items, {hardware()}, {SECONDS:g} s of training each, batches of {BATCH}")
print(f"recall@{NEAREST} of the most popular items: {recall(popular[None]):.1%}, "
      f"of the most popular of the user's topic: {known:.1%}\n")
print(f"| | steps | ms a step | recall@{NEAREST} | perplexity |")
print("|---|---|---|---|---|")
for name, build in MODELS.items():
    keras.utils.set_random_seed(1)
    model, clock = build(), StopAfter(SECONDS)
    model.fit(
        train[:, :-1], train[:, -1], batch_size=BATCH, epochs=100, verbose=0, callbacks=[clock]
    )
    nats = model.evaluate(held_out[:, :-1], held_out[:, -1], batch_size=100, verbose=0)
    print(
        f"| {name} | {clock.steps:,} | {1000 * clock.step_seconds():,.1f} "
        f"| {recall(likeliest(model)):.1%} | {np.exp(min(nats, 700)):,.0f} |", flush=True,
    )
