"""Metrics of the relevant items in a list: recall and precision at any rank, NDCG, MRR, MAP."""

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.metrics.ranking import RankingMetric
from tfsoftmax.support.arguments import expect

# Of grades and the highest grade of the query: NDCG is a ratio, in which 2^highest cancels out.
GAINS = {
    "exponential": lambda grades, highest: 2 ** (grades - highest) - 2**-highest,
    "linear": lambda grades, highest: grades,
}


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


@keras.saving.register_keras_serializable(package="tfsoftmax")
class NDCG(RankingMetric):
    """Normalised discounted cumulative gain of the k best items: mean over queries.

    DCG = Σ gain / log2(1 + r) over the ranks r of relevant items, divided by that of the best list,
    which has the relevant items by falling grade, at most k of them. The gain is 1 if `y_true` has
    only ids.

    Args:
        k: length of the list.
        ignore_class, name, dtype: as in `ranking.RankingMetric`, which says what `y_true` and
            `y_pred` may be.
        gain: the gain of an item of grade g: 2^g - 1 for "exponential", as by default in keras_rs
            and TensorFlow Ranking, or g for "linear", as in ranx and scikit-learn.

    Raises:
        ValueError: if `gain` is neither; and as `ranking.RankingMetric`.

    Example:
        hidden, seen = keras.Input((16,)), keras.Input((5,), dtype="int32")
        head = tfsoftmax.SampledSoftmax(1000, 50)
        best, _ = tfsoftmax.TopK(head, 10)(hidden, exclude=seen)
        model = keras.Model([hidden, seen], {"next": head(hidden), "best": best})
        ndcg = tfsoftmax.metrics.NDCG(10)
        model.compile("sgd", {"next": tfsoftmax.SoftmaxLoss()}, metrics={"best": ndcg})
        # model.evaluate([hidden, seen], {"next": items, "best": relevant_items})

    Source: Järvelin and Kekäläinen 2002, whose gains are linear; Burges et al. 2005 for 2^g - 1.
    """

    saved_options = ("gain",)
    default_name = "ndcg"

    def __init__(
        self, k: int = 10, ignore_class: int | None = None, name: str | None = None,
        dtype: str | keras.DTypePolicy | None = None, gain: str = "exponential",
    ):
        super().__init__(k, ignore_class, name, dtype)
        expect(gain in GAINS, "gain", f"be one of {tuple(GAINS)}", gain)
        self.gain = gain

    def _value_of_grades(self, found, relevant):
        discounts = tf.constant(1 / np.log2(np.arange(2, self.k + 2)))
        highest = tf.maximum(tf.reduce_max(relevant, axis=1, keepdims=True), 0)  # where R = 0, too
        gains, best = (GAINS[self.gain](grades, highest) for grades in (found, relevant))
        best = tf.sort(best, axis=1, direction="DESCENDING")[:, : self.k]
        ideal = tf.reduce_sum(best * discounts[: tf.shape(best)[1]], axis=1)
        return tf.math.divide_no_nan(tf.reduce_sum(gains * discounts, axis=1), ideal)


@keras.saving.register_keras_serializable(package="tfsoftmax")
class MRR(RankingMetric):
    """Mean reciprocal rank of the first relevant item among the k best; zero if there is none.

    keras_rs calls it `MeanReciprocalRank`.

    Args:
        k: length of the list.
        ignore_class, name, dtype: as in `ranking.RankingMetric`, which says what `y_true` and
            `y_pred` may be.

    Example:
        metric = tfsoftmax.metrics.MRR(3)
        metric.update_state([[7, 8], [2, -1]], [[9, 8, 7], [1, 3, 4]])
        print(metric.result())  # (1 / 2 + 0) / 2
    """

    default_name = "mrr"

    def _value(self, hits, relevant):
        return tf.reduce_max(hits / np.arange(1.0, self.k + 1), axis=1)


@keras.saving.register_keras_serializable(package="tfsoftmax")
class MAP(RankingMetric):
    """Mean average precision of the k best items: mean over queries.

    AP = Σ P@r / R over the ranks r <= k of relevant items. P@r is the precision at r, and R is the
    number of all relevant items, including those that are not in the list, as in keras_rs (which
    calls it `MeanAveragePrecision`), TensorFlow Ranking, ranx and trec_eval (`map_cut`). A query
    with more relevant items than k then cannot reach 1.

    Args:
        k: length of the list.
        ignore_class, name, dtype: as in `ranking.RankingMetric`, which says what `y_true` and
            `y_pred` may be.
        capped: whether to divide by min(k, R) instead of R, as in RecBole and in Kaggle contests,
            so that the best list has 1.

    Example:
        metric = tfsoftmax.metrics.MAP(3)
        metric.update_state([[4, 7], [2, -1]], [[7, 8, 4], [1, 2, 3]])
        print(metric.result())  # ((1 / 1 + 2 / 3) / 2 + 1 / 2) / 2

    Source: Buckley and Voorhees 2000.
    """

    saved_options = ("capped",)
    default_name = "map"

    def __init__(
        self, k: int = 10, ignore_class: int | None = None, name: str | None = None,
        dtype: str | keras.DTypePolicy | None = None, capped: bool = False,
    ):
        super().__init__(k, ignore_class, name, dtype)
        self.capped = capped

    def _value(self, hits, relevant):
        precisions = tf.cumsum(hits, axis=1) / np.arange(1.0, self.k + 1)
        reached = tf.minimum(relevant, float(self.k)) if self.capped else relevant
        return tf.reduce_sum(hits * precisions, axis=1) / reached
