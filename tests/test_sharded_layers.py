"""Layers whose rows are divided among replicas learn what the whole ones learn on one device."""

import os

import keras
import numpy as np
import pytest
import tensorflow as tf

import replicas_helper
from cases import assert_all_close, assert_all_equal
from graph_helper import largest_tensor
from replicas_helper import strategy_here
from test_sharded import RULES, B, D, T, V, batches, local_rows, problem, whole
from tfsoftmax import (
    NCE,
    BlackOut,
    Embedding,
    FullSoftmax,
    NegativeSampling,
    Perplexity,
    SampledSoftmax,
    SelfNormalisedSoftmax,
    ShardedEmbedding,
    ShardedSoftmax,
    SoftmaxLoss,
    optimizers,
    sharded_checkpoints,
)

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
    "sampled": sampled(SampledSoftmax),
    "sampled_tied": lambda shard, embedding, **name: SampledSoftmax(
        V, 9, counts=COUNTS, seed=1, tied_to=embedding, **name
    ),
    "without_replacement": sampled(SampledSoftmax, sampler_options={"unique": True}, keep=4),
    "in_batch": lambda shard, embedding, **name: SampledSoftmax(
        V, None, "in_batch", COUNTS, seed=1, shard=shard, **name
    ),
    "nce": sampled(NCE, "learned_unigram", train_z=True),
    "negative": sampled(NegativeSampling),
    "blackout": sampled(BlackOut, use_bias=False),
}
# Several heads train in one model, since most of the time goes into building the graph of `fit`.
CASES = {
    "main": (["tied", "sampled"], "adagrad"),
    "workers": (["sampled_tied"], "adam"),
    "embedding": (["full"], "momentum"),
    "embedding, Adam": (["full"], "adam"),
    "tied": (["tied"], "momentum"),
    "sampled": (["sampled", "nce"], "adam"),
    "others": (["negative", "blackout", "without_replacement", "in_batch"], "adagrad"),
    "every option": (["tied", "sampled"], "every option"),
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


def fitted_in_shards(cases, folder):
    """For each case the rows before, the figures, and the rows after, which are saved as well."""
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
        sharded_checkpoints.save(model, os.path.join(folder, case))
        with pytest.raises(ValueError, match="tfsoftmax.sharded_checkpoints.*embeddings in . sha"):
            model.save(os.path.join(folder, f"{os.getpid()}.keras"))
    return results


def restored(case, folder):
    with strategy_here().scope():
        model = model_of(True, *CASES[case])
    sharded_checkpoints.restore(model, os.path.join(folder, case))
    return [local_rows(variable) for variable in [*model.weights, *model.optimizer.variables]]


def close(ours, expected, case):
    for one, other in zip(ours, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6, err_msg=f"{case} {other.path}")


@pytest.mark.parametrize("workers, devices, cases", [
    (1, 2, ["main"]), pytest.param(2, 1, ["workers"], marks=pytest.mark.slow),
    pytest.param(1, 4, ["main"], marks=pytest.mark.slow),
    *(pytest.param(1, 3, [case], marks=pytest.mark.slow, id=case) for case in [*CASES][2:]),
])
def test_fit_in_shards_equals_one_device(workers, devices, cases, tmp_path):
    results = replicas_helper.run(
        fitted_in_shards, workers, devices, seconds=600, cases=cases, folder=str(tmp_path)
    )
    for case, *by_worker in zip(cases, *results):
        heads, rule = CASES[case]
        model = model_of(False, heads, rule)
        model.set_weights(whole([before for before, *_ in by_worker]))
        wanted = fitted(model, heads)
        for _, figures, _ in by_worker:
            for ours, other in zip(figures, wanted, strict=True):
                np.testing.assert_allclose(ours, other, rtol=2e-6, err_msg=case)
        after = whole([after for *_, after in by_worker])
        close(after, [*model.weights, *model.optimizer.variables], case)
        again = model_of(False, heads, rule)
        sharded_checkpoints.restore(again, tmp_path / case)
        assert_all_equal(after, [*again.weights, *again.optimizer.variables])
    if workers > 1:
        read = replicas_helper.run(restored, devices=3, case=case, folder=str(tmp_path))
        np.testing.assert_equal(whole(read), after)


def in_half_precision():
    """Figures of one device and of two replicas, and how the table differs."""
    keras.config.set_dtype_policy("mixed_float16")
    heads, results, strategy = ["tied", "sampled_tied"], [], strategy_here()
    for scope in (strategy.scope, tf.distribute.get_strategy().scope):
        keras.utils.set_random_seed(1)
        with scope():
            model = model_of(True, heads, "adagrad")
            losses, optimizer = [SoftmaxLoss() for _ in heads], optimizers.Adagrad(
                0.2, global_clipnorm=0.05, loss_scale_factor=256.0
            )
            model.compile(optimizer, losses, auto_scale_loss=False)
        words, labels, _ = batches()
        history = model.fit(words, [labels] * 2, B, epochs=2, shuffle=False, verbose=0).history
        table = local_rows(model.layers[1].embeddings)
        results.append((history["loss"], np.concatenate([table[first] for first in sorted(table)])))
    with strategy.scope():
        model = model_of(True, heads, "adagrad")
    with pytest.raises(ValueError, match="unless you call `compile` with auto_scale_loss=False"):
        model.fit(words, [labels] * 2, B, verbose=0)
    return results


@pytest.mark.slow
def test_half_precision_takes_a_constant_loss_scale():
    ((ours, wanted),) = replicas_helper.run(in_half_precision, devices=2)
    np.testing.assert_allclose(ours[0], wanted[0], rtol=1e-3)
    np.testing.assert_allclose(ours[1], wanted[1], atol=2e-3)


METHODS = ("tied", "sampled", "negative", "nce")


def results_of(heads, embedding):
    """What the methods of built heads return for the same positions."""
    states, _, _, labels, _ = problem(9)
    results = [embedding(labels[:, None])]
    for head in heads:
        results += [head.log_prob(states, labels), head.log_probs(states), head(states)]
        results += [*head.top_k(states, 3), *head.top_k(states, V)]
        if hasattr(head, "log_normaliser"):
            results += [head.log_normaliser(states), head.self_normalised_log_prob(states, labels)]
    return [result.numpy() for result in results]


def built(shard):
    table = keras.initializers.RandomNormal(stddev=0.5, seed=4)
    embedding = (ShardedEmbedding if shard else Embedding)(V, D, embeddings_initializer=table)
    embedding.build()
    heads = [HEADS[name](shard, embedding, bias_initializer=table) for name in METHODS]
    for head in heads:
        head.build((None, D))
    return heads, embedding


def check_step(strategy, vocab_size=10_007):
    """A step gathers and updates rows, and has no tensor of the size of a shard."""
    with strategy.scope():
        words = keras.Input((T,), dtype="int32")
        embedding = ShardedEmbedding(vocab_size, D)
        heads = [SampledSoftmax(vocab_size, 9, "log_uniform", **options)
                 for options in ({"shard": True}, {"tied_to": embedding})]
        model = keras.Model(words, [head(embedding(words)) for head in heads])
        optimizer = optimizers.Adagrad(0.2, global_clipnorm=0.1)
        optimizer.build(model.trainable_variables)

    def step(words):
        with tf.GradientTape() as tape:
            hidden = embedding(words)
            losses = [head.training_loss(hidden, words) for head in heads]
        gradients = tape.gradient(losses, model.trainable_variables)
        assert all(isinstance(gradient, tf.IndexedSlices) for gradient in gradients)
        optimizer.apply(gradients)

    function = tf.function(lambda words: strategy.run(step, args=(words,)))
    concrete = function.get_concrete_function(tf.TensorSpec((B, T), tf.int32))
    assert largest_tensor(concrete) < vocab_size // 2 * D
    kinds = [op.type for op in concrete.graph.get_operations()]
    assert "ResourceApplyAdagradV2" not in kinds  # which updates all rows


def every_method():
    """Results of calls outside of the strategy, and what is refused."""
    strategy = strategy_here()
    with strategy.scope():
        heads, embedding = built(True)
        with pytest.raises(ValueError, match="`shard` must be False with `tied_to`, unless"):
            FullSoftmax(V, tied_to=Embedding(V, D), shard=True)
        with pytest.raises(ValueError, match="must not be in shards for SelfNormalisedSoftmax"):
            SelfNormalisedSoftmax(V, tied_to=embedding)
        with pytest.raises(ValueError, match="`gradient_share` must be None for a head whose rows"):
            ShardedSoftmax(V, gradient_share=0.5).build((None, D))
        words = keras.Input((T,), dtype="int32")
        foreign = keras.Model(words, FullSoftmax(V)(ShardedEmbedding(V, D)(words)))
        foreign.compile("adam", SoftmaxLoss())
    with pytest.raises(ValueError, match="`optimizer` must be one of tfsoftmax.optimizers"):
        foreign.fit(*batches()[:2], B, verbose=0)
    for word in (-1, V):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"must lie in \[0, 61\)"):
            embedding(np.array([[word, 3]]))
        for head in heads:
            assert type(head).from_config(head.get_config()).shard
    assert not any(layer.supports_jit for layer in [embedding, *heads])
    check_step(strategy)
    return results_of(heads, embedding), [[local_rows(w) for w in h.weights] for h in heads]


@pytest.mark.slow
def test_methods_outside_of_the_strategy_equal_one_device():
    ((results, weights),) = replicas_helper.run(every_method, devices=2)
    heads, embedding = built(False)
    assert all(layer.supports_jit for layer in [embedding, *heads])
    for head, rows in zip(heads, weights, strict=True):
        head.set_weights(whole([rows]))
    assert_all_close(results, results_of(heads, embedding), rtol=2e-6, atol=2e-6)
