"""Target sampling: the walk over the stream, and the softmax over the present chunk's words."""

import numpy as np
import pytest
import tensorflow as tf

import references
from cases import language_model, positions, prepared
from tfsoftmax import Perplexity, SampledSoftmax, SoftmaxLoss
from tfsoftmax.corpora.pipeline import batches
from tfsoftmax.optimizers import Adagrad
from tfsoftmax.samplers import TargetSampling, audit_sampler, target_vocabularies

V, S, B, T = 23, 9, 2, 3
TINY = np.array([[[4, 4, 1]], [[1, 7, 4]], [[7, 2, 1]], [[2, 0, 1]], [[5, 5, 5]], [[5, 2, 6]]])


def stream(steps=11, seed=0):
    """Labels (steps, B, T)."""
    return np.random.default_rng(seed).integers(0, V, (steps, B, T)).astype(np.int32)


def sampler(labels=None, **options):
    labels = stream() if labels is None else labels
    return TargetSampling(V, *target_vocabularies(labels, V, S), **options)


def ready(labels=None):
    return prepared(SampledSoftmax(V, S, sampler(labels)))


def chunk_of(step, ends):
    return next(c for c, end in enumerate(ends) if step % ends[-1] < end)


def test_chunks_of_a_tiny_stream_end_before_a_batch_too_many():
    vocabularies, ends = target_vocabularies(TINY, 8, 4)
    # 4 1 | 1 7 4 | 7 2 1 make {1 2 4 7}; 2 0 1 | 5 make {0 1 2 5}; 5 2 6 would bring a fifth
    assert ends.tolist() == [3, 5, 6]
    assert vocabularies[:2].tolist() == [[1, 2, 4, 7], [0, 1, 2, 5]]
    assert {2, 5, 6} < set(vocabularies[2].tolist())
    assert vocabularies.dtype == np.int32


@pytest.mark.parametrize("size", [6, 9, 17, V])
def test_vocabularies_hold_all_labels_of_their_chunk_and_nothing_twice(size):
    labels = stream(50)
    vocabularies, ends = target_vocabularies(iter(labels), V, size)
    assert ends[-1] == 50 and vocabularies.shape == (len(ends), size)
    assert all(len(set(row)) == size for row in vocabularies)
    for step, words in enumerate(labels):
        assert np.isin(words, vocabularies[chunk_of(step, ends)]).all()
    for begin, end in zip([0, *ends], ends[:-1]):  # no chunk could have had one batch more
        assert len(np.unique(labels[begin : end + 1])) > size


def test_words_that_fill_up_are_all_equally_likely_and_follow_the_seed():
    labels = np.array([[3, 5]])
    filled = [target_vocabularies([labels], 10, 6, seed)[0][0] for seed in range(2000)]
    counts = np.bincount(np.concatenate(filled), minlength=10)
    others = [w for w in range(10) if w not in (3, 5)]
    assert counts[3] == counts[5] == 2000
    np.testing.assert_allclose(counts[others], 1000, atol=4.5 * np.sqrt(500))
    np.testing.assert_array_equal(filled[7], target_vocabularies([labels], 10, 6, seed=7)[0][0])


def test_the_sample_is_the_vocabulary_of_the_chunk_over_and_over():
    labels, proposal = stream(), sampler()
    assert len(proposal.ends) > 2
    for step in range(2 * len(labels) + 1):
        batch = labels[step % len(labels)]
        ids, log_expected, log_expected_labels = proposal.sample(batch, S, step)
        words = proposal.vocabularies[chunk_of(step, proposal.ends)]
        np.testing.assert_array_equal(ids, words)
        assert not log_expected.numpy().any() and not log_expected_labels.numpy().any()
        q = np.exp(proposal.log_q(tf.range(V)).numpy())
        np.testing.assert_allclose(q, np.isin(np.arange(V), words) / S, rtol=1e-6)
        proposal.update(batch)


def test_claims_are_honest_for_words_within_and_outside_the_chunk():
    audit = audit_sampler(sampler(), S, draws=30, jit_compile=True)
    assert audit.honest and sorted(audit.claimed) == [0] * (V - S) + [1] * S


def test_words_for_each_label_are_drawn_from_the_chunk():
    proposal = sampler()
    ids, log_expected, _ = proposal.sample_for_each(stream()[0, 0], 400, 3)
    np.testing.assert_allclose(log_expected, np.log(400 / S), rtol=1e-5)
    counts = np.bincount(np.ravel(ids), minlength=V)[proposal.vocabularies[0]]
    assert counts.sum() == 400 * T
    np.testing.assert_allclose(counts, 400 * T / S, atol=4.5 * np.sqrt(400 * T / S))


@pytest.mark.parametrize("jit_compile", [False, True])
def test_the_loss_is_the_softmax_over_the_chunks_words(jit_compile):
    labels, head = stream(), ready()
    loss = tf.function(head.training_loss, jit_compile=jit_compile)
    kernel, bias = head.kernel.numpy(), head.bias.numpy()
    for step, batch in enumerate(labels):
        hidden, _ = positions(V, B * T, seed=step)
        words = head.sampler.vocabularies[chunk_of(step, head.sampler.ends)]
        log_probs = references.full_log_probs(hidden, kernel[words], bias[words])
        place = np.searchsorted(words, batch.ravel())
        wanted = -log_probs[np.arange(B * T), place].reshape(B, T)
        losses = loss(hidden.reshape(B, T, -1), batch)
        np.testing.assert_allclose(losses, wanted, rtol=2e-5)


def test_gradients_touch_the_chunks_rows_alone():
    head, (hidden, _) = ready(), positions(V, B * T)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(head.training_loss(hidden, stream()[0].ravel()))
    rows = tape.gradient(loss, head.kernel.value).indices.numpy()
    assert sorted(rows) == head.sampler.vocabularies[0].tolist()


def test_a_label_of_another_chunk_stops_training_and_under_jit_makes_the_loss_nan():
    head, (hidden, _) = ready(), positions(V, 1)
    outside = np.setdiff1d(np.arange(V), head.sampler.vocabularies[0])[:1].astype(np.int32)
    message = rf"`labels` must come from the stream[\s\S]*{outside[0]}"
    for function in (head.training_loss, tf.function(head.training_loss)):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            function(hidden, outside)
    assert head.sampler.step.numpy() == 0
    loss = tf.function(head.training_loss, jit_compile=True)(hidden, outside)
    assert np.isnan(loss).all()


def test_a_position_that_does_not_count_is_in_any_chunk():
    """As one of a replica all of whose positions have weight zero."""
    sampler = ready().sampler
    sampler.update(tf.constant([-1]))
    assert sampler.step.numpy() == 1


def data(words):
    """Batches of (inputs, labels) of a stream (steps, B, T + 1)."""
    return tf.data.Dataset.from_tensor_slices((words[..., :-1], words[..., 1:]))


def compiled(words):
    model = language_model(ready(labels=words[..., 1:]), time_steps=T, streams=B)
    model.compile(Adagrad(0.2), SoftmaxLoss(), weighted_metrics=[Perplexity()], jit_compile=False)
    return model


def test_fit_trains_and_a_reloaded_model_goes_on_with_the_chunk_it_was_in(through_a_file):
    words = np.random.default_rng(2).integers(0, V, (11, B, T + 1)).astype(np.int32)
    model, train = compiled(words), data(words)
    before = model.evaluate(train, verbose=0, return_dict=True)["perplexity"]
    model.fit(train, epochs=20, shuffle=False, verbose=0)
    assert model.evaluate(train, verbose=0, return_dict=True)["perplexity"] < 0.7 * before
    model.fit(train.take(7), shuffle=False, verbose=0)
    again = through_a_file(model)
    proposal = again.layers[-1].sampler
    assert proposal.step.numpy() == 20 * 11 + 7
    assert proposal.chunk() == chunk_of(7, proposal.ends) > 0
    rest = [m.fit(train.skip(7), shuffle=False, verbose=0).history for m in (model, again)]
    np.testing.assert_allclose(rest[0]["loss"], rest[1]["loss"], rtol=1e-6)


def test_a_frozen_head_goes_through_the_stream_too():
    words = np.random.default_rng(2).integers(0, V, (11, B, T + 1)).astype(np.int32)
    model = compiled(words)
    model.layers[-1].trainable = False
    model.compile(Adagrad(0.2), SoftmaxLoss(), jit_compile=False)
    history = model.fit(data(words), shuffle=False, verbose=0).history
    assert np.isfinite(history["loss"]).all() and model.layers[-1].sampler.step.numpy() == 11


def test_fit_on_another_order_of_the_batches_is_an_error():
    words = np.random.default_rng(2).integers(0, V, (11, B, T + 1)).astype(np.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="`labels` must come from the stream"):
        compiled(words).fit(data(words[::-1]), shuffle=False, verbose=0)


def test_a_prepared_corpus_is_walked_by_its_own_batches(corpus):
    size = len(corpus.vocabulary)
    labels = (labels for _, labels, _ in batches(corpus, "train"))
    proposal = TargetSampling(size, *target_vocabularies(labels, size, 40))
    assert proposal.ends[-1] == corpus.split("train").records and len(proposal.ends) > 1
    for _, labels, _ in batches(corpus, "train"):
        proposal.update(labels)  # an error if a label were missing
    assert proposal.chunk() == 0


@pytest.mark.parametrize("build, message", [
    (lambda: target_vocabularies(TINY, 8, 2), "`num_samples` must be .*3 in batch 1.*=2"),
    (lambda: target_vocabularies(TINY, 8, 9), r"`num_samples` must lie in \[1, vocab_size=8\].*9"),
    (lambda: target_vocabularies(TINY, 8, 0), "`num_samples` must lie in .*num_samples=0"),
    (lambda: target_vocabularies(TINY, 7, 4), r"hold words in \[0, 7\).*from 1 to 7 in batch 1"),
    (lambda: target_vocabularies([[-1, 2]], 7, 4), "`label_batches` must hold .*from -1 to 2"),
    (lambda: target_vocabularies([], 7, 4), "`label_batches` must not be empty"),
    (lambda: sampler().sample([1], S + 1, 0), "`num_samples` must be 9,.*num_samples=10"),
    (lambda: TargetSampling(5, [1, 2], [3]), r"`vocabularies` must be of shape.*\(2,\)"),
    (lambda: TargetSampling(5, [[1, 5]], [3]), "`vocabularies` must hold .*from 1 to 5"),
    (lambda: TargetSampling(5, [[1, 2], [4, 4]], [3, 4]), "different words.*repeated .* row 1"),
    (lambda: TargetSampling(5, [[1, 2]], [3, 4]), r"`ends` must be 1 .*ends=\[3, 4\]"),
    (lambda: TargetSampling(5, [[1, 2], [3, 4]], [3, 3]), r"increase strictly.*ends=\[3, 3\]"),
    (lambda: SampledSoftmax(
        5, 2, TargetSampling(5, [[1, 2]], [3]), label_smoothing=0.1
    ), "`label_smoothing` must be 0 with TargetSampling"),
    (lambda: TargetSampling(5, [[1, 2]], [0]), r"`ends` must .*from above 0.*\[0\]"),
])
def test_errors_name_the_argument_the_expectation_and_the_value(build, message):
    with pytest.raises(ValueError, match=message):
        build()
