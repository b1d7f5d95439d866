"""Exact probabilities of every head under every dtype policy, tied and untied, at logits to 30."""


import keras
import numpy as np
import pytest
import tensorflow as tf

import replicas_helper
from cases import (
    CASES,
    ONE_OF_EACH,
    UNITS,
    chosen,
    positions,
    randomise,
    rewind,
    slow_unless,
    spelled,
    two_cutoffs,
)
from replicas_helper import strategy_here
from tfsoftmax import HEADS, Perplexity, ShardedSoftmax, SoftmaxLoss, Vocabulary
from tfsoftmax.heads.tied import TiedHead
from tfsoftmax.lm.head_options import head_for, tied_embedding

V, COUNT = 300, 4
POLICIES = ["float32", "mixed_bfloat16", "mixed_float16", "bfloat16", "float16", "float64"]
TIED = {
    **{name: {} for name, head in HEADS.items() if issubclass(head, TiedHead)},
    **{name: {"num_samples": 9} for name in ("sampled", "nce", "negative", "blackout")},
    "adaptive": {"cutoffs": two_cutoffs(V)},
    "two_level": {"cutoffs": two_cutoffs(V)[:1]},
}
every_policy = pytest.mark.parametrize("policy", POLICIES)


def ready(make, policy, set_policy):
    """A head with weights of order one, and hidden states for which its logits reach 30."""
    set_policy(policy)
    head = make()
    head.build((None, UNITS))
    set_policy("float32")
    for layer in (head, getattr(head, "tied_to", None)):
        if layer is not None:
            randomise(layer)
    hidden, _ = positions(V, COUNT)
    return rewind(head), hidden * (30 / np.abs(head(hidden)).max())


def check_promises(head, hidden):
    """What the table of `SoftmaxHead` says, of all V words at each position."""
    every = np.repeat(hidden, V, axis=0), np.tile(np.arange(V, dtype=np.int32), COUNT)
    log_probs = head.log_probs(hidden).numpy().astype(np.float64)
    log_prob = head.log_prob(*every).numpy().astype(np.float64)
    np.testing.assert_allclose(np.exp(log_probs).sum(axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(np.exp(log_prob).reshape(COUNT, V).sum(axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(log_prob, log_probs.ravel(), atol=2e-5)
    logits = head(hidden)
    softmax = tf.nn.log_softmax(tf.cast(logits, tf.float64))
    np.testing.assert_allclose(softmax, log_probs, atol=2e-5)
    ids, values = head.top_k(hidden, 9)
    np.testing.assert_allclose(values, np.take_along_axis(log_probs, ids.numpy(), 1), atol=2e-5)

    labels = np.argmax(log_probs, axis=1).astype(np.int32)
    labels[1:] = [0, V - 1, V // 2]
    exact = -chosen(log_probs, labels)
    logits, metric = head(hidden), Perplexity()
    np.testing.assert_allclose(SoftmaxLoss()(labels, logits), exact.mean(), rtol=1e-5)
    metric.update_state(labels, logits)
    np.testing.assert_allclose(np.log(metric.result()), exact.mean(), rtol=1e-5)
    _, nats = head.loss_and_nats(hidden, labels, np.ones(COUNT, np.float32))
    if head.trains_exactly:
        np.testing.assert_allclose(nats, exact, rtol=1e-5, atol=2e-5)


@every_policy
@pytest.mark.parametrize("case", slow_unless(ONE_OF_EACH))
def test_probabilities_are_exact(case, policy, set_policy):
    head = CASES[case](V)
    if "float16" in policy.split("_") and getattr(head, "sgd_learning_rate", None):
        pytest.skip("the head refuses the scaled losses of float16")
    check_promises(*ready(lambda: CASES[case](V), policy, set_policy))


@every_policy
@pytest.mark.parametrize("name", TIED)
def test_probabilities_of_tied_heads_are_exact(name, policy, set_policy):
    words = spelled(V)
    vocabulary = Vocabulary([*words[:-2], "<unk>", "<eos>"], np.arange(V, 0, -1))

    def tied():
        embedding, options = tied_embedding(HEADS[name], vocabulary, UNITS, TIED[name])
        embedding.build((None,))
        return head_for(vocabulary, HEADS[name], **options)

    check_promises(*ready(tied, policy, set_policy))


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "float16"])
@pytest.mark.parametrize("case", ["full", "adaptive", "differentiated", "shortlist"])
def test_compiled_probabilities_sum_to_one(case, policy, jit_compile, set_policy):
    head, hidden = ready(lambda: CASES[case](V), policy, set_policy)
    labels = np.tile(np.arange(V, dtype=np.int32), COUNT)

    @tf.function(jit_compile=jit_compile)
    def each_way(hidden):
        _, nats = head.loss_and_nats(hidden, labels, tf.ones(len(labels)))
        return head.log_prob(hidden, labels), -nats

    for log_prob in each_way(np.repeat(hidden, V, axis=0)):
        sums = np.exp(log_prob.numpy().astype(np.float64)).reshape(COUNT, V).sum(axis=1)
        np.testing.assert_allclose(sums, 1, atol=1e-5)


def in_two_shards():
    """Probabilities of heads in two shards, whose weights all replicas draw from one seed."""
    scale = keras.initializers.RandomNormal(stddev=3.0, seed=1)
    hidden, _ = positions(V, COUNT)
    every = np.repeat(hidden, V, axis=0), np.tile(np.arange(V, dtype=np.int32), COUNT)
    with strategy_here().scope():
        options = {"kernel_initializer": scale, "dtype": "mixed_bfloat16"}
        head = ShardedSoftmax(V, **options)
        head.build((None, UNITS))
    log_probs, log_prob = head.log_probs(hidden).numpy(), head.log_prob(*every).numpy()
    assert head.in_shards and log_probs.min() < -20
    np.testing.assert_allclose(log_prob, log_probs.ravel(), atol=2e-5)
    sums = np.exp(np.float64(log_prob)).reshape(COUNT, V).sum(axis=1)
    np.testing.assert_allclose(sums, 1, atol=1e-5)
    ids, values = head.top_k(hidden, 9)
    expected = np.take_along_axis(log_probs, ids.numpy(), 1)
    np.testing.assert_allclose(values, expected, atol=2e-5)


def test_probabilities_of_sharded_heads_are_exact():
    replicas_helper.run(in_two_shards, devices=2)
