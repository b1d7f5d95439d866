"""Rows from characters: the equation, the padding, the words that no vocabulary has."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from cases import randomise, slow_unless, with_gradients
from references import character_rows, numeric_gradient
from tfsoftmax import CharacterEmbedding, CharCnnSoftmax, SampledSoftmax, SoftmaxLoss

WORDS = ["a", "the", "theatre", "été", "ж", "incomprehensibilities", "", "the"]
V, D = len(WORDS), 6
OPTIONS = {"character_units": 3, "filters": [2, 0, 3, 2], "highway_layers": 2,
           "highway_activation": "tanh", "lstm_units": 4, "correction_units": 2}


def embedding(encoder="cnn", words=WORDS, **options):
    layer = CharacterEmbedding(len(words), D, words, encoder, **{**OPTIONS, **options})
    layer.build()
    randomise(layer)
    return layer


def of_equation(layer, words, corrected, weights=None):
    """Rows of words by the loops, from the layer's weights or others in their place."""
    weights = [w.numpy() for w in layer.weights] if weights is None else weights
    characters, rest = weights[0], [np.asarray(w, np.float64) for w in weights[1:]]
    filters = [tuple(rest[i : i + 2]) for i in (0, 2, 4)]
    highways = [tuple(rest[i : i + 4]) for i in (6, 10)]
    projection, corrections, up = rest[14:]
    corrections = corrections @ up if corrected else np.zeros((len(words), D))
    return character_rows(words, characters, filters, highways, projection, corrections)


def test_rows_equal_the_equation():
    layer = embedding()
    rows = layer.rows(tf.range(V))
    np.testing.assert_allclose(rows, of_equation(layer, WORDS, True), rtol=1e-4, atol=1e-4)


def test_gradients_equal_those_of_the_equation():
    """In float64 with a small step, where the kinks of the maximum are rarely met."""
    layer, upstream = embedding(), np.random.default_rng(3).normal(size=(V, D))
    _, gradients = with_gradients(
        lambda: layer.rows(tf.range(V)) * upstream.astype(np.float32), layer.trainable_weights
    )
    values = [w.numpy().astype(np.float64) for w in layer.weights]

    def total_of(place, value):
        changed = [value if i == place else v for i, v in enumerate(values)]
        return np.sum(upstream * of_equation(layer, WORDS, True, changed))

    # The embeddings of 259 characters would take minutes: those of a few of them.
    used = [256, 257, *b"the"]
    for place, gradient in enumerate(gradients):
        if place == 0:
            def of_used(rows):
                characters = values[0].copy()
                characters[used] = rows
                return total_of(0, characters)

            numeric = numeric_gradient(of_used, values[0][used], step=1e-6)
            np.testing.assert_allclose(gradient.numpy()[used], numeric, rtol=1e-3, atol=1e-3)
            continue
        numeric = numeric_gradient(lambda v, i=place: total_of(i, v), values[place], step=1e-6)
        np.testing.assert_allclose(gradient, numeric, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("encoder", ["cnn", "lstm"])
def test_a_row_does_not_depend_on_the_words_beside_it(encoder):
    layer = embedding(encoder)
    together = layer.rows(tf.range(V))
    for word in range(V):
        alone = layer.rows(tf.constant([word]))[0]
        np.testing.assert_allclose(alone, together[word], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("encoder", ["cnn", "lstm"])
def test_only_the_correction_tells_words_of_one_spelling_apart(encoder):
    layer = embedding(encoder)
    rows = layer.rows(tf.constant([1, 7])).numpy()  # "the", twice
    assert np.abs(rows[0] - rows[1]).max() > 0.1
    layer.corrections.set_weights([np.zeros((V, 2))])
    np.testing.assert_allclose(*layer.rows(tf.constant([1, 7])), rtol=1e-5)


def test_the_lstm_reads_both_ways():
    layer = embedding("lstm", correction_units=0)
    of = {word: layer.rows_of_words([word])[0].numpy() for word in ("abc", "abd", "dbc", "acb")}
    for word in ("abd", "dbc", "acb"):
        assert np.abs(of[word] - of["abc"]).max() > 1e-3
    forward, backward = (layer.lstm.forward_layer, layer.lstm.backward_layer)
    signal = layer.characters(tf.constant([[256, *b"abc", 257]]))
    last = [forward(signal)[0], keras.layers.LSTM.call(backward, signal)[0]]
    wanted = np.concatenate(last) @ layer.projection.kernel.numpy()
    np.testing.assert_allclose(of["abc"], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("encoder", ["cnn", "lstm"])
def test_words_that_the_vocabulary_lacks_have_rows_without_correction(encoder):
    layer = embedding(encoder)
    layer.corrections.set_weights([np.zeros((V, 2))])
    np.testing.assert_allclose(
        layer.rows_of_words(WORDS), layer.rows(tf.range(V)), rtol=1e-5, atol=1e-6
    )
    if encoder == "cnn":
        unseen = ["incomprehensibly", "日本"]
        wanted = of_equation(layer, unseen, False)
        np.testing.assert_allclose(layer.rows_of_words(unseen), wanted, rtol=1e-4, atol=1e-4)


def test_a_wider_layer_keeps_the_rows_of_the_words_that_it_had():
    layer = embedding()
    wider = layer.with_words(["incomprehensibly", "日本"])
    assert wider.input_dim == V + 2
    np.testing.assert_allclose(wider.rows(tf.range(V)), layer.rows(tf.range(V)), rtol=1e-5)
    unseen = layer.rows_of_words(["incomprehensibly", "日本"])
    np.testing.assert_allclose(wider.rows(tf.constant([V, V + 1])), unseen, rtol=1e-5)


def test_as_an_input_it_computes_the_row_of_each_word_once(monkeypatch):
    layer = embedding()
    words, asked = np.array([[3, 1, 3], [5, 3, 1]], np.int32), []
    wanted = layer.rows(words.reshape(-1)).numpy().reshape(2, 3, D)
    compute = layer.rows
    monkeypatch.setattr(layer, "rows", lambda ids: asked.append(ids.numpy()) or compute(ids))
    np.testing.assert_allclose(layer(words), wanted, rtol=1e-5)
    assert [sorted(ids) for ids in asked] == [[1, 3, 5]]


def test_mixed_precision_computes_rows_in_the_dtype_of_the_weights():
    layer = embedding(dtype="mixed_float16")
    assert layer(np.arange(V)).dtype == tf.float16
    assert layer.table().dtype == tf.float32
    np.testing.assert_allclose(layer.table(), of_equation(layer, WORDS, True), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("options, message", [
    ({"words": WORDS[1:]}, "`words` must be the 8 words. Received: 7 words"),
    ({"encoder": "gru"}, "`encoder` must be one of .*Received: encoder='gru'"),
    ({"filters": [0, 0]}, "`filters` must be integers >= 0.* Received: filters=.0, 0."),
    ({"correction_units": -1}, r"`correction_units` must lie in \[0, .*Received: .*=-1"),
    ({"max_bytes": 0}, "`max_bytes` must lie in .*Received: max_bytes=0"),
])
def test_errors_name_the_argument(options, message):
    with pytest.raises(ValueError, match=message):
        CharacterEmbedding(V, D, **{"words": WORDS, **options})


def test_the_head_makes_its_embedding_from_the_words():
    head = CharCnnSoftmax(V, WORDS, {"encoder": "lstm", "lstm_units": 5})
    head.build((None, D))
    assert head.tied_to.output_dim == D
    assert head.tied_to.lstm.forward_layer.units == 5
    with pytest.raises(ValueError, match="`words` must be the 9 words"):
        CharCnnSoftmax(9, WORDS)


@pytest.mark.parametrize("policy, tied", slow_unless(
    [("mixed_bfloat16", True), ("mixed_float16", False)],
    itertools.product(["mixed_bfloat16", "mixed_float16"], [False, True]),
))
def test_fit_may_be_the_first_call_in_mixed_precision(policy, tied):
    inputs = keras.Input((3,), dtype="int32")
    table = CharacterEmbedding(V, D, WORDS, **OPTIONS)
    if tied:
        head = SampledSoftmax(V, 5, "uniform", tied_to=table, dtype=policy)
    else:
        head = CharCnnSoftmax(V, WORDS, OPTIONS, dtype=policy)
    model = keras.Model(inputs, head(table(inputs)))
    model.compile("sgd", SoftmaxLoss())
    words = np.arange(24).reshape(8, 3) % V
    history = model.fit(words, words, batch_size=4, verbose=0).history
    assert np.isfinite(history["loss"][0]) and np.isfinite(model.predict(words, verbose=0)).all()


@pytest.mark.parametrize("encoder", ["cnn", "lstm"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_no_words_have_no_rows(encoder, dtype):
    layer = embedding(encoder, dtype=dtype)
    assert layer(np.zeros((0, 2), np.int32)).shape == (0, 2, D)
    assert layer(np.zeros((1, 2), np.int32)).dtype == dtype
