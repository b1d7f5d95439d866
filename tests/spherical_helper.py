"""Spherical heads of both kinds, their rows, and a step of their own."""

import keras
import numpy as np
import pytest

from cases import UNITS, prepared, with_gradients
from tfsoftmax import SphericalSoftmax, TaylorSoftmax

V = 13
KINDS = {
    "spherical": (lambda **options: SphericalSoftmax(V, 0.5, **options), lambda x: x**2 + 0.5),
    "taylor": (lambda **options: TaylorSoftmax(V, **options), lambda x: 1 + x + x**2 / 2),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def made(head, units=UNITS):
    keras.utils.set_random_seed(4)
    return prepared(head, units=units)


def rows_of(head):
    """[W, b] of factors, float64 (V, D + 1), where b includes the shift of a Taylor softmax."""
    factors = head.factors
    return factors.rows.numpy().astype(np.float64) @ factors.mixer.numpy().astype(np.float64)


def of_size(kind, words, epsilon, **options):
    """A head of a kind for any number of words."""
    if kind == "taylor":
        return TaylorSoftmax(words, **options)
    return SphericalSoftmax(words, epsilon, **options)


def step(head, hidden, labels, weights=None):
    """A step, of positions of weight one unless there are weights."""
    weights = np.ones(len(labels), np.float32) if weights is None else weights
    with_gradients(head.loss_and_nats, head.trainable_weights, hidden, labels, weights)
