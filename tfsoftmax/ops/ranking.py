"""Lists of the best words: without some of the words, and beside those that are relevant.

Shapes: N queries, k words in a list, R relevant and E excluded words. An id below zero is no word.
"""

import tensorflow as tf

NOT_SEARCHED = -2  # the ids of a list that was not asked for, as in training


def among(ids, others):
    """Whether each id (N, k) is in its row of `others` (N, R), in any order: (N, k) bool."""
    others = _sorted(others)  # at least one column
    places = tf.searchsorted(others, ids)
    places = tf.minimum(places, tf.shape(others)[1] - 1)
    return (tf.gather(others, places, batch_dims=1) == ids) & (ids >= 0)


def grades_of(ids, others, grades):
    """The grade that each id (N, k) has among `others` (N, R), or zero where it is not there.

    Grades are those (N, R) of `others`, the first one of a word that stands there twice.
    """
    others = tf.pad(tf.maximum(others, -1), [[0, 0], [0, 1]], constant_values=-1)
    order = tf.argsort(others, axis=1, stable=True)
    others = tf.gather(others, order, batch_dims=1)
    grades = tf.gather(tf.pad(grades, [[0, 0], [0, 1]]), order, batch_dims=1)
    places = tf.minimum(tf.searchsorted(others, ids), tf.shape(others)[1] - 1)
    there = (tf.gather(others, places, batch_dims=1) == ids) & (ids >= 0)
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


def best(scores, k):
    """The k best scores (N, k) of each row, and their columns, as `tf.math.top_k`; NaN is worst."""
    return tf.math.top_k(known(scores), k)


def found(ids, scores):
    """A list of words (N, k) and their scores, where a score of NaN or -inf is that of no word.

    The id there is -1, and the score -inf. This is the rule for every list that `top_k` or a
    search returns: NaN is no better than anything, and no word that a model gives it is a result.
    """
    return tf.where(scores > -float("inf"), ids, -1), known(scores)


def without(ids, scores, excluded, k):
    """The k best words that are not excluded, from a list of the best that is long enough.

    Args:
        ids: (N, K) int32, words by falling score, of which K are min(k + E, V).
        scores: (N, K) float32.
        excluded: (N, E) int32.
        k: how many words are wanted.

    Returns:
        ids (N, k) int32 and scores (N, k) float32. Where fewer words are left, the scores at the
        end are -inf.
    """
    out = among(ids, excluded)
    scores, places = best(tf.where(out, -float("inf"), scores), k)  # ties keep their order
    return tf.gather(ids, places, batch_dims=1), scores


def _sorted(ids):
    """Rows (N, R + 1) that rise, with a -1 that is no word."""
    return tf.sort(tf.pad(tf.maximum(ids, -1), [[0, 0], [0, 1]], constant_values=-1), axis=1)
