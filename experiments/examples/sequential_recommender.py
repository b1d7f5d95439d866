# %% [markdown]
# A sequential recommender: which item does a user take next, after the items that came before?
# SASRec is a Transformer over the items, and GRU4Rec a recurrent network. Both are trained on the
# next item of every position, and judged on the last item of each user.
#
#     python -m experiments.examples.sequential_recommender
#     python -m experiments.examples.sequential_recommender --data=ml-100k --epochs=30
#     python -m experiments.examples.sequential_recommender --data=Beauty.txt --epochs=100 \
#         --length=50 --units=64 --blocks=2 --dropout=0.5 --rate=0.001
#
# The first makes up its users, so that the best NDCG that any model can have is known. The others
# read a folder or a file that you have downloaded and unpacked: MovieLens (ml-100k, ml-1m, ml-25m,
# https://grouplens.org/datasets/movielens), the files of SASRec and S3-Rec, RecBole's NAME.inter,
# or ratings.csv.
#
# Each model has a head over all items and one that samples. Training stops when the NDCG of the
# validation no longer rises. Three seeds show how far an NDCG can be trusted.

# %%
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import argparse
import time

import keras
import numpy as np
import tensorflow as tf

import tfsoftmax
from tfsoftmax.support.hardware import hardware

ITEMS = 2_000
TOPICS = 20
USERS = 4_000
LENGTH = 20
BLOCKS = 1
UNITS = 32
DROPOUT = 0.1
RATE = 0.01
BATCH = 64
JUDGED = 512
NEGATIVES = 256
EPOCHS = 5
SEEDS = 3

parser = argparse.ArgumentParser()
parser.add_argument(
    "--data", "--manual_dir", help="A folder or file with sequences; made-up users without it."
)
parser.add_argument("--epochs", type=int, default=EPOCHS, help="The most epochs of a training.")
parser.add_argument("--length", type=int, default=LENGTH, help="Items that a model sees.")
parser.add_argument("--units", type=int, default=UNITS, help="Units of a model.")
parser.add_argument("--blocks", type=int, default=BLOCKS, help="Blocks of SASRec.")
parser.add_argument("--dropout", type=float, default=DROPOUT, help="Dropout of a model.")
parser.add_argument("--rate", type=float, default=RATE, help="Learning rate of Adam.")
parser.add_argument("--seeds", type=int, default=SEEDS, help="Trainings of each model.")
parser.add_argument("--models", default="", help="Only models with this in their names.")
flags = parser.parse_known_args()[0]
LENGTH, UNITS, BLOCKS = flags.length, flags.units, flags.blocks
DROPOUT, RATE, SEEDS = flags.dropout, flags.rate, flags.seeds

# %% [markdown]
# Items are numbered from 1, since 0 is padding. Made-up users take no item twice. The topic of the
# next item depends on the topics of the last two, and within a topic popular items are likelier.

# %%
rng = np.random.default_rng(0)
topic_of = np.append(-1, np.arange(ITEMS) % TOPICS)
popularity = np.append(0, 1 / (1 + np.arange(ITEMS) // TOPICS))
of_topic = np.bincount(topic_of[1:], popularity[1:])
within = popularity / of_topic[topic_of]  # P(item | its topic)
after_last, after_second = rng.exponential(size=(2, TOPICS, TOPICS)) ** 8
after_last /= after_last.sum(1, keepdims=True)
after_second /= after_second.sum(1, keepdims=True)


def next_topics(histories):
    """P(topic of the next item) of histories (users, 2 or more), (users, TOPICS)."""
    second, last = topic_of[histories[:, -2:].T]
    return 0.6 * after_last[last] + 0.4 * after_second[second]


def made_up_users():
    """The items of each user, in the order of time."""
    members = np.argsort(topic_of[1:], kind="stable").reshape(TOPICS, -1) + 1
    rise = within[members].cumsum(1)
    taken = np.stack([rng.permutation(ITEMS)[:2] + 1 for _ in range(USERS)])
    for _ in range(LENGTH):
        chances, following = next_topics(taken).cumsum(1), np.zeros(USERS, int)
        missing = np.arange(USERS)
        while missing.size:  # an item that the user had is drawn again
            drawn = rng.random((2, missing.size, 1))
            topics = (drawn[0] > chances[missing]).sum(1).clip(max=TOPICS - 1)
            places = (drawn[1] > rise[topics]).sum(1).clip(max=members.shape[1] - 1)
            following[missing] = members[topics, places]
            missing = missing[(taken[missing] == following[missing, None]).any(1)]
        taken = np.column_stack([taken, following])
    lengths = rng.integers(5, LENGTH + 3, USERS)
    return [items[:length] for items, length in zip(taken, lengths)]


def ndcg_of(scores, items):
    """NDCG@10 of the one item that comes next: 1 / log2(1 + its rank)."""
    rank = 1 + (scores > scores[np.arange(len(items)), items][:, None]).sum(1)
    return np.where(rank > 10, 0, 1 / np.log2(1 + rank))


def best_possible(users):
    """NDCG@10 of the true probabilities of the last item, without those that a user had."""
    values = []
    for items in users:
        scores = (next_topics(items[None, :-1])[0, topic_of] * within)[None]
        scores[0, items[:-1]] = 0
        values.append(ndcg_of(scores, items[-1:]))
    return np.mean(values)


if flags.data is None:
    users = made_up_users()
    known, count = best_possible(users), ITEMS + 1
else:
    from experiments.inputs import interactions  # run it in a checkout

    read = interactions.read(flags.data)
    users = [items + 1 for items in read.users if len(items) > 2]
    known, count = None, read.count + 1
    if len(users) < len(read.users):
        print(f"left out: users with fewer than 3 items, {len(read.users) - len(users):,} of all")

# %% [markdown]
# Leave one out: the last item of a user is the test, the one before it the validation, and the rest
# is for training. A model is judged without the items that the user had before, but for the label
# itself, where a user takes an item again. Histories differ in length, so that each batch pads its
# own: some users have thousands of items.


# %%
def padded(lists, width):
    """The last items of lists as an array (lists, width), with zeros on the left."""
    rows = np.zeros((len(lists), width), np.int32)
    for row, items in zip(rows, lists):
        row[max(width - len(items), 0) :] = items[-width:]
    return rows


def in_training():
    """Inputs and, for every position, the next item. Long histories become several sequences."""
    pieces = [
        items[max(end - LENGTH - 1, 0) : end]
        for items in (items[:-2] for items in users) for end in range(len(items), 1, -LENGTH)
    ]
    items = padded([piece[:-1] for piece in pieces], LENGTH)
    following = padded([piece[1:] for piece in pieces], LENGTH)
    return {"items": items, "seen": np.zeros((len(items), 1), np.int32)}, following


def left_out(place):
    """Batches of inputs, and the label of the last position, the items at `place`.

    Labels of 0 do not count.
    """
    before, label = [items[:place] for items in users], [items[place] for items in users]
    others = [items[items != own] for items, own in zip(before, label)]
    seen = tf.RaggedTensor.from_row_lengths(np.concatenate(others), [*map(len, others)])
    items, labels = padded(before, LENGTH), np.zeros((len(users), LENGTH), np.int32)
    labels[:, -1] = label
    items, labels = tf.constant(items), tf.constant(labels)

    def batch(start):
        rows = slice(start, start + JUDGED)
        return {"items": items[rows], "seen": seen[rows].to_tensor()}, labels[rows]

    return tf.data.Dataset.range(0, len(users), JUDGED).map(batch)


train, validation, test = in_training(), left_out(-2), left_out(-1)
counts = np.bincount(train[1].ravel(), minlength=count)
counts[0] = 0
steps = -(-len(train[1]) // BATCH)

# %% [markdown]
# Two baselines: the most popular items, and those that most often followed the last item.


# %%
pairs, times = np.unique(
    train[0]["items"][train[1] > 0].astype(np.int64) * count + train[1][train[1] > 0],
    return_counts=True,
)
ends = np.searchsorted(pairs, np.arange(count + 1) * count)


def followed(item):
    """How often each item followed another one in training, (count,)."""
    own, row = slice(ends[item], ends[item + 1]), np.zeros(count)
    row[pairs[own] % count] = times[own]
    return row


def ndcg_of_counts(pairs_of):
    """NDCG@10 of scores by counts, among the items that a user did not have."""
    values, popular = [], counts / counts.sum()
    for items in users:
        scores = popular + pairs_of(items[-2])
        scores[items[:-1][items[:-1] != items[-1]]] = -1
        values.append(ndcg_of(scores[None], items[-1:]))
    return np.mean(values)

# %% [markdown]
# The models. Both skip masked positions. The head has a kernel of its own; tied to the embedding
# by `tied_to`, the one that samples learnt more slowly. Lists of metrics leave out the items that a
# head is called with as `exclude`; here all positions of a user have the same. Zero is one of them,
# since padding is no item. The sampler never draws it, either.


# %%
def sasrec(hidden):
    for _ in range(BLOCKS):
        hidden = tfsoftmax.TransformerBlock(
            UNITS, attention_heads=2, context=LENGTH, dropout=DROPOUT, return_sequences=True
        )(hidden)
    return keras.layers.LayerNormalization()(hidden)


def gru4rec(hidden):
    hidden = tfsoftmax.GRU(2 * UNITS, return_sequences=True)(hidden)
    return keras.layers.Dense(UNITS)(keras.layers.Dropout(DROPOUT)(hidden))


def full():
    return tfsoftmax.FullSoftmax(count)


def sampled():
    return tfsoftmax.SampledSoftmax(
        count, NEGATIVES, "unigram", counts=counts, sampler_options={"exclude": [0]}
    )


def build(body, head_of):
    items = keras.Input((LENGTH,), dtype="int32", name="items")
    seen = keras.Input((None,), dtype="int32", name="seen")
    embedding = tfsoftmax.Embedding(count, UNITS, mask_zero=True)
    hidden = body(embedding(items))
    model = keras.Model([items, seen], head_of()(hidden, exclude=seen[:, None]))
    model.compile(
        tfsoftmax.optimizers.Adam(RATE), tfsoftmax.SoftmaxLoss(ignore_class=0),
        metrics=[tfsoftmax.metrics.NDCG(10, ignore_class=0),
                 tfsoftmax.metrics.RecallAtK(10, ignore_class=0)],
    )
    return model


MODELS = {
    "SASRec, FullSoftmax": (sasrec, full),
    "SASRec, SampledSoftmax": (sasrec, sampled),
    "GRU4Rec, FullSoftmax": (gru4rec, full),
}


# %% [markdown]
# Training stops early by the NDCG of the validation. The test is looked at once, with the best
# weights.


# %%
class Clock(keras.callbacks.Callback):
    """The seconds of each epoch, without its validation."""

    def __init__(self):
        super().__init__()
        self.seconds = []

    def on_epoch_begin(self, epoch, logs=None):
        self.start = time.perf_counter()

    def on_test_begin(self, logs=None):
        self.seconds.append(time.perf_counter() - self.start)


def trained(model_of, seed):
    """Seconds of the fastest epoch, NDCG and recall of the test, and the epochs of training."""
    keras.utils.set_random_seed(seed)
    model, clock = build(*model_of), Clock()
    stop = keras.callbacks.EarlyStopping(
        "val_ndcg_at_10", mode="max", patience=3, restore_best_weights=True
    )
    model.fit(
        *train, batch_size=BATCH, epochs=flags.epochs, validation_data=validation,
        callbacks=[clock, stop], verbose=0,
    )
    results = model.evaluate(test, return_dict=True, verbose=0)
    keras.backend.clear_session()
    return min(clock.seconds), results["ndcg_at_10"], results["recall_at_10"], len(clock.seconds)


# %%
print(
    f"{count - 1:,} items, {len(users):,} users, {hardware()}, {SEEDS} seeds\n"
    f"{flags.epochs} epochs or fewer of {steps:,} steps with batches of {BATCH}"
)
print(f"NDCG@10 of the most popular items: {ndcg_of_counts(lambda item: 0):.1%}, "
      f"of those that most often followed the last item: {ndcg_of_counts(followed):.1%}")
if known is not None:
    print(f"best possible: NDCG@10 {known:.1%}")
print("\n| | ms a step | NDCG@10 | lowest | highest | recall@10 | epochs |")
print("|---|---|---|---|---|---|---|")
for name, model_of in MODELS.items():
    if flags.models not in name:
        continue
    seconds, ndcg, recall, ended = zip(*(trained(model_of, seed) for seed in range(1, SEEDS + 1)))
    print(
        f"| {name} | {1000 * np.median(seconds) / steps:,.1f} | {np.mean(ndcg):.1%} "
        f"| {min(ndcg):.1%} | {max(ndcg):.1%} | {np.mean(recall):.1%} | {np.mean(ended):.1f} |",
        flush=True,
    )
