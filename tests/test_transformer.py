"""Rotary positions, attention to a bounded context, and blocks that read a text in parts."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import transformer_helper
from cases import assert_all_close, assert_all_equal, randomise
from graph_helper import largest_tensor
from refusals import refuses
from tfsoftmax.layers.transformer import TransformerBlock, TransformerCell
from tfsoftmax.ops.attention import attention_to_context, rotated
from tfsoftmax.support import budgets

B, T, D, H, C = 3, 23, 8, 2, 5


@pytest.fixture(params=[64, 1])
def one_block_or_several(request, monkeypatch):
    monkeypatch.setattr(budgets, "QUERIES", request.param)


def draw(*shape, seed=0):
    return tf.constant(np.random.default_rng(seed).normal(size=shape), tf.float32)


def make_block(context=C, weights=None, **options):
    layer = TransformerBlock(D, H, context, **{"return_sequences": True, **options})
    layer.build((B, None, D))
    if weights is None:
        randomise(layer)
        weights = [weight / 3 for weight in layer.get_weights()]
    layer.set_weights(weights)
    return layer


def test_rotations_are_those_of_the_equation():
    vectors, positions = draw(B, 4, H, 6), [0, 1, 7, 2000]
    found = rotated(vectors, tf.constant(positions)).numpy()
    for (b, s, h), _ in np.ndenumerate(found[..., 0]):
        wanted = transformer_helper.rotation(vectors[b, s, h].numpy(), positions[s])
        np.testing.assert_allclose(found[b, s, h], wanted, atol=2e-4)


def test_products_of_rotated_vectors_depend_on_the_distance_only():
    query, key = draw(1, 1, 1, 6), draw(1, 1, 1, 6, seed=1)

    def product(one, other):
        return float(tf.reduce_sum(rotated(query, [one]) * rotated(key, [other])))

    assert product(9, 5) == pytest.approx(product(109, 105), abs=1e-4)
    assert product(9, 5) != pytest.approx(product(9, 6), abs=1e-2)
    assert product(9, 9) == pytest.approx(float(tf.reduce_sum(query * key)), abs=1e-5)


@pytest.mark.usefixtures("one_block_or_several")
@pytest.mark.parametrize("steps, context", [
    (1, 4), (4, 4), (5, 4), (8, 4), (11, 4), (3, 1), (2, 9),
])
def test_attention_is_that_of_the_equation(steps, context):
    queries = draw(B, steps, D)
    keys, values = (draw(B, context + steps, D, seed=i) for i in (1, 2))
    real = np.ones((B, context + steps), np.float32)
    real[0, :context], real[1, : context // 2], real[2, context - 1] = 0, 0, 0
    inputs = (queries, keys, values, tf.constant(real))
    found = attention_to_context(*inputs, H)
    for b, row in enumerate(found.numpy()):
        wanted = transformer_helper.attention(
            *(each[b].numpy() for each in inputs), heads=H, context=context
        )
        np.testing.assert_allclose(row, wanted, atol=1e-5)
    unknown = [tf.TensorSpec([None] * (len(x.shape) - 1) + [x.shape[-1]]) for x in inputs[:3]]
    traced = tf.function(attention_to_context).get_concrete_function(
        *unknown, tf.TensorSpec([None, None]), H
    )
    np.testing.assert_allclose(traced(*inputs), found, atol=1e-6)


@pytest.mark.usefixtures("one_block_or_several")
@pytest.mark.parametrize("steps", [3, 7])
def test_gradients_equal_numeric_ones(steps):
    rng, context = np.random.default_rng(0), 3
    inputs = [rng.normal(size=(1, n, 4)) for n in (steps, context + steps, context + steps)]

    @tf.function
    def total(*arrays):
        return tf.reduce_sum(attention_to_context(*arrays, tf.ones((1, context + steps)), 2) ** 2)

    analytic, numeric = tf.test.compute_gradient(total, [tf.constant(x) for x in inputs])
    assert_all_close(analytic, numeric, atol=1e-6, rtol=1e-7)


def test_no_tensor_grows_with_the_square_of_the_text():
    steps, context = 4096, 8
    shapes = [tf.TensorSpec((1, n, D)) for n in (steps, context + steps, context + steps)]
    attention = tf.function(attention_to_context).get_concrete_function(
        *shapes, tf.TensorSpec((1, context + steps)), H
    )
    assert steps * D <= largest_tensor(attention) <= steps * H * (context + budgets.QUERIES)


@pytest.mark.parametrize("context", [1, 5, 40])
def test_a_block_is_that_of_the_equations(context):
    layer, words = make_block(context), draw(B, T, D)
    for row, found in zip(words.numpy(), layer(words).numpy(), strict=True):
        wanted = transformer_helper.block(layer.get_weights(), row, H, context)
        np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.usefixtures("one_block_or_several")
@pytest.mark.parametrize("context", [1, 5, 40])
def test_word_by_word_and_in_parts_it_computes_what_it_does_at_once(context):
    layer, words = make_block(context), draw(B, T, D)
    whole = layer(words).numpy()
    by_word = keras.layers.RNN(layer.cell, return_sequences=True)(words)
    np.testing.assert_allclose(by_word, whole, atol=1e-5)
    reader = make_block(context, layer.get_weights(), stateful=True)
    for parts in ((1, 4, 5, 6, 7), (20, 3), (1,) * T):
        reader.reset_state()
        read = [reader(part).numpy() for part in tf.split(words, parts, axis=1)]
        np.testing.assert_allclose(np.concatenate(read, axis=1), whole, atol=1e-5)
    assert len(reader.variables) == len(layer.variables)  # states are no weights


def test_states_begin_another_text_where_they_are_given():
    layer = make_block(return_state=True)
    words = draw(B, T, D)
    whole, *last = layer(words)
    _, *states = layer(words[:, :9])
    rest, *states = layer(words[:, 9:], initial_state=states)
    np.testing.assert_allclose(rest, whole[:, 9:], atol=1e-5)
    assert_all_close(states, last, rtol=1e-7)
    assert [state.shape for state in last] == [(B, C * D), (B, C * D), (B, C)]


def test_a_word_changes_itself_and_the_context_after_it_and_nothing_else():
    layer, words = make_block(), draw(B, T, D)
    changed = tf.concat([words[:, :9], draw(B, 1, D, seed=1), words[:, 10:]], axis=1)
    moved = np.abs(layer(changed) - layer(words)).max(axis=(0, 2))
    assert not moved[:9].any() and not moved[9 + C + 1 :].any()
    assert (moved[9 : 9 + C + 1] > 1e-4).all()


@pytest.mark.parametrize("options", [
    {}, {"return_sequences": False}, {"zero_output_for_mask": True}, {"go_backwards": True},
])
def test_masked_words_are_skipped_as_keras_skips_them(options):
    """Against Keras's loop over the cell, word by word; the first word of a text is masked too."""
    options = {"return_state": True, "return_sequences": True, **options}
    layer = make_block(**options)
    keras_layer = keras.layers.RNN(TransformerCell(D, H, C), **options)
    keras_layer.build((B, None, D))
    keras_layer.set_weights(layer.get_weights())
    words, mask = draw(B, T, D), np.random.default_rng(1).random((B, T)) < 0.7
    mask[0], mask[1, [0, -1]], mask[2] = True, False, False
    before = [draw(B, C * D), draw(B, C * D, seed=1), tf.constant([[0.0] + [1.0] * (C - 1)] * B)]
    found, wanted = (
        each(words, mask=tf.constant(mask), initial_state=before) for each in (layer, keras_layer)
    )
    assert_all_close(found, wanted, rtol=1e-7)
    assert np.abs(found[0] - layer(words, initial_state=before)[0])[1].max() > 1e-3
    spoilt = tf.where(mask[..., None], words, np.nan)
    assert_all_equal(layer(spoilt, mask=mask, initial_state=before), found)


def test_dropout_drops_in_training_only():
    layer, words = make_block(dropout=0.5), draw(B, T, D)
    np.testing.assert_array_equal(layer(words), layer(words, training=False))
    assert np.abs(layer(words, training=True) - layer(words)).max() > 0.1


def test_matrices_start_in_their_range_and_none_like_another():
    initializer = keras.initializers.RandomUniform(-0.1, 0.1)
    layer = TransformerBlock(D, H, C, kernel_initializer=initializer)
    layer.build((B, None, D))
    matrices = [w for w in layer.get_weights() if w.ndim == 2]
    assert len(matrices) == 6 and max(np.abs(w).max() for w in matrices) <= 0.1
    assert len({w.ravel()[0] for w in matrices}) == 6


def test_a_block_and_a_cell_come_back_from_their_configuration():
    layer = make_block(dropout=0.1, stateful=True, dtype="mixed_bfloat16", name="block")
    again = TransformerBlock.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    assert (again.name, again.stateful, again.context) == ("block", True, C)
    assert again.cell.compute_dtype == "bfloat16"
    cell = TransformerCell.from_config(layer.cell.get_config())
    assert cell.get_config() == layer.cell.get_config()


@pytest.mark.parametrize("options, name, rule", [
    ({"units": 10}, "units", "be a multiple of twice `attention_heads`"),
    ({"context": 0}, "context", "lie in"), ({"dropout": 1}, "dropout", "lie in [0, 1)"),
    ({}, "inputs", "have as many units"),
])
def test_arguments_out_of_range_are_named(options, name, rule):
    with refuses(name, rule):
        TransformerBlock(**{"units": 8, "attention_heads": 2, **options})(draw(3, 4, 7))


def test_a_text_of_unknown_length_may_be_empty():
    unknown = tf.TensorSpec([None, None, D])
    traced = tf.function(attention_to_context).get_concrete_function(
        unknown, unknown, unknown, tf.TensorSpec([None, None]), H
    )
    keys = tf.ones((2, 5, D))
    assert traced(tf.ones((2, 0, D)), keys, keys, tf.ones((2, 5))).shape == (2, 0, D)
