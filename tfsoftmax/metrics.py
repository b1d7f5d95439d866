"""Exact perplexity."""

import keras
import tensorflow as tf

from tfsoftmax.head_call import HeadCall, positions


@keras.saving.register_keras_serializable(package="tfsoftmax")
class Perplexity(keras.metrics.Metric):
    """exp(Σ nats / Σ tokens) over all positions seen since the last reset.

    Nats are exact, normalised log-probabilities, whatever the head is trained with; weights,
    as in `weighted_metrics`, say how many tokens a position counts for. While training with a
    head whose objective is sampled, the exact figure would cost the full softmax, and the
    metric says NaN: measure it with `evaluate`.

    Args:
        ignore_class: label whose positions are not counted, or None.
        name, dtype: of `keras.metrics.Metric`. Sums are kept in float64.
    """

    def __init__(self, ignore_class=None, name="perplexity", dtype=None):
        super().__init__(name=name, dtype=dtype)
        self.ignore_class = ignore_class
        self.nats = self.add_variable((), "zeros", dtype="float64", name="nats")
        self.tokens = self.add_variable((), "zeros", dtype="float64", name="tokens")

    def update_state(self, y_true, y_pred, sample_weight=None):
        call = HeadCall.of(y_pred)
        labels, weights = positions(y_true, y_pred, sample_weight, self.ignore_class)
        nats = None if call is None else call.exact_nats(labels)
        if nats is None:
            return
        self.nats.assign_add(tf.cast(tf.reduce_sum(nats * weights), "float64"))
        self.tokens.assign_add(tf.cast(tf.reduce_sum(weights), "float64"))

    def result(self):
        return tf.cast(tf.exp(self.nats.value / self.tokens.value), "float32")

    def get_config(self):
        return {**super().get_config(), "ignore_class": self.ignore_class}
