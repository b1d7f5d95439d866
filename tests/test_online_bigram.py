"""The bigram proposal that is learnt from the model's own probabilities."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import references
import replicas_helper
import tfsoftmax
from cases import UNITS, counts, positions, ready, rewind
from replicas_helper import strategy_here
from sampler_helper import After, q_after
from tfsoftmax import NCE, SampledSoftmax, samplers
from tfsoftmax.ngrams.previous_word import PreviousWord

V, S, N, M = 13, 5, 6, 3


def observed(sampler, steps=5, positions=7, seed=0):
    """Shows the sampler random shares; returns what it has been shown."""
    rng, shown = np.random.default_rng(seed), []
    for _ in range(steps):
        before = rng.integers(0, 4, positions).astype(np.int32)
        ids = rng.integers(0, sampler.vocab_size, (positions, S)).astype(np.int32)
        shares = rng.dirichlet(np.ones(S), positions).astype(np.float32)
        sampler.observe(before, ids, shares)
        shown.append((before, ids, shares))
    return shown


def test_weights_are_sums_of_shares_of_which_the_heaviest_stay():
    sampler = samplers.OnlineBigram(V, counts(V), slots=M, decay=0.5)
    shown = observed(sampler)
    weights, totals = [{} for _ in range(V)], np.zeros(V)
    for before, ids, shares in shown:
        for v in set(before):
            weights[v] = {w: x * 0.5 for w, x in weights[v].items()}
            totals[v] *= 0.5
        for v, row, parts in zip(before, ids, shares):
            totals[v] += 1
            for w, share in zip(row, parts):
                weights[v][w] = weights[v].get(w, 0) + share
        for v in set(before):
            heaviest = sorted(weights[v], key=weights[v].get)[-M:]
            weights[v] = {w: weights[v][w] for w in heaviest}
    u = counts(V) / counts(V).sum()
    for v, q in enumerate(q_after(sampler)):
        used, kept = len(weights[v]), sum(weights[v].values())
        scale = used + totals[v]
        wanted = [
            u[w] if not used else
            (weights[v].get(w, 0) + (used + totals[v] - kept) * u[w]) / scale for w in range(V)
        ]
        np.testing.assert_allclose(q, wanted, rtol=1e-4)
        assert q.sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("word", [0, 3, V - 1])
def test_claims_are_honest(word):
    sampler = samplers.OnlineBigram(V, counts(V), slots=M)
    observed(sampler)
    audit = samplers.audit_sampler(After(sampler, word), 20, draws=1500)
    assert audit.honest, audit.z


def head_of(cls, **options):
    head = cls(V, S, samplers.OnlineBigram(V, counts(V), slots=M), shared_samples=False, seed=3,
               **options)
    head.build((None, UNITS + 4))
    plain = ready(cls, V, S, counts=counts(V), **options)
    for ours, theirs in zip(head.trainable_weights, plain.trainable_weights):
        ours.assign(theirs.value)
    observed(head.sampler)
    return rewind(head)


@pytest.mark.parametrize("cls, options, reference", [
    (SampledSoftmax, {}, references.sampled_softmax), (NCE, {"Z": 2.5}, references.nce),
])
def test_a_step_computes_the_loss_and_observes_the_models_shares(cls, options, reference):
    head, (hidden, labels) = head_of(cls, **options), positions(V, N)
    before = np.array([0, 1, 2, 3, 3, 12], np.int32)
    drawn = head.sampler.sample_for_each(labels, S, head.random_state.next(), before)
    ids = drawn.ids.numpy()
    rewind(head)
    q, (kernel, bias) = q_after(head.sampler), [w.numpy() for w in head.trainable_weights]
    expected, wanted = samplers.OnlineBigram(V, counts(V), slots=M), []
    observed(expected)
    shares = np.zeros((N, S + 1), np.float32)
    for n in range(N):
        wanted.append(reference(
            hidden[n : n + 1], kernel, bias, labels[n : n + 1], ids[n], S * q[before[n]], False,
            **options,
        )[0])
        words = [labels[n], *ids[n]]
        omega = [np.exp(hidden[n] @ kernel[w] + bias[w]) / q[before[n], w] for w in words]
        shares[n] = np.array(omega) / sum(omega)
    expected.observe(before, np.concatenate([labels[:, None], ids], 1), shares)
    states = PreviousWord()([hidden, before])
    loss = tf.function(head.training_loss)(states, labels)
    np.testing.assert_allclose(loss, wanted, rtol=2e-5)
    np.testing.assert_allclose(q_after(head.sampler), q_after(expected), rtol=1e-4)
    assert np.abs(q_after(expected) - q).max() > 0.01


def test_it_approaches_a_fixed_model():
    head = SampledSoftmax(V, S, "online_bigram", counts=np.ones(V), shared_samples=False, seed=1)
    before = np.arange(N * 20, dtype=np.int32) % V
    labels = (before + 1) % V
    states = PreviousWord()([np.eye(V, dtype=np.float32)[before], before])
    head.build(states.shape)
    head.kernel.assign(5 * np.roll(np.eye(V), 1, axis=0))  # after v, the model expects v + 1
    first = np.mean(head.effective_sample_size(states))
    loss = tf.function(head.training_loss)
    for _ in range(30):
        loss(states, labels)
    p = np.exp(5) / (np.exp(5) + V - 1)
    found = q_after(head.sampler)[np.arange(V), (np.arange(V) + 1) % V]
    np.testing.assert_allclose(found, p, atol=0.15)  # 1 / 13 at first
    assert np.mean(head.effective_sample_size(states)) > 1.2 * first


@pytest.mark.parametrize("ignored", [1, 4])  # one of four positions, or all of them
def test_positions_that_the_loss_ignores_are_not_observed(ignored):
    head = SampledSoftmax(V, S, samplers.OnlineBigram(V, slots=M), shared_samples=False, seed=1)
    hidden, before = keras.random.normal((1, 4, UNITS)), np.array([[1, 2, 7, 7]])
    labels = np.array([[3, 4, 5, 6]])
    labels[:, 4 - ignored :] = 9
    loss = tfsoftmax.SoftmaxLoss(ignore_class=9, reduction="sum")
    with tf.GradientTape() as tape:
        tape.watch(hidden)
        nats = loss(labels, head(PreviousWord()([hidden, before]), training=True))
    np.testing.assert_array_equal(
        head.sampler.total.numpy()[[1, 2, 7]], [1, 1, 1] if ignored == 1 else [0, 0, 0]
    )
    moved = np.abs(tape.gradient(nats, hidden)[0]).sum(axis=1) > 0
    np.testing.assert_array_equal(moved, labels[0] != 9)
    assert np.isfinite(nats)


@pytest.mark.parametrize("policy", ["bfloat16", "float16", "float64"])
def test_what_was_observed_is_saved_with_the_model(policy, set_policy, through_a_file):
    set_policy(policy)
    words = keras.Input((5,), dtype="int32")
    hidden = keras.layers.Embedding(V, UNITS)(words)
    head = NCE(V, S, "online_bigram", counts=counts(V), shared_samples=False, seed=1)
    model = keras.Model(words, head(PreviousWord()([hidden, words])))
    model.compile("sgd", tfsoftmax.SoftmaxLoss())
    x = np.random.default_rng(0).integers(0, V, (8, 5))
    model.fit(x, x[:, ::-1], verbose=0)
    again = through_a_file(model).layers[-1].sampler
    np.testing.assert_array_equal(q_after(again), q_after(head.sampler))
    assert again.total.numpy().sum() > 0


def observed_on_two_replicas():
    """The copies of the weights on each replica after each half of a batch was observed."""
    strategy = strategy_here()
    with strategy.scope():
        sampler = samplers.OnlineBigram(V, slots=M)

    @tf.function
    def step(before, ids, shares):
        strategy.run(sampler.observe, args=(before, ids, shares))

    rng = np.random.default_rng(0)
    arrays = (
        rng.integers(0, 4, 8).astype(np.int32), rng.integers(0, V, (8, S)).astype(np.int32),
        rng.dirichlet(np.ones(S), 8).astype(np.float32),
    )
    values = strategy.experimental_distribute_values_from_function
    step(*(
        values(lambda c, a=a: tf.constant(np.split(a, 2)[c.replica_id_in_sync_group]))
        for a in arrays
    ))
    whole = samplers.OnlineBigram(V, slots=M)
    whole.observe(*arrays)
    copies = sampler.weights_after.value.values
    return [copy.numpy().tolist() for copy in copies], whole.weights_after.numpy().tolist()


def test_two_replicas_observe_the_whole_batch():
    ((copies, whole),) = replicas_helper.run(observed_on_two_replicas, devices=2)
    assert len(copies) == 2
    for copy in copies:
        np.testing.assert_allclose(copy, whole, rtol=1e-5)


@pytest.mark.parametrize("options, message", [
    ({"slots": 0}, r"`slots` must lie in \[1"), ({"decay": 0.0}, r"`decay` must lie in \(0, 1\]"),
])
def test_wrong_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        samplers.OnlineBigram(V, **options)
