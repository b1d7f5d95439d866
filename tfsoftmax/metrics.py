"""Exact perplexity; what sampling heads are watched by."""

import keras
import tensorflow as tf

from tfsoftmax.logits_tag import LogitsTag, positions


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
        call = LogitsTag.of(y_pred)
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


@keras.saving.register_keras_serializable(package="tfsoftmax")
class EffectiveSampleSize(keras.metrics.Metric):
    """Mean over positions of (Σ ω)² / Σ ω², ω = exp(s) / q, over a sample of `SampledSoftmax`.

    Of S samples, so many count: a small share says that the proposal is far from the model, or S
    too small. The sample is a fresh one, for which a step pays a product (N, D) by (D, S).

    Args:
        ignore_class: label whose positions are not counted, or None.
        name, dtype: of `keras.metrics.Metric`.

    Source: Müller 2017, equation 2.30.
    """

    def __init__(self, ignore_class=None, name="effective_sample_size", dtype=None):
        super().__init__(name=name, dtype=dtype)
        self.ignore_class = ignore_class
        self.total = self.add_variable((), "zeros", dtype="float64", name="total")
        self.tokens = self.add_variable((), "zeros", dtype="float64", name="tokens")

    def update_state(self, y_true, y_pred, sample_weight=None):
        call = LogitsTag.of(y_pred)
        if call is None:
            return
        if not hasattr(call.head, "effective_sample_size"):
            raise ValueError(
                f"`y_pred` must be the output of SampledSoftmax. Received: one of {call.head}"
            )
        _, weights = positions(y_true, y_pred, sample_weight, self.ignore_class)
        sizes = call.head.effective_sample_size(tf.stop_gradient(call.hidden))
        self.total.assign_add(tf.cast(tf.reduce_sum(weights * sizes), "float64"))
        self.tokens.assign_add(tf.cast(tf.reduce_sum(weights), "float64"))

    def result(self):
        return tf.cast(self.total.value / self.tokens.value, "float32")

    def get_config(self):
        return {**super().get_config(), "ignore_class": self.ignore_class}


@keras.saving.register_keras_serializable(package="tfsoftmax")
class Normaliser(keras.metrics.Metric):
    """Mean and variance of ln Z(h), and nats of the scores taken for normalised.

    Its result is a dictionary: `log_z_mean`, `log_z_variance` and, for heads that are
    `self_normalised`, `self_normalised_nats`, the mean of its negative: what scoring
    by the labels' scores alone comes to, which is not a cross-entropy, as nothing sums to one.
    Costs a pass over the vocabulary beside that of `Perplexity`. Not for training.

    Args:
        name, dtype: of `keras.metrics.Metric`. Sums are kept in float64.

    Source: Müller 2017, sections 2.2.3.6 and 5.2.1 (Chen et al. 2015).
    """

    def __init__(self, name="normaliser", dtype=None):
        super().__init__(name=name, dtype=dtype)
        names = ("tokens", "log_z", "squares", "scores")
        self.sums = {n: self.add_variable((), "zeros", dtype="float64", name=n) for n in names}
        self.has_scores = False

    def update_state(self, y_true, y_pred, sample_weight=None):
        call = LogitsTag.of(y_pred)
        if call is None:
            return
        if not hasattr(call.head, "log_normaliser"):
            raise ValueError(
                "`y_pred` must be the output of a head with one score a word. "
                f"Received: one of {call.head}"
            )
        labels, weights = positions(y_true, y_pred, sample_weight)
        weights = tf.cast(weights, "float64")
        log_z = tf.cast(call.head.log_normaliser(call.hidden), "float64")
        terms = {"tokens": weights, "log_z": weights * log_z, "squares": weights * log_z**2}
        self.has_scores = call.head.self_normalised
        if self.has_scores:
            scores = call.head.self_normalised_log_prob(call.hidden, labels.ids)
            terms["scores"] = weights * tf.cast(scores, "float64")
        for name, term in terms.items():
            self.sums[name].assign_add(tf.reduce_sum(term))

    def result(self):
        tokens = self.sums["tokens"].value
        mean = self.sums["log_z"].value / tokens
        results = {
            "log_z_mean": mean,
            "log_z_variance": self.sums["squares"].value / tokens - mean**2,
        }
        if self.has_scores:
            results["self_normalised_nats"] = -self.sums["scores"].value / tokens
        return results


class _ClusterMetric(keras.metrics.Metric):
    """exp(Σ nats / Σ tokens) of one of the two factors of a word's probability."""

    def __init__(self, name=None, dtype=None):
        super().__init__(name=name, dtype=dtype)
        self.nats = self.add_variable((), "zeros", dtype="float64", name="nats")
        self.tokens = self.add_variable((), "zeros", dtype="float64", name="tokens")

    def update_state(self, y_true, y_pred, sample_weight=None):
        call = LogitsTag.of(y_pred)
        if call is None or call.training:
            return
        if not hasattr(call.head, "cluster_log_prob"):
            raise ValueError(
                f"`y_pred` must be the output of SelfOrganisedSoftmax. Received: one of {call.head}"
            )
        labels, weights = positions(y_true, y_pred, sample_weight)
        nats = self._nats(call, labels, -call.head.cluster_log_prob(call.hidden, labels.ids))
        self.nats.assign_add(tf.cast(tf.reduce_sum(nats * weights), "float64"))
        self.tokens.assign_add(tf.cast(tf.reduce_sum(weights), "float64"))

    def _nats(self, call, labels, of_cluster):
        raise NotImplementedError

    def result(self):
        return tf.cast(tf.exp(self.nats.value / self.tokens.value), "float32")


@keras.saving.register_keras_serializable(package="tfsoftmax")
class ClusterPerplexity(_ClusterMetric):
    """Perplexity of the words' clusters; NaN in `fit`, as the weights have moved on there.

    Its product with `InClusterPerplexity` is `Perplexity`.

    Source: Shen et al. 2017, equation 5.
    """

    def __init__(self, name="cluster_perplexity", dtype=None):
        super().__init__(name, dtype)

    def _nats(self, call, labels, of_cluster):
        return of_cluster


@keras.saving.register_keras_serializable(package="tfsoftmax")
class InClusterPerplexity(_ClusterMetric):
    """Perplexity of the words, their clusters given; NaN in `fit`.

    Source: Shen et al. 2017, equation 6.
    """

    def __init__(self, name="in_cluster_perplexity", dtype=None):
        super().__init__(name, dtype)

    def _nats(self, call, labels, of_cluster):
        return call.exact_nats(labels) - of_cluster
