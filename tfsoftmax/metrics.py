"""Metrics for `keras.Model.compile`: exact perplexity, and figures about particular heads."""

import keras
import tensorflow as tf

from tfsoftmax.logits_tag import Labels, LogitsTag, positions


class _TokenMean(keras.metrics.Metric):
    """Base of our metrics: weighted means over all positions since the last reset.

    The weights of `weighted_metrics` say how many tokens each position counts for. Sums are
    kept in float64. A subclass names its `quantities` and writes `_values` and `_report`.

    Args:
        ignore_class: label whose positions are not counted; None: that of the `SoftmaxLoss`.
        name, dtype: as in `keras.metrics.Metric`.

    Raises:
        ValueError: when updated, if `y_pred` is not the output of a head that the metric can
            measure.
    """

    quantities = ("nats",)
    default_name = None
    needs = ("log_prob", "a tfsoftmax head")  # a method of the head, and which heads have it
    asks_head = True  # and reads no logits, which a training step then need not compute

    def __init__(
        self, ignore_class: int | None = None, name: str | None = None, dtype: str | None = None
    ):
        super().__init__(name=name or self.default_name, dtype=dtype)
        self.ignore_class = ignore_class
        self.sums = {
            name: self.add_variable((), "zeros", dtype="float64", name=name)
            for name in (*self.quantities, "tokens")
        }

    def update_state(self, y_true, y_pred, sample_weight=None):
        tag = LogitsTag.of(y_pred)
        if tag is None:
            return
        method, heads = self.needs
        if not hasattr(tag.head, method):
            raise ValueError(
                f"`y_pred` must be the output of {heads}. "
                f"Received: the output of {type(tag.head).__name__}"
            )
        ignored = tag.ignore_class if self.ignore_class is None else self.ignore_class
        labels, weights = positions(y_true, y_pred, sample_weight, ignored)
        values = self._values(tag, labels)
        if values is None:
            return
        weights = tf.cast(weights, "float64")
        self.sums["tokens"].assign_add(tf.reduce_sum(weights))
        for quantity, value in zip(self.quantities, values, strict=True):
            self.sums[quantity].assign_add(tf.reduce_sum(weights * tf.cast(value, "float64")))

    def result(self):
        tokens = self.sums["tokens"].value
        return self._report(*(self.sums[name].value / tokens for name in self.quantities))

    def get_config(self):
        return {**super().get_config(), "ignore_class": self.ignore_class}

    def _values(self, tag: LogitsTag, labels: Labels):
        """A tensor (...) for each of `quantities`, or None if they cannot be known."""
        raise NotImplementedError

    def _report(self, *means):
        """What the metric reports, from the means of `quantities`: by default the only mean."""
        (mean,) = means
        return tf.cast(mean, "float32")


class _ExpMean(_TokenMean):
    """Base of the perplexities."""

    _direction = "down"  # as EarlyStopping and other callbacks of Keras read it

    def _report(self, nats):
        return tf.cast(tf.exp(nats), "float32")


@keras.saving.register_keras_serializable(package="tfsoftmax")
class Perplexity(_ExpMean):
    """exp(Σ nats / Σ tokens) over all positions since the last reset.

    The nats are those of the exact, normalised distribution, even if the head has a sampled
    loss. In `fit`, such a head makes the metric NaN, because the exact value would cost the full
    softmax that sampling avoids; `evaluate` measures it.

    Args:
        ignore_class: label whose positions are not counted; None: that of the `SoftmaxLoss`.
        name, dtype: as in `keras.metrics.Metric`.

    Example:
        model = keras.Sequential([keras.Input((16,)), tfsoftmax.FullSoftmax(1000)])
        model.compile("sgd", tfsoftmax.SoftmaxLoss(), weighted_metrics=[tfsoftmax.Perplexity()])
        hidden, labels = keras.random.normal((8, 16)), keras.random.randint((8,), 0, 1000)
        print(model.evaluate(hidden, labels, return_dict=True)["perplexity"])
    """

    default_name = "perplexity"

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
class EffectiveSampleSize(_TokenMean):
    """Mean over positions of (Σ ω)² / Σ ω² with ω = exp(s) / q, over a sample of `SampledSoftmax`.

    This is how many of the S samples carry weight. A small share of S says that the proposal
    distribution is far from the model's, or that S is too small. The metric draws a sample of
    its own, so that each step costs an additional product of (N, D) and (D, S).

    Args:
        ignore_class: label whose positions are not counted; None: that of the `SoftmaxLoss`.
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
        return (tag.head.effective_sample_size(tf.stop_gradient(tag.hidden)),)


@keras.saving.register_keras_serializable(package="tfsoftmax")
class TopKAccuracy(_TokenMean):
    """Share of the labels among the k likeliest words, by `head.top_k`, in bounded memory.

    Keras's `SparseTopKCategoricalAccuracy` reads the logits (..., V), which then exist whole.

    Args:
        k: how many words are looked at.
        in_training: whether `fit` measures it too, at the cost of `head.top_k` in each step, with
            the weights that the step has just updated. Otherwise the metric is NaN in `fit`.
        ignore_class: label whose positions are not counted; None: that of the `SoftmaxLoss`.
        name, dtype: as in `keras.metrics.Metric`.

    Example:
        model = keras.Sequential([keras.Input((16,)), tfsoftmax.SampledSoftmax(1000, 50)])
        model.compile("sgd", tfsoftmax.SoftmaxLoss(), metrics=[tfsoftmax.metrics.TopKAccuracy(10)])
        hidden, labels = keras.random.normal((8, 16)), keras.random.randint((8,), 0, 1000)
        print(model.evaluate(hidden, labels, return_dict=True)["top_k_accuracy"])
    """

    quantities = ("hits",)
    default_name = "top_k_accuracy"
    _direction = "up"

    def __init__(
        self, k: int = 5, in_training: bool = False, ignore_class: int | None = None,
        name: str | None = None, dtype: str | None = None,
    ):
        super().__init__(ignore_class, name, dtype)
        self.k, self.in_training = k, in_training

    def _values(self, tag, labels):
        if tag.training and not self.in_training:
            return None
        ids, _ = tag.head.top_k(tf.stop_gradient(tag.hidden), self.k)
        return (tf.reduce_any(ids == tf.cast(labels.ids, ids.dtype)[..., None], axis=-1),)

    def get_config(self):
        return {**super().get_config(), "k": self.k, "in_training": self.in_training}


@keras.saving.register_keras_serializable(package="tfsoftmax")
class Accuracy(TopKAccuracy):
    """Share of the labels that are the likeliest word, by `head.top_k`, in bounded memory.

    Args:
        in_training: as in `TopKAccuracy`.
        ignore_class: label whose positions are not counted; None: that of the `SoftmaxLoss`.
        name, dtype: as in `keras.metrics.Metric`.

    Example:
        model = keras.Sequential([keras.Input((16,)), tfsoftmax.SampledSoftmax(1000, 50)])
        model.compile("sgd", tfsoftmax.SoftmaxLoss(), metrics=[tfsoftmax.metrics.Accuracy()])
        hidden, labels = keras.random.normal((8, 16)), keras.random.randint((8,), 0, 1000)
        print(model.evaluate(hidden, labels, return_dict=True)["accuracy"])
    """

    default_name = "accuracy"

    def __init__(
        self, in_training: bool = False, ignore_class: int | None = None,
        name: str | None = None, dtype: str | None = None,
    ):
        super().__init__(1, in_training, ignore_class, name, dtype)

    def get_config(self):
        config = super().get_config()
        del config["k"]
        return config


@keras.saving.register_keras_serializable(package="tfsoftmax")
class Normaliser(_TokenMean):
    """Mean and variance of ln Z(h), and the nats of the scores as they are.

    The result is a dictionary: `log_z_mean`, `log_z_variance` and `self_normalised_nats`, the
    mean of the negative of `head.self_normalised_log_prob`. The last is the mean loss if the
    labels' scores alone stand for log-probabilities. It is not a cross-entropy, because the
    probabilities need not sum to one, and it is near the cross-entropy only if training holds Z
    near a constant (`head.self_normalised`). Each batch costs another pass over the vocabulary;
    the metric is meant for `evaluate`.

    Args:
        ignore_class: label whose positions are not counted; None: that of the `SoftmaxLoss`.
        name, dtype: as in `keras.metrics.Metric`.

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
        return log_z, log_z**2, tag.head.self_normalised_log_prob(tag.hidden, labels.ids)

    def _report(self, log_z, squares, scores):
        return {
            "log_z_mean": log_z,
            "log_z_variance": squares - log_z**2,
            "self_normalised_nats": -scores,
        }


@keras.saving.register_keras_serializable(package="tfsoftmax")
class ClusterPerplexity(_ExpMean):
    """Perplexity of the words' clusters under `SelfOrganisedSoftmax`.

    Its product with `InClusterPerplexity` is `Perplexity`. In `fit` the metric is NaN, because
    metrics are updated after the weights, and computing it anew would mix two models.

    Args:
        ignore_class: label whose positions are not counted; None: that of the `SoftmaxLoss`.
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

    def _values(self, tag, labels):
        cluster_log_prob = tag.head.cluster_log_prob
        return None if tag.training else (-cluster_log_prob(tag.hidden, labels.ids),)


@keras.saving.register_keras_serializable(package="tfsoftmax")
class InClusterPerplexity(ClusterPerplexity):
    """Perplexity of the words given their clusters, under `SelfOrganisedSoftmax`; NaN in `fit`.

    Args:
        ignore_class: label whose positions are not counted; None: that of the `SoftmaxLoss`.
        name, dtype: as in `keras.metrics.Metric`.

    Example:
        head = tfsoftmax.SelfOrganisedSoftmax(100, counts=list(range(100, 0, -1)))
        model = keras.Sequential([keras.Input((16,)), head])
        model.compile("sgd", tfsoftmax.SoftmaxLoss(), metrics=[tfsoftmax.InClusterPerplexity()])
        model.evaluate(keras.random.normal((8, 16)), keras.random.randint((8,), 0, 100))

    Source: Shen et al. 2017, equation 6.
    """

    default_name = "in_cluster_perplexity"

    def _values(self, tag, labels):
        values = super()._values(tag, labels)
        return values and (tag.exact_nats(labels) - values[0],)
