"""The base of the metrics of lists of the best items, and of what `y_true` and `y_pred` may be."""

import dataclasses

import keras
import tensorflow as tf

from tfsoftmax.losses.labels import of_positions, positions
from tfsoftmax.metrics.token_mean import TokenMean, whole_ids
from tfsoftmax.ops.inputs import dense, dense_ids, dense_lists, sample_weights
from tfsoftmax.ops.ranking import NOT_SEARCHED, grades_of, repeated
from tfsoftmax.support.arguments import check_positive, expect


class RankingMetric(TokenMean):
    """Base of the metrics of lists of the k best items, averaged over queries.

    `y_true` are ids of relevant items: (...), one for each query, or (..., R), padded with -1 or
    ragged. Graded relevance is (..., R, 2), pairs of an id and its grade: the grade is a number, an
    item is relevant if it is above zero, and only `NDCG` uses its value. An item that appears twice
    counts once, with its first grade above zero. A query without relevant items does not count;
    keras_rs counts it as zero.

    `y_pred` is one of two:

    * the output of a head. The list is that of `head.top_k`, exact and in bounded memory. It is
      searched in evaluation only, once for all metrics if the one with the largest k comes first.
      If the head was called with `exclude`, the list omits these items.
    * integers (..., K), K >= k: lists from an earlier search, the best first, with -1 in empty
      places; if an item appears twice, its first place counts. Such a list may come from an index,
      from an exported model, or from the first output of `TopK(head, k)(hidden, exclude=seen)`,
      which omits items that a user has seen. A model may have this output in addition to the logits
      that it trains on. A relevant item that was excluded is not found, but counts as relevant.

    Ties have the order of `head.top_k`, which is that of rising ids for heads with a row for each
    item. keras_rs shuffles them. If many scores are equal, as in an untrained model of zeros, and
    items are sorted by popularity, ties in the order of ids make a good list.

    Args:
        k: length of the list.
        ignore_class: an id that is not an item, in addition to negative ids; or None.
        name, dtype: as in `keras.metrics.Metric`.

    Raises:
        TypeError: when updated, if `y_true` are not numbers; ValueError if shapes do not fit;
            InvalidArgumentError if an id of `y_true` is not one of the head's, or counts although
            it is one of its `not_items`.

    Example:
        class HitRate(tfsoftmax.metrics.ranking.RankingMetric):
            default_name = "hit_rate"
            def _value(self, hits, relevant):
                return keras.ops.max(hits, axis=1)
        metric = HitRate(2)
        metric.update_state([[4, -1], [7, 8]], [[4, 5], [9, 3]])
        print(metric.result())  # 0.5
    """

    saved_options = ("k",)
    quantities = ("value",)
    needs = ("top_k", "a tfsoftmax head")
    not_in_fit = "it costs a search of all items in each step"
    _direction = "up"

    def __init__(
        self, k: int = 10, ignore_class: int | None = None, name: str | None = None,
        dtype: str | keras.DTypePolicy | None = None,
    ):
        check_positive(k=k)
        super().__init__(ignore_class, name or f"{self.default_name}_at_{k}", dtype)
        self.k = k

    def update_state(self, y_true, y_pred, sample_weight=None):
        y_pred = dense(y_pred, "y_pred")
        if y_pred.dtype.is_integer:
            found = tf.reshape(self._checked_list(y_pred), [-1, self.k])
            queries, _ = self._queries(y_true, y_pred, sample_weight, tf.int64.max)
            self._compare(found, *queries)
            return
        tag = self._tag(y_pred)
        if tag is None:
            return
        self._compare_with_loss(tag, sample_weight)
        if tag.training:
            self._say_why(tag)
            return
        queries, labels = self._queries(y_true, y_pred, sample_weight, tag.head.vocab_size)
        part, _ = tag.counted(labels)
        relevant, grades, weights = map(part.taken, queries)
        counted = (grades != 0) & (weights != 0)[:, None]
        relevant, _ = tag.head.checked_items(relevant, counted)
        self._compare(part.top_k(self.k), relevant, grades, weights)

    def _queries(self, y_true, y_pred, sample_weight, vocab_size):
        """(Relevant ids (N, R), grades (N, R), weights (N,)), and which of N queries count."""
        given = y_true, sample_weight
        relevant, grades = _relevant(y_true, y_pred)
        if self.ignore_class is not None:
            ignored = relevant == tf.cast(self.ignore_class, relevant.dtype)
            relevant = tf.where(ignored, tf.cast(-1, relevant.dtype), relevant)
        relevant = whole_ids(relevant, tf.int64.min, vocab_size)
        relevant = tf.where(grades <= 0, tf.cast(-1, tf.int64), relevant)
        if sample_weight is not None:
            sample_weight = sample_weights(sample_weight)
            if len(sample_weight.shape) > len(relevant.shape) - 1:
                sample_weight = _of_queries(sample_weight, relevant.shape)
        one = tf.reduce_max(relevant, axis=-1)  # of each query, also where R is 0
        labels, weights = positions(one, y_pred, sample_weight)
        size = [tf.size(weights), tf.shape(relevant)[-1]]
        relevant, grades = tf.reshape(relevant, size), tf.reshape(grades, size)
        nothing = tf.constant(0, tf.float64)
        grades = tf.where((relevant < 0) | repeated(relevant), nothing, grades)
        some = tf.reduce_any(grades != 0, axis=1)
        weights = tf.reshape(weights, [-1]) * tf.cast(some, tf.float32)
        labels = dataclasses.replace(
            labels, counted=weights != 0, source=given[0], sample_weight=given[1],
            ignore_class=("relevant", self.ignore_class),  # as other metrics share no list with it
        )
        return (relevant, grades, weights), labels

    def _compare(self, found, relevant, grades, weights):
        weights *= tf.cast(found[:, 0] != NOT_SEARCHED, tf.float32)
        self._judge(tf.cast(found, relevant.dtype), relevant, grades, weights)

    def _judge(self, found, relevant, grades, weights):
        """Adds what the lists (N, k) of the queries say, with weights (N,)."""
        nothing = tf.constant(0, tf.float64)
        of_found = tf.where(repeated(found), nothing, grades_of(found, relevant, grades))
        self._add((self._value_of_grades(of_found, grades),), weights)

    def _value_of_grades(self, found, relevant):
        """The metric (N,) of each query.

        Args:
            found: (N, k) float64, the grades of the items of the list, zero where one is not
                relevant.
            relevant: (N, R) float64, the grades of all relevant items, each once, and zeros.
        """
        hits, count = tf.cast(found != 0, tf.float64), tf.math.count_nonzero(relevant, axis=1)
        return self._value(hits, tf.cast(tf.maximum(count, 1), tf.float64))

    def _value(self, hits, relevant):
        """The metric (N,) of each query, for one that asks for no grades.

        Args:
            hits: (N, k) float64, one where an item of the list is relevant.
            relevant: (N,) float64, how many items are, at least one.
        """
        raise NotImplementedError

    def _checked_list(self, y_pred):
        right = (y_pred.shape.rank or 0) >= 2 and (y_pred.shape[-1] or self.k) >= self.k
        expect(right, "y_pred", f"be the output of a head, or ids (..., K) with K >= k = {self.k}",
               received=f"integers of shape {y_pred.shape}")
        return y_pred[..., : self.k]


def _relevant(y_true, y_pred):
    """Ids and float64 grades (..., R), for `y_pred` (..., V) or (..., K)."""
    relevant, shape = dense_ids(dense_lists(y_true, "y_true"), "y_true"), y_pred.shape
    rank = len(shape) - 1
    if relevant.shape.rank is None:
        relevant = of_positions(relevant, y_pred)
    if relevant.shape.rank == rank - 1 and shape[-2] == 1:  # as the loss takes them
        relevant = relevant[..., None]
    if relevant.shape.rank == rank:
        relevant = relevant[..., None]
    pairs = relevant.shape.rank == rank + 2 and relevant.shape[-1] == 2
    of_queries = relevant.shape.rank == rank + 1 or pairs
    expect(
        of_queries and relevant.shape[:rank].is_compatible_with(shape[:-1]), "y_true",
        "have the shape of the queries, or one more axis for several relevant items per query, and "
        "perhaps a last one for pairs of an item and its grade",
        received=f"y_true of shape {relevant.shape} for queries of shape {shape[:-1]}",
    )
    if pairs:
        relevant, grades = tf.unstack(relevant, axis=-1)
        return relevant, tf.cast(grades, tf.float64)
    return relevant, tf.ones(tf.shape(relevant), tf.float64)


def _of_queries(sample_weight, shape):
    """Weights (..., 1) as (...); one weight for each relevant item is refused."""
    expect(sample_weight.shape[-1] == 1, "sample_weight",
           f"have one weight for each query, the shape {shape[:-1]}",
           received=f"shape {sample_weight.shape}")
    return tf.squeeze(sample_weight, -1)
