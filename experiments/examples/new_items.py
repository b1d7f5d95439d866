# %% [markdown]
# A catalogue that grows from 10,000 to 12,000 items. The tower of items reads their ids and their
# genres. New items have no history, so that only their genres tell who wants them, until users have
# had them for a day.
#
#     python -m experiments.examples.new_items
#
# `tfsoftmax.with_items` copies the trained model for the new catalogue: items keep their rows,
# whatever their new ids, and so do their slots in the optimiser. The model is then asked for new
# items at once, trained on the users of one day, asked again, and exported.

# %%
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import shutil
import tempfile

import keras
import numpy as np
import tensorflow as tf

import tfsoftmax
from tfsoftmax.support.hardware import hardware

BEFORE = 10_000
NEW = 2_000
AFTER = BEFORE + NEW
ROOM = 20_000  # ids that the tower can tell apart
GENRES = 50
UNITS = 32
USERS = 50_000
DAY = 5_000  # users of a day
HELD_OUT = 2_000
HISTORY = 10
NEAREST = 100
BATCH = 256
EPOCHS = 3
SEEDS = 3

# %% [markdown]
# Made-up users. Each likes one genre, of which an item is with probability 0.8. Items have one
# genre each, and within it some are far more popular than others, which ids alone can tell.

# %%
rng = np.random.default_rng(0)
genre_of = rng.integers(0, GENRES, AFTER)
popularity = rng.permutation(np.arange(1.0, AFTER + 1) ** -0.7)


def users(count, items):
    """Items (count, HISTORY + 1) of users, among the first `items` ones."""
    shares = popularity[:items] / popularity[:items].sum()
    chosen = rng.choice(items, (count, HISTORY + 1), p=shares)
    genre = rng.integers(0, GENRES, count)
    for g in range(GENRES):
        of_genre = np.flatnonzero(genre_of[:items] == g)
        rows = np.flatnonzero(genre == g)
        own = rng.choice(of_genre, (len(rows), HISTORY + 1), p=shares[of_genre]
                         / shares[of_genre].sum())
        chosen[rows] = np.where(rng.random(own.shape) < 0.8, own, chosen[rows])
    return chosen.astype(np.int32)


def split(chosen):
    return chosen[:, :-1], chosen[:, -1]


def best_possible(histories, items):
    """Recall of the true probabilities, by Bayes' rule; no model can do better."""
    shares = popularity / popularity.sum()
    own = 0.2 + 0.8 / np.bincount(genre_of, shares)  # P(item | genre) / share, 0.2 in others
    likes = np.log(np.where(genre_of[histories][..., None] == np.arange(GENRES), own, 0.2)).sum(1)
    likes = np.exp(likes - likes.max(1, keepdims=True))
    likes /= likes.sum(1, keepdims=True)
    scores = shares * (0.2 + likes * (own - 0.2))[:, genre_of]
    at_label = np.take_along_axis(scores, items[:, None], 1)
    return np.mean((scores > at_label).sum(1) < NEAREST)


first, day, held_out = users(USERS, BEFORE), users(DAY, AFTER), users(20 * HELD_OUT, AFTER)
is_new = held_out[:, -1] >= BEFORE
wanted = {"new": split(held_out[is_new][:HELD_OUT]), "old": split(held_out[~is_new][:HELD_OUT])}

# %% [markdown]
# The towers. Vectors of ids begin with zeros, and those of ids without history stay zero. Dropout
# in training makes half of the ids look like that, so that the genre learns to stand for them.


# %%
def features(items):
    return {"id": np.arange(items, dtype=np.int32), "genre": genre_of[:items].astype(np.int32)}


def two_towers(items, dropout=0.5):
    inputs = {name: keras.Input((), dtype="int32", name=name) for name in ("id", "genre")}
    vectors = tfsoftmax.Embedding(GENRES, UNITS)(inputs["genre"])
    own = tfsoftmax.Embedding(ROOM, UNITS, "zeros")(inputs["id"])
    own = keras.layers.Dropout(dropout, noise_shape=(None, 1))(own)
    model = keras.Model(inputs, keras.layers.Add()([vectors, own]))
    tower = tfsoftmax.ItemTower(model, features(items))
    history = keras.Input((HISTORY,), dtype="int32", name="history")
    hidden = keras.layers.GlobalAveragePooling1D()(tower(history))
    hidden = keras.layers.Dense(UNITS)(keras.layers.Dense(64, "relu")(hidden))
    head = tfsoftmax.SampledSoftmax(items, 1024, "uniform", tied_to=tower, use_bias=False)
    model = keras.Model(history, head(hidden))
    model.compile(tfsoftmax.optimizers.Adam(0.003), tfsoftmax.SoftmaxLoss(),
                  metrics=[tfsoftmax.metrics.RecallAtK(NEAREST)])
    return model


def recall(model, which):
    return model.evaluate(*wanted[which], batch_size=500, verbose=0)[1]


def train(model, chosen):
    model.fit(*split(chosen), BATCH, EPOCHS, verbose=0)


# %%
VARIANTS = {"ids are never left out": 0.0, "half of the ids are left out": 0.5}
results = {name: [] for name in (*VARIANTS, "a new model, one day")}
for seed in range(SEEDS):
    for name, dropout in VARIANTS.items():
        keras.utils.set_random_seed(seed)
        model = two_towers(BEFORE, dropout)
        train(model, first)
        grown = tfsoftmax.with_items(model, [*range(BEFORE), *[-1] * NEW],
                                     features(AFTER))
        at_once = [recall(grown, "new"), recall(grown, "old")]
        train(grown, day)
        results[name].append([*at_once, recall(grown, "new"), recall(grown, "old")])
    keras.utils.set_random_seed(seed)
    fresh = two_towers(AFTER)
    train(fresh, day)
    results["a new model, one day"].append(
        [np.nan, np.nan, recall(fresh, "new"), recall(fresh, "old")])

print(f"{BEFORE:,} items grow to {AFTER:,}, {hardware()}, {SEEDS} seeds")
steps = [-(-count // BATCH) for count in (USERS, DAY)]
print(f"{EPOCHS} epochs of {steps[0]}, then of {steps[1]} steps with batches of {BATCH}")
print(f"recall@{NEAREST} of items that are new, and of those that are not\n")
best = [best_possible(*wanted[which]) for which in ("new", "old")]
results["best possible"] = [[*best, *best]]
print("| | new, at once | old, at once | new, after a day | old, after a day |")
print("|---|---|---|---|---|")
for name, values in results.items():
    cells = [f"{x:.1%}" if np.isfinite(x) else "–" for x in np.mean(values, axis=0)]
    print(f"| {name} | {' | '.join(cells)} |")

# %% [markdown]
# The model is served with the names of the 12,000 items. Item 3 was retired.

# %%
served = os.path.join(tempfile.mkdtemp(), "served")
fewer = tfsoftmax.with_items(grown, range(AFTER), not_items=[3])
names = [f"item {i}" for i in range(AFTER)]
tfsoftmax.export_retrieval(fewer, served, k=NEAREST, ids=names)
retrieve = tf.saved_model.load(served).signatures["retrieve"]
histories = tf.constant(wanted["new"][0][:500])
found = retrieve(history=histories, exclude=tf.fill([len(histories), 1], ""))
found = found["ids"].numpy().astype(str)
new = np.mean([int(name.split()[1]) >= BEFORE for name in found.ravel()])
print(f"\nserved: {new:.0%} of what it lists for {len(histories)} users are new items, "
      f"and item 3 is listed {np.sum(found == 'item 3')} times")
shutil.rmtree(os.path.dirname(served))
