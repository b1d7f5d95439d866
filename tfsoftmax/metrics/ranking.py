"""How well the list of the best items holds those that are relevant: recall, NDCG, MRR."""

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.arguments import check_positive
from tfsoftmax.logits_tag import positions
from tfsoftmax.metrics.token_mean import TokenMean, whole_ids
from tfsoftmax.ops.inputs import dense, dense_ids, dense_weights
from tfsoftmax.ops.ranking import NOT_SEARCHED, among, distinct, repeated


class RankingMetric(TokenMean):
    """Base of the metrics of lists of the k best items, averaged over queries.

    `y_true` are ids of relevant items: (...), one for each query, or (..., R), padded with -1.
    Relevance is binary, and an item that stands there twice counts once. A query without relevant
    items does not count; keras_rs counts it as zero.

    `y_pred` is one of two:

    * the output of a head. The list is that of `head.top_k`, exact and in bounded memory. It is
      searched in evaluation only, once for all metrics if the one with the largest k comes first;
      in `fit` the metric is NaN.
    * integers (..., K), K >= k: lists that were searched before, the best first, -1 in empty
      places; an item that stands there twice has its first place. Such a list is what an index or
      an exported model finds, and the first output of `TopK(head, k)(hidden, exclude=seen)`,
      without items that a user has seen, which a model may have beside the logits that it is
      trained by. A relevant item that was excluded is not found, but counts as relevant.

    Ties: a list has them in the order of `head.top_k`, which is that of rising ids for heads with
    a row for each item. keras_rs shuffles them. Where many scores are equal, as in an untrained
    model of zeros, and items are sorted by popularity, the order of ids is a good one.

    Args:
        k: length of the list.
        ignore_class: id that is no item, besides those below zero; or None.
        name, dtype: as in `keras.metrics.Metric`.

    Raises:
        ValueError: when updated, if shapes do not fit; InvalidArgumentError if an id of `y_true`
            is not one of the head's.

    Example:
        class HitRate(tfsoftmax.metrics.ranking.RankingMetric):
            default_name = "hit_rate"
            def _value(self, hits, relevant):
                return keras.ops.max(hits, axis=1)
        metric = HitRate(2)
        metric.update_state([[4, -1], [7, 8]], [[4, 5], [9, 3]])
        print(metric.result())  # 0.5
    """

    quantities = ("value",)
    needs = ("top_k", "a tfsoftmax head")
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
            self._compare(y_true, y_pred, self._checked_list(y_pred), sample_weight)
            return
        tag = self._tag(y_pred)
        if tag is None or tag.training:
            return
        self._compare(
            y_true, y_pred, tag.top_k(self.k), sample_weight, tag.head.vocab_size
        )

    def get_config(self):
        return {**super().get_config(), "k": self.k}

    def _compare(self, y_true, y_pred, found, sample_weight, vocab_size=tf.int64.max):
        relevant = _relevant(y_true, y_pred.shape)
        if self.ignore_class is not None:
            ignored = relevant == tf.cast(self.ignore_class, relevant.dtype)
            relevant = tf.where(ignored, tf.cast(-1, relevant.dtype), relevant)
        relevant = whole_ids(relevant, tf.int64.min, vocab_size)
        if sample_weight is not None:
            sample_weight = dense_weights(sample_weight)
            if len(sample_weight.shape) > len(relevant.shape) - 1:
                sample_weight = _of_queries(sample_weight, relevant.shape)
        one = tf.reduce_max(relevant, axis=-1)  # of each query, also where R is 0
        _, weights = positions(one, y_pred, sample_weight)
        relevant = tf.reshape(relevant, [tf.size(weights), tf.shape(relevant)[-1]])
        found = tf.cast(tf.reshape(found, [-1, self.k]), relevant.dtype)
        count = distinct(relevant)
        counted = (count > 0) & (found[:, 0] != NOT_SEARCHED)
        weights = tf.reshape(weights, [-1]) * tf.cast(counted, tf.float32)
        hits = tf.cast(among(found, relevant) & ~repeated(found), tf.float64)
        self._add((self._value(hits, tf.cast(tf.maximum(count, 1), tf.float64)),), weights)

    def _value(self, hits, relevant):
        """The metric (N,) of each query.

        Args:
            hits: (N, k) float64, one where an item of the list is relevant.
            relevant: (N,) float64, how many items are, at least one.
        """
        raise NotImplementedError

    def _checked_list(self, y_pred):
        if (y_pred.shape.rank or 0) < 2 or (y_pred.shape[-1] or self.k) < self.k:
            raise ValueError(
                f"`y_pred` must be the output of a head, or ids (..., K) with K >= k = {self.k}. "
                f"Received: integers of shape {y_pred.shape}"
            )
        return y_pred[..., : self.k]


@keras.saving.register_keras_serializable(package="tfsoftmax")
class RecallAtK(RankingMetric):
    """Share of the relevant items that are among the k best: mean over queries.

    With one relevant item a query, it is the hit rate, and what TFRS calls the top-k categorical
    accuracy of `FactorizedTopK`.

    Args:
        k: length of the list.
        ignore_class, name, dtype: arguments of `RankingMetric`, which says what `y_true` and
            `y_pred` may be.

    Example:
        model = keras.Sequential([keras.Input((16,)), tfsoftmax.SampledSoftmax(1000, 50)])
        metrics = [tfsoftmax.metrics.RecallAtK(100), tfsoftmax.metrics.RecallAtK(10)]
        model.compile("sgd", tfsoftmax.SoftmaxLoss(), metrics=metrics)
        queries, items = keras.random.normal((8, 16)), keras.random.randint((8,), 0, 1000)
        print(model.evaluate(queries, items, return_dict=True)["recall_at_100"])
    """

    default_name = "recall"

    def _value(self, hits, relevant):
        return tf.reduce_sum(hits, axis=1) / relevant


@keras.saving.register_keras_serializable(package="tfsoftmax")
class NDCG(RankingMetric):
    """Normalised discounted cumulative gain of the k best items: mean over queries.

    DCG = Σ 1 / log2(1 + r) over the ranks r of relevant items, divided by that of the best list,
    which starts with all relevant items, or with k if they are more.

    Args:
        k: length of the list.
        ignore_class, name, dtype: arguments of `RankingMetric`, which says what `y_true` and
            `y_pred` may be.

    Example:
        hidden, seen = keras.Input((16,)), keras.Input((5,), dtype="int32")
        head = tfsoftmax.SampledSoftmax(1000, 50)
        best, _ = tfsoftmax.TopK(head, 10)(hidden, exclude=seen)
        model = keras.Model([hidden, seen], {"next": head(hidden), "best": best})
        ndcg = tfsoftmax.metrics.NDCG(10)
        model.compile("sgd", {"next": tfsoftmax.SoftmaxLoss()}, metrics={"best": ndcg})
        # model.evaluate([hidden, seen], {"next": items, "best": relevant_items})

    Source: Järvelin and Kekäläinen 2002, with binary relevance.
    """

    default_name = "ndcg"

    def _value(self, hits, relevant):
        discounts = 1 / np.log2(np.arange(2, self.k + 2))
        ideal = tf.gather(np.cumsum(discounts), tf.cast(tf.minimum(relevant, self.k), "int32") - 1)
        return tf.reduce_sum(hits * discounts, axis=1) / ideal


@keras.saving.register_keras_serializable(package="tfsoftmax")
class MRR(RankingMetric):
    """Mean reciprocal rank: of the first relevant item among the k best, zero where there is none.

    keras_rs calls it `MeanReciprocalRank`.

    Args:
        k: length of the list.
        ignore_class, name, dtype: arguments of `RankingMetric`, which says what `y_true` and
            `y_pred` may be.

    Example:
        metric = tfsoftmax.metrics.MRR(3)
        metric.update_state([[7, 8], [2, -1]], [[9, 8, 7], [1, 3, 4]])
        print(metric.result())  # (1 / 2 + 0) / 2
    """

    default_name = "mrr"

    def _value(self, hits, relevant):
        return tf.reduce_max(hits / np.arange(1.0, self.k + 1), axis=1)


def _relevant(y_true, shape):
    """`y_true` as ids (..., R), for `y_pred` of some shape (..., V) or (..., K)."""
    relevant, rank = dense_ids(y_true, "y_true"), len(shape) - 1
    if relevant.shape.rank == rank - 1 and shape[-2] == 1:  # as the loss takes them
        relevant = relevant[..., None]
    if relevant.shape.rank == rank:
        relevant = relevant[..., None]
    if relevant.shape.rank != rank + 1:
        raise ValueError(
            "`y_true` must have the shape of the queries, or one more axis for several relevant "
            f"items of each. Received: y_true of shape {relevant.shape} for queries with {rank} "
            "axes"
        )
    return relevant


def _of_queries(sample_weight, shape):
    """Weights (..., 1) as (...); one weight for each relevant item is refused."""
    if sample_weight.shape[-1] != 1:
        raise ValueError(
            f"`sample_weight` must have one weight for each query, the shape {shape[:-1]}. "
            f"Received: shape {sample_weight.shape}"
        )
    return tf.squeeze(sample_weight, -1)
