"""Sampling heads: their equations, their limits, what TensorFlow computes, and their options."""

import numpy as np
import pytest
import tensorflow as tf

import references
from cases import assert_all_close, counts, positions, ready, rewind
from tfsoftmax.heads import NCE, BlackOut, FullSoftmax, NegativeSampling, SampledSoftmax
from tfsoftmax.survey import SelfNormalisedSoftmax

V, S, N = 13, 8, 6
HEADS = {
    "sampled": (SampledSoftmax, references.sampled_softmax),
    "nce": (NCE, references.nce),
    "negative": (NegativeSampling, references.negative_sampling),
    "blackout": (BlackOut, references.blackout),
}


def weights_of(head):
    return head.kernel.numpy(), head.bias.numpy()


def drawn(head, labels):
    """The candidates of the next training loss, and the expected counts of all words."""
    seed = head.random_state.next()
    candidates = head.sampler.sample(labels, head.num_samples, seed)
    rewind(head)
    everything = head.sampler.sample(tf.range(V), head.num_samples, seed).log_expected_labels
    return candidates, np.exp(everything.numpy().astype(np.float64))


def drawn_for_each(head, labels):
    """Each position's candidates other than its label, and the expected counts of all words."""
    sample = head.sampler.sample_others(labels, head.num_samples, head.random_state.next())
    rewind(head)
    for label, log_expected, own in zip(labels, sample.log_expected.numpy(), sample[2].numpy()):
        takes_part = (sample.ids.numpy() != label) & (log_expected < 1e29)
        expected = np.full(V, np.nan)
        expected[sample.ids] = np.exp(np.minimum(log_expected, 0).astype(np.float64))
        expected[label] = np.exp(own)
        yield sample.ids.numpy()[takes_part], expected


WITH_HITS = [(name, False) for name in HEADS]
WITHOUT_HITS = [(name, True) for name in HEADS if name != "nce"]  # which refuses that


@pytest.mark.parametrize("name, remove_accidental_hits", WITH_HITS + WITHOUT_HITS)
@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("unique", [False, True])
def test_training_loss_is_the_equations(name, jit_compile, remove_accidental_hits, unique):
    cls, reference = HEADS[name]
    more = {"Z": 2.5} if name == "nce" else {}
    restored = not (unique or remove_accidental_hits)
    others = {"restore_proposal": restored} if name == "negative" else {}
    head = ready(
        cls, V, S, counts=counts(V), sampler_options={"unique": unique},
        remove_accidental_hits=remove_accidental_hits, **more, **others,
    )
    hidden, labels = positions(V, N)
    candidates, expected = drawn(head, labels)
    ids = candidates.ids.numpy()
    labels[2:4] = ids[:2]  # accidental hits for certain
    if name == "sampled" and unique and remove_accidental_hits:
        wanted = [
            reference(hidden[n : n + 1], *weights_of(head), labels[n : n + 1], *others, True)[0]
            for n, others in enumerate(drawn_for_each(head, labels))
        ]
    else:
        wanted = reference(
            hidden, *weights_of(head), labels, ids, expected, remove_accidental_hits, **more
        )
    loss = tf.function(head.training_loss, jit_compile=jit_compile)
    np.testing.assert_allclose(loss(hidden, labels), wanted, rtol=2e-5)


@pytest.mark.parametrize("name, remove_accidental_hits", WITH_HITS + WITHOUT_HITS)
def test_samples_of_each_position_follow_the_equations(name, remove_accidental_hits):
    cls, reference = HEADS[name]
    more = {"Z": 2.5} if name == "nce" else {}
    if name == "negative":
        more = {"restore_proposal": not remove_accidental_hits}
    head = ready(
        cls, V, S, counts=counts(V), shared_samples=False,
        remove_accidental_hits=remove_accidental_hits, **more,
    )
    hidden, labels = positions(V, N)
    seed = head.random_state.next()
    ids = head.sampler.sample_for_each(labels, S, seed).ids.numpy()
    assert ids.shape == (N, S) and len(np.unique(ids, axis=0)) == N
    expected = S * np.exp(head.sampler.log_q(tf.range(V)).numpy().astype(np.float64))
    wanted = [
        reference(
            hidden[i : i + 1], *weights_of(head), labels[i : i + 1], ids[i], expected,
            remove_accidental_hits, **{k: v for k, v in more.items() if k == "Z"},
        )[0]
        for i in range(N)
    ]
    loss = tf.function(rewind(head).training_loss)
    np.testing.assert_allclose(loss(hidden, labels), wanted, rtol=2e-5)


def test_gradients_are_unique_rows_of_each_variable():
    hidden, labels = positions(V, 50)
    for name, (cls, _) in HEADS.items():
        head = ready(cls, V, S, counts=counts(V))
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(head.training_loss(hidden, labels))
        for gradient in tape.gradient(loss, [w.value for w in head.trainable_weights]):
            assert isinstance(gradient, tf.IndexedSlices), name
            rows = gradient.indices.numpy()
            assert len(rows) == len(np.unique(rows)) <= S + len(np.unique(labels))


def tapas(keep_by, **options):
    return ready(
        SampledSoftmax, V, S, counts=1.0 + np.arange(V) ** 3, keep=2, keep_by=keep_by,
        sampler_options={"unique": True}, **options,
    )


@pytest.mark.parametrize("keep_by", ["score", "corrected_score"])
@pytest.mark.parametrize("remove_accidental_hits", [False, True])
def test_tapas_keeps_the_highest_words_of_each_position(keep_by, remove_accidental_hits):
    head = tapas(keep_by, remove_accidental_hits=remove_accidental_hits)
    hidden, labels = positions(V, N)
    if remove_accidental_hits:
        samples = list(drawn_for_each(head, labels))
    else:
        candidates, expected = drawn(head, labels)
        samples = [(candidates.ids.numpy(), expected)] * N
    kernel, bias = weights_of(head)
    losses, orders = [], []
    for h, label, (ids, expected) in zip(hidden, labels, samples):
        scores = {w: h @ kernel[w] + bias[w] for w in ids}
        corrected = {w: scores[w] - np.log(expected[w]) for w in ids}
        orders.append([sorted(ids, key=of.get)[-2:] for of in (scores, corrected)])
        kept = orders[-1][keep_by == "corrected_score"]
        losses.append(references.sampled_softmax(h[None], kernel, bias, [label], kept, expected, 0))
    assert any(set(by_score) != set(by_corrected) for by_score, by_corrected in orders)
    found = head.training_loss(hidden, labels)
    np.testing.assert_allclose(found, np.ravel(losses), rtol=2e-5, atol=1e-6)


def test_of_all_ways_to_keep_words_the_corrected_scores_lose_least_of_the_loss():
    hidden, labels = positions(V, N)
    by_score, by_corrected = (
        tapas(by).training_loss(hidden, labels).numpy() for by in ("score", "corrected_score")
    )
    all_words = tapas("score")
    all_words.keep = None
    assert (by_score <= by_corrected + 1e-6).all() and (by_score < by_corrected - 1e-3).any()
    assert (by_corrected <= all_words.training_loss(hidden, labels).numpy() + 1e-6).all()


def test_effective_sample_size_is_between_one_and_all():
    head = ready(SampledSoftmax, V, S, "uniform")
    hidden, _ = positions(V, N)
    seed = head.random_state.next()
    ids = head.sampler.sample([0], S, seed).ids.numpy()
    kernel, bias = weights_of(head)
    omega = np.exp(hidden.astype(np.float64) @ kernel[ids].T + bias[ids])  # q is uniform
    wanted = omega.sum(1) ** 2 / (omega**2).sum(1)
    np.testing.assert_allclose(rewind(head).effective_sample_size(hidden), wanted, rtol=1e-4)
    flat = SampledSoftmax(V, S, "uniform", kernel_initializer="zeros", seed=3)
    np.testing.assert_allclose(flat.effective_sample_size(hidden), S, rtol=1e-5)


@pytest.mark.parametrize("shared_samples", [True, False])
def test_effective_sample_size_has_no_gradient(shared_samples):
    head = ready(SampledSoftmax, V, S, "uniform", shared_samples=shared_samples)
    hidden = tf.Variable(positions(V, N)[0])
    sources = [hidden, *(weight.value for weight in head.trainable_weights)]

    def gradients():
        with tf.GradientTape() as tape:
            sizes = head.effective_sample_size(hidden)
            loss = tf.reduce_sum(sizes) + tf.reduce_sum(hidden)
        return tape.gradient(loss, sources)

    for of_hidden, *others in (gradients(), tf.function(gradients)()):
        np.testing.assert_array_equal(of_hidden, np.ones(hidden.shape))
        assert others == [None] * len(others)


@pytest.mark.parametrize("squared", [True, False])
def test_self_normalisation_of_every_position_is_its_equation(squared):
    alpha = 0.7 if squared else 1.0
    head = ready(SelfNormalisedSoftmax, V, fraction=1.0, alpha=alpha, squared=squared)
    hidden, labels = positions(V, N)
    log_probs = references.full_log_probs(hidden, *weights_of(head))
    for i, loss in enumerate(head.training_loss(hidden, labels).numpy()):
        kernel, bias = weights_of(head)
        score = float(hidden[i].astype(np.float64) @ kernel[labels[i]] + bias[labels[i]])
        log_z = score - log_probs[i][labels[i]]
        penalty = 0.7 * log_z**2 if squared else log_z
        np.testing.assert_allclose(loss, -score + penalty, rtol=1e-5)


def test_self_normalisation_of_a_fraction_is_unbiased():
    hidden, labels = positions(V, 40)
    head = ready(SelfNormalisedSoftmax, V, fraction=0.25, squared=False)
    full = ready(lambda size, seed: FullSoftmax(size), V)
    full.set_weights(weights_of(head))
    totals = [np.mean(head.training_loss(hidden, labels)) for _ in range(400)]
    error = np.std(totals) / np.sqrt(len(totals))
    wanted = np.mean(full.training_loss(hidden, labels))
    assert error > 0 and abs(np.mean(totals) - wanted) < 4 * error
    score = head.self_normalised_log_prob(hidden, labels)
    assert np.sum(np.abs(head.training_loss(hidden, labels) + score) > 1e-3) == 10


@pytest.mark.parametrize("squared", [True, False])
def test_self_normalisation_of_a_fraction_has_the_gradient_of_its_equation(squared):
    hidden, labels = positions(V, 10)
    alpha = 0.7 if squared else 1.0
    head = ready(SelfNormalisedSoftmax, V, fraction=0.3, alpha=alpha, squared=squared)
    scores = head.self_normalised_log_prob(hidden, labels).numpy()
    scores += 0.5 / alpha if squared else 0.0
    chosen = np.abs(head.training_loss(hidden, labels) + scores) > 1e-3
    assert chosen.sum() == 3
    weights, kernel, bias = np.linspace(0.5, 2.0, 10), *weights_of(head)
    with tf.GradientTape() as tape:
        sources = [tf.Variable(x.astype(np.float64)) for x in (hidden, kernel, bias)]
        z = tf.matmul(sources[0], sources[1], transpose_b=True) + sources[2]
        log_z = tf.reduce_logsumexp(z, axis=1)
        nats = -tf.gather(z, labels, batch_dims=1)
        nats += alpha * 10 / 3 * chosen * (tf.square(log_z) if squared else log_z)
        wanted = tf.reduce_sum(weights * nats)
    wanted_gradients = tape.gradient(wanted, sources)
    ours = [tf.Variable(hidden), *head.trainable_variables]
    with tf.GradientTape(persistent=True) as tape:
        by_position = rewind(head).training_loss(ours[0], labels)
        summed = tf.reduce_sum(weights.astype(np.float32) * by_position)
        total, _ = rewind(head).loss_and_nats(ours[0], labels, weights)
    for value in (summed, total):
        np.testing.assert_allclose(value, wanted, rtol=1e-5)
        assert_all_close(tape.gradient(value, ours), wanted_gradients, rtol=1e-4)


@pytest.mark.parametrize("shared_samples", [False, True])
def test_a_normaliser_of_each_context_is_subtracted_from_all_scores(shared_samples):
    hidden, labels = positions(V, N)
    head = ready(NCE, V, S, counts=counts(V), train_z="context", shared_samples=shared_samples)
    kernel, bias, log_z, log_z_kernel = [w.numpy() for w in head.trainable_weights]
    loss = head.training_loss(hidden, labels)
    plain = ready(NCE, V, S, counts=counts(V), Z=1, shared_samples=shared_samples)
    for n in range(N):  # the sample is drawn for all positions at once
        offset = hidden[n] @ log_z_kernel + log_z
        plain.set_weights([kernel, bias - offset, *plain.get_weights()[2:]])
        np.testing.assert_allclose(
            rewind(plain).training_loss(hidden, labels)[n], loss[n], rtol=1e-4, atol=1e-5
        )


def test_each_step_draws_anew_and_the_seed_decides():
    hidden, labels = positions(V, N)
    head, other = (ready(SampledSoftmax, V, S, counts=counts(V)) for _ in range(2))
    first, second = (head.training_loss(hidden, labels).numpy() for _ in range(2))
    assert not np.allclose(first, second)
    np.testing.assert_array_equal(other.training_loss(hidden, labels), first)
    fourth = ready(SampledSoftmax, V, S, counts=counts(V), seed=4).training_loss(hidden, labels)
    assert not np.allclose(fourth, first)


@pytest.mark.parametrize("cls, options, message", [
    (SampledSoftmax, {"num_samples": 0}, "`num_samples` must be a positive integer.*0"),
    (SampledSoftmax, {"keep": 9}, r"`keep` must lie in \[1, num_samples=8\].*9"),
    (SampledSoftmax, {"keep": 2}, "`keep` must be None for a sampler with replacement"),
    (
        SampledSoftmax,
        {"num_samples": 14, "sampler": "uniform", "sampler_options": {"unique": True}},
        "`num_samples` must be a positive integer of at most 13.*14",
    ),
    (
        NCE,
        {"sampler": "uniform", "sampler_options": {"unique": True}, "shared_samples": False},
        "`shared_samples` must be True",
    ),
    (
        NegativeSampling, {"sampler": "uniform", "sampler_options": {"unique": True}},
        "`restore_proposal` must be False for a sampler without replacement",
    ),
    (NCE, {"sampler": "uniform", "ngram": 3}, "`ngram` must be unset for sampler='uniform'"),
    (NCE, {"Z": 0}, "`Z` must be a positive number or 'auto'.*0"),
    (NCE, {"train_z": "each"}, "`train_z` must be True, False or 'context'.*'each'"),
    (NCE, {"Z": "V"}, "`Z` must be a positive number or 'auto'.*'V'"),
    (NCE, {"Z": 3, "log_z": 1.0}, "`log_z` must be a finite number, given without `Z`"),
    (SelfNormalisedSoftmax, {"fraction": 0}, r"`fraction` must lie in \(0, 1\].*0"),
    (SelfNormalisedSoftmax, {"alpha": -1}, "`alpha` must be positive.*-1"),
])
def test_wrong_arguments_are_named(cls, options, message):
    sampling = {} if cls is SelfNormalisedSoftmax else {"num_samples": S}
    with pytest.raises(ValueError, match=message):
        cls(V, **{**sampling, **options})


def test_log_uniform_warns_of_counts_that_do_not_fall():
    with pytest.warns(UserWarning, match="`counts` do not fall with the word id"):
        SampledSoftmax(V, S, "log_uniform", counts=np.arange(1, V + 1))
