"""A catalogue of items that come and go, models of it, and what must stay with each item."""

import keras
import numpy as np

import tfsoftmax
from tfsoftmax import samplers

V, D = 11, 5
BEFORE = [4, -1, 0, 10, 1, -1, 9, 2, 3, 8, 7, -1, 6]  # 5 is gone, and there are three new ones
KEPT = np.flatnonzero(np.array(BEFORE) >= 0)
OLD = np.array(BEFORE)[KEPT]
OPTIMIZERS = {
    "adagrad": lambda: tfsoftmax.optimizers.Adagrad(0.1),
    "adagrad by row": lambda: tfsoftmax.optimizers.Adagrad(0.1, accumulator="row"),
    "adam": lambda: tfsoftmax.optimizers.Adam(0.01, amsgrad=True),
    "average": lambda: tfsoftmax.optimizers.Adagrad(0.1, use_ema=True),
    "accumulate": lambda: tfsoftmax.optimizers.SGD(0.1, gradient_accumulation_steps=3),
    "scaled": lambda: keras.optimizers.LossScaleOptimizer(tfsoftmax.optimizers.Adam(0.01)),
    "keras": lambda: keras.optimizers.Adam(0.01),
    "keras_average": lambda: keras.optimizers.Adam(0.01, use_ema=True),
    "adafactor": lambda: keras.optimizers.Adafactor(0.01),
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
}
HEADS = {
    "full": lambda **options: tfsoftmax.FullSoftmax(V, **options),
    "sampled": lambda **options: tfsoftmax.SampledSoftmax(V, 4, **options),
    "in_batch": lambda **options: tfsoftmax.SampledSoftmax(
        V, 3, samplers.InBatch(V, "learned"), **options),
    "nce": lambda **options: tfsoftmax.NCE(V, 4, counts=np.arange(1, V + 1), **options),
    "negative": lambda **options: tfsoftmax.NegativeSampling(
        V, 4, counts=np.arange(V, 0, -1), **options),
    "blackout": lambda **options: tfsoftmax.BlackOut(V, 4, **options),
}


def data(items=V, seed=0):
    """Pairs of items that were there before, by their ids in the model of so many items."""
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, V, (2, 64))
    if items == V:
        return pairs
    pairs = np.where(pairs == 5, 4, pairs)
    return np.argmax(np.array(BEFORE)[None, None] == pairs[..., None], -1)


def made(head="full", optimizer="adagrad", tied=True, embedding=tfsoftmax.Embedding, **options):
    keras.utils.set_random_seed(1)
    embedding, words = embedding(V, D), keras.Input((), dtype="int32")
    head = HEADS[head](tied_to=embedding if tied else None, **options)
    model = keras.Model(words, head(keras.layers.Dense(D, "tanh")(embedding(words))))
    model.compile(OPTIMIZERS[optimizer](), tfsoftmax.SoftmaxLoss())
    return model


def trained(*args, **kwargs):
    model = made(*args, **kwargs)
    model.fit(*data(), batch_size=8, verbose=0)
    return model


def check_rows(new, old):
    """Each variable with a row for each item has the rows of before, and others are equal."""
    rows = 0
    for variable, before in zip(new, old, strict=True):
        value, earlier = variable.numpy(), before.numpy()
        if value.shape == earlier.shape:
            np.testing.assert_array_equal(value, earlier, err_msg=variable.path)
        else:
            np.testing.assert_array_equal(value[KEPT], earlier[OLD], err_msg=variable.path)
            rows += 1
    return rows


def tower(ids=V):
    kinds = {"id": "int32", "genre": "string"}
    inputs = {name: keras.Input((), dtype=kind, name=name) for name, kind in kinds.items()}
    own = tfsoftmax.Embedding(V, D)(inputs["id"])  # as many rows as there are items, by chance
    genre = tfsoftmax.Embedding(4, D)(keras.layers.Hashing(4)(inputs["genre"]))
    return tfsoftmax.ItemTower(keras.Model(inputs, own + genre), features(ids))


def features(count):
    return {"id": np.arange(count) % V, "genre": [("a", "b", "ç")[i % 3] for i in range(count)]}


def with_tower():
    keras.utils.set_random_seed(1)
    inputs = keras.Input((D,))
    head = tfsoftmax.SampledSoftmax(V, 4, "uniform", tied_to=tower(), use_bias=False)
    model = keras.Model(inputs, head(inputs))
    model.compile(OPTIMIZERS["adam"](), tfsoftmax.SoftmaxLoss())
    hidden = np.random.default_rng(0).normal(size=(32, D))
    model.fit(hidden, np.arange(32) % V, verbose=0)
    return model
