"""Which items lists hold, at any rank: recall and precision."""

import keras
import tensorflow as tf

from tfsoftmax.metrics.ranking import RankingMetric


@keras.saving.register_keras_serializable(package="tfsoftmax")
class RecallAtK(RankingMetric):
    """Share of the relevant items that are among the k best: mean over queries.

    With one relevant item a query, it is the hit rate, and what TFRS calls the top-k categorical
    accuracy of `FactorizedTopK`.

    Args:
        k: length of the list.
        ignore_class, name, dtype: as in `ranking.RankingMetric`, which says what `y_true` and
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
class PrecisionAtK(RankingMetric):
    """Share of the k places of the list that hold relevant items: mean over queries.

    An empty place holds none. A query with fewer relevant items than k cannot reach 1. ranx divides
    by k, too; keras_rs divides by the number of scored items where it is smaller.

    Args:
        k: length of the list.
        ignore_class, name, dtype: as in `ranking.RankingMetric`, which says what `y_true` and
            `y_pred` may be.

    Example:
        metric = tfsoftmax.metrics.PrecisionAtK(4)
        metric.update_state([[4, 7, -1], [2, -1, -1]], [[7, 8, 4, 1], [1, 3, -1, -1]])
        print(metric.result())  # (2 / 4 + 0 / 4) / 2
    """

    default_name = "precision"

    def _value(self, hits, relevant):
        return tf.reduce_mean(hits, axis=1)
