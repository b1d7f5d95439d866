"""How a loss or a metric that is given logits finds the head that made them."""

import dataclasses

import tensorflow as tf
from keras.src.backend.common.symbolic_scope import in_symbolic_scope
from keras.src.losses.loss import apply_mask

_TAG = "_tfsoftmax_head_call"


class LogitsTag:
    """What the logits remember of the head that made them, so that a loss can ask it.

    Keras marks tensors in this way itself (`_keras_mask`, `_keras_logits`). The logits are
    not needed for any loss, and their computation is pruned from the graph.
    """

    def __init__(self, head, hidden, training):
        self.head, self.hidden, self.training = head, hidden, training
        self._known = {}  # key of labels -> (labels, their exact nats)

    def tag(self, logits):
        setattr(logits, _TAG, self)
        return logits

    @staticmethod
    def of(logits):
        """The call that made `logits`; None while Keras builds a model from placeholders."""
        call = getattr(logits, _TAG, None)
        if call is None and not in_symbolic_scope():
            raise ValueError(
                "`y_pred` must be the output of a tfsoftmax head, with no layer after it. "
                f"Received: y_pred={logits}"
            )
        return call

    def total_loss(self, labels, weights):
        """Σ weights · nats: the head's own objective while training, else exact."""
        if not self.training:
            return tf.reduce_sum(weights * self.exact_nats(labels))
        total, nats = self.head.loss_and_nats(self.hidden, labels.ids, weights)
        if nats is not None:
            self._known[labels.key] = labels, nats
        return total

    def nats(self, labels):
        """Nats of each position: the head's own objective while training, else exact."""
        if not self.training:
            return self.exact_nats(labels)
        if self.head.trains_exactly:
            self._known[labels.key] = labels, -self.head.log_prob(self.hidden, labels.ids)
        return self.head.training_loss(self.hidden, labels.ids)

    def exact_nats(self, labels):
        """Exact cross-entropy of each position, computed once for the loss and the metric.

        None while training unless the loss has come by it: computing it would cost the full
        softmax that many heads are there to avoid, and metrics are updated after the weights.
        """
        if labels.key not in self._known:
            if self.training:
                return None
            self._known[labels.key] = labels, -self.head.log_prob(self.hidden, labels.ids)
        return self._known[labels.key][1]


@dataclasses.dataclass(frozen=True)
class Labels:
    """Labels `ids` (...), and the tensor and the option that they were made from."""

    ids: tf.Tensor
    source: tf.Tensor
    ignore_class: int | None

    @property
    def key(self):
        return id(self.source), self.ignore_class


def positions(y_true, y_pred, sample_weight=None, ignore_class=None, reduction="sum"):
    """Labels and weights of the positions that a loss or a metric counts.

    Args:
        y_true: (...) or (..., 1) integers; Keras sometimes adds the last axis.
        y_pred: logits (..., V), whose Keras mask, if any, is honoured.
        sample_weight: None or a tensor that broadcasts to (...) from the left.
        ignore_class: label of weight zero, or None.
        reduction: decides, as in Keras, whether a mask renormalises an average.

    Returns:
        `Labels` (...) and weights (...) float32.
    """
    labels = tf.convert_to_tensor(y_true)
    if labels.dtype.is_integer:
        labels = tf.cast(labels, tf.int64)  # small unsigned types cannot hold V or -1
    rank = len(y_pred.shape) - 1
    if len(labels.shape) == rank - 1 and y_pred.shape[-2] == 1:
        labels = labels[..., None]
    if len(labels.shape) == rank + 1 and labels.shape[-1] == 1:
        labels = tf.squeeze(labels, -1)
    mask = getattr(y_pred, "_keras_mask", None)
    if ignore_class is not None:
        kept = labels != ignore_class
        labels = tf.where(kept, labels, 0)
        mask = kept if mask is None else kept & mask
    weights = tf.ones(tf.shape(labels))
    if sample_weight is not None:
        sample_weight = tf.cast(sample_weight, tf.float32)
        missing = len(labels.shape) - len(sample_weight.shape)
        if missing == -1:
            sample_weight = tf.squeeze(sample_weight, -1)
        for _ in range(missing):
            sample_weight = sample_weight[..., None]
        weights *= sample_weight
    if mask is not None:
        weights = apply_mask(weights, mask, tf.float32, reduction)
    return Labels(labels, y_true, ignore_class), weights
