"""How a loss or a metric that is given logits finds the head that made them."""

import dataclasses
import warnings

import tensorflow as tf

from tfsoftmax.losses.labels import Labels
from tfsoftmax.ops.custom_gradients import custom_gradient
from tfsoftmax.ops.graphs import can_read
from tfsoftmax.ops.weighting import Counted, weighted_sum
from tfsoftmax.support._compat import (
    in_stateless_scope,
    in_symbolic_scope,
    metrics_in_call,
)
from tfsoftmax.support.arguments import expect

_TAG = "_tfsoftmax_logits_tag"


class LogitsTag:
    """What the logits remember of the head that made them, so that a loss can ask the head.

    Keras attaches masks to tensors in the same way. The losses of heads do not use the logits
    themselves, whose computation TensorFlow therefore prunes from the graph.

    Args:
        head: the `SoftmaxHead` that made the logits.
        hidden: (..., D) float, what the head was called with.
        training: whether the head was called in training.

    Attributes:
        more: further tensors (..., H) that the head's training loss takes; the head sets them.
        exclude: (N, E) int32, words that the lists of metrics leave out, or None.
        ignored: the `ignore_class` of the loss that was computed last, or None.

    Example:
        head = tfsoftmax.FullSoftmax(1000)
        hidden = keras.random.normal((8, 16))
        tag = tfsoftmax.losses.logits_tag.LogitsTag.of(head(hidden))
        assert tag.head is head and tag.hidden is hidden and not tag.training
    """

    def __init__(self, head, hidden: tf.Tensor, training: bool):
        self.head, self.hidden, self.training, self.more = head, hidden, training, ()
        self.exclude = self.ignored = None
        self.stateless = in_stateless_scope()
        self._known = {}  # key of labels -> (labels, their exact nats)
        self._parts = {}  # key of labels -> the tag of the positions that count
        self._lists = {}  # k -> ids of the k likeliest words

    def tag(self, logits: tf.Tensor) -> tf.Tensor:
        """Attaches this tag to the logits and returns them."""
        if self.training:
            self._warn_of_metrics()
            logits = _warns_if_differentiated(logits, (
                f"`loss` should be tfsoftmax.SoftmaxLoss(), which trains {self._name} by its own "
                "objective. Received: a loss of its logits, which computes the full softmax over "
                f"{self.head.vocab_size} words in every step, and which must have "
                "`from_logits=True` if it is one of Keras's."
            ))
        setattr(logits, _TAG, self)
        return logits

    @staticmethod
    def at(logits: tf.Tensor) -> "LogitsTag | None":
        """The tag of `logits`, or None."""
        return getattr(logits, _TAG, None)

    @staticmethod
    def of(logits: tf.Tensor) -> "LogitsTag | None":
        """The tag of `logits`, or None while Keras builds a model from placeholders."""
        tag = LogitsTag.at(logits)
        expect(
            tag is not None or in_symbolic_scope(), "y_pred",
            "be the output of a tfsoftmax head, with no layer after or around it (a head takes "
            "(B, T, D) without TimeDistributed)", logits,
        )
        expect(
            tag is None or not tag.stateless or in_stateless_scope(), "y_pred",
            "be given to the loss inside of the keras.StatelessScope that it was computed in, or "
            "to `Model.stateless_compute_loss`: the head computes its loss from the values that "
            "its variables have there", logits,
        )
        return tag

    def total_loss(self, labels: Labels, weights: tf.Tensor) -> tf.Tensor:
        """Σ weights · nats, with the head's own objective in training, else exact cross-entropy."""
        if not self._asks_own_objective:
            return weighted_sum(self.exact_nats(labels), weights)
        total, nats = self.head.loss_and_nats(self.hidden, labels.ids, weights, *self.more)
        if nats is not None:
            self._known[labels.key] = labels, nats
        return total

    def nats(self, labels: Labels) -> tf.Tensor:
        """Nats of each position: the head's own objective in training, else exact cross-entropy."""
        if not self._asks_own_objective:
            return self.exact_nats(labels)
        if self.head.trains_exactly:
            self._known[labels.key] = labels, self._nats(labels)
        return self.head.training_loss(self.hidden, labels.ids, *self.more, mask=labels.counted)

    def exact_nats(self, labels: Labels) -> tf.Tensor | None:
        """Exact cross-entropy of each position, computed once for the loss and the metrics.

        It is NaN at positions that do not count. In training it is None unless the loss has already
        computed it, and then NaN also at the positions that the loss left out. Computing it here
        would cost the full softmax that many heads avoid, and metrics are updated after the weights
        have changed.
        """
        training = self.training and self.head.is_distribution
        for known, nats in self._known.values():
            fits = known.covers(labels) or training and known.covers(labels, any_weight=True)
            if fits and can_read(nats):
                return nats
        if training:
            return None
        nats = self._nats(labels)
        if not self.head.trains_exactly:
            nats = _warns_if_differentiated(nats, (
                "`training` should be True in a training loop, and `call` of a model of your own "
                f"should pass it on, so that {self._name} computes its own objective. "
                "Received: the gradient of the exact loss, over "
                f"{self.head.vocab_size} words."
            ))
        self._known[labels.key] = labels, nats
        return nats

    def counted(self, labels: Labels) -> tuple["LogitsTag", Labels]:
        """The tag and the labels of the positions that count, which all metrics share."""
        part = self._parts.get(labels.key)
        if part is None or not can_read(part.hidden):
            part = self._parts[labels.key] = _Part(self, labels)
        return part, part.labels

    def top_k(self, k: int) -> tf.Tensor:
        """Ids (..., k) of the likeliest words, which metrics that ask for fewer need not search."""
        longest = max((k for k, ids in self._lists.items() if can_read(ids)), default=0)
        if k > longest:
            longest = k
            hidden = tf.stop_gradient(self.hidden)
            self._lists[k] = self.head.top_k(hidden, k, exclude=self.exclude)[0]
        return self._lists[longest][..., :k]

    def _nats(self, labels):
        log_prob = self.head.log_prob(self.hidden, labels.ids, mask=labels.counted)
        return tf.where(labels.counted, -log_prob, float("nan"))

    def _warn_of_metrics(self):
        """Warns of metrics in `compile` that read the logits, and not the head, in training."""
        others = [m for m in metrics_in_call() if not hasattr(m, "asks_head")]
        names = [getattr(m, "name", m) for m in others]
        if names and not in_symbolic_scope():
            warnings.warn(
                f"`metrics` should ask {self._name} instead of reading its logits (..., "
                f"{self.head.vocab_size}), which are computed whole for them in every training "
                "step. tfsoftmax.metrics.Accuracy and TopKAccuracy do, and in evaluate() only "
                f"unless you say otherwise. Received: metrics={names}", stacklevel=2,
            )

    @property
    def _asks_own_objective(self):
        return self.training or not self.head.is_distribution

    @property
    def _name(self):
        return type(self.head).__name__


class _Part(LogitsTag):
    """A tag of the n positions of another one that count, with hidden states (n, D)."""

    def __init__(self, whole, labels):
        self._whole, self._labels = whole, labels
        self._counted = Counted(tf.reshape(labels.counted, [-1]))
        hidden = tf.reshape(whole.hidden, [-1, whole.hidden.shape[-1]])
        super().__init__(whole.head, self._counted.taken_hidden(hidden), whole.training)
        self.taken = self._counted.taken
        self.exclude = None if whole.exclude is None else self.taken(whole.exclude)
        ids, counted = (self._taken_flat(each) for each in (labels.ids, labels.counted))
        self.labels = dataclasses.replace(labels, ids=ids, counted=counted)

    def _taken_flat(self, tensor):
        return self.taken(tf.reshape(tensor, [-1]))

    def exact_nats(self, labels):
        nats = self._whole.exact_nats(self._labels)
        return None if nats is None else self._taken_flat(nats)


def _warns_if_differentiated(tensor, message):
    """`tensor`, with a warning when a gradient through it is computed."""

    @custom_gradient
    def identity(tensor):
        def gradient(upstream):
            warnings.warn(message, stacklevel=2)
            return upstream

        return tf.identity(tensor), gradient

    return identity(tensor)
