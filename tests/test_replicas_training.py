"""Several replicas train as one process does with the same batches: weights, losses, metrics."""

import keras
import numpy as np
import pytest

import replicas_helper
import tfsoftmax
from replicas_helper import strategy_here
from tfsoftmax import optimizers, samplers

V, D, B, T = 13, 4, 8, 3
COUNTS = np.arange(V)[::-1] ** 2 + 1


def sampled(kind, sampler=None, num_samples=9, **options):
    counts = None if sampler else COUNTS
    return kind(V, num_samples, sampler=sampler, counts=counts, seed=1, **options)


HEADS = {
    "full": lambda **name: tfsoftmax.FullSoftmax(V, **name),
    "adaptive": lambda **name: tfsoftmax.AdaptiveSoftmax(V, cutoffs=[4, 8], **name),
    "tree": lambda **name: tfsoftmax.TreeSoftmax(V, counts=COUNTS, **name),
    "sampled": lambda **name: sampled(tfsoftmax.SampledSoftmax, **name),
    "without_replacement": lambda **name: sampled(
        tfsoftmax.SampledSoftmax, sampler_options={"unique": True}, **name
    ),
    "in_batch": lambda **name: sampled(
        tfsoftmax.SampledSoftmax, samplers.InBatch(V, COUNTS), None, **name
    ),
    "in_batch_and_others": lambda **name: sampled(
        tfsoftmax.SampledSoftmax, samplers.InBatch(V, COUNTS), 5, **name
    ),
    "nce": lambda **name: sampled(tfsoftmax.NCE, "learned_unigram", **name),
    "negative": lambda **name: sampled(tfsoftmax.NegativeSampling, **name),
    "blackout": lambda **name: sampled(tfsoftmax.BlackOut, **name),
}
OPTIMIZERS = {
    "sgd": lambda: optimizers.SGD(0.02),
    "momentum, clipped": lambda: optimizers.SGD(0.2, momentum=0.9, global_clipnorm=0.05),
    "adagrad": lambda: optimizers.Adagrad(0.2),
    "adagrad, clipped": lambda: optimizers.Adagrad(0.2, global_clipnorm=0.05),
    "adam": lambda: optimizers.Adam(0.01),
    "adam, clipped": lambda: optimizers.Adam(0.01, global_clipnorm=0.05),
}
MAIN = ("full", "sampled", "adaptive", "tree")
SAMPLED = ("without_replacement", "in_batch", "nce")
OTHERS = ("in_batch_and_others", "negative", "blackout")
REDUCTIONS = ("mean_with_sample_weight", "sum_over_batch_size", "sum_over_steps", "sum")
# heads of one model, and its optimiser
CASES = [(MAIN, "momentum, clipped"), (SAMPLED, "adagrad"), (OTHERS, "adagrad")]
OF_WORKERS = [(("adaptive", "tree", "nce", "in_batch", "sampled"), "adam, clipped")]


def data(batches=3):
    """Words, labels, and weights that differ between the replicas' parts of a batch."""
    rng = np.random.default_rng(0)
    words = rng.integers(0, V, size=(batches * B, T + 1)).astype(np.int32)
    weights = rng.uniform(size=(batches * B, T)).astype(np.float32)
    weights[::B] *= 5
    weights[1::B] = 0
    weights[: B // 2] = 0  # all of the first of two replicas in the first batch
    return words[:, :-1].copy(), words[:, 1:].copy(), weights


def compiled(heads, optimizer):
    """A model with several heads, since most of the time goes into building the graph of `fit`."""
    keras.utils.set_random_seed(1)
    heads = [HEADS[name](name=name) for name in heads]
    words = keras.Input((T,), dtype="int32")
    hidden = keras.layers.Embedding(V, D)(words)
    hidden = keras.layers.Dense(D, activation="tanh")(hidden)
    reductions = [REDUCTIONS[number % len(REDUCTIONS)] for number in range(len(heads))]
    model = keras.Model(words, [head(hidden) for head in heads])
    model.compile(
        OPTIMIZERS[optimizer](),
        [tfsoftmax.SoftmaxLoss(reduction=reduction) for reduction in reductions],
        weighted_metrics=[[tfsoftmax.Perplexity()] for _ in heads],
    )
    return model, heads


def trained(case):
    """Whatever a user of `fit` and `evaluate` gets, by its name."""
    words, labels, weights = data()
    model, heads = compiled(*case)
    options = {
        "x": words, "y": [labels] * len(heads), "sample_weight": [weights] * len(heads),
        "batch_size": B, "verbose": 0,
    }
    history = model.fit(epochs=2, shuffle=False, **options).history
    samplers = [head.sampler for head in heads if hasattr(head, "sampler")]
    return {
        "weights": {weight.path: weight.numpy() for weight in model.weights},
        "samplers": [weight.numpy() for sampler in samplers for weight in sampler.weights],
        "history": history,
        "evaluate": model.evaluate(return_dict=True, **options),
    }


def by_replicas(cases):
    """The results of cases in one of the processes."""
    with strategy_here().scope():
        return [trained(case) for case in cases]


def check(cases, devices=1, workers=1, seconds=300):
    results = replicas_helper.run(by_replicas, workers, devices, seconds, cases=cases)
    for number, case in enumerate(cases):
        wanted = trained(case)
        for got in results:
            for name in wanted:
                pairs = keras.tree.flatten_with_path(wanted[name])
                for (path, y), x in zip(pairs, keras.tree.flatten(got[number][name]), strict=True):
                    np.testing.assert_allclose(x, y, 1e-5, 1e-6, err_msg=f"{case} {name} {path}")


@pytest.mark.parametrize("case", CASES)
def test_two_replicas_equal_one(case):
    check([case], devices=2)


@pytest.mark.slow
def test_four_replicas_equal_one():
    check([(("full", "sampled"), "momentum, clipped")], devices=4)


@pytest.mark.slow
def test_two_workers_equal_one_process():
    check(OF_WORKERS, workers=2)


def moved_in_bfloat16(parts):
    """How far a step of SGD moves each weight: the sum over parts of the batch, in float64."""
    words, labels, _ = data(batches=1)
    policy = keras.DTypePolicy("mixed_bfloat16")
    with strategy_here().scope():
        keras.utils.set_random_seed(1)
        ids = keras.Input((T,), dtype="int32")
        hidden = tfsoftmax.Embedding(V, 16, dtype=policy)(ids)
        hidden = tfsoftmax.LSTM(16, return_sequences=True, dtype=policy)(hidden)
        model = keras.Model(ids, tfsoftmax.FullSoftmax(V, dtype=policy)(hidden))
        model.compile(optimizers.SGD(1.0), tfsoftmax.SoftmaxLoss(reduction="sum"))
    before, total = model.get_weights(), 0
    for first, last in parts:
        model.set_weights(before)
        model.fit(words[first:last], labels[first:last], batch_size=B, verbose=0, shuffle=False)
        total += np.concatenate([
            (after.astype(np.float64) - weight).ravel()
            for after, weight in zip(model.get_weights(), before, strict=True)
        ])
    return total


@pytest.mark.slow
def test_gradients_in_bfloat16_are_summed_over_replicas_in_float32():
    """One device rounds the products of the whole batch to bfloat16, and two those of each half."""
    (two,) = replicas_helper.run(moved_in_bfloat16, devices=2, parts=[(0, B)])
    halves = moved_in_bfloat16([(0, B // 2), (B // 2, B)])
    np.testing.assert_allclose(two, halves, rtol=1e-6, atol=1e-6)
    whole = moved_in_bfloat16([(0, B)])
    assert np.abs(two - whole).max() > 1e-5, "this must not be a test of float32"


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [{"devices": 2}, {"devices": 4}, {"workers": 2}])
def test_every_optimizer_trains_on_replicas_as_in_one_process(replicas):
    check([(MAIN, optimizer) for optimizer in OPTIMIZERS], seconds=1200, **replicas)
