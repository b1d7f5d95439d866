"""Recall and NDCG of recommenders on a split into train.txt and test.txt, as NGCF measures them.

    python -m experiments.measurements.recall_at_20 --data=gowalla

Gowalla, Yelp2018 and Amazon-Book have this form in the repositories of NGCF and LightGCN. A
recommender gets the training items of a user and lists the 20 best of all other items. Recall is
the share of the user's test items that are in the list, NDCG divides by the DCG of min(20, test
items) hits, and both are averaged over the users with test items.

Compared are the most popular items, ItemKNN, and a model in the manner of YouTubeDNN: the sum of
the vectors of the user's other items, divided by the root of their number, and `SampledSoftmax`. A
tenth of the training items of each user is the validation. Its recall, of 5,000 users, decides how
many neighbours ItemKNN has and, with the seed 0, after how many epochs training stops. Then each
seed trains a model on all training items for so many epochs. The test is looked at once for each
row.

Source of the protocol: Wang et al. 2019 (NGCF), He et al. 2020 (LightGCN). Published figures: the
BARS leaderboards (Zhu et al. 2022; github.com/reczoo/BARS, docs/Matching/leaderboard).
"""

import pathlib
import resource
import sys
import time

import numpy as np
import tfsoftmax_command  # noqa: F401  (imported before the package, which then skips TensorFlow)
from absl import flags

from experiments.framework import markdown
from tfsoftmax.commands import program
from tfsoftmax.support.arguments import expect

K = 20
AT_ONCE = 256  # users or items whose scores of all items are held
NEIGHBOURS = (20, 100, 400)
PIECE = 100  # items of a row of a batch
BATCH = 64
SAMPLES = 2_048
RATE = 0.003
DROPOUT = 0.5
# {start of the folder's name, without punctuation: {row: (recall@20, NDCG@20)}}
PUBLISHED = {
    "gowalla": {"ItemKNN": (0.1570, 0.1214), "YouTubeDNN": (0.1754, 0.1473),
                "LightGCN": (0.1820, 0.1547)},
    "yelp": {"ItemKNN": (0.0639, 0.0531), "YouTubeDNN": (0.0686, 0.0567),
             "LightGCN": (0.0653, 0.0532)},
    "amazonbook": {"ItemKNN": (0.0736, 0.0606), "YouTubeDNN": (0.0502, 0.0388),
                   "LightGCN": (0.0411, 0.0318)},
}


def measured(found, relevant):
    """(recall@20, NDCG@20) of lists (U, 20) of items, -1 in empty places; U arrays are relevant."""
    from tfsoftmax.metrics import NDCG, RecallAtK

    metrics = RecallAtK(K), NDCG(K)
    for start in range(0, len(found), AT_ONCE):
        rows = slice(start, start + AT_ONCE)
        for metric in metrics:
            metric.update_state(padded(relevant[rows], -1), found[rows])
    return tuple(float(metric.result()) for metric in metrics)


def padded(lists, fill):
    """Lists as one array (lists, longest), at least one wide, filled up on the right."""
    rows = np.full((len(lists), max(1, *map(len, lists))), fill, np.int32)
    for row, items in zip(rows, lists):
        row[: len(items)] = items
    return rows


def listed(scores_of, users):
    """Lists (U, 20) of the best items by scores, without those of the user.

    Args:
        scores_of: a function of n users to their scores (n, V), all positive or zero.
        users: U arrays of items.
    """
    import tensorflow as tf

    found = []
    for start in range(0, len(users), AT_ONCE):
        own = users[start : start + AT_ONCE]
        scores = np.array(scores_of(own), np.float32)
        scores[np.repeat(np.arange(len(own)), [*map(len, own)]), np.concatenate(own)] = -1
        found.append(tf.math.top_k(scores, K).indices.numpy())
    return np.concatenate(found)


def split(users, rng):
    """The items of each user as (training, validation); a tenth of two or more is validation."""
    mixed = [rng.permutation(items) for items in users]
    sizes = [max(1, len(items) // 10) if len(items) > 1 else 0 for items in mixed]
    return ([items[size:] for items, size in zip(mixed, sizes)],
            [items[:size] for items, size in zip(mixed, sizes)])


def some(lists):
    """The lists of 5,000 users, the same ones for all lists, or of all users if they are fewer."""
    return [lists[user] for user in np.random.default_rng(0).permutation(len(lists))[:5_000]]


class ItemKNN:
    """Scores an item by the cosines of those of its nearest items that the user has.

    Args:
        users: U arrays of items.
        count: V.
        most: the largest number of nearest items that are kept.

    Source: Sarwar et al. 2001, with cosines of sets.
    """

    def __init__(self, users, count, most):
        self.count = count
        rows, items = np.divmod(np.unique(
            np.repeat(np.arange(len(users)), [*map(len, users)]) * count + np.concatenate(users)
        ), count)
        ends = np.searchsorted(rows, np.arange(len(users) + 1))
        by_item = np.argsort(items, kind="stable")
        self.norms = np.sqrt(np.bincount(items, minlength=count)).clip(min=1)
        found = []
        for start in range(0, count, AT_ONCE):
            own = by_item[slice(*np.searchsorted(items[by_item], [start, start + AT_ONCE]))]
            places, lengths = expanded(ends, rows[own])
            cells = np.repeat(items[own] - start, lengths) * count + items[places]
            size = min(AT_ONCE, count - start)
            cosines = np.bincount(cells, minlength=size * count).reshape(size, count)
            cosines = cosines / self.norms / self.norms[start : start + size, None]
            cosines[np.arange(size), np.arange(start, start + size)] = 0
            best = np.argpartition(-cosines, min(most, count) - 1, axis=1)[:, :most]
            values = np.take_along_axis(cosines, best, 1)
            order = np.argsort(-values, axis=1)
            item, rank = np.nonzero(np.take_along_axis(values, order, 1))
            near = order[item, rank]
            found.append((best[item, near], item + start, rank, values[item, near]))
        near, *others = map(np.concatenate, zip(*found))
        order = np.argsort(near, kind="stable")
        self.items, self.ranks, self.cosines = (each[order] for each in others)
        self.ends = np.searchsorted(near[order], np.arange(count + 1))

    def scores(self, users, neighbours):
        """Scores (n, V) of n arrays of items, with so many nearest items."""
        places, lengths = expanded(self.ends, np.concatenate(users))
        rows = np.repeat(np.repeat(np.arange(len(users)), [*map(len, users)]), lengths)
        weights = self.cosines[places] * (self.ranks[places] < neighbours)
        cells = rows * self.count + self.items[places]
        scores = np.bincount(cells, weights, minlength=len(users) * self.count)
        return scores.reshape(len(users), self.count)


def expanded(ends, groups):
    """The places of all members of groups, one after the other, and how many each has.

    Group g has the places ends[g] to ends[g + 1] - 1.
    """
    lengths = ends[groups + 1] - ends[groups]
    first = np.repeat(ends[groups] - np.cumsum(lengths) + lengths, lengths)
    return first + np.arange(lengths.sum()), lengths


def model_of_others(count, counts, units):
    """A model of rows of items (B, L), which predicts each item by the others, and its head.

    Items are numbered from 1, and 0 is padding. The hidden state of a place is Σ v / √n over the
    vectors v of the n other items of the row, and zero if there are none. At a place of padding, it
    has all items of the row. In training, each item is left out of the sum with a probability of
    `DROPOUT`.
    """
    import keras

    from tfsoftmax.heads import SampledSoftmax
    from tfsoftmax.layers.embedding import Embedding
    from tfsoftmax.losses import SoftmaxLoss
    from tfsoftmax.optimizers import Adam

    items = keras.Input((None,), dtype="int32", name="items")
    vectors = Embedding(count + 1, units)(items)
    real = keras.ops.cast(items > 0, "float32")[..., None]
    real = keras.layers.Dropout(DROPOUT, noise_shape=(None, None, 1))(real)
    vectors *= real
    others = keras.ops.sum(real, 1, keepdims=True) - real
    hidden = keras.ops.sum(vectors, 1, keepdims=True) - vectors
    hidden /= keras.ops.sqrt(keras.ops.maximum(others, 1.0))
    head = SampledSoftmax(
        count + 1, SAMPLES, "unigram", counts=np.append(0, counts), not_items=[0])
    model = keras.Model(items, head(hidden))
    model.compile(Adam(RATE), SoftmaxLoss(ignore_class=0))
    return model, head


def pieces(users, rng):
    """Rows (N, PIECE) of items from 1, in any order, padded with 0; long users have several."""
    mixed = [rng.permutation(items) + 1 for items in users if len(items) > 1]
    cut = [part for items in mixed for part in np.array_split(items, -(-len(items) // PIECE))]
    return padded(cut, 0)[rng.permutation(len(cut))]


def listed_by_model(model, head, users):
    """Lists (U, 20) of the best items, without those of the user."""
    import keras

    queries, found = keras.Model(model.input, head.input), []
    for start in range(0, len(users), AT_ONCE):
        items = padded([np.append(own + 1, 0) for own in users[start : start + AT_ONCE]], 0)
        hidden = queries(items)[:, -1]  # a place of padding, which sees the whole row
        found.append(head.top_k(hidden, K, exclude=items)[0].numpy() - 1)
    return np.concatenate(found)


def trained(data, train, seed, units, epochs, validation=None, patience=3):
    """A model that was trained on the items of users, its head, and the best number of epochs.

    Args:
        data: `Interactions`.
        train: U arrays, the items to train on.
        validation: U arrays, other items. Training stops when their recall has not risen for
            `patience` epochs. None to train for all of `epochs`.
    """
    import keras

    keras.utils.set_random_seed(seed)
    rng, recalls = np.random.default_rng(seed), []
    counts = np.bincount(np.concatenate(train), minlength=data.count)
    model, head = model_of_others(data.count, counts, units)
    for _ in range(epochs):
        rows = pieces(train, rng)
        model.fit(rows, rows, batch_size=BATCH, verbose=0)
        if validation is not None:
            found = listed_by_model(model, head, some(train))
            recalls.append(measured(found, some(validation))[0])
            if len(recalls) > np.argmax(recalls) + patience:
                break
    return model, head, 1 + int(np.argmax(recalls)) if recalls else epochs


def rows_of(data, units, epochs, seeds):
    """Yields (name, (recall, NDCG) of each seed, seconds) of each recommender."""
    train, validation = split(data.users, np.random.default_rng(0))
    start = time.perf_counter()
    counts = np.bincount(np.concatenate(data.users), minlength=data.count)
    found = listed(lambda users: np.tile(counts, (len(users), 1)), data.users)
    yield "most popular", [measured(found, data.test)], time.perf_counter() - start

    start = time.perf_counter()
    nearest = ItemKNN(train, data.count, max(NEIGHBOURS))
    recalls = [
        measured(listed(lambda users, k=k: nearest.scores(users, k), some(train)),
                 some(validation))[0] for k in NEIGHBOURS
    ]
    best = NEIGHBOURS[np.argmax(recalls)]
    nearest = ItemKNN(data.users, data.count, best)
    found = listed(lambda users: nearest.scores(users, best), data.users)
    yield f"ItemKNN, {best} neighbours", [measured(found, data.test)], time.perf_counter() - start

    start, values = time.perf_counter(), []
    *_, ended = trained(data, train, 0, units, epochs, validation)
    for seed in range(1, seeds + 1):
        model, head, _ = trained(data, data.users, seed, units, ended)
        values.append(measured(listed_by_model(model, head, data.users), data.test))
    name = f"YouTubeDNN, SampledSoftmax, {ended} epochs"
    yield name, values, time.perf_counter() - start


def cells_of(name, values, seconds, known):
    """A row of the table, with the figures of `known` {name: (recall, NDCG)} beside ours."""
    recalls, ndcgs = zip(*values)
    spread = f"{min(recalls):.4f} to {max(recalls):.4f}" if len(values) > 1 else ""
    published = next((known[key] for key in known if name.startswith(key)), None)
    return [name, f"{np.mean(recalls):.4f}", spread, f"{np.mean(ndcgs):.4f}", f"{seconds:,.0f}",
            *(f"{value:.4f}" for value in published or ())] + [""] * (0 if published else 2)


def main():
    """Prints the table, a row as soon as it is known."""
    program.load_tensorflow()
    from experiments.inputs import interactions
    from tfsoftmax.support.hardware import hardware

    options = flags.FLAGS
    data = interactions.read(options.data)
    expect(data.test is not None, "data", "have train.txt and test.txt", options.data)
    folder = "".join(filter(str.isalnum, pathlib.Path(options.data).resolve().name.lower()))
    known = next((PUBLISHED[key] for key in PUBLISHED if folder.startswith(key)), {})
    taken, held_out = (sum(map(len, lists)) for lists in (data.users, data.test))
    rows = [["", f"recall@{K}", "seeds", f"NDCG@{K}", "seconds", "published recall", "NDCG"]]
    for row in rows_of(data, options.units, options.epochs, options.seeds):
        rows.append(cells_of(*row, known))
        print(*rows[-1], file=sys.stderr, flush=True)  # long before the others
    rows += [[name, *[""] * 4, *map("{:.4f}".format, known[name])] for name in known
             if not any(row[0].startswith(name) for row in rows)]
    print(f"{data.count:,} items, {len(data.users):,} users, {taken:,} interactions, {held_out:,} "
          f"of the test\n{hardware()}, {options.units} units, {options.seeds} seeds\n")
    print(markdown.table(rows))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"\nThe process held {peak:.1f} GiB at most.")


if __name__ == "__main__":
    flags.DEFINE_string("data", None, "Folder with train.txt and test.txt.", required=True)
    flags.DEFINE_integer("units", 64, "Units of the vectors.")
    flags.DEFINE_integer("epochs", 50, "The most epochs of a training.")
    flags.DEFINE_integer("seeds", 3, "Trainings with different seeds.")
    program.run(main, __doc__, sys.argv)
