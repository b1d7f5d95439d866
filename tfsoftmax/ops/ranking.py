"""Lists of the best words: without some of the words, and beside those that are relevant.

Shapes: N queries, k words in a list, R relevant and E excluded words. An id below zero is no word.
"""

import tensorflow as tf

from tfsoftmax.ops.graphs import may_be_exported, under_xla
from tfsoftmax.support import budgets

NOT_SEARCHED = -2  # the ids of a list that was not asked for, as in training


def places_among(ids, ordered):
    """Where ids (...) stand among rising ones (S,), S > 0: (...) int32, and whether they do."""
    places = tf.searchsorted(ordered, tf.reshape(ids, [-1]))
    places = tf.reshape(tf.minimum(places, tf.size(ordered) - 1), tf.shape(ids))
    return places, tf.gather(ordered, places) == ids


def among(ids, others):
    """Whether each id (N, k) is in its row of `others` (N, R), in any order: (N, k) bool."""
    if may_be_exported():  # LiteRT and ONNX do not search
        return tf.reduce_any(ids[:, :, None] == others[:, None], axis=2) & (ids >= 0)
    return _in_row(ids, tf.sort(_with_none(others), axis=1))[1]


def grades_of(ids, others, grades):
    """The grade that each id (N, k) has among `others` (N, R), or zero where it is not there.

    Grades are those (N, R) of `others`, the first one of a word that stands there twice.
    """
    others = _with_none(others)
    order = tf.argsort(others, axis=1, stable=True)
    places, there = _in_row(ids, tf.gather(others, order, batch_dims=1))
    grades = tf.gather(tf.pad(grades, [[0, 0], [0, 1]]), order, batch_dims=1)
    grades = tf.gather(grades, places, batch_dims=1)
    return tf.where(there, grades, tf.zeros_like(grades))


def repeated(ids):
    """Whether each id (N, k) stands earlier in its row too: (N, k) bool."""
    order = tf.argsort(ids, axis=1, stable=True)
    ordered = tf.gather(ids, order, batch_dims=1)
    again = tf.pad(ordered[:, 1:] == ordered[:, :-1], [[0, 0], [1, 0]])
    return tf.gather(again, tf.argsort(order, axis=1), batch_dims=1)


def known(scores):
    """Scores with -inf in the place of NaN, by operations that TFLite and ONNX have."""
    return tf.where(scores > -float("inf"), scores, -float("inf"))


def columns_of_best(scores, k):
    """The k best scores (N, k) of each row, falling, and their columns, (N, k) int32.

    Of equal scores, the one with the lower column comes first. Rows of fewer scores are filled up
    with -inf, of column 0.
    """
    width = scores.shape[1]
    if width is not None and 2 * k * budgets.RUN_COLUMNS <= width:
        return _of_best_runs(scores, k, width)
    present = k if width is None else min(k, width)
    values, columns = tf.math.top_k(scores, present)
    if present == k:
        return values, columns
    padding = [[0, 0], [0, k - present]]
    return tf.pad(values, padding, constant_values=-float("inf")), tf.pad(columns, padding)


def _of_best_runs(scores, k, width):
    """`columns_of_best` among those runs of columns that have the k greatest maxima.

    Another run has none of the k best, because the maximum of each of the k runs comes before all
    of its scores. `tf.math.top_k` looks at one score at a time, `tf.reduce_max` at several.
    """
    length = budgets.RUN_COLUMNS
    runs, rest = divmod(width, length)
    of_runs = tf.reshape(scores[:, : width - rest], [-1, runs, length])
    chosen = tf.math.top_k(tf.reduce_max(of_runs, axis=2), k, sorted=False).indices
    chosen = tf.sort(chosen, axis=1)  # so that ties keep their order
    columns = tf.reshape(length * chosen[:, :, None] + tf.range(length), [-1, k * length])
    scores_of_runs = tf.reshape(tf.gather(of_runs, chosen, batch_dims=1), [-1, k * length])
    last = tf.tile(tf.range(width - rest, width)[None], [tf.shape(scores)[0], 1])
    columns = tf.concat([columns, last], 1)
    values, places = tf.math.top_k(tf.concat([scores_of_runs, scores[:, width - rest :]], 1), k)
    return values, tf.gather(columns, places, batch_dims=1)


def best(k, *lists):
    """The k best of lists that stand side by side; NaN is worst, and ties keep their order.

    Args:
        k: how many words are wanted, no more than there are.
        *lists: pairs of scores (N, K) float32 and ids (N, K) int32.

    Returns:
        scores (N, k), falling, and ids (N, k).
    """
    scores, ids = (tf.concat(each, 1) if len(lists) > 1 else each[0] for each in zip(*lists))
    scores, columns = tf.math.top_k(known(scores), k)
    return scores, tf.gather(ids, columns, batch_dims=1)


def found(ids, scores):
    """A list of words (N, k) and their scores, where a score of NaN or -inf is that of no word.

    The id there is -1, and the score -inf. This is the rule for every list that `top_k` or a
    search returns: NaN is no better than anything, and no word that a model gives it is a result.
    """
    return tf.where(scores > -float("inf"), ids, -1), known(scores)


def without(scores, excluded, first=0):
    """Scores with -inf where words are excluded.

    Args:
        scores: (N, W) float32, of the W words from `first` on.
        excluded: (N, E) int32, any number of them, or None for no words.
        first: a word, an int or a scalar tensor.

    Returns:
        (N, W) float32. A score of +inf may become NaN, which is no better.
    """
    if excluded is None:
        return scores
    columns, width = excluded - first, tf.shape(scores)[1]
    inside = (excluded >= 0) & (columns >= 0) & (columns < width)
    rows = tf.broadcast_to(tf.range(tf.shape(scores)[0])[:, None], tf.shape(columns))
    if under_xla() or may_be_exported():  # which lack the sum below, a third of the time of this
        places = tf.stack([rows, tf.where(inside, columns, width)], axis=2)
        lowest, scores = tf.fill(tf.shape(columns), -float("inf")), tf.pad(scores, [[0, 0], [0, 1]])
        return tf.tensor_scatter_nd_update(scores, places, lowest)[:, :-1]
    places = tf.stack([rows, tf.where(inside, columns, 0)], axis=2)
    added = tf.where(inside, -float("inf"), 0.0)
    places = tf.cast(tf.reshape(places, [-1, 2]), tf.int64)
    shape = tf.shape(scores, tf.int64)
    return tf.sparse.add(tf.SparseTensor(places, tf.reshape(added, [-1]), shape), scores)


def given(excluded):
    """[excluded], or [] for None, as further arguments of `map_row_chunks`."""
    return [] if excluded is None else [excluded]


def _with_none(ids):
    """Ids (N, R + 1) with one more, -1, that is no word, so that there is one."""
    return tf.pad(tf.maximum(ids, -1), [[0, 0], [0, 1]], constant_values=-1)


def _in_row(ids, ordered):
    """Where ids (N, k) stand in rising rows (N, R), R > 0, and whether they do: (N, k) each."""
    places = tf.minimum(tf.searchsorted(ordered, ids), tf.shape(ordered)[1] - 1)
    return places, (tf.gather(ordered, places, batch_dims=1) == ids) & (ids >= 0)
