"""Several replicas train as one process does with the same batches: weights, losses, metrics."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import replicas_helper
import tfsoftmax
from tfsoftmax import optimizers, samplers

V, D, B, T = 13, 4, 8, 3
COUNTS = np.arange(V)[::-1] ** 2 + 1


def sampled(kind, sampler=None, num_samples=9, **options):
    counts = None if sampler else COUNTS
    return kind(V, num_samples, sampler=sampler, counts=counts, seed=1, **options)


HEADS = {
    "full": lambda: tfsoftmax.FullSoftmax(V),
    "adaptive": lambda: tfsoftmax.AdaptiveSoftmax(V, cutoffs=[4, 8]),
    "tree": lambda: tfsoftmax.TreeSoftmax(V, counts=COUNTS),
    "sampled": lambda: sampled(tfsoftmax.SampledSoftmax),
    "sampled without replacement": lambda: sampled(
        tfsoftmax.SampledSoftmax, sampler_options={"unique": True}
    ),
    "in batch": lambda: sampled(
        tfsoftmax.SampledSoftmax, samplers.InBatch(V, COUNTS), None
    ),
    "in batch and others": lambda: sampled(
        tfsoftmax.SampledSoftmax, samplers.InBatch(V, COUNTS), 5
    ),
    "nce": lambda: sampled(tfsoftmax.NCE, "learned_unigram"),
    "negative": lambda: sampled(tfsoftmax.NegativeSampling),
    "blackout": lambda: sampled(tfsoftmax.BlackOut),
}
OPTIMIZERS = {
    "sgd": lambda: optimizers.SGD(0.5),
    "momentum, clipped": lambda: optimizers.SGD(0.2, momentum=0.9, global_clipnorm=0.05),
    "adagrad": lambda: optimizers.Adagrad(0.2),
    "adagrad, clipped": lambda: optimizers.Adagrad(0.2, global_clipnorm=0.05),
    "adam": lambda: optimizers.Adam(0.01),
    "adam, clipped": lambda: optimizers.Adam(0.01, global_clipnorm=0.05),
}
REDUCTIONS = ("sum_over_batch_size", "mean_with_sample_weight", "sum_over_steps", "sum")
CASES = [  # head, optimiser, reduction
    ("full", "momentum, clipped", "mean_with_sample_weight"),
    ("adaptive", "adam, clipped", "mean_with_sample_weight"),
    ("tree", "adagrad, clipped", "sum_over_batch_size"),
    ("sampled", "adagrad", "mean_with_sample_weight"),
    ("sampled without replacement", "adagrad, clipped", "sum_over_steps"),
    ("in batch", "adam", "mean_with_sample_weight"),
    ("in batch and others", "momentum, clipped", "sum_over_batch_size"),
    ("nce", "adagrad, clipped", "mean_with_sample_weight"),
    ("negative", "sgd", "sum"),
    ("blackout", "adam", "mean_with_sample_weight"),
]
MAIN = ["full", "sampled", "adaptive", "tree"]
ALL = [(head, optimizer, "mean_with_sample_weight") for head in MAIN for optimizer in OPTIMIZERS]


def data(batches=3):
    """Words, labels, and weights that differ between the replicas' parts of a batch."""
    rng = np.random.default_rng(0)
    words = rng.integers(0, V, size=(batches * B, T + 1)).astype(np.int32)
    weights = rng.uniform(size=(batches * B, T)).astype(np.float32)
    weights[::B] *= 5
    weights[1::B] = 0
    return words[:, :-1].copy(), words[:, 1:].copy(), weights


def compiled(head, optimizer, reduction):
    keras.utils.set_random_seed(1)
    head = HEADS[head]()
    words = keras.Input((T,), dtype="int32")
    hidden = keras.layers.Embedding(V, D)(words)
    model = keras.Model(words, head(keras.layers.Dense(D, activation="tanh")(hidden)))
    perplexity, accuracy = tfsoftmax.Perplexity(), tfsoftmax.metrics.TopKAccuracy(5)
    model.compile(
        OPTIMIZERS[optimizer](), tfsoftmax.SoftmaxLoss(reduction=reduction),
        weighted_metrics=[perplexity, accuracy],
    )
    return model


def trained(case):
    """Whatever a user of `fit` and `evaluate` gets, by its name."""
    words, labels, weights = data()
    model = compiled(*case)
    options = {"batch_size": B, "sample_weight": weights, "verbose": 0}
    history = model.fit(words, labels, epochs=2, shuffle=False, **options).history
    exact = model.evaluate(words, labels, return_dict=True, **options)
    sampler = getattr(model.layers[-1], "sampler", None)
    return {
        "weights": model.get_weights(), "history": history, "evaluate": exact,
        "sampler": [weight.numpy() for weight in sampler.weights] if sampler else [],
        "logits": model.predict(words[:B], B, verbose=0),
    }


def by_replicas(cases, number):
    """The results of cases in one of `number` processes."""
    if number > 1:
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    else:
        strategy = tf.distribute.MirroredStrategy([
            f"CPU:{i}" for i in range(len(tf.config.list_logical_devices("CPU")))
        ])
    with strategy.scope():
        return [trained(case) for case in cases]


def check(cases, devices=1, workers=1):
    results = replicas_helper.run(
        by_replicas, workers, devices, 300, cases=cases, number=workers
    )
    for number, case in enumerate(cases):
        wanted = trained(case)
        for got in results:
            for name in wanted:
                flat = [keras.tree.flatten(result[name]) for result in (got[number], wanted)]
                for x, y in zip(*flat, strict=True):
                    np.testing.assert_allclose(x, y, 1e-5, 1e-6, err_msg=f"{case} {name}")


def test_two_replicas_equal_one():
    check(CASES, devices=2)


def test_four_replicas_equal_one():
    check(CASES[:4], devices=4)


def test_two_workers_equal_one_process():
    check(CASES[:4] + CASES[5:8:2], workers=2)


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [{"devices": 2}, {"devices": 4}, {"workers": 2}])
def test_every_optimizer_trains_on_replicas_as_in_one_process(replicas):
    check(ALL, **replicas)
