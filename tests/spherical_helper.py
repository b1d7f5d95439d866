"""Spherical heads of both kinds, their rows, and a step of their own."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from cases import UNITS, randomise
from tfsoftmax import SphericalSoftmax, TaylorSoftmax

V = 13
KINDS = {
    "spherical": (lambda **options: SphericalSoftmax(V, 0.5, **options), lambda x: x**2 + 0.5),
    "taylor": (lambda **options: TaylorSoftmax(V, **options), lambda x: 1 + x + x**2 / 2),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def made(head, units=UNITS):
    keras.utils.set_random_seed(4)
    head.build((None, units))
    randomise(head)
    return head


def rows_of(head):
    """[W, b] of factors, float64 (V, D + 1), where b includes the shift of a Taylor softmax."""
    factors = head.factors
    return factors.rows.numpy().astype(np.float64) @ factors.mixer.numpy().astype(np.float64)


def step(head, hidden, labels, weights):
    with tf.GradientTape() as tape:
        total, _ = head.loss_and_nats(hidden, labels, weights)
    return tape.gradient(total, head.trainable_weights)
