"""Each wrong input is an error whose beginning names the argument, the expectation, the value."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfsoftmax
from cases import CASES, ONE_OF_EACH, UNITS, built, language_model, positions
from keras_helper import B, V, compiled, data
from refusals import refused
from tfsoftmax.losses import SoftmaxLoss
from tfsoftmax.metrics import MRR, NDCG, Accuracy, Perplexity, RecallAtK

HIDDEN, LABELS = positions(V, 6)
ROWS = [2, 4]


def model_of(*options, **compiled_with):
    inputs = keras.Input((UNITS,))
    model = keras.Model(inputs, CASES["full"](V)(inputs))
    model.compile(*options, **compiled_with)
    return model


def ragged(array):
    return tf.RaggedTensor.from_row_lengths(array, ROWS)


@pytest.mark.parametrize("labels, message", [
    (LABELS > 3, "`labels` must be integers.*Received: bool"),
    ([""] * 6, "`labels` must be integers.*Received: string"),
    (np.eye(V, dtype=int)[LABELS], r"`labels` must .*\(6,\).*shape \(6, 13\).*argmax"),
    (LABELS[:3], r"`labels` must have the shape.*\(6,\).*Received: labels of shape \(3,\)"),
    (LABELS + 0.5, r"`labels` must lie in \[0, 13\).*\[0\] 0.5"),
    (LABELS - 100, r"`labels` must lie in \[0, 13\).*\[0\] -100"),
    (ragged(LABELS), "`labels` must be a dense tensor.*RaggedTensor"),
    (tf.sparse.from_dense(LABELS), "`labels` must be a dense tensor.*SparseTensor"),
])
def test_labels(labels, message):
    with pytest.raises((ValueError, TypeError, tf.errors.InvalidArgumentError)) as error:
        built("full", V).log_prob(HIDDEN, labels)
    assert tf.strings.regex_full_match(str(error.value)[:200], f".*{message}.*")


@pytest.mark.parametrize("hidden, message", [
    (HIDDEN[:, :5], r"`hidden` must have 7 units.*Received: hidden of shape \(6, 5\)"),
    (1.0, r"`hidden` must have 7 units.*Received: hidden of shape \(\)"),
    (ragged(HIDDEN), "`hidden` must be a dense tensor.*RaggedTensor"),
    (tf.sparse.from_dense(HIDDEN), "`hidden` must be a dense tensor.*SparseTensor"),
])
@pytest.mark.parametrize("method", ["log_prob", "training_loss", "log_probs"])
def test_hidden(hidden, message, method):
    labels = [LABELS] if method != "log_probs" else []
    with pytest.raises((ValueError, TypeError), match=message):
        getattr(built("full", V), method)(hidden, *labels)


def test_the_call_names_the_units_as_keras_does():
    refused(r"expected axis -1 .* value 7.* shape \(6, 5\)", built("full", V), HIDDEN[:, :5])


@pytest.mark.parametrize("case", ONE_OF_EACH)
def test_an_unknown_number_of_units(case):
    with pytest.raises(ValueError, match=r"`hidden` must have a known number of units.*\(None, 4"):
        CASES[case](V)(keras.Input((4, None)))


@pytest.mark.parametrize("k", [0, V + 1, 2.5, True, "2", None])
def test_k(k):
    refused(rf"`k` must be an integer in \[1, 13\].*k={k!r}", built("full", V).top_k, HIDDEN, k)


def test_float_labels_must_hold_every_id():
    head = CASES["sampled"](300)
    with pytest.raises(TypeError, match="`labels` must be integers: bfloat16 does not.* below 300"):
        head.log_prob(HIDDEN, tf.cast(LABELS, tf.bfloat16))


def test_float_labels_train_as_integers_do():
    words, labels, _ = data()
    losses = []
    for typed in (labels, labels.astype("float32")):
        keras.utils.set_random_seed(2)
        losses += compiled("full").fit(words, typed, B, verbose=0, shuffle=False).history["loss"]
    assert losses[0] == losses[1]


@pytest.mark.parametrize("case", ONE_OF_EACH)
def test_one_position_without_a_batch(case):
    head = built(case, V)
    for method in ("log_prob", "training_loss"):
        alone = getattr(head, method)(HIDDEN[0], LABELS[0])
        assert alone.shape == () and np.isfinite(alone)
    np.testing.assert_allclose(
        head.log_prob(HIDDEN[0], LABELS[0]), head.log_prob(HIDDEN[:1], LABELS[:1])[0], rtol=1e-5
    )
    assert head(HIDDEN[0]).shape == head.log_probs(HIDDEN[0]).shape == (V,)
    assert head.top_k(HIDDEN[0], 3)[0].shape == (3,)


@pytest.mark.parametrize("case, wrong", [
    ("full", V), ("full", -1), ("sampled", V), ("tree", V),
    *(pytest.param(case, V, marks=pytest.mark.slow) for case in ("adaptive", "nary", "nce")),
])
def test_a_wrong_label_is_named_at_the_end_of_the_error(case, wrong):
    model, (words, labels, _) = compiled(case), data()
    labels[1, 2] = wrong
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        model.fit(words, labels, B, verbose=0)
    end = str(error.value)[-400:]
    assert "`labels` must lie in [0, 13)" in end and f"[{wrong}]" in end


def test_ragged_labels_in_fit():
    model = model_of("sgd", SoftmaxLoss())
    with pytest.raises(TypeError, match="`y_true` must be a dense tensor.*RaggedTensor"):
        model.fit(HIDDEN[:2], ragged(LABELS), verbose=0)


def test_time_distributed_is_told_apart():
    inputs = keras.Input((5, UNITS))
    model = keras.Model(inputs, keras.layers.TimeDistributed(CASES["full"](V))(inputs))
    model.compile("sgd", compiled("full").loss)
    with pytest.raises(ValueError, match=r"`y_pred` must be the output.*without TimeDistributed"):
        model.fit(np.ones((2, 5, UNITS)), np.ones((2, 5)), verbose=0)


def of_unknown_rank(labels, *more):
    """A data set of batches whose labels have no static shape, as `tf.py_function` returns them."""
    data = tf.data.Dataset.from_tensor_slices((HIDDEN, labels, *more)).batch(4)

    def forget(hidden, labels, *more):
        return hidden, *(tf.py_function(tf.identity, [t], t.dtype) for t in (labels, *more))

    return data.map(forget)


@pytest.mark.parametrize("axes", [(), (1,)])
@pytest.mark.parametrize("options", [{}, {"jit_compile": True}, {"run_eagerly": True}])
def test_labels_of_unknown_rank_are_those_of_the_positions(axes, options):
    metrics = [Perplexity(3), Accuracy()]
    model = model_of(keras.optimizers.SGD(0.0), SoftmaxLoss(3), metrics=metrics, **options)
    wanted = model.evaluate(HIDDEN, LABELS, 4, verbose=0)
    labels = LABELS.reshape(-1, *axes)
    found = model.evaluate(of_unknown_rank(labels), verbose=0)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    history = model.fit(of_unknown_rank(labels), shuffle=False, verbose=0).history
    np.testing.assert_allclose(history["loss"], wanted[:1], rtol=1e-5)


def test_labels_of_unknown_rank_in_sequences():
    model, (words, labels, _) = language_model(CASES["full"](V)), data(1)
    wanted = SoftmaxLoss()(labels, model(words))

    @tf.function(input_signature=[tf.TensorSpec(None, tf.int32)])
    def loss(labels):
        return SoftmaxLoss()(labels, model(words))

    for same in (labels, labels[..., None]):
        np.testing.assert_allclose(loss(same), wanted, rtol=1e-6)
    for wrong in (labels.T, labels[0], labels.reshape(-1), labels[None]):
        refused("`y_true` must have the shape", loss, wrong, error=tf.errors.InvalidArgumentError)


def test_what_else_has_an_unknown_rank_is_named():
    model = model_of("sgd", SoftmaxLoss())
    weights = np.ones(len(LABELS), np.float32)
    with pytest.raises(TypeError, match="`sample_weight` must have a known number of axes"):
        model.fit(of_unknown_rank(LABELS, weights), verbose=0)
    lists = tf.function(RecallAtK(3).update_state, input_signature=[
        tf.TensorSpec([None, 2], tf.int32), tf.TensorSpec(None, tf.int32)])
    with pytest.raises(ValueError, match="`y_pred` must be .* integers of shape <unknown>"):
        lists(LABELS.reshape(-1, 2), LABELS.reshape(-1, 1))


@pytest.mark.parametrize("case", ["full", "tree", "adaptive"])
@pytest.mark.parametrize("head_of", [
    lambda head: head, lambda head: tfsoftmax.TopK(head, 2), tfsoftmax.LogProb,
])
def test_hidden_states_that_are_missing_or_of_unknown_rank_are_named(case, head_of):
    labels = [LABELS] if head_of is tfsoftmax.LogProb else []
    calls = [lambda hidden: head_of(CASES[case](V))(hidden, *labels)]
    calls += [lambda hidden: head_of(built(case, V))(hidden, *labels)]
    for call in calls:
        refused("`hidden` must be a tensor .* Received: hidden=None", call, None)
        unknown = tf.function(call, input_signature=[tf.TensorSpec(None)])
        refused("`hidden` must be a tensor .* known number of axes", unknown, HIDDEN)
    top_k = tf.function(
        lambda hidden: built(case, V).top_k(hidden, 2), input_signature=[tf.TensorSpec(None)])
    refused("`hidden` must have 7 units .* shape <unknown>", top_k, HIDDEN)


@pytest.mark.parametrize("call", [
    SoftmaxLoss(), SoftmaxLoss(ignore_class=1), Perplexity(1).update_state,
    Accuracy(ignore_class=0).update_state, RecallAtK(2).update_state, NDCG(2, 0).update_state,
])
@pytest.mark.parametrize("labels", [LABELS > 3, ["word"] * 6, LABELS.astype(complex)])
def test_labels_that_are_no_numbers_are_named_by_losses_and_metrics(call, labels):
    with pytest.raises(TypeError, match="`y_true` must be integers, the ids of words. Received:"):
        call(labels, built("full", V)(HIDDEN))


@pytest.mark.parametrize("weights", [["a"] * 6, np.ones(6, complex), ["a"]])
@pytest.mark.parametrize("call", [SoftmaxLoss(), Perplexity().update_state, MRR(2).update_state])
def test_weights_that_are_no_numbers_are_named(call, weights):
    with pytest.raises(TypeError, match="`sample_weight` must be real numbers"):
        call(LABELS, built("full", V)(HIDDEN), weights)


@pytest.mark.parametrize("call", [
    SoftmaxLoss(), lambda *batch: Perplexity()(*batch), lambda *batch: MRR(2)(*batch),
    lambda labels, logits, weights: built("full", V).loss_and_nats(HIDDEN, labels, weights)[0],
    lambda labels, logits, weights: SoftmaxLoss(multi_label=True)(
        labels[:, None], logits, weights[:, None]),
])
def test_a_mask_of_true_and_false_serves_as_weights(call):
    logits, mask = built("full", V)(HIDDEN), LABELS > 3
    by_mask = call(LABELS, logits, mask)
    np.testing.assert_array_equal(by_mask, call(LABELS, logits, mask.astype("float32")))
    assert by_mask != call(LABELS, logits, np.ones(len(mask), np.float32))


def test_one_label_a_sequence_is_named_where_the_positions_have_a_mask():
    words = keras.Input((5,), dtype="int32")
    hidden = keras.layers.Embedding(9, UNITS, mask_zero=True)(words)
    model = keras.Model(words, CASES["full"](9)(hidden))
    model.compile("sgd", SoftmaxLoss(ignore_class=0))
    with pytest.raises(ValueError, match="`y_true` must have one label at each of the positions"):
        model.fit(np.ones((3, 5)), np.ones(3, "int32"), verbose=0)


@pytest.mark.parametrize("options", [
    {}, {"class_weight": dict.fromkeys(range(V), 1.0)}, {"sample_weight": np.ones(len(LABELS))},
])
def test_one_hot_labels_are_named_before_their_weights(options):
    model = keras.Sequential([keras.Input((UNITS,)), CASES["full"](V)])
    model.compile("sgd", SoftmaxLoss(), weighted_metrics=[Perplexity()])
    rule = r"`y_true` must have one label at .*one-hot: pass keras.ops.argmax\(y_true, -1\)"
    refused(rule, model.fit, HIDDEN, np.eye(V)[LABELS], verbose=0, **options)
