"""Facts about in-batch negatives."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfsoftmax
from tfsoftmax.heads import NCE, NegativeSampling, SampledSoftmax
from tfsoftmax.samplers import InBatch

SIZE, UNITS = 9, 4
COUNTS = np.array([5, 90, 3, 1, 40, 0, 7, 2, 11])
LABELS = np.array([1, 4, 1, 8, 1, 4, 5], np.int32)


def log_q(counts):
    counts = np.where(counts > 0, counts, counts[counts > 0].min()).astype(np.float64)
    return np.log(counts / counts.sum())


def make(counts=COUNTS, head=SampledSoftmax, num_samples=None, **options):
    head = head(SIZE, num_samples, InBatch(SIZE, counts), **options)
    head.build((None, UNITS))
    rng = np.random.default_rng(2)
    for weight in head.trainable_weights:
        weight.assign(rng.normal(size=weight.shape))
    hidden = tf.constant(rng.normal(size=(len(LABELS), UNITS)), tf.float32)
    return head, hidden


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
@pytest.mark.parametrize("counts", [COUNTS, None])
def test_uniform_words_join_the_labels_with_or_without_correction(jit, counts):
    head, hidden = make(counts, num_samples=12, seed=5)
    drawn = head.sampler.sample(LABELS, 12, head.random_state.next()).ids.numpy()[len(LABELS):]
    assert np.isin(LABELS, drawn).any() and len(set(drawn)) < 12  # hits and words drawn twice
    expected = np.ones(SIZE)  # Shmuma 2017: scores as they are
    if counts is not None:
        expected = [(len(LABELS) - 1) * q + 12 / SIZE for q in np.exp(log_q(COUNTS))]
    wanted = reference(head, hidden, LABELS, False, drawn, expected)
    again, _ = make(counts, num_samples=12, seed=5)
    losses = tf.function(again.training_loss, jit_compile=jit)(hidden, LABELS)
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
    with pytest.raises(ValueError, match="`counts` must be given for sampler='in_batch'"):
        SampledSoftmax(SIZE, None, "in_batch")


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

    for mine, theirs in zip(ours(), plain(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


def expected_gradient(counts, size=3, num_samples=None, **options):
    """The largest slope, at the true distribution, of the loss averaged over all batches."""
    rng = np.random.default_rng(0)
    contexts, words = 2, 4
    joint = rng.dirichlet(np.ones(contexts * words)).reshape(contexts, words)
    sampler = InBatch(words, counts(joint.sum(0)))
    head = SampledSoftmax(words, num_samples, sampler, use_bias=False, **options)
    head.build((None, contexts))
    head.kernel.assign(np.log(joint / joint.sum(1, keepdims=True)).T)
    pairs = list(itertools.product(range(contexts), range(words)))

    @tf.function
    def gradient(hidden, labels):
        loss = tf.reduce_sum(head.training_loss(hidden, labels))
        return tf.convert_to_tensor(tf.gradients(loss, head.kernel.value)[0])

    total = 0
    for batch in itertools.product(pairs, repeat=size):
        context, labels = np.array(batch, np.int32).T
        weight = np.prod([joint[pair] for pair in batch])
        total += weight * gradient(tf.one_hot(context, contexts), tf.constant(labels)).numpy()
    return np.abs(total).max()


def test_the_minimum_is_the_true_distribution():
    assert expected_gradient(lambda q: q) < 1e-6


def test_the_minimum_is_another_without_q_or_without_other_positions_labels():
    assert expected_gradient(np.ones_like) > 1e-2
    assert expected_gradient(lambda q: None) > 1e-2
    assert expected_gradient(lambda q: q, remove_accidental_hits=True) > 1e-2


def test_candidates_are_the_labels_and_their_expected_counts():
    labels = LABELS.reshape(1, 7)
    drawn = InBatch(SIZE, COUNTS).sample(labels, None, 1)
    np.testing.assert_array_equal(drawn.ids, LABELS)
    expected = np.log(6) + log_q(COUNTS)[LABELS]
    np.testing.assert_allclose(drawn.log_expected, expected, rtol=1e-6)
    np.testing.assert_allclose(drawn.log_expected_labels, expected[None], rtol=1e-6)


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


def test_the_head_comes_back_from_its_configuration():
    head, hidden = make()
    again = SampledSoftmax.from_config(head.get_config())
    again.build((None, UNITS))
    again.set_weights(head.get_weights())
    np.testing.assert_array_equal(
        again.training_loss(hidden, LABELS), head.training_loss(hidden, LABELS)
    )


def test_other_heads_leave_out_all_hits():
    head, hidden = make(head=NCE, remove_accidental_hits=True)
    assert np.isfinite(head.training_loss(hidden, LABELS)).all()
    with pytest.raises(ValueError, match="`restore_proposal` must be False for a sampler that h"):
        make(head=NegativeSampling, remove_accidental_hits=True)
    with pytest.raises(ValueError, match="`remove_accidental_hits` must be True for NCE"):
        make(head=NCE)


def test_what_cannot_be_asked_for_is_named():
    sampler = InBatch(SIZE, COUNTS)
    with pytest.raises(ValueError, match="`num_samples` must be a positive .*num_samples=0"):
        SampledSoftmax(SIZE, 0, sampler)
    with pytest.raises(ValueError, match="`keep` must be None"):
        SampledSoftmax(SIZE, None, sampler, keep=3)
    with pytest.raises(ValueError, match="`remove_accidental_hits` must be True for SampledSoft"):
        SampledSoftmax(SIZE, None, sampler, remove_accidental_hits=False)
    with pytest.raises(ValueError, match="`labels` must be those of a batch"):
        head, hidden = make()
        head.effective_sample_size(hidden)
    with pytest.raises(ValueError, match="`shared_samples` must be True"):
        head, hidden = make(shared_samples=False)
        head.training_loss(hidden, LABELS)
