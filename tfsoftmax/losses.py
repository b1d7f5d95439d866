"""The loss for `keras.Model.compile`: whatever the head is trained with, exact elsewhere."""

import keras
import tensorflow as tf
from keras.src.losses.loss import scale_loss_for_distribution

from tfsoftmax.logits_tag import LogitsTag, positions

REDUCTIONS = ("sum_over_batch_size", "mean", "mean_with_sample_weight", "sum", "none", None,
              "sum_over_steps")


@keras.saving.register_keras_serializable(package="tfsoftmax")
class SoftmaxLoss(keras.losses.Loss):
    """The head's own training loss in `fit`, exact cross-entropy in `evaluate`; nats.

    Args:
        ignore_class: label whose positions count nothing, or None.
        reduction: as in every Keras loss, or `"sum_over_steps"`: the nats of a batch (B, T)
            summed over the T steps and averaged over the B streams, the objective for which the
            learning rates and clipping thresholds of Zaremba et al. 2014 and Müller 2017 are meant.
        name: of the loss.
        dtype: ignored but for Keras's sake: losses are float32.

    Raises:
        ValueError: if `y_pred` is not the output of a head.
    """

    def __init__(
        self, ignore_class=None, reduction="sum_over_batch_size", name="softmax_loss", dtype=None
    ):
        if reduction not in REDUCTIONS:
            raise ValueError(f"`reduction` must be one of {REDUCTIONS}. Received: {reduction!r}")
        super().__init__(name=name, reduction="sum", dtype=dtype)
        self.reduction = reduction
        self.ignore_class = ignore_class

    def __call__(self, y_true, y_pred, sample_weight=None):
        call = LogitsTag.of(y_pred)
        labels, weights = positions(y_true, y_pred, sample_weight, self.ignore_class, self.reduction)
        if call is None:  # Keras builds the model: only the shape matters
            return tf.zeros_like(weights) if self.reduction in (None, "none") else tf.zeros(())
        if self.reduction in (None, "none"):
            return weights * call.nats(labels)
        divisor = self._divisor(weights)
        loss = call.total_loss(labels, tf.math.divide_no_nan(weights, divisor))
        return loss if self.reduction == "sum" else scale_loss_for_distribution(loss)

    def _divisor(self, weights):
        if self.reduction == "sum":
            return tf.constant(1.0)
        if self.reduction == "sum_over_steps":
            return tf.cast(tf.shape(weights)[0], tf.float32)
        if self.reduction == "mean_with_sample_weight":
            return tf.reduce_sum(weights)
        return tf.cast(tf.size(weights), tf.float32)

    def get_config(self):
        return {**super().get_config(), "ignore_class": self.ignore_class}
