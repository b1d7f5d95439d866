"""Parts of tensors whose number the data decide: distinct ids, and places where a mask holds.

XLA fixes all sizes. It gets as many as there could be.
"""

import numpy as np
import tensorflow as tf

from tfsoftmax.ops.graphs import under_xla


def distinct(ids: tf.Tensor, fill: int | None = None) -> tuple[tf.Tensor, tf.Tensor]:
    """The distinct ids (U,), and the place of each of `ids` among them, (R,) int32.

    Args:
        ids: (R,) integers, not negative under XLA.
        fill: what XLA, for which U = R, gets in the places that are left; see `static_unique`.
    """
    return static_unique(ids, fill) if under_xla() else tf.unique(ids)


def places_where(mask: tf.Tensor) -> tf.Tensor | None:
    """The places (n,) int64 where a mask (N,) holds; None for all under XLA."""
    return None if under_xla() else tf.where(mask)[:, 0]


def kept_where(mask: tf.Tensor, *tensors: tf.Tensor) -> list[tf.Tensor]:
    """The rows (n, ...) of tensors (N, ...) where a mask (N,) holds; all of them under XLA."""
    places = places_where(mask)
    return [*tensors] if places is None else [tf.gather(t, places) for t in tensors]


def sums_of_sorted(values: tf.Tensor, segments: np.ndarray) -> tf.Tensor:
    """The sums (S, ...) of values (R, ...) over rising segments (R,), of which none is empty."""
    if under_xla():  # which lacks the faster operation
        return tf.math.unsorted_segment_sum(values, segments, int(segments[-1]) + 1)
    return tf.math.segment_sum(values, segments)


def static_unique(ids, fill=None):
    """`tf.unique` for ids (R,) >= 0, sorted and filled up to R.

    Args:
        ids: (R,) integers, not negative.
        fill: the id that fills the places after the distinct ids; None for the largest of them, so
            that no other row is touched.

    Returns:
        The distinct ids followed by `fill` (R,), and the place of each of `ids` among them, (R,)
        int32.
    """
    order = tf.argsort(ids)
    ordered = tf.gather(ids, order)
    differs = tf.cast(ordered[1:] != ordered[:-1], tf.int32)
    new = tf.concat([tf.zeros_like(ordered[:1], tf.int32), differs], 0)
    place_in_order = tf.cumsum(new)
    place = tf.scatter_nd(order[:, None], place_in_order, tf.shape(ids))
    distinct = tf.math.unsorted_segment_max(ordered, place_in_order, tf.size(ids))
    fill = tf.reduce_max(ids) if fill is None else tf.cast(fill, ids.dtype)
    return tf.where(distinct >= 0, distinct, fill), place
