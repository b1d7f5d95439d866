"""FullSoftmax whose gradient is estimated from drawn tiles: exact loss, unbiased gradient."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from cases import with_gradients
from refusals import refuses
from tfsoftmax.distributions import drawn_tiles
from tfsoftmax.distributions.rows import Rows
from tfsoftmax.heads import FullSoftmax
from tfsoftmax.ops.inclusion import inclusion_probabilities, systematic_sample
from tfsoftmax.support import budgets

V, D, N, SHARE = 43, 6, 8, 0.4  # eight tiles of five words and one of three


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    monkeypatch.setattr(budgets, "TILE_WORDS", 5)


def problem(positions=N, vocab_size=V):
    """Hidden states, kernel, bias, labels and weights, of which one is zero and one negative."""
    rng = np.random.default_rng(0)
    hidden, kernel = rng.normal(size=(positions, D)), rng.normal(size=(vocab_size, D))
    weights = rng.uniform(size=positions)
    weights[1:3] = [0, -0.5][: positions - 1]
    floats = (hidden, kernel, rng.normal(size=vocab_size), weights)
    hidden, kernel, bias, weights = (tf.constant(f, tf.float32) for f in floats)
    labels = tf.constant(rng.integers(0, vocab_size, positions), tf.int32)
    return hidden, kernel, bias, labels, weights


def heads(share, positions=N, vocab_size=V, **options):
    """A plain head and one that draws, of the same weights, and hidden, labels, weights."""
    hidden, kernel, bias, labels, weights = problem(positions, vocab_size)
    plain = FullSoftmax(vocab_size, **options)
    drawing = FullSoftmax(vocab_size, gradient_share=share, seed=1, **options)
    for head in (plain, drawing):
        head.build(hidden.shape)
        head.kernel.assign(kernel)
        if head.bias is not None:
            head.bias.assign(bias)
    return plain, drawing, tf.Variable(hidden), labels, weights


def known_weights(head, hidden, labels, weights):
    sources = [hidden, *head.trainable_weights]
    found, gradients = with_gradients(head.loss_and_nats, sources, hidden, labels, weights)
    return *found, gradients


def unknown_weights(head, hidden, labels, weights):
    def loss():
        nats = head.training_loss(hidden, labels)
        return tf.reduce_sum(weights * nats), nats

    found, gradients = with_gradients(loss, [hidden, *head.trainable_weights])
    return *found, gradients


@pytest.mark.parametrize("count", [1, 9, 21, 30])
def test_probabilities_are_in_proportion_and_at_most_one(count):
    sizes = np.random.default_rng(0).lognormal(0, 2, 30)
    ours = inclusion_probabilities(tf.constant(sizes), count, 0.01)
    sizes += 0.01 * sizes.mean()
    certain = np.zeros(30, bool)
    while not certain.all():
        wanted = np.where(certain, 1, sizes * (count - certain.sum()) / sizes[~certain].sum())
        if (certain == (wanted >= 1)).all():
            break
        certain = wanted >= 1
    np.testing.assert_allclose(ours, wanted)


@pytest.mark.parametrize("sizes", [np.zeros(7), np.eye(7)[2], np.full(7, 1e-40)])
def test_each_tile_may_be_drawn(sizes):
    inclusion = inclusion_probabilities(tf.constant(sizes), 4, drawn_tiles.LEAST_SIZE)
    assert np.min(inclusion) > 0
    np.testing.assert_allclose(np.sum(inclusion), 4)


def test_a_sample_has_each_tile_with_its_probability():
    inclusion = tf.constant([0.3, 1.0, 0.05, 0.65, 1.0], tf.float64)
    samples = [systematic_sample(inclusion, 3, (i + 0.5) / 200) for i in range(200)]
    np.testing.assert_allclose(np.bincount(np.concatenate(samples)) / 200, inclusion, atol=1e-9)


@pytest.mark.parametrize("bands", [1, 2])
@pytest.mark.parametrize("road", ["weighted", "unweighted"])
@pytest.mark.parametrize("soft_cap, options", [
    (None, {}), (2.0, {}), (None, {"label_smoothing": 0.2, "z_loss": 0.1}),
])
def test_mean_gradient_over_all_outcomes_is_the_gradient(
    soft_cap, options, road, bands, monkeypatch
):
    """The outcome changes only where an offset crosses the end of a tile."""
    hidden, kernel, bias, labels, weights = problem()
    if bands == 2:
        kernel, bias = [kernel[:17, :2], kernel[17:, 2:]], list(tf.split(bias, [17, V - 17]))
    known = []

    def spied(*arguments):
        known.append(drawn_tiles_probabilities(*arguments))
        return known[-1]

    drawn_tiles_probabilities = drawn_tiles.inclusion_probabilities
    monkeypatch.setattr(drawn_tiles, "inclusion_probabilities", spied)

    def gradients(draw=None):
        def loss():
            objective = Rows(kernel, bias, soft_cap).penalised(**options, draw=draw)
            if road == "weighted":
                return objective.weighted_nats(hidden, labels, weights)
            return weights * objective.nats(hidden, labels)

        sources = [hidden, *tf.nest.flatten([kernel, bias])]
        return [g.numpy() for g in with_gradients(loss, sources)[1]]

    def drawn(offset):
        offset = tf.constant(offset, tf.float64)
        return gradients(drawn_tiles.Draw(SHARE, lambda count: tf.fill([count], offset)))

    drawn(0.5)
    ends = np.unique(np.concatenate([[0, 1], np.cumsum(known[0]) % 1]))
    middles, lengths = (ends[1:] + ends[:-1]) / 2, np.diff(ends)
    outcomes = [drawn(middle) for middle in middles]
    assert np.ptp([o[1] for o in outcomes], axis=0).max() > 0.01
    for wanted, *each in zip(gradients(), *outcomes):
        mean = sum(length * one for length, one in zip(lengths, each))
        np.testing.assert_allclose(mean, wanted, atol=2e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("gradients", [known_weights, unknown_weights])
def test_loss_is_exact_and_each_chunk_draws_anew(gradients, monkeypatch):
    monkeypatch.setattr(budgets, "CHUNK_ROWS", 8)
    plain, drawing, hidden, labels, weights = heads(SHARE, positions=20)
    total, nats, wanted = gradients(plain, hidden, labels, weights)
    step = tf.function(lambda: gradients(drawing, hidden, labels, weights), autograph=False)
    found = []
    for _ in range(300):
        of_step = step()
        np.testing.assert_allclose(of_step[0], total, rtol=1e-6)  # the blocks of words differ
        np.testing.assert_allclose(of_step[1], nats, rtol=1e-6)
        found.append([g.numpy() for g in of_step[2]])
    for index in (0, 1):
        draws = np.stack([gradients[index] for gradients in found])
        error = draws.std(0) / len(draws) ** 0.5
        random = error > 1e-5
        assert random.mean() > 0.2
        z = (draws.mean(0) - wanted[index])[random] / error[random]
        assert np.abs(z).max() < 5
        assert 0.3 < np.std(z) < 1.7
    np.testing.assert_allclose(of_step[2][2], wanted[2], rtol=1e-5, atol=1e-6)  # not drawn


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("options", [{}, {"soft_cap": 2.0}, {"use_bias": False}])
def test_all_tiles_give_the_exact_gradient(dtype, options):
    plain, drawing, *data = heads(1.0, dtype=dtype, **options)
    for ours, wanted in zip(known_weights(drawing, *data)[2], known_weights(plain, *data)[2]):
        tolerance = 1e-6 if dtype == "float32" else 0.01  # products are summed in another order
        np.testing.assert_allclose(ours, wanted, atol=tolerance * np.abs(wanted).max())


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision_draws_what_float32_draws(dtype):
    _, half, *data = heads(SHARE, dtype=dtype)
    _, single, *_ = heads(SHARE)
    for ours, wanted in zip(known_weights(half, *data)[2], known_weights(single, *data)[2]):
        np.testing.assert_allclose(ours, wanted, atol=0.03 * np.abs(wanted).max())


@pytest.mark.parametrize("positions, vocab_size", [(1, V), (N, 4), (1, 1), (3, 5)])
def test_odd_sizes(positions, vocab_size):
    """Of a vocabulary that is one tile, the gradient is exact."""
    plain, drawing, *data = heads(0.1, positions, vocab_size)
    ours, wanted = known_weights(drawing, *data), known_weights(plain, *data)
    np.testing.assert_allclose(ours[0], wanted[0], rtol=1e-6)
    for gradient, exact in zip(ours[2], wanted[2]):
        assert np.isfinite(gradient).all()
        if vocab_size <= 5:
            np.testing.assert_allclose(gradient, exact, atol=1e-6)


def test_what_is_not_finite_reaches_the_gradients():
    """Scales of losses in float16 adapt by it."""
    _, drawing, hidden, labels, weights = heads(SHARE)
    hidden[0, 0].assign(np.inf)
    for gradient in known_weights(drawing, hidden, labels, weights)[2][:2]:
        assert not np.isfinite(gradient).all()


def test_only_the_share_is_multiplied():
    hidden, kernel, *_ = problem()
    slopes, offset = tf.ones([N, 40]), tf.constant(0, tf.float64)
    blocks = [kernel[:20], kernel[20:40]]
    drawn = drawn_tiles.drawn_tiles(
        tf.split(slopes, 2, 1), [tf.ones(20)] * 2, blocks, SHARE, offset
    )
    assert sum(m.shape[1] for m, *_ in drawn) == 20  # four of eight tiles of five words
    for (m, rows, numbers), block in zip(drawn, blocks):
        np.testing.assert_allclose(m, 2.0, rtol=0.01)
        np.testing.assert_array_equal(rows, tf.gather(tf.reshape(block, [4, 5, D]), numbers)
                                      .numpy().reshape(-1, D))


def test_a_seed_decides_the_tiles_also_after_loading(tmp_path):
    def gradient(head, *data):
        return known_weights(head, *data)[2][1].numpy()

    _, head, *data = heads(SHARE)
    _, same, *_ = heads(SHARE)
    first = gradient(head, *data)
    np.testing.assert_array_equal(gradient(same, *data), first)
    inputs = keras.Input((D,))
    keras.Model(inputs, head(inputs)).save(tmp_path / "head.keras")
    loaded = keras.saving.load_model(tmp_path / "head.keras").layers[-1]
    second = gradient(head, *data)
    assert (second != first).any()
    np.testing.assert_array_equal(gradient(loaded, *data), second)


@pytest.mark.parametrize("share", [0.0, 1.5])
def test_bad_shares_are_named(share):
    with refuses("gradient_share", "lie in"):
        FullSoftmax(V, gradient_share=share)


def test_a_head_that_draws_loads_the_weights_of_one_that_does_not(tmp_path):
    plain, drawing, hidden, labels, _ = heads(SHARE)
    models = [keras.Sequential([keras.Input((D,)), head]) for head in (plain, drawing)]
    plain.kernel.assign(2 * plain.kernel)
    models[0].save_weights(tmp_path / "plain.weights.h5")
    state = drawing.random_state.state.numpy()
    models[1].load_weights(tmp_path / "plain.weights.h5")
    np.testing.assert_array_equal(drawing.log_prob(hidden, labels), plain.log_prob(hidden, labels))
    np.testing.assert_array_equal(drawing.random_state.state, state)
