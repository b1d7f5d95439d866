"""The encoder-decoder: its equations, its padding, its heads, and its two halves."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from cases import randomise, required
from test_fused_rnn import H, numpy_layer
from tfsoftmax import HEADS, Seq2SeqConfig, SoftmaxLoss, Vocabulary, language_model
from tfsoftmax.pairs.model import encoder_and_decoder_models, encoder_decoder

WORDS = ("the", "<unk>", "cat", "sat", "<eos>", "mat", "on")
VOCABULARY = Vocabulary(WORDS, [9, 8, 7, 6, 5, 4, 3])
CONFIG = Seq2SeqConfig(embedding_units=5, hidden_units=H, dropout=0.0)
SOURCE = np.array([[0, 2, 4, 4, 4, 4], [3, 1, 5, 0, 2, 4], [6, 4, 4, 4, 4, 4]], np.int32)
LENGTHS = [3, 6, 2]  # with <eos>
TARGET = np.array([[4, 5, 6, 1], [4, 2, 0, 3], [4, 0, 0, 0]], np.int32)
FIRST = ("full", "sampled", "adaptive", "tree", "class", "self_organised")
HEADS_TO_TEST = [
    head if head in FIRST else pytest.param(head, marks=pytest.mark.slow) for head in HEADS
]


def make_model(seed=0, pairs=None, **changes):
    """A model whose weights are distinct random numbers of order one."""
    model = encoder_decoder(dataclasses.replace(CONFIG, **changes), VOCABULARY, pairs)
    randomise(model, seed)
    return model


def logits_of(model, source, words):
    return model((tf.constant(source), tf.constant(words)), training=False).numpy()


def softmax(scores):
    exps = np.exp(scores - scores.max(-1, keepdims=True))
    return exps / exps.sum(-1, keepdims=True)


def reference(model, source, words, cell, attention):
    """The logits of one pair without padding, in float64, written from the equations."""
    weights = {w.path.removeprefix("encoder_decoder/"): w.numpy().astype(np.float64)
               for w in model.weights}
    embeddings = weights["embedding/embeddings"]

    def run(part, ids, states):
        names = ("kernel", "recurrent_kernel", "bias")
        own = [weights[f"{part}_1/{cell}_cell/{name}"] for name in names]
        outputs, *states = numpy_layer(cell, embeddings[ids][None], *states, *own)
        return outputs[0], states

    zeros = [np.zeros((1, H))] * {"lstm": 2, "gru": 1}[cell]
    memory, states = run("encoder", source, zeros)
    hidden, _ = run("decoder", words, states)
    keys = memory @ weights["keys/kernel"]
    if attention == "luong":
        scores = hidden @ keys.T
    else:
        queries = hidden @ weights["queries/kernel"]
        scores = np.tanh(queries[:, None] + keys[None]) @ weights["attention/scale"]
    context = softmax(scores) @ memory
    attentional = np.tanh(np.concatenate([context, hidden], 1) @ weights["attentional/kernel"])
    return attentional @ weights["head/kernel"].T + weights["head/bias"]


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("attention", ["luong", "bahdanau"])
def test_logits_are_those_of_the_equations(cell, attention):
    model = make_model(cell=cell, attention=attention)
    found = logits_of(model, SOURCE, TARGET)
    for row, source, length, words in zip(found, SOURCE, LENGTHS, TARGET):
        expected = reference(model, source[:length], words, cell, attention)
        np.testing.assert_allclose(row, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", ["fused", "cell"])
@pytest.mark.parametrize("attention", ["luong", "bahdanau"])
def test_padding_changes_nothing(backend, attention):
    model = make_model(attention=attention, layers=2, backend=backend)
    together = logits_of(model, SOURCE, TARGET)
    for behind in (4, 2):  # <eos>, or anything
        wider = np.pad(SOURCE, [(0, 0), (0, 5)], constant_values=behind)
        np.testing.assert_allclose(logits_of(model, wider, TARGET), together, atol=5e-6)
    for row, source, length, words in zip(together, SOURCE, LENGTHS, TARGET):
        alone = logits_of(model, source[:length][None], words[None])
        np.testing.assert_allclose(row, alone[0], atol=5e-6)


@pytest.mark.parametrize("head", HEADS_TO_TEST)
def test_every_head_ends_the_model_and_learns(head):
    model = make_model(head=head, head_options=required(head, len(WORDS)))
    logits = logits_of(model, SOURCE, TARGET)
    read = keras.Model(model.inputs, model.get_layer("head").input)
    log_probs = model.get_layer("head").log_probs(read((SOURCE, TARGET), training=False))
    np.testing.assert_allclose(softmax(logits), np.exp(log_probs), rtol=1e-4, atol=1e-6)
    model.compile("sgd", SoftmaxLoss(), run_eagerly=True)
    before = [w.numpy() for w in model.trainable_weights]
    assert np.isfinite(model.train_on_batch((SOURCE, TARGET), np.roll(TARGET, -1, 1)))
    same = [w.path for w, old in zip(model.trainable_weights, before) if (w.numpy() == old).all()]
    assert not same


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("head", ["full", "shortlist"])
def test_a_decoder_that_reads_word_by_word_computes_what_the_model_does(cell, head):
    model = make_model(cell=cell, layers=2, head=head, head_options=required(head, len(WORDS)))
    encoder, decoder = encoder_and_decoder_models(model)
    source = tf.constant(SOURCE)
    outputs, keys, *states = map(tf.identity, encoder(source))
    hidden, attention = [], []
    for t in range(TARGET.shape[1]):
        words = tf.constant(TARGET[:, t : t + 1])
        now, weights, *states = decoder([source, words, outputs, keys, *states])
        hidden.append(now)
        attention.append(weights)
    logits = model.get_layer("head")(tf.concat(hidden, 1))
    np.testing.assert_allclose(logits, logits_of(model, SOURCE, TARGET), rtol=1e-4, atol=1e-5)
    attention = tf.concat(attention, 1).numpy()
    np.testing.assert_allclose(attention.sum(-1), 1, rtol=1e-5)
    for row, length in zip(attention, LENGTHS):
        assert row[:, :length].all() and not row[:, length:].any()


def test_a_tied_head_takes_the_embedding_of_both_sides():
    model = make_model(tie_embeddings=True, embedding_units=H)
    assert model.get_layer("head").tied_to is model.get_layer("embedding")
    assert len([w for w in model.weights if w.shape[0] == len(WORDS) and len(w.shape) == 2]) == 1


def test_weights_start_in_their_range_and_none_like_another():
    model = encoder_decoder(dataclasses.replace(CONFIG, init_scale=0.01), VOCABULARY)
    matrices = [w.numpy() for w in model.weights if len(w.shape) == 2]
    assert max(np.abs(m).max() for m in matrices) <= 0.01
    firsts = [m.flat[0] for m in matrices]
    assert len(set(firsts)) == len(firsts) == 8


@pytest.mark.parametrize("attention", ["luong", "bahdanau"])
def test_mixed_precision_and_a_saved_file(attention, through_a_file):
    exact = make_model(attention=attention)
    mixed = make_model(attention=attention, precision="mixed_bfloat16")
    np.testing.assert_allclose(
        softmax(logits_of(mixed, SOURCE, TARGET)), softmax(logits_of(exact, SOURCE, TARGET)),
        atol=0.05,
    )
    loaded = through_a_file(exact)
    np.testing.assert_array_equal(
        logits_of(loaded, SOURCE, TARGET), logits_of(exact, SOURCE, TARGET)
    )


def test_dropout_drops_on_both_sides():
    model = make_model(dropout=0.5)
    names = [layer.name for layer in model.layers if "dropout" in layer.name]
    assert sorted(names) == ["dropout_0", "dropout_1", "dropout_head", "source_dropout_0",
                             "source_dropout_1"]
    trained = model((tf.constant(SOURCE), tf.constant(TARGET)), training=True).numpy()
    assert np.abs(trained - logits_of(model, SOURCE, TARGET)).max() > 0.1


def test_mistakes_are_those_of_language_models():
    with pytest.raises(ValueError, match="`attention` must be one of luong, bahdanau. Received"):
        Seq2SeqConfig(attention="none")
    for build in (encoder_decoder, lambda *a: language_model(*a, streams=2)):
        with pytest.raises(ValueError, match="`head` must be one of full"):
            build(dataclasses.replace(CONFIG, head="none"), VOCABULARY)
        with pytest.raises(ValueError, match="`head_options` must be arguments of FullSoftmax"):
            build(dataclasses.replace(CONFIG, head_options={"none": 1}), VOCABULARY)
