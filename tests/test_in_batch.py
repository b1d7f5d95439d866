"""Facts about in-batch negatives."""


import keras
import numpy as np
import pytest
import tensorflow as tf

import tfsoftmax
from cases import assert_all_close, rewind, with_gradients
from refusals import refuses
from tfsoftmax.heads import NCE, BlackOut, NegativeSampling, SampledSoftmax
from tfsoftmax.samplers import Excluding, InBatch, LearnedUnigram, Uniform, Unigram
from tfsoftmax.survey import SampledObjective

SIZE, UNITS = 9, 4
COUNTS = np.array([5, 90, 3, 1, 40, 0, 7, 2, 11])
LABELS = np.array([1, 4, 1, 8, 1, 4, 5], np.int32)
OF_OTHERS = f"be a sampler of {SIZE} words that draws with replacement"


def log_q(counts):
    counts = np.where(counts > 0, counts, counts[counts > 0].min()).astype(np.float64)
    return np.log(counts / counts.sum())


def make(counts=COUNTS, head=SampledSoftmax, num_samples=None, extra=None, **options):
    head = head(SIZE, num_samples, InBatch(SIZE, counts, extra), **options)
    head.build((None, UNITS))
    rng = np.random.default_rng(2)
    for weight in head.trainable_weights:
        weight.assign(rng.normal(size=weight.shape))
    hidden = tf.constant(rng.normal(size=(len(LABELS), UNITS)), tf.float32)
    return head, hidden


def of_pairs(vocab_size, num_samples, sampler, **options):
    return SampledObjective(vocab_size, num_samples, "bpr", sampler, **options)


def reference(head, hidden, labels, all_hits=False, drawn=(), expected=None):
    """A softmax over the batch's labels and the words drawn, written as loops."""
    scores = hidden.numpy().astype(np.float64) @ head.kernel.numpy().T.astype(np.float64)
    scores += head.bias.numpy() - (log_q(COUNTS) if expected is None else np.log(expected))
    losses = []
    for position, label in enumerate(labels):
        others = [
            scores[position, other] for n, other in enumerate([*labels, *drawn])
            if n != position and not (all_hits and other == label)
        ]
        own = scores[position, label]
        losses.append(np.log(np.exp([own, *others]).sum()) - own)
    return losses


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("all_hits", [False, True])
def test_the_loss_is_a_softmax_over_the_labels_of_the_batch(jit, all_hits):
    head, hidden = make(remove_accidental_hits=True if all_hits else None)
    losses = tf.function(head.training_loss, jit_compile=jit)(hidden, LABELS)
    np.testing.assert_allclose(losses, reference(head, hidden, LABELS, all_hits), rtol=1e-5)


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("counts, extra", [
    (COUNTS, None), (None, None), (COUNTS, Unigram(SIZE, COUNTS[::-1])),
])
def test_words_of_another_distribution_join_the_labels(jit, counts, extra):
    """Uniform ones if there is no `extra`; without counts, scores stay so (Shmuma 2017)."""
    head, hidden = make(counts, num_samples=12, extra=extra, seed=5)
    seed = rewind(head).random_state.next()
    drawn = head.sampler.sample(LABELS, 12, seed).ids.numpy()[len(LABELS):]
    assert np.isin(LABELS, drawn).any() and len(set(drawn)) < 12  # hits and words drawn twice
    if extra is not None:
        np.testing.assert_array_equal(drawn, extra.sample([0], 12, seed).ids)
    expected = np.ones(SIZE)
    if counts is not None:
        q = np.full(SIZE, 1 / SIZE) if extra is None else np.exp(log_q(extra.counts))
        expected = (len(LABELS) - 1) * np.exp(log_q(COUNTS)) + 12 * q
    wanted = reference(head, hidden, LABELS, False, drawn, expected)
    losses = tf.function(rewind(head).training_loss, jit_compile=jit)(hidden, LABELS)
    np.testing.assert_allclose(losses, wanted, rtol=1e-5)


def test_uniform_words_are_drawn_anew_in_each_step_and_equally_likely():
    sampler = InBatch(SIZE, COUNTS)
    ids = [sampler.sample(LABELS, 50, (3, step)).ids.numpy() for step in range(40)]
    assert all((of[:7] == LABELS).all() for of in ids)
    counts = np.bincount(np.concatenate([of[7:] for of in ids]), minlength=SIZE)
    np.testing.assert_allclose(counts, 2000 / SIZE, atol=4.5 * np.sqrt(2000 / SIZE))


def test_the_name_takes_counts_unless_they_are_turned_off():
    head = SampledSoftmax(SIZE, None, "in_batch", counts=COUNTS)
    np.testing.assert_array_equal(head.sampler.counts, COUNTS)
    plain = SampledSoftmax(SIZE, 12, "in_batch", COUNTS, sampler_options={"counts": None})
    assert plain.sampler.counts is None
    assert SampledSoftmax.from_config(plain.get_config()).sampler.counts is None


@pytest.mark.parametrize("jit", [False, True])
def test_gradients_are_those_of_that_softmax(jit):
    head, hidden = make()
    weights = np.random.default_rng(1).uniform(0.5, 2, len(LABELS)).astype(np.float32)
    offset = tf.constant(-log_q(COUNTS), tf.float32)

    @tf.function(jit_compile=jit)
    def ours():
        loss = tf.reduce_sum(weights * head.training_loss(hidden, LABELS))
        found = tf.gradients(loss, [hidden, head.kernel.value, head.bias.value])
        return [tf.convert_to_tensor(gradient) for gradient in found]

    @tf.function
    def plain():
        kernel, bias = head.kernel.value, head.bias.value
        rows = tf.gather(kernel, LABELS)
        scores = tf.matmul(hidden, rows, transpose_b=True) + tf.gather(bias + offset, LABELS)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.range(len(LABELS)), scores)
        found = tf.gradients(tf.reduce_sum(weights * losses), [hidden, kernel, bias])
        return [tf.convert_to_tensor(gradient) for gradient in found]

    assert_all_close(ours(), plain(), rtol=1e-4)


def test_heads_that_share_a_sampler_smooth_apart():
    sampler = InBatch(SIZE, COUNTS)
    smoothed, plain, alone = (
        SampledSoftmax(SIZE, None, each, label_smoothing=share, seed=1)
        for each, share in ((sampler, 0.4), (sampler, 0.0), (InBatch(SIZE, COUNTS), 0.4))
    )
    expected = [
        head._sample(tf.constant([1, 2, 2]), None, 1).log_expected.numpy()
        for head in (smoothed, plain, alone)
    ]
    np.testing.assert_array_equal(expected[0], expected[2])
    assert not np.allclose(expected[0], expected[1])


def test_smoothing_replaces_a_share_of_the_labels_by_uniform_ones():
    head = SampledSoftmax(SIZE, 3, "uniform", label_smoothing=0.4, seed=2)
    labels = head._smoothed(tf.fill([90_000], 5)).numpy()
    wanted = np.full(SIZE, 0.4 / SIZE) + 0.6 * np.eye(SIZE)[5]
    np.testing.assert_allclose(np.bincount(labels) / 90_000, wanted, atol=0.007)
    assert SampledSoftmax.from_config(head.get_config()).label_smoothing == 0.4


def test_q_may_be_counted_in_the_stream():
    head, hidden = make("learned")
    first = reference(head, hidden, LABELS, expected=np.ones(SIZE))
    np.testing.assert_allclose(head.training_loss(hidden, LABELS), first, rtol=1e-5)
    counted = 1 + np.bincount(LABELS, minlength=SIZE)
    second = reference(head, hidden, LABELS, expected=counted / counted.sum())
    np.testing.assert_allclose(head.training_loss(hidden, LABELS), second, rtol=1e-5)
    named = SampledSoftmax(SIZE, None, "in_batch", sampler_options={"counts": "learned"})
    assert SampledSoftmax.from_config(named.get_config()).sampler.counts == "learned"


@pytest.mark.parametrize("make_sampler, how, jit", [
    (lambda: InBatch(SIZE, "learned"), "ignore_class", False),
    (lambda: InBatch(SIZE, "learned"), "ignore_class", True),
    (lambda: LearnedUnigram(SIZE), "sample_weight", False),
    (lambda: LearnedUnigram(SIZE), "ignore_class", True),
    (lambda: InBatch(SIZE, COUNTS, LearnedUnigram(SIZE)), "ignore_class", False),
])
def test_labels_of_weight_zero_do_not_count(make_sampler, how, jit):
    sampler = make_sampler()
    head = SampledSoftmax(SIZE, 4, sampler)
    model = keras.Sequential([keras.Input((UNITS,)), head])
    loss = tfsoftmax.SoftmaxLoss(4 if how == "ignore_class" else None)
    model.compile("sgd", loss, jit_compile=jit)
    weights = (LABELS != 4).astype(np.float32) if how == "sample_weight" else None
    model.fit(np.ones((7, UNITS), np.float32), LABELS, sample_weight=weights, verbose=0)
    learned = getattr(sampler, "learned", None) or getattr(sampler, "extra", sampler)
    counted = np.bincount(LABELS[LABELS != 4], minlength=SIZE) + 1
    np.testing.assert_allclose(
        np.exp(learned.log_q(np.arange(SIZE))), counted / counted.sum(), rtol=1e-5
    )


def test_positions_of_weight_zero_are_no_negatives():
    head, hidden = make()
    weights = np.array([1, 0, 2, 1, 0, 1, 1], np.float32)
    kept = weights > 0
    total, _ = head.loss_and_nats(hidden, LABELS, weights)
    losses = reference(head, tf.constant(hidden.numpy()[kept]), LABELS[kept])
    np.testing.assert_allclose(total, weights[kept] @ losses, rtol=1e-5)
    none, _ = head.loss_and_nats(hidden, LABELS, 0 * weights)
    assert none == 0


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("head", [SampledSoftmax, NCE, BlackOut])
def test_a_lone_label_that_cannot_be_drawn_is_known_for_certain(jit, head):
    """NCE still has to tell the words that were drawn from labels."""
    head, hidden = make(COUNTS, head, 5, Excluding(SIZE, [1], Uniform(SIZE - 1)), seed=1)
    weights, losses = np.eye(len(LABELS), dtype=np.float32)[0], 0.0
    if isinstance(head, NCE):
        drawn = head.sampler.sample(LABELS, 5, rewind(head).random_state.next()).ids.numpy()[7:]
        scores = hidden.numpy()[0] @ head.kernel.numpy()[drawn].T + head.bias.numpy()[drawn]
        scores -= head.initial_log_z + np.log(5 / (SIZE - 1))
        losses = np.logaddexp(0, scores).sum()
    step = tf.function(rewind(head).loss_and_nats, jit_compile=jit)
    (total, _), gradients = with_gradients(step, [hidden, head.bias], hidden, LABELS, weights)
    np.testing.assert_allclose(total, losses, rtol=1e-4, atol=1e-30)
    assert all(np.isfinite(gradient).all() for gradient in gradients)


@pytest.mark.parametrize("head, num_samples, options", [
    (SampledSoftmax, 3, {}), (NCE, None, {}), (BlackOut, None, {}),
    (NegativeSampling, None, {"restore_proposal": False}), (of_pairs, None, {}),
])
def test_positions_of_weight_zero_are_no_negatives_under_xla(head, num_samples, options):
    """Some of the others have the label that padding has there, too."""
    head, hidden = make(COUNTS, head, num_samples, seed=1, **options)
    labels, weights = np.array([1, 0, 0, 8, 0, 4, 0]), np.array([1, 0, 2, 1, 0, 1, 1.0], np.float32)
    kept, found = weights > 0, []
    for jit, where in ((False, kept), (True, slice(None))):
        step = tf.function(head.loss_and_nats, jit_compile=jit)
        rewind(head)
        found.append(with_gradients(
            step, head.trainable_weights, hidden.numpy()[where], labels[where], weights[where]
        ))
    np.testing.assert_allclose(found[0][0][0], found[1][0][0], rtol=1e-5)
    assert_all_close(found[0][1], found[1][1])


def test_the_hardest_of_the_batch_may_be_kept():
    head, hidden = make(keep=2)
    losses, scores = [], hidden.numpy() @ head.kernel.numpy().T + head.bias.numpy()
    for position, label in enumerate(LABELS):
        others = np.delete(LABELS, position)
        shares = {word: sum(others == word) / sum(LABELS == word) for word in others}
        words = sorted(shares, key=lambda w: -scores[position, w] - np.log(shares[w]))[:2]
        terms = [
            np.sum(others == word) * np.exp(scores[position, word] - log_q(COUNTS)[word])
            for word in words
        ]
        own = np.exp(scores[position, label] - log_q(COUNTS)[label])
        losses.append(np.log(own + sum(terms)) - np.log(own))
    np.testing.assert_allclose(head.training_loss(hidden, LABELS), losses, rtol=1e-5)
    assert not head.supports_jit and make()[0].supports_jit
    with pytest.raises(NotImplementedError, match="SampledSoftmax cannot be compiled by XLA"):
        tf.function(head.training_loss, jit_compile=True)(hidden, LABELS)


def test_by_corrected_scores_the_hardest_of_the_batch_are_those_of_tensorflow_recommenders():
    """Its task subtracts ln q and then takes the n highest columns, here without equal labels."""
    labels = np.array([1, 4, 8, 5, 2, 6, 7], np.int32)
    head, hidden = make(keep=2, keep_by="corrected_score")
    scores = hidden.numpy().astype(np.float64) @ head.kernel.numpy().T + head.bias.numpy()
    logits = (scores - log_q(COUNTS))[:, labels]
    by_score = np.empty(len(labels))
    for n, row in enumerate(logits):
        hardest = np.sort(np.delete(row, n))[-2:]
        by_score[n] = np.log(np.exp(row[n]) + np.exp(hardest).sum()) - row[n]
    np.testing.assert_allclose(head.training_loss(hidden, labels), by_score, rtol=1e-5)
    default, _ = make(keep=2)
    assert np.abs(default.training_loss(hidden, labels) - by_score).max() > 0.1


def test_fit_takes_batches_of_any_size_and_reads_no_other_rows():
    inputs = keras.Input((UNITS,))
    head = SampledSoftmax(SIZE, None, InBatch(SIZE, COUNTS))
    model = keras.Model(inputs, head(inputs))
    model.compile(tfsoftmax.optimizers.Adagrad(0.5), tfsoftmax.SoftmaxLoss(),
                  weighted_metrics=[tfsoftmax.Perplexity()])
    hidden = np.random.default_rng(0).normal(size=(len(LABELS), UNITS)).astype(np.float32)
    before, absent = head.kernel.numpy(), np.setdiff1d(np.arange(SIZE), LABELS)
    model.fit(hidden, LABELS, batch_size=5, epochs=2, verbose=0)
    np.testing.assert_array_equal(head.kernel.numpy()[absent], before[absent])
    assert (head.kernel.numpy()[LABELS] != before[LABELS]).all()
    logits = model.predict(hidden, verbose=0)
    nats = -tf.nn.log_softmax(logits).numpy()[range(len(LABELS)), LABELS].mean()
    assert model.evaluate(hidden, LABELS, verbose=0)[1] == pytest.approx(np.exp(nats), rel=1e-5)


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("head, options", [
    (NCE, {"log_z": 0.5}), (NegativeSampling, {"restore_proposal": False}),
])
def test_logistic_losses_leave_out_the_positions_own_label_once(jit, head, options):
    head, hidden = make(head=head, **options)
    scores = hidden.numpy().astype(np.float64) @ head.kernel.numpy().T + head.bias.numpy()
    if "log_z" in options:
        scores = scores - 0.5 - np.log(len(LABELS) - 1) - log_q(COUNTS)
    wanted = [
        np.logaddexp(0, -scores[i, label])
        + sum(np.logaddexp(0, scores[i, other]) for j, other in enumerate(LABELS) if i != j)
        for i, label in enumerate(LABELS)
    ]
    variables = [hidden, head.kernel.value, head.bias.value]

    @tf.function(jit_compile=jit)
    def ours():
        losses = head.training_loss(hidden, LABELS)
        return losses, [tf.convert_to_tensor(g) for g in tf.gradients(losses, variables)]

    losses, gradients = ours()
    np.testing.assert_allclose(losses, wanted, rtol=1e-5)
    slopes = np.zeros((len(LABELS), SIZE))
    for (i, j), share in np.ndenumerate(1 / (1 + np.exp(-scores[:, LABELS]))):
        slopes[i, LABELS[j]] += share - (i == j)
    wanted = [slopes @ head.kernel.numpy(), slopes.T @ hidden.numpy(), slopes.sum(0)]
    assert_all_close(gradients, wanted, rtol=1e-4)


@pytest.mark.parametrize("use, name, rule", [
    (lambda _: SampledSoftmax(SIZE, None, "in_batch"), "counts", "be given for sampler='in_batch'"),
    (lambda _: make(head=NegativeSampling), "restore_proposal", "be False for a sampler that h"),
    (lambda its: SampledSoftmax(SIZE, 0, its), "num_samples", "be a positive"),
    (lambda _: InBatch(SIZE, "seen"), "counts", "be numbers, 'learned' or None"),
    (lambda _: InBatch(SIZE, COUNTS, Uniform(SIZE, unique=True)), "extra", OF_OTHERS),
    (lambda _: InBatch(SIZE, COUNTS, Uniform(SIZE + 1)), "extra", OF_OTHERS),
    (lambda its: InBatch(SIZE, COUNTS, its), "extra", OF_OTHERS),
    (lambda its: SampledSoftmax(SIZE, None, its, remove_accidental_hits=False),
     "remove_accidental_hits", "not be False for"),
    (lambda _: make()[0].effective_sample_size(make()[1]), "sampler", "draw words of its own"),
    (lambda _: make(shared_samples=False)[0].training_loss(make()[1], LABELS), "shared_samples",
     "be True"),
    (lambda _: SampledSoftmax(SIZE, 3, "uniform", label_smoothing=1.0), "label_smoothing",
     "lie in [0, 1)"),
])
def test_what_cannot_be_asked_for_is_named(use, name, rule):
    with refuses(name, rule):
        use(InBatch(SIZE, COUNTS))
