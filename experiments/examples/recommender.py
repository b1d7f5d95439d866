# %% [markdown]
# Two towers over 100,000 items: the tower of items computes a vector from their features, the tower
# of users one from the items that a user had. The score of an item is the product of the two.
#
#     python -m experiments.examples.recommender
#     python -m experiments.examples.recommender --manual_dir=ml-1m
#
# The first makes up its users: the best recall and perplexity that any model can have are known.
# The second reads MovieLens (ml-100k, ml-1m, ml-25m) from a folder that you have downloaded and
# unpacked: https://grouplens.org/datasets/movielens.
#
# Compared are a softmax over the items of the batch in Keras, the loss of TensorFlow Recommenders
# written in Keras (in-batch, with `candidate_sampling_probability` and without accidental hits),
# and heads that are tied to the tower of items. Each takes the same number of steps: one epoch, in
# which every user is seen once. Three seeds show how far a recall can be trusted.

# %%
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import argparse
import time

import keras
import numpy as np
import tensorflow as tf

import tfsoftmax
from tfsoftmax.samplers import InBatch
from tfsoftmax.support.hardware import hardware

ITEMS = 100_000
TOPICS = 100
UNITS = 32
USERS = 80_000
HELD_OUT = 1_000
HISTORY = 10
BATCH = 256
NEAREST = 100
SEEDS = 3

parser = argparse.ArgumentParser()
parser.add_argument("--manual_dir", help="A folder with MovieLens; made-up users without it.")
folder = parser.parse_known_args()[0].manual_dir

# %% [markdown]
# Made-up users. Each has a topic. An item of a user is of this topic with probability 0.8, and any
# item with 0.2; among these, popular ones are likelier. By Bayes' rule, the items that a user had
# give probabilities of the topic, and these the probability of every item. No model can do better.

# %%
rng = np.random.default_rng(0)


def made_up_items():
    topic_of = rng.integers(0, TOPICS, ITEMS)
    topic_of[:TOPICS] = np.arange(TOPICS)
    popularity = rng.permutation(np.arange(1.0, ITEMS + 1) ** -0.8)
    return topic_of, popularity / popularity.sum()


def made_up_users(count, topic_of, popularity):
    """Items (count, HISTORY + 1) int32."""
    by_topic = np.argsort(topic_of, kind="stable")
    rise = np.concatenate([[0], popularity[by_topic].cumsum()])
    ends = np.searchsorted(topic_of[by_topic], np.arange(TOPICS), side="right")
    starts = np.concatenate([[0], ends[:-1]])
    topics = rng.integers(0, TOPICS, count)
    own = rng.random((count, HISTORY + 1)) < 0.8
    low = np.where(own, rise[starts[topics]][:, None], 0)
    high = np.where(own, rise[ends[topics]][:, None], rise[-1])
    place = np.searchsorted(rise, rng.uniform(low, high), side="right") - 1
    return by_topic[place.clip(max=ITEMS - 1)].astype(np.int32)


def best_possible(histories, items, topic_of, popularity):
    """Recall and perplexity of the true probabilities of the next item."""
    of_topic = np.bincount(topic_of, popularity, TOPICS)
    # P(item | topic) = popularity · factor, which differs between two kinds of items only.
    own, other = 0.2 + 0.8 / of_topic, 0.2
    is_own = topic_of[histories][..., None] == np.arange(TOPICS)
    log_posterior = np.log(np.where(is_own, own, other)).sum(1)
    posterior = np.exp(log_posterior - log_posterior.max(1, keepdims=True))
    posterior /= posterior.sum(1, keepdims=True)
    factors = other + posterior * (own - other)  # (users, topics)
    rows = np.arange(len(items))
    nats = -np.log(popularity[items] * factors[rows, topic_of[items]])
    order = np.argsort(-popularity)
    heads = [order[topic_of[order] == topic][:NEAREST] for topic in range(TOPICS)]
    candidates = np.concatenate(heads)
    scores = popularity[candidates] * factors[:, topic_of[candidates]]
    best = candidates[np.argsort(-scores, axis=1)[:, :NEAREST]]
    return (best == items[:, None]).any(1).mean(), np.exp(nats.mean())


if folder is None:
    topic_of, popularity = made_up_items()
    users = made_up_users(USERS + HELD_OUT, topic_of, popularity)
    train, held_out = users[HELD_OUT:], users[:HELD_OUT]
    (histories, labels), (held_histories, held_labels) = (
        (part[:, :-1], part[:, -1]) for part in (train, held_out)
    )
    known = best_possible(held_histories, held_labels, topic_of, popularity)
    # What the catalogue knows of an item: its genre, and numbers, such as its sales, with noise.
    sales = np.log(popularity) + 0.3 * rng.normal(size=ITEMS)
    features = {
        "id": np.arange(ITEMS, dtype=np.int32),
        "genres": np.array([[f"topic {topic}"] for topic in topic_of]),
        "numbers": sales[:, None].astype(np.float32),
    }
else:
    from experiments.inputs import movielens  # run it in a checkout

    films = movielens.read(folder)
    histories, labels, is_last = films.histories(HISTORY)
    held_histories, held_labels = histories[is_last][:HELD_OUT], labels[is_last][:HELD_OUT]
    histories, labels = histories[~is_last], labels[~is_last]
    most, known = max(map(len, films.genres)), None
    features = {
        "id": np.arange(len(films.titles), dtype=np.int32),
        "genres": np.array([(of + [""] * most)[: max(most, 1)] for of in films.genres]),
        "numbers": films.years[:, None],
        "title": np.array(films.titles),
    }

count = len(features["id"])
counts = np.bincount(labels, minlength=count)

# %% [markdown]
# The tower of items: any Keras model of the features, with Keras's preprocessing layers.
# `ItemTower` applies it to a table of features; called with ids, it is an embedding, so that the
# tower of users reads items through it. The cosine of TensorFlow Recommenders' `Retrieval` would be
# `keras.layers.UnitNormalization()` at the end of both towers, and its `temperature` a
# `keras.layers.Rescaling(1 / temperature)` at the end of the users'.


# %%
def item_tower():
    inputs = {
        name: keras.Input(values.shape[1:], name=name,
                          dtype="string" if values.dtype.kind == "U" else values.dtype.name)
        for name, values in features.items()
    }
    genres, numbers = keras.layers.StringLookup(mask_token=""), keras.layers.Normalization()
    genres.adapt(np.unique(features["genres"]))
    numbers.adapt(features["numbers"])
    known_genres = tfsoftmax.Embedding(genres.vocabulary_size(), UNITS, mask_zero=True)
    parts = [
        tfsoftmax.Embedding(count, UNITS)(inputs["id"]),
        keras.layers.GlobalAveragePooling1D()(known_genres(genres(inputs["genres"]))),
        numbers(inputs["numbers"]),
    ]
    if "title" in features:
        titles = keras.layers.TextVectorization(5_000, output_sequence_length=8)
        titles.adapt(features["title"])
        words = tfsoftmax.Embedding(5_000, UNITS, mask_zero=True)(titles(inputs["title"]))
        parts.append(keras.layers.GlobalAveragePooling1D()(words))
    hidden = keras.layers.Dense(2 * UNITS, "relu")(keras.layers.Concatenate()(parts))
    model = keras.Model(inputs, keras.layers.Dense(UNITS)(hidden))
    return tfsoftmax.ItemTower(model, features)


def user_tower(history, items):
    hidden = keras.layers.GlobalAveragePooling1D()(items(history))
    return keras.layers.Dense(UNITS)(keras.layers.Dense(2 * UNITS, "relu")(hidden))


# %% [markdown]
# Heads. With `tied_to`, a step runs the tower on the labels and the samples only, and `evaluate`
# and `top_k` are exact over all items. In `InBatch`, the labels of the batch are the sample, and
# ln q is subtracted, q from the counts. `num_samples` more
# items make it a mixed sample.


# %%
def with_head(sampler=None, num_samples=None, **options):
    items, history = item_tower(), keras.Input((HISTORY,), dtype="int32")
    head = tfsoftmax.SampledSoftmax(
        count, num_samples, sampler, tied_to=items, use_bias=False, **options
    )
    model = keras.Model(history, head(user_tower(history, items)))
    model.compile(tfsoftmax.optimizers.Adam(0.01), tfsoftmax.SoftmaxLoss())
    return model, (histories, labels), model


# %% [markdown]
# Keras's own ways. `InBatchLoss` without counts is a softmax over the items of the batch. With
# them, it is the loss of TensorFlow Recommenders' `Retrieval` task with
# `candidate_sampling_probability` and `remove_accidental_hits`. To evaluate it over all items, we
# tie a head to its tower.


# %%
class InBatchLoss(keras.layers.Layer):
    def __init__(self, probabilities=None):
        super().__init__()
        self.log_q = None
        if probabilities is not None:
            self.log_q = tf.constant(np.log(probabilities.clip(1e-6, 1.0)), tf.float32)

    def call(self, queries, items, ids):
        scores = keras.ops.matmul(queries, keras.ops.transpose(items))
        places = keras.ops.arange(keras.ops.shape(scores)[0])
        if self.log_q is not None:
            scores -= keras.ops.take(self.log_q, ids)
            hits = (ids[:, None] == ids) & (places[:, None] != places)
            scores = keras.ops.where(hits, -1e30, scores)
        self.add_loss(keras.ops.mean(keras.losses.sparse_categorical_crossentropy(
            places, scores, from_logits=True
        )))
        return scores


def in_batch_of_keras(probabilities=None):
    items = item_tower()
    history, item = keras.Input((HISTORY,), dtype="int32"), keras.Input((), dtype="int32")
    queries = user_tower(history, items)
    model = keras.Model([history, item], InBatchLoss(probabilities)(queries, items(item), item))
    model.compile(tfsoftmax.optimizers.Adam(0.01))
    head = tfsoftmax.FullSoftmax(count, tied_to=items, use_bias=False)
    evaluated = keras.Model(history, head(queries))
    evaluated.compile(loss=tfsoftmax.SoftmaxLoss())
    return model, ([histories, labels], None), evaluated


MODELS = {
    "Keras: in-batch": in_batch_of_keras,
    "TFRS's loss in Keras": lambda: in_batch_of_keras(counts / counts.sum()),
    "InBatch": lambda: with_head(InBatch(count, counts)),
    "InBatch and 1,024 uniform": lambda: with_head(InBatch(count, counts), 1024),
    "2,048 by popularity": lambda: with_head("unigram", 2048, counts=counts),
}


# %% [markdown]
# Recall: how often the item that came next is among the `NEAREST` best of all items, which the
# head's `top_k` finds exactly. It holds the scores of a few users at a time.


# %%
def recall_of(model):
    hidden = keras.Model(model.input, model.layers[-1].input).predict(held_histories, verbose=0)
    ids, _ = model.layers[-1].top_k(hidden, NEAREST)
    return (ids.numpy() == held_labels[:, None]).any(1).mean()


def trained(build, seed):
    """Seconds of training, recall and perplexity; the first batch compiles and is not timed."""
    keras.utils.set_random_seed(seed)
    model, (inputs, targets), evaluated = build()
    first = [None if part is None else [x[:BATCH] for x in part] if isinstance(part, list)
             else part[:BATCH] for part in (inputs, targets)]
    model.fit(*first, batch_size=BATCH, verbose=0)
    start = time.perf_counter()
    model.fit(inputs, targets, batch_size=BATCH, verbose=0)
    seconds = time.perf_counter() - start
    nats = evaluated.evaluate(held_histories, held_labels, batch_size=100, verbose=0)
    keras.backend.clear_session()
    return seconds, recall_of(evaluated), np.exp(min(nats, 700))


# %%
popular = np.argsort(-counts)[:NEAREST]
steps = -(-len(labels) // BATCH)
print(f"{count:,} items, {hardware()}, {steps:,} steps with batches of {BATCH}, {SEEDS} seeds")
print(f"recall@{NEAREST} of the most popular items: {np.isin(held_labels, popular).mean():.1%}")
if known is not None:
    print(f"best possible: recall@{NEAREST} {known[0]:.1%}, perplexity {known[1]:,.0f}")
print(f"\n| | ms a step | recall@{NEAREST} | lowest | highest | perplexity |")
print("|---|---|---|---|---|---|")
for name, build in MODELS.items():
    seconds, recalls, perplexities = zip(*(trained(build, seed) for seed in range(1, SEEDS + 1)))
    print(
        f"| {name} | {1000 * np.median(seconds) / steps:,.1f} | {np.mean(recalls):.1%} "
        f"| {min(recalls):.1%} | {max(recalls):.1%} | {np.mean(perplexities):,.0f} |", flush=True,
    )
