"""The share of all items that appear in lists."""

import keras
import tensorflow as tf

from tfsoftmax.metrics.ranking import RankingMetric
from tfsoftmax.ops.inputs import checked_ids
from tfsoftmax.ops.replicas import sum_of_replicas
from tfsoftmax.support.arguments import check_positive, expect


@keras.saving.register_keras_serializable(package="tfsoftmax")
class Coverage(RankingMetric):
    """Share of all items that appear in at least one list since the last reset.

    It is low if a model recommends a few popular items to everyone. The list of a query counts
    whether or not its items are relevant, but as for other metrics the query needs a relevant item
    and a weight that is not zero; how large the weight is does not matter. The metric keeps 2V
    bytes on each replica, and an item counts if it is in a list of any replica. The value rises
    with the number of queries, so compare models only on the same queries.

    Args:
        vocab_size: V, the number of items, with those of a head's `not_items`.
        k: length of the list.
        ignore_class, name, dtype: as in `ranking.RankingMetric`, which says what `y_true` and
            `y_pred` may be.

    Raises:
        ValueError: when updated, if V is not the number of the head's items; InvalidArgumentError
            if an id of a list is V or more; and as `ranking.RankingMetric`.

    Example:
        metric = tfsoftmax.metrics.Coverage(10, k=2)
        metric.update_state([4, 7, -1], [[4, 1], [1, 8], [2, 3]])
        print(metric.result())  # 0.3: the items 1, 4 and 8 of ten

    Source: Ge et al. 2010, "catalog coverage".
    """

    saved_options = ("vocab_size",)
    quantities = ("lists",)  # 1 for each list, whose mean is NaN where no list counts
    default_name = "coverage"

    def __init__(
        self, vocab_size: int, k: int = 10, ignore_class: int | None = None,
        name: str | None = None, dtype: str | keras.DTypePolicy | None = None,
    ):
        check_positive(vocab_size=vocab_size)
        super().__init__(k, ignore_class, name, dtype)
        self.vocab_size = vocab_size
        # 0 or 1: collectives of workers lack int8, and those that sum lack bool.
        self.listed = self.add_variable((vocab_size,), "zeros", dtype="float16", name="listed")

    def _tag(self, y_pred):
        tag = super()._tag(y_pred)
        if tag is not None:
            expect(tag.head.vocab_size == self.vocab_size, "vocab_size",
                   f"be that of the head, {tag.head.vocab_size}", self.vocab_size)
        return tag

    def _judge(self, found, relevant, grades, weights):
        counted = (weights != 0)[:, None] & (found >= 0)
        ids, valid = checked_ids(tf.where(counted, found, 0), self.vocab_size, "y_pred")
        listed = tf.cast(counted & valid, tf.float16)
        self.listed.assign(tf.tensor_scatter_nd_max(self.listed.value, ids[..., None], listed))
        self._add((tf.ones_like(weights),), weights)

    def _report(self, one):
        listed = sum_of_replicas(tf.cast(self.listed.value, tf.float32)) > 0
        return super()._report(one * tf.reduce_mean(tf.cast(listed, tf.float64)))
