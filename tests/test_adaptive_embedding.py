"""AdaptiveEmbedding against a NumPy loop, and its tie to AdaptiveSoftmax."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from cases import UNITS, randomise
from refusals import refuses
from tfsoftmax import AdaptiveEmbedding, AdaptiveSoftmax, SoftmaxLoss

V = 13
COUNTS = np.random.default_rng(2).permutation(100)[:V]
WORDS = np.array([[0, 12, 5, 5], [7, 3, 12, 1]], np.int32)


def built(**more):
    layer = AdaptiveEmbedding(V, UNITS, **{"cutoffs": [4, 9], "projection_factor": 2.0, **more})
    layer.build()
    randomise(layer)
    return layer


def rows_of(layer):
    """The embedding of each word, (V, D), word by word."""
    tables = [t.numpy() for t in layer.tables]
    projections = [np.eye(UNITS), *(p.numpy() for p in layer.projections)]
    if not layer.projections:
        projections = [np.eye(UNITS)] * len(tables)
    by_rank = [p @ row for table, p in zip(tables, projections) for row in table]
    order = layer.bands.order.ranks
    return np.array([by_rank[rank] for rank in order])


@pytest.mark.parametrize("more", [{}, {"counts": COUNTS}, {"projection_factor": None}])
@pytest.mark.parametrize("jit_compile", [False, True])
def test_words_are_rows_of_their_band_projected(more, jit_compile):
    layer = built(**more)
    call = tf.function(layer, jit_compile=jit_compile)
    np.testing.assert_allclose(call(WORDS), rows_of(layer)[WORDS], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(layer(WORDS[0]), rows_of(layer)[WORDS[0]], rtol=1e-5, atol=1e-5)


def test_gradients_touch_only_words_asked_for():
    layer = built()
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(layer(np.array([0, 2, 2, 7])) ** 2)
    gradients = tape.gradient(total, [t.value for t in layer.tables])
    assert [sorted(g.indices.numpy()) for g in gradients] == [[0, 2, 2], [3], []]


def tied_model(tie_projections=True):
    embed = AdaptiveEmbedding(V, UNITS, [4, 9], projection_factor=2.0, counts=COUNTS)
    words = keras.Input((None,), dtype="int32")
    hidden = keras.layers.Dense(UNITS)(embed(words))
    head = AdaptiveSoftmax(V, tied_to=embed, tie_projections=tie_projections)
    model = keras.Model(words, head(hidden))
    randomise(model)
    return model, embed, head


@pytest.mark.parametrize("tie_projections", [True, False])
def test_tied_head_scores_with_the_embeddings(tie_projections):
    _, embed, head = tied_model(tie_projections)
    assert len(head.kernels) == 1 and len(head.projections) == (0 if tie_projections else 2)
    plain = AdaptiveSoftmax(V, [4, 9], projection_factor=2.0, counts=COUNTS)
    plain.build((None, UNITS))
    tables = [t.numpy() for t in embed.tables]
    tables[0] = np.concatenate([tables[0], head.kernels[0].numpy()])
    for kernel, table in zip(plain.kernels, tables):
        kernel.assign(table)
    for mine, theirs in zip(plain.projections, (embed if tie_projections else head).projections):
        mine.assign(theirs.numpy())
    hidden = np.random.default_rng(0).normal(size=(5, UNITS)).astype(np.float32)
    np.testing.assert_allclose(head.log_probs(hidden), plain.log_probs(hidden), rtol=1e-5)
    assert head.get_config()["cutoffs"] == [4, 9]


def test_tied_model_trains_and_reloads(through_a_file):
    model, _, _ = tied_model()
    model.compile("adam", SoftmaxLoss())
    history = model.fit(WORDS, WORDS[:, ::-1], epochs=4, verbose=0).history["loss"]
    assert history[-1] < history[0]
    again = through_a_file(model)
    np.testing.assert_array_equal(model(WORDS), again(WORDS))
    assert again.layers[-1].tied_to is again.layers[1]
    assert len(again.trainable_weights) == len(model.trainable_weights) == 8


def test_a_functional_model_hands_the_mask_on():
    words = keras.Input((None,), dtype="int32")
    hidden = AdaptiveEmbedding(V, UNITS, [4, 9], mask_zero=True)(words)
    model = keras.Model(words, keras.layers.SimpleRNN(3)(hidden))
    padded = np.array([[5, 2, 0, 0], [7, 0, 0, 0]], np.int32)
    np.testing.assert_allclose(model(padded)[0], model(padded[:1, :2])[0], rtol=1e-6)
    np.testing.assert_allclose(model(padded)[1], model(padded[1:, :1])[0], rtol=1e-6)


@pytest.mark.parametrize("name, rule, make", [
    ("tied_to", "be an AdaptiveEmbedding, or a Comp",
     lambda embed: AdaptiveSoftmax(V, tied_to=keras.layers.Embedding(V, UNITS))),
    ("tied_to", "AdaptiveEmbedding, of 12 words", lambda embed: AdaptiveSoftmax(12, tied_to=embed)),
    ("tied_to", "have as many units",
     lambda embed: AdaptiveSoftmax(V, tied_to=embed).build((None, UNITS + 1))),
    ("cutoffs", "be those of `tied_to`, [4, 9]",
     lambda embed: AdaptiveSoftmax(V, [4, 8], tied_to=embed)),
    ("cutoffs", 'or "auto" together with `counts`', lambda embed: AdaptiveEmbedding(V, UNITS)),
])
def test_bad_ties_are_named(name, rule, make):
    with refuses(name, rule):
        make(built())
