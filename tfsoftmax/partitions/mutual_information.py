"""Average mutual information of neighbouring classes, and the function that it is made of."""

import numpy as np


def mutual_information(counts):
    """Average mutual information in nats of neighbouring classes, from counts (C, C)."""
    total = counts.sum()
    margins = h(counts.sum(0)).sum() + h(counts.sum(1)).sum()
    return float((h(counts).sum() - margins) / total + np.log(total))


def h(x):
    """x ln x for counts; h(0) = h(1) = 0 exactly."""
    return x * np.log(np.maximum(x, 1.0))


def g(x, y):
    """h(x + y) - h(x) - h(y); exactly 0 where either is 0."""
    return h(x + y) - h(x) - h(y)
