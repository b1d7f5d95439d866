"""What watches and steers the clusters of `SelfOrganisedSoftmax` while a model is trained."""

import keras
import tensorflow as tf

from tfsoftmax.head_call import HeadCall, positions
from tfsoftmax.heads.self_organised import SelfOrganisedSoftmax


class Reassign(keras.callbacks.Callback):
    """Lets the words of every `SelfOrganisedSoftmax` in the model choose their clusters anew.

    Args:
        every: K, batches between two choices.
        logger: a function that is called with a dict after each: `step`, the batches so far, and
            the shares `changed_words` and `changed_tokens`. None: none.

    Attributes:
        history: list of these dicts.

    Source: Shen et al. 2017, section 3.5 and figure 1.
    """

    def __init__(self, every=1000, logger=None):
        super().__init__()
        if every < 1:
            raise ValueError(f"`every` must be at least 1. Received: every={every}")
        self.every, self.logger = every, logger
        self.history, self.step, self._last, self._chosen = [], 0, -1, 0

    def on_train_begin(self, logs=None):
        heads_of(self.model)  # a model without any is named at once

    def on_epoch_begin(self, epoch, logs=None):
        self._last = -1

    def on_train_batch_end(self, batch, logs=None):
        self.step += batch - self._last  # more than one with `steps_per_execution`
        self._last = batch

    def on_train_batch_begin(self, batch, logs=None):
        # Before a batch: no model is left to its user that has not learned in its clusters.
        if self.step // self.every == self._chosen:
            return
        self._chosen = self.step // self.every
        for head in heads_of(self.model):
            self.history.append({"step": self.step, **head.reassign()})
            if self.logger is not None:
                self.logger(self.history[-1])


def heads_of(model):
    """The `SelfOrganisedSoftmax` layers of a model, however deep; an error if there are none."""
    heads = [
        layer for layer in model._flatten_layers() if isinstance(layer, SelfOrganisedSoftmax)
    ]
    if not heads:
        raise ValueError(f"`model` must end in a SelfOrganisedSoftmax. Received: {model}")
    return heads


class _ClusterMetric(keras.metrics.Metric):
    """exp(Σ nats / Σ tokens) of one of the two factors of a word's probability."""

    def __init__(self, name=None, dtype=None):
        super().__init__(name=name, dtype=dtype)
        self.nats = self.add_variable((), "zeros", dtype="float64", name="nats")
        self.tokens = self.add_variable((), "zeros", dtype="float64", name="tokens")

    def update_state(self, y_true, y_pred, sample_weight=None):
        call = HeadCall.of(y_pred)
        if call is None or call.training:
            return
        if not isinstance(call.head, SelfOrganisedSoftmax):
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
