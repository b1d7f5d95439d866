"""Layers whose rows are divided among replicas learn what the whole ones learn on one device."""

import keras
import numpy as np
import pytest

import replicas_helper
from test_sharded import RULES, B, D, T, V, batches, local_rows, strategy_here, whole
from tfsoftmax import (
    NCE,
    AdaptiveSoftmax,
    BlackOut,
    Embedding,
    FullSoftmax,
    NegativeSampling,
    Perplexity,
    SampledSoftmax,
    ShardedEmbedding,
    ShardedSoftmax,
    SoftmaxLoss,
    TwoLevelSoftmax,
    samplers,
)

CUTOFFS = [9, 22]
COUNTS = np.random.default_rng(1).integers(1, 99, V)


def sampled(kind, sampler=None, num_samples=9, **options):
    def head(shard, embedding, **name):
        return kind(V, num_samples, sampler, None if sampler else COUNTS, seed=1, shard=shard,
                    **options, **name)

    return head


HEADS = {
    "full": lambda shard, embedding, **name: FullSoftmax(V, **name),
    "tied": lambda shard, embedding, **name: (ShardedSoftmax if shard else FullSoftmax)(
        V, tied_to=embedding, soft_cap=3.0, **name
    ),
    "adaptive": lambda shard, embedding, **name: AdaptiveSoftmax(
        V, CUTOFFS, counts=COUNTS, use_bias=True, shard=shard, **name
    ),
    "two_level": lambda shard, embedding, **name: TwoLevelSoftmax(
        V, CUTOFFS[1:], permutation="ids", shard=shard, **name
    ),
    "sampled": sampled(SampledSoftmax),
    "sampled_tied": lambda shard, embedding, **name: SampledSoftmax(
        V, 9, counts=COUNTS, seed=1, tied_to=embedding, **name
    ),
    "without_replacement": sampled(SampledSoftmax, sampler_options={"unique": True}, keep=4),
    "in_batch": sampled(SampledSoftmax, samplers.InBatch(V, COUNTS), None),
    "nce": sampled(NCE, "learned_unigram", train_z=True),
    "negative": sampled(NegativeSampling),
    "blackout": sampled(BlackOut, use_bias=False),
}
# Several heads train in one model, since most of the time goes into building the graph of `fit`.
CASES = {
    "embedding": (["full"], "adagrad"),
    "embedding, momentum": (["full"], "momentum"),
    "embedding, Adam": (["full"], "adam"),
    "tied": (["tied", "adaptive"], "momentum"),
    "sampled": (["sampled", "sampled_tied", "adaptive", "nce"], "adagrad"),
    "sampled, Adam": (["sampled", "nce", "adaptive"], "adam"),
    "others": (["negative", "blackout", "without_replacement", "in_batch", "two_level"], "adagrad"),
}


def model_of(shard, heads, rule):
    words = keras.Input((T,), dtype="int32")
    table = keras.initializers.RandomNormal(stddev=0.5, seed=4)
    cls = ShardedEmbedding if shard else Embedding
    embedding = cls(V, D, embeddings_initializer=table, mask_zero=True)
    hidden = keras.layers.Dense(D, activation="tanh")(embedding(words))
    outputs = [HEADS[name](shard, embedding, name=name)(hidden) for name in heads]
    model = keras.Model(words, outputs)
    model.compile(
        RULES[rule](), [SoftmaxLoss() for _ in heads],
        weighted_metrics=[[Perplexity()] for _ in heads],
    )
    return model


def fitted(model, heads):
    """Losses and exact perplexities."""
    words, labels, weights = batches()
    words[0, 0] = 0  # masked
    if len(heads) > 1:
        labels, weights = [labels] * len(heads), [weights] * len(heads)
    options = {"batch_size": B, "sample_weight": weights, "verbose": 0}
    history = model.fit(words, labels, epochs=2, shuffle=False, **options).history
    exact = model.evaluate(words, labels, return_dict=True, **options)
    return [v for key, v in sorted(history.items())] + [v for key, v in sorted(exact.items())]


def fitted_in_shards(cases):
    results, strategy = [], strategy_here()
    for case in cases:
        heads, rule = CASES[case]
        keras.utils.set_random_seed(1)
        with strategy.scope():
            model = model_of(True, heads, rule)
        before = [local_rows(variable) for variable in model.weights]
        figures = fitted(model, heads)
        variables = [*model.weights, *model.optimizer.variables]
        results.append((before, figures, [local_rows(variable) for variable in variables]))
    return results


@pytest.mark.parametrize("workers, devices, cases", [
    (1, 3, ["tied", "sampled"]),
    pytest.param(1, 4, [*CASES], marks=pytest.mark.slow),
])
def test_fit_in_shards_equals_one_device(workers, devices, cases):
    results = replicas_helper.run(fitted_in_shards, workers, devices, seconds=600, cases=cases)
    for case, *by_worker in zip(cases, *results):
        heads, rule = CASES[case]
        model = model_of(False, heads, rule)
        model.set_weights(whole([before for before, *_ in by_worker]))
        wanted = fitted(model, heads)
        for _, figures, _ in by_worker:
            for ours, other in zip(figures, wanted, strict=True):
                np.testing.assert_allclose(ours, other, rtol=2e-6, err_msg=case)
        expected = [*model.weights, *model.optimizer.variables]
        ours = whole([after for *_, after in by_worker])
        for one, other in zip(ours, expected, strict=True):
            np.testing.assert_allclose(
                one, other, rtol=1e-6, atol=1e-6, err_msg=f"{case} {other.path}"
            )
