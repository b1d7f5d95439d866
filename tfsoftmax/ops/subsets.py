"""Distinct ids in tensors of a fixed size, which XLA needs and `tf.unique` does not offer."""

import tensorflow as tf


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
