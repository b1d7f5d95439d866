"""DifferentiatedSoftmax against float64 loops, a block-diagonal full softmax, and its promise."""

import numpy as np
import pytest
import tensorflow as tf

from cases import UNITS, assert_all_close, positions, prepared, with_gradients
from graph_helper import largest_tensor
from references import full_log_probs
from refusals import refuses
from tfsoftmax import FullSoftmax
from tfsoftmax.distributions.rows import Rows
from tfsoftmax.heads.differentiated import DifferentiatedSoftmax, block_units
from tfsoftmax.support.budgets import CHUNK_ROWS

V, CUTOFFS = 13, [3, 8]
COUNTS = np.array([3, 50, 0, 7, 7, 120, 1, 2, 33, 0, 5, 80, 1])


def built(vocab_size=V, cutoffs=CUTOFFS, **options):
    return prepared(DifferentiatedSoftmax(vocab_size, cutoffs, **options))


def reference(head, hidden):
    """ln P(w | h) by id: scores word by word from the bands' weights."""
    hidden = np.float64(hidden)
    kernels = [w.numpy().astype(np.float64) for w in head.kernels]
    biases = [w.numpy() for w in head.biases] or [np.zeros(len(k)) for k in kernels]
    projections = iter(w.numpy().astype(np.float64) for w in head.projections)
    scores, start = [], 0
    for kernel, bias in zip(kernels, biases):
        size = kernel.shape[1]
        if not head.projected:
            part, start = hidden[:, start : start + size], start + size
        else:
            part = hidden if size == UNITS else hidden @ next(projections)
        for word in range(len(kernel)):
            scores.append([sum(a * b for a, b in zip(h, kernel[word])) + bias[word] for h in part])
    by_rank = scores - np.log(np.exp(scores).sum(axis=0))
    ids = range(V) if head.bands.order.identity else sorted(range(V), key=lambda w: (-COUNTS[w], w))
    result = np.zeros((len(hidden), V))
    result[:, list(ids)] = by_rank.T
    return result


@pytest.mark.parametrize("options", [
    {}, {"counts": COUNTS}, {"units": [2, 4, 1], "counts": COUNTS}, {"use_bias": False},
    {"projected": True, "counts": COUNTS}, {"projected": True, "units": [3, UNITS, 9]},
])
def test_log_probs_equal_the_equation(options):
    head, (hidden, _) = built(**options), positions(V, 5)
    expected = reference(head, hidden)
    np.testing.assert_allclose(head.log_probs(hidden), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("count", [5, 1100])
def test_blocks_are_a_full_softmax_with_a_block_diagonal_kernel(count):
    """Compares the loss and all gradients, and the kernel's gradient block by block."""
    head = built(units=[4, 2, 1])
    full = prepared(FullSoftmax(V))
    kernel, row, column = np.zeros((V, UNITS), np.float32), 0, 0
    blocks = []
    for weight in head.kernels:
        words, units = weight.shape
        blocks.append((slice(row, row + words), slice(column, column + units)))
        kernel[blocks[-1]] = weight.numpy()
        row, column = row + words, column + units
    full.set_weights([kernel, np.concatenate([b.numpy() for b in head.biases])])
    hidden, labels = positions(V, count)
    weights = np.random.default_rng(5).uniform(size=count).astype(np.float32) / count
    hidden = tf.constant(hidden)
    ((total, nats), ours), ((wanted_total, wanted_nats), wanted) = (
        with_gradients(
            layer.loss_and_nats, [hidden, *layer.trainable_weights], hidden, labels, weights
        ) for layer in (head, full)
    )
    np.testing.assert_allclose(total, wanted_total, rtol=1e-5)
    np.testing.assert_allclose(nats, wanted_nats, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours[0], wanted[0], atol=1e-6)
    np.testing.assert_allclose(np.concatenate(ours[2::2]), wanted[2], atol=1e-6)
    for gradient, block in zip(ours[1::2], blocks):
        np.testing.assert_allclose(gradient, wanted[1].numpy()[block], atol=1e-6)


@pytest.mark.parametrize("soft_cap, options", [
    (2.0, {"label_smoothing": 0.2, "z_loss": 0.01}), (None, {"z_loss": 0.5, "log_z": 0.0})
])
@pytest.mark.parametrize(
    "subset", [None, lambda count: tf.constant([4, 0, 2])], ids=["all", "subset"]
)
def test_bands_have_any_objective_of_a_full_softmax(soft_cap, options, subset):
    """Loss and gradients of `Penalised` for bands and for a block-diagonal kernel."""
    head = built(units=[4, 2, 1])
    kernels, biases = ([tf.convert_to_tensor(w) for w in ws] for ws in (head.kernels, head.biases))
    hidden, labels = positions(V, 5)
    hidden = tf.constant(hidden)
    weights = tf.constant([0.1, 0.5, 0.2, 0.3, 0.7])
    sources = [hidden, *kernels, *biases]

    def whole():
        kernel = [tf.linalg.LinearOperatorFullMatrix(kernel) for kernel in kernels]
        kernel = tf.linalg.LinearOperatorBlockDiag(kernel).to_dense()
        rows = Rows(kernel, tf.concat(biases, 0), soft_cap).penalised(**options, subset=subset)
        return weights * rows.nats(hidden, labels)

    bands = Rows(kernels, biases, soft_cap).penalised(**options, subset=subset)
    wanted, expected = with_gradients(whole, sources)
    ours, gradients = with_gradients(lambda: weights * bands.nats(hidden, labels), sources)
    np.testing.assert_allclose(ours, wanted, rtol=1e-5)
    assert_all_close(gradients, expected, rtol=1e-7)
    (total, _), gradients = with_gradients(bands.weighted_nats, sources, hidden, labels, weights)
    np.testing.assert_allclose(total, tf.reduce_sum(wanted), rtol=1e-5)
    assert_all_close(gradients, expected, rtol=1e-7)


def test_projected_with_all_units_is_full_softmax():
    head = built(projected=True, projection_factor=1.0)
    assert not head.projections
    hidden, _ = positions(V, 5)
    kernel = np.concatenate([w.numpy() for w in head.kernels])
    expected = full_log_probs(hidden, kernel, np.concatenate([b.numpy() for b in head.biases]))
    np.testing.assert_allclose(head.log_probs(hidden), expected, rtol=1e-5, atol=1e-5)


def test_no_tensor_of_all_positions_by_all_words():
    head, count = built(10_007, [1000, 5003]), 5 * CHUNK_ROWS

    @tf.function
    def step(hidden, labels):
        return head.log_prob(hidden, labels), with_gradients(
            head.loss_and_nats, head.weights, hidden, labels, tf.ones(count)
        )

    shapes = tf.TensorSpec((count, UNITS)), tf.TensorSpec((count,), tf.int32)
    assert largest_tensor(step.get_concrete_function(*shapes)) <= CHUNK_ROWS * 10_007


@pytest.mark.parametrize("projected, kernels, projections", [
    (False, [(50, 49), (250, 12), (700, 3)], []),
    (True, [(50, 64), (250, 16), (700, 4)], [(64, 16), (64, 4)]),
])
def test_fewer_weights_than_full_softmax(projected, kernels, projections):
    head = DifferentiatedSoftmax(1000, [50, 300], projected=projected)
    head.build((None, 64))
    assert [w.shape for w in head.kernels] == kernels
    assert [w.shape for w in head.projections] == projections


@pytest.mark.parametrize(
    "size, bands, factor", [(7, 3, 4.0), (3, 3, 10.0), (512, 4, 2.0), (5, 1, 4.0)]
)
def test_blocks_take_all_units_and_fall(size, bands, factor):
    units = block_units(size, bands, factor)
    assert sum(units) == size and len(units) == bands
    assert min(units) >= 1 and units == sorted(units, reverse=True)


@pytest.mark.parametrize("name, rule, options", [
    ("cutoffs", "below 13", {"cutoffs": [8, 3]}), ("cutoffs", "below 13", {"cutoffs": [13]}),
    ("units", "be 3 positive integers, one for each band", {"units": [4, 3]}),
    ("units", "be 3 positive integers", {"units": [4, 3, 0]}),
    ("projection_factor", "be at least 1", {"projection_factor": 0.5}),
    ("counts", "one number for each of", {"counts": COUNTS[1:]}),
    ("units", "add up to those of the hidden state, 7", {"units": [4, 3, 1]}),
    ("cutoffs", "make no more bands than there are hidden", {"cutoffs": list(range(1, 9))}),
])
def test_bad_arguments_are_named(name, rule, options):
    with refuses(name, rule):
        built(**options)
