"""Many distributions in two arrays, one after another, and draws from them by binary search."""

import numpy as np
import tensorflow as tf

from tfsoftmax.ops.random import uniform


def cumulative(rows: np.ndarray, weights: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Lays distributions end to end, that of row r in the interval (r, r + 1].

    Args:
        rows: int (R,), the row of each entry, rising.
        weights: float64 (R,) >= 0. The entries of a row are its distribution up to a factor. A row
            without entries, or with zeros alone, has none.
        count: the number of rows.

    Returns:
        ends: float64 (R,), rising, where the interval of each entry ends.
        q: float64 (R,), its length: the probability with which `draw` finds the entry.
    """
    mass = np.bincount(rows, weights, count)
    starts = np.searchsorted(rows, np.arange(count + 1))
    running = np.cumsum(weights / np.where(mass > 0, mass, 1.0)[rows])
    before = np.concatenate([[0], running])[starts[rows]]
    ends = rows + np.minimum(running - before, 1)
    last = starts[1:][mass > 0] - 1
    ends[last] = rows[last] + 1.0  # what rounding left
    begins = np.concatenate([rows[:1], np.maximum(ends[:-1], rows[1:])])
    return ends, ends - begins


def draw(ends: tf.Tensor, rows: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """The place (...) int32 of an entry for each of some rows (...), by a stateless seed (2,)."""
    height = tf.cast(rows, tf.float64) + uniform(tf.shape(rows), seed)
    place = tf.searchsorted(ends, tf.reshape(height, [-1]), side="right")
    return tf.reshape(tf.minimum(place, ends.shape[0] - 1), tf.shape(rows))
