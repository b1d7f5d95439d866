"""The effective sample size, and how far ln Z is from a constant: metrics of some heads."""

import keras
import tensorflow as tf

from tfsoftmax.metrics.token_mean import TokenMean


@keras.saving.register_keras_serializable(package="tfsoftmax")
class EffectiveSampleSize(TokenMean):
    """Mean over positions of (Σ ω)² / Σ ω² with ω = exp(s) / q, over a sample of `SampledSoftmax`.

    This is how many of the S samples carry weight. A small share of S says that the proposal
    distribution is far from the model's, or that S is too small. The metric draws its own sample
    for each batch and does not affect training. It costs an additional product of (N, D) and
    (D, S).

    Args:
        ignore_class: label whose positions are not counted, or None.
        name, dtype: as in `keras.metrics.Metric`.

    Example:
        head = tfsoftmax.SampledSoftmax(1000, num_samples=50)
        model = keras.Sequential([keras.Input((16,)), head])
        model.compile("sgd", tfsoftmax.SoftmaxLoss(), metrics=[tfsoftmax.EffectiveSampleSize()])
        model.fit(keras.random.normal((8, 16)), keras.random.randint((8,), 0, 1000))

    Source: Müller 2017, equation 2.30.
    """

    quantities = ("total",)
    default_name = "effective_sample_size"
    _direction = "up"
    needs = ("effective_sample_size", "SampledSoftmax")

    def _values(self, tag, labels):
        seed = tf.bitcast(self.sums["tokens"].value, tf.int64)  # another one for each batch
        return (tag.head.effective_sample_size(tf.stop_gradient(tag.hidden), seed),)


@keras.saving.register_keras_serializable(package="tfsoftmax")
class Normaliser(TokenMean):
    """Mean and variance of ln Z(h), and the nats of the scores as they are.

    The result is a dictionary: `log_z_mean`, `log_z_variance` and `self_normalised_nats`, the
    mean of the negative of `head.self_normalised_log_prob`. The last is the mean loss if the
    labels' scores alone stand for log-probabilities. It is not a cross-entropy, because the
    probabilities need not sum to one, and it is near the cross-entropy only if training holds Z
    near a constant (`head.self_normalised`). Each batch costs another pass over the vocabulary;
    the metric is meant for `evaluate`.

    Args:
        ignore_class: label whose positions are not counted, or None.
        name: a name, with which the keys then begin, as in `a_log_z_mean`. Keras's logs have
            nothing else that tells the metrics of several outputs apart.
        dtype: as in `keras.metrics.Metric`.

    Example:
        model = keras.Sequential([keras.Input((16,)), tfsoftmax.NCE(1000, num_samples=50)])
        model.compile("sgd", tfsoftmax.SoftmaxLoss(), weighted_metrics=[tfsoftmax.Normaliser()])
        hidden, labels = keras.random.normal((8, 16)), keras.random.randint((8,), 0, 1000)
        print(model.evaluate(hidden, labels, return_dict=True)["log_z_variance"])

    Source: Müller 2017, sections 2.2.3.6 and 5.2.1 (Chen et al. 2015).
    """

    quantities = ("log_z", "squares", "scores")
    default_name = "normaliser"
    needs = ("log_normaliser", "a head with one score for each word")

    def _values(self, tag, labels):
        log_z = tf.cast(tag.head.log_normaliser(tag.hidden), "float64")
        score = tag.head.self_normalised_log_prob
        return log_z, log_z**2, score(tag.hidden, labels.ids, mask=labels.counted)

    def _report(self, log_z, squares, scores):
        return {
            "log_z_mean": log_z,
            "log_z_variance": squares - log_z**2,
            "self_normalised_nats": -scores,
        }
