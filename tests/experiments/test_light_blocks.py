"""The experiment with drawn gradients: what its tables say of the tiles."""

import numpy as np
import pytest

from experiments.measurements import light_tiles

V, D, N = 30, 5, 12
RNG = np.random.default_rng(0)
KERNEL, BIAS = RNG.normal(size=(V, D)), -0.3 * np.arange(V)
HIDDEN = RNG.normal(size=(N, D))


@pytest.fixture
def tiles(monkeypatch):
    monkeypatch.setattr(light_tiles, "ROWS", 4)
    monkeypatch.setattr(light_tiles, "THRESHOLD", 0.02)
    return light_tiles.Tiles(KERNEL, BIAS, HIDDEN, 7)


def parts():
    """The gradient of the kernel in each tile of four positions and seven words, (3, 5, V, D)."""
    p = np.exp(HIDDEN @ KERNEL.T + BIAS)
    p /= p.sum(1, keepdims=True)
    found = np.zeros((3, 5, V, D))
    for i, j in np.ndindex(3, 5):
        rows, words = slice(4 * i, 4 * i + 4), slice(7 * j, 7 * j + 7)
        found[i, j, words] = p[rows, words].T @ HIDDEN[rows] / N
    return p, found


def test_tiles_hold_all_probability_and_the_gradient(tiles):
    p, of_kernel = parts()
    np.testing.assert_allclose(tiles.mass.sum(1), 4)
    np.testing.assert_allclose(tiles.of_kernel, (of_kernel**2).sum((2, 3)))
    light = tiles.highest < 0.02
    assert 0 < light.mean() < 1
    np.testing.assert_allclose(tiles.dropped[0], np.sum(of_kernel[light].sum(0) ** 2))
    assert tiles.below.sum() == np.sum(p < 0.02)


def test_variance_is_that_of_draws(tiles):
    _, of_kernel = parts()
    for size in tiles.sizes:
        inclusion = tiles.inclusion(size, 0.4)
        np.testing.assert_allclose(inclusion.sum(1), 2)
        drawn = RNG.uniform(size=(4000, 3, 5)) < inclusion
        errors = np.einsum("sct,ctvd->svd", drawn / inclusion - 1, of_kernel)
        found = np.mean(np.sum(errors**2, axis=(1, 2)))
        np.testing.assert_allclose(tiles.variance(size, 0.4)[0], found, rtol=0.2, err_msg=size)
    np.testing.assert_allclose(tiles.variance(light_tiles.HEADS_SIZE, 1.0), 0, atol=1e-12)
