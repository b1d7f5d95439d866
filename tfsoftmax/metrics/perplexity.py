"""Exact perplexities."""

import keras
import tensorflow as tf

from tfsoftmax.metrics.token_mean import TokenMean

NO_NATS = (
    "the head trains on a sample, whose loss is no perplexity, or the loss is not SoftmaxLoss, or "
    "it leaves out labels that the metric counts"
)


class _ExpMean(TokenMean):
    """Base of the perplexities."""

    _direction = "down"  # as EarlyStopping and other callbacks of Keras read it

    def _report(self, nats):
        return tf.cast(tf.exp(nats), "float32")


@keras.saving.register_keras_serializable(package="tfsoftmax")
class Perplexity(_ExpMean):
    """exp(Σ nats / Σ tokens) over all positions since the last reset.

    The nats are those of the exact, normalised distribution, even if the head has a sampled
    loss. `fit` does not compute it with such a head, because the exact value would cost the full
    softmax that sampling avoids; `evaluate` measures it.

    Args:
        ignore_class: label whose positions are not counted, or None. It should be that of the
            `SoftmaxLoss`: `fit` does not compute a metric that counts labels which the loss leaves
            out. If some positions have a `sample_weight` of zero, put the metric into
            `weighted_metrics`: a metric that counts such positions is NaN in `fit`.
        name, dtype: as in `keras.metrics.Metric`.

    Example:
        model = keras.Sequential([keras.Input((16,)), tfsoftmax.FullSoftmax(1000)])
        model.compile("sgd", tfsoftmax.SoftmaxLoss(), weighted_metrics=[tfsoftmax.Perplexity()])
        hidden, labels = keras.random.normal((8, 16)), keras.random.randint((8,), 0, 1000)
        print(model.evaluate(hidden, labels, return_dict=True)["perplexity"])
    """

    default_name = "perplexity"
    not_in_fit = NO_NATS

    @property
    def nats(self) -> keras.Variable:
        """Σ weights · nats since the last reset."""
        return self.sums["nats"]

    @property
    def tokens(self) -> keras.Variable:
        """Σ weights since the last reset."""
        return self.sums["tokens"]

    def _values(self, tag, labels):
        nats = tag.exact_nats(labels)
        return None if nats is None else (nats,)


@keras.saving.register_keras_serializable(package="tfsoftmax")
class ClusterPerplexity(_ExpMean):
    """Perplexity of the words' clusters under `SelfOrganisedSoftmax`.

    Its product with `InClusterPerplexity` is `Perplexity`. `fit` does not compute it, because
    metrics are updated after the weights, and computing it then would mix two models.

    Args:
        ignore_class: label whose positions are not counted, or None.
        name, dtype: as in `keras.metrics.Metric`.

    Example:
        head = tfsoftmax.SelfOrganisedSoftmax(100, counts=list(range(100, 0, -1)))
        model = keras.Sequential([keras.Input((16,)), head])
        model.compile("sgd", tfsoftmax.SoftmaxLoss(), metrics=[tfsoftmax.ClusterPerplexity()])
        model.evaluate(keras.random.normal((8, 16)), keras.random.randint((8,), 0, 100))

    Source: Shen et al. 2017, equation 5.
    """

    default_name = "cluster_perplexity"
    needs = ("cluster_log_prob", "SelfOrganisedSoftmax")
    not_in_fit = "metrics are updated after the weights, and it would mix two models"

    def _values(self, tag, labels):
        cluster_log_prob = tag.head.cluster_log_prob
        return None if tag.training else (-cluster_log_prob(tag.hidden, labels.ids),)


@keras.saving.register_keras_serializable(package="tfsoftmax")
class InClusterPerplexity(ClusterPerplexity):
    """Perplexity of the words given their clusters; see `ClusterPerplexity`.

    Args:
        ignore_class, name, dtype: arguments of `ClusterPerplexity`.

    Example:
        head = tfsoftmax.SelfOrganisedSoftmax(100, counts=list(range(100, 0, -1)))
        model = keras.Sequential([keras.Input((16,)), head])
        metrics = [tfsoftmax.ClusterPerplexity(), tfsoftmax.InClusterPerplexity()]
        model.compile("sgd", tfsoftmax.SoftmaxLoss(), metrics=metrics)

    Source: Shen et al. 2017, equation 6.
    """

    default_name = "in_cluster_perplexity"

    def _values(self, tag, labels):
        values = super()._values(tag, labels)
        return values and (tag.exact_nats(labels) - values[0],)
