"""Comparisons of lists of arrays."""

import numpy as np


def assert_each_close(found, wanted, **tolerances):
    """`numpy.testing.assert_allclose` for each array of two lists of the same length."""
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, **tolerances)


def assert_each_equal(found, wanted):
    """`numpy.testing.assert_array_equal` for each array of two lists of the same length."""
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
