"""Bigram proposals: q(w | v), draws of each position, and the heads that read the word before."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

import references
from cases import UNITS, counts, positions, ready, rewind, with_gradients
from references import numeric_gradient
from runs_helper import MODEL, train
from sampler_helper import After, q_after
from tfsoftmax import NCE, BlackOut, NegativeSampling, SampledSoftmax, samplers
from tfsoftmax.lm.evaluation import exact_evaluator
from tfsoftmax.ngrams.backoff import BackoffBigrams
from tfsoftmax.ngrams.counts import Bigrams
from tfsoftmax.ngrams.previous_word import PreviousWord
from tfsoftmax.runs import runs

V, S, N = 13, 5, 6
HEADS = {
    "sampled": (SampledSoftmax, {}),
    "importance": (SampledSoftmax, {"label_in_sum": False}),
    "nce": (NCE, {"Z": 2.5}),
    "negative": (NegativeSampling, {}),
    "negative as it is": (NegativeSampling, {"restore_proposal": False}),
    "blackout": (BlackOut, {"remove_accidental_hits": False}),
}


def ngram(vocab_size=V, length=60, seed=0):
    """A model of a random text, in which the last two words have no successors."""
    text = np.random.default_rng(seed).zipf(1.4, length) % (vocab_size - 2)
    return BackoffBigrams.from_counts(
        Bigrams.count([(text[:-1], text[1:])], vocab_size), counts(vocab_size)
    )


def carried(hidden, before):
    return PreviousWord()([hidden, before]).numpy()


def test_q_is_the_model_itself():
    model = ngram()
    for v, row in enumerate(q_after(samplers.Bigram(V, model))):
        for w, q in enumerate(row):
            assert q == pytest.approx(np.exp(model.log_prob(v, w)), rel=1e-5)


@pytest.mark.parametrize("unigram_weight, alpha", [(0.3, 1.0), (None, 0.5), (1.0, 0.0)])
def test_q_is_the_interpolation_that_was_asked_for(unigram_weight, alpha):
    model = ngram()
    q = q_after(samplers.Bigram(V, model, unigram_weight, alpha))
    u = np.exp(model.log_unigram)
    distorted = u**alpha / np.sum(u**alpha)
    for v in range(V):
        seen = {w for w in range(V) if (model.first * V + model.words == v * V + w).any()}
        b = np.exp(model.log_backoff[v])
        excess = [(np.exp(model.log_prob(v, w)) - b * u[w]) * (w in seen) for w in range(V)]
        beta = b if unigram_weight is None else unigram_weight
        wanted = distorted if not seen else (
            (1 - beta) * np.array(excess) / sum(excess) + beta * distorted
        )
        np.testing.assert_allclose(q[v], wanted, rtol=1e-5, atol=1e-8)


def test_a_model_that_gives_a_seen_word_less_than_its_unigram_leaves_a_distribution():
    log_unigram = np.log([0.7, 0.1, 0.1, 0.1])
    model = BackoffBigrams(
        log_unigram, np.log([0.9, 1.0, 1.0, 0.5]), np.array([0, 2, 2, 2, 3]), np.array([0, 1, 0]),
        np.log([0.2, 0.5, 0.01]),
    )
    q = q_after(samplers.Bigram(4, model))
    np.testing.assert_allclose(q.sum(1), 1, rtol=1e-6)
    beta = 0.9 / (0.9 + 0.5 - 0.09)
    np.testing.assert_allclose(q[0], [beta * 0.7, 1 - beta * 0.9, beta * 0.1, beta * 0.1],
                               rtol=1e-6)
    np.testing.assert_allclose(q[3], np.exp(log_unigram), rtol=1e-6)  # its only bigram is left out


def test_without_bigrams_q_is_the_unigram():
    model = BackoffBigrams(
        np.log([0.5, 0.3, 0.2]), np.zeros(3), np.zeros(4, np.int64), np.zeros(0, np.int32),
        np.zeros(0),
    )
    sampler = samplers.Bigram(3, model)
    np.testing.assert_allclose(q_after(sampler), [[0.5, 0.3, 0.2]] * 3, rtol=1e-6)
    assert sampler.sample_for_each([0, 1], 4, 1, [0, 2]).ids.shape == (2, 4)


@pytest.mark.parametrize("word", [0, 1, 5, V - 1])
@pytest.mark.parametrize("unigram_weight", [None, 0.2])
def test_claims_are_honest(word, unigram_weight):
    sampler = samplers.Bigram(V, ngram(), unigram_weight)
    audit = samplers.audit_sampler(After(sampler, word), 20, draws=1500)
    assert audit.honest, audit.z


def test_every_position_draws_after_its_own_word():
    model = ngram(length=300)
    before = np.array([1, 2, 12], np.int32)
    drawn = samplers.Bigram(V, model).sample_for_each([0, 0, 0], 20_000, 3, before)
    for v, ids, log_expected in zip(before, drawn.ids.numpy(), drawn.log_expected.numpy()):
        p = np.exp(model.log_prob(v, np.arange(V)))
        found = np.bincount(ids, minlength=V) / len(ids)
        np.testing.assert_allclose(found, p, atol=5 * np.sqrt(0.25 / len(ids)))
        np.testing.assert_allclose(np.exp(log_expected), len(ids) * p[ids], rtol=1e-4)


def head_of(name, **options):
    cls, more = HEADS[name]
    head = cls(V, S, "bigram", ngram=ngram(), shared_samples=False, seed=3, **more, **options)
    head.build((None, UNITS + 4))
    plain = ready(cls, V, S, counts=counts(V), **more)
    head.set_weights([*[w.numpy() for w in plain.trainable_weights],
                      *[w.numpy() for w in head.non_trainable_weights]])
    return rewind(head)


@pytest.mark.parametrize("name", HEADS)
def test_training_loss_is_the_equation_of_each_positions_sample(name):
    head = head_of(name)
    hidden, labels = positions(V, N)
    before = np.random.default_rng(2).integers(0, V, N).astype(np.int32)
    seed = head.random_state.next()
    rewind(head)
    ids = head.sampler.sample_for_each(labels, S, seed, before).ids.numpy()
    q = q_after(head.sampler)
    weights = [w.numpy() for w in head.trainable_weights]
    reference = {
        "sampled": references.sampled_softmax, "nce": references.nce,
        "blackout": references.blackout, "importance": references.importance_sampling,
    }.get(name, references.negative_sampling)
    hits = [] if name == "importance" else [False]
    more = {"Z": 2.5} if name == "nce" else {}
    wanted = [
        np.ravel(reference(
            hidden[n : n + 1], *weights, labels[n : n + 1], ids[n], S * q[before[n]], *hits, **more
        )[0])[0] for n in range(N)
    ]
    loss = tf.function(head.training_loss)(carried(hidden, before), labels)
    np.testing.assert_allclose(loss, wanted, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("name", HEADS)
def test_exact_results_are_the_softmax_without_the_word_before(name):
    head = head_of(name)
    hidden, labels = positions(V, N)
    before = np.arange(N, dtype=np.int32)
    weights = [w.numpy() for w in head.trainable_weights]
    logits = references.full_log_probs(hidden, *weights)
    if name == "negative":
        logits = logits + np.log(q_after(head.sampler)[before])
        logits -= np.log(np.exp(logits).sum(1, keepdims=True))
    states = carried(hidden, before)
    np.testing.assert_allclose(head.log_probs(states), logits, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(
        head.log_prob(states, labels), logits[np.arange(N), labels], rtol=1e-4, atol=1e-4
    )
    ids, values = head.top_k(states, 3)
    np.testing.assert_array_equal(ids, np.argsort(-logits, axis=1)[:, :3])
    np.testing.assert_allclose(values, -np.sort(-logits, axis=1)[:, :3], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(tf.nn.log_softmax(head(states)), logits, rtol=1e-4, atol=1e-4)
    score = head.log_prob(states, labels) + head.log_normaliser(states)
    gap = (score - head.self_normalised_log_prob(states, labels)).numpy()
    np.testing.assert_allclose(gap, gap[0], atol=1e-4)


def test_the_gradient_of_what_is_scored_is_the_numeric_one():
    head, (hidden, labels) = head_of("nce"), positions(V, N)
    states = carried(hidden, labels[::-1])
    variable = tf.Variable(states)
    _, (gradient,) = with_gradients(head.training_loss, [variable], variable, labels)

    def total(scored):
        moved = np.concatenate([scored, states[:, UNITS:]], 1).astype(np.float32)
        return float(tf.reduce_sum(rewind(head).training_loss(moved, labels)))

    wanted = numeric_gradient(total, states[:, :UNITS], step=1e-2)
    np.testing.assert_allclose(gradient[:, :UNITS], wanted, rtol=5e-3, atol=5e-3)


def test_the_effective_sample_size_is_that_of_each_positions_own_sample():
    head = head_of("sampled")
    hidden, _ = positions(V, N)
    before = np.arange(N, dtype=np.int32)
    ids = head.sampler.sample_for_each(before, S, head.random_state.next(), before).ids.numpy()
    q, (kernel, bias) = q_after(head.sampler), [w.numpy() for w in head.trainable_weights]
    found = rewind(head).effective_sample_size(carried(hidden, before)).numpy()
    for n in range(N):
        scores = [hidden[n].astype(np.float64) @ kernel[w] + bias[w] for w in ids[n]]
        omega = np.exp(scores) / q[before[n], ids[n]]
        assert found[n] == pytest.approx(omega.sum() ** 2 / (omega**2).sum(), rel=1e-4)


@pytest.mark.parametrize("options, message", [
    ({"ngram": None}, "`ngram` must be given for sampler='bigram'"),
    ({"shared_samples": True}, "`shared_samples` must be False for a sampler that depends on"),
    ({"ngram": ngram(9)}, "`ngram` must be a model of 13 words. Received: 9 words"),
    ({"sampler_options": {"unigram_weight": 0.0}}, r"`unigram_weight` must lie in \(0, 1\]"),
    ({"sampler_options": {"alpha": 2.0}}, r"`alpha` must lie in \[0, 1\]"),
])
def test_wrong_arguments_are_named(options, message):
    given = {"ngram": ngram(), "shared_samples": False, **options}
    with pytest.raises(ValueError, match=message):
        NCE(V, S, "bigram", **given)


def test_hidden_states_without_room_for_the_word_are_refused():
    head = NCE(V, S, "bigram", ngram=ngram(), shared_samples=False)
    with pytest.raises(ValueError, match="`hidden` must have more than 4 units"):
        head.build((None, 4))


@pytest.mark.parametrize("head", ["nce", "sampled"])
def test_a_run_reads_the_model_from_a_file_and_keeps_a_copy(head, corpus, tmp_path):
    text = np.random.default_rng(0).integers(0, len(corpus.vocabulary), 500)
    seen = Bigrams.count([(text[:-1], text[1:])], len(corpus.vocabulary))
    path = tmp_path / "bigrams.arpa"
    model = BackoffBigrams.from_counts(seen, corpus.vocabulary.counts)
    model.write_arpa(path, corpus.vocabulary.words)
    options = {"num_samples": 5, "sampler": "bigram", "ngram": str(path), "shared_samples": False}
    of_run = dataclasses.replace(MODEL, head=head, head_options=options)
    train(corpus, tmp_path / "run", of_run, max_steps=2)
    path.unlink()
    loaded = runs.load(str(tmp_path / "run"), corpus.streams, corpus.time_steps)[0]
    sampler = loaded.get_layer("head").sampler
    np.testing.assert_allclose(sampler.ngram.log_seen, model.log_seen, atol=1e-4)
    nats = exact_evaluator(loaded)(corpus, "valid")["nats_per_token"]
    assert 0 < nats < 2 * np.log(len(corpus.vocabulary))
