"""The loss for `keras.Model.compile`: the head's own objective in training, exact elsewhere."""

import keras
import tensorflow as tf

from tfsoftmax.arguments import CheckedArguments
from tfsoftmax.logits_tag import LogitsTag, positions
from tfsoftmax.ops.replicas import sum_of_replicas

REDUCTIONS = ("sum_over_batch_size", "mean", "mean_with_sample_weight", "sum", "none", None,
              "sum_over_steps")


@keras.saving.register_keras_serializable(package="tfsoftmax")
class SoftmaxLoss(CheckedArguments, keras.losses.Loss):
    """The head's own training loss in `fit`, exact cross-entropy in `evaluate`; in nats.

    A head that is no distribution, `CubicScores`, has its own loss in both.

    Call arguments:
        y_true: (...) or (..., 1) integers, the labels.
        y_pred: (..., V), the output of a head, without any layer after it.
        sample_weight: broadcasts to (...), as (B, 1) does for labels (B, T), or None.

    Returns, when called: scalar float32, or (...) with the reduction "none".

    Args:
        ignore_class: label whose positions do not contribute to the loss, or None.
        reduction: one of the reductions of Keras, or `"sum_over_steps"`: the nats of a batch
            (B, T) are summed over the T steps and averaged over the B streams. The learning
            rates and clipping thresholds of Zaremba et al. 2014 and Müller 2017 are meant for
            this objective. Where a strategy of `tf.distribute` has several replicas, every
            reduction but `"sum"` and `"none"` divides by what the whole batch has, over all
            replicas. The loss of each of P replicas has the gradient of its own positions, and
            as its value the loss of the whole batch over P, so that sums over the replicas are
            right, and so is what Keras reports, however unevenly a batch was cut.
        name: name of the loss.
        dtype: accepted because Keras passes it to every loss. The loss is always float32.

    Raises:
        ValueError: if `reduction` is unknown, or, when called, if `y_pred` is not the output of
            a head.

    Example:
        model = keras.Sequential([keras.Input((16,)), tfsoftmax.SampledSoftmax(1000, 50)])
        model.compile("sgd", loss=tfsoftmax.SoftmaxLoss())
        hidden, labels = keras.random.normal((8, 16)), keras.random.randint((8,), 0, 1000)
        model.fit(hidden, labels)
    """

    def __init__(
        self, ignore_class: int | None = None, reduction: str | None = "sum_over_batch_size",
        name: str = "softmax_loss", dtype: str | keras.DTypePolicy | None = None,
    ):
        if reduction not in REDUCTIONS:
            raise ValueError(
                f"`reduction` must be one of {REDUCTIONS}. Received: reduction={reduction!r}"
            )
        super().__init__(name=name, reduction="sum", dtype=dtype)
        self.reduction = reduction
        self.ignore_class = ignore_class

    def __call__(self, y_true, y_pred, sample_weight=None) -> tf.Tensor:
        tag = LogitsTag.of(y_pred)
        labels, weights = positions(y_true, y_pred, sample_weight, self.ignore_class)
        if tag is None:  # Keras builds the model, and only the shape matters
            return tf.zeros_like(weights) if self.reduction in (None, "none") else tf.zeros(())
        if self.reduction in (None, "none"):
            return weights * tag.nats(labels)
        if self.reduction != "sum":
            weights = tf.math.divide_no_nan(weights, _of_whole_batch(self._size(labels, weights)))
        return _of_equal_shares(tag.total_loss(labels, weights))

    def _size(self, labels, weights):
        """What the sum over this replica's positions is divided by, if it is the only one."""
        if self.reduction == "sum_over_steps":
            return tf.cast(tf.shape(weights)[0], tf.float32)
        if self.reduction == "mean_with_sample_weight":
            return tf.reduce_sum(weights)
        return labels.kept  # as in Keras, a mean goes over the positions that a mask leaves in

    def get_config(self):
        return {**super().get_config(), "ignore_class": self.ignore_class}


def _of_whole_batch(size):
    """The sum of a size over all replicas, whose losses Keras and the optimisers add."""
    if tf.distribute.in_cross_replica_context():  # no replica is running that could be asked
        return size * tf.distribute.get_strategy().num_replicas_in_sync
    return sum_of_replicas(size)


def _of_equal_shares(loss):
    """A loss with the same gradient, whose value is the mean over all replicas.

    Keras weighs the value of each replica by its rows, which is right for equal values only.
    """
    total = sum_of_replicas(loss)
    if total is loss:
        return loss
    mean = total / tf.distribute.get_strategy().num_replicas_in_sync
    return loss + tf.stop_gradient(mean - loss)
