"""How a loss or a metric that is given logits finds the head that made them."""

import dataclasses
import warnings

import tensorflow as tf

from tfsoftmax.ops.inputs import dense_ids, sample_weights
from tfsoftmax.ops.weighting import weighted_sum, without_broken
from tfsoftmax.support._compat import (
    get_keras_mask,
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
        more: tensors (..., H) that the head's training loss takes besides, which the head sets.

    Example:
        head = tfsoftmax.FullSoftmax(1000)
        hidden = keras.random.normal((8, 16))
        tag = tfsoftmax.losses.logits_tag.LogitsTag.of(head(hidden))
        assert tag.head is head and tag.hidden is hidden and not tag.training
    """

    def __init__(self, head, hidden: tf.Tensor, training: bool):
        self.head, self.hidden, self.training, self.more = head, hidden, training, ()
        self.stateless = in_stateless_scope()
        self._known = {}  # key of labels -> (labels, their exact nats)
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
    def of(logits: tf.Tensor) -> "LogitsTag | None":
        """The tag of `logits`, or None while Keras builds a model from placeholders."""
        tag = getattr(logits, _TAG, None)
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

    def total_loss(self, labels: "Labels", weights: tf.Tensor) -> tf.Tensor:
        """Σ weights · nats, with the head's own objective in training, else exact cross-entropy."""
        if not self._asks_own_objective:
            return weighted_sum(self.exact_nats(labels), weights)
        total, nats = self.head.loss_and_nats(self.hidden, labels.ids, weights, *self.more)
        if nats is not None:
            self._known[labels.key] = labels, nats
        return total

    def nats(self, labels: "Labels", weights: tf.Tensor) -> tf.Tensor:
        """Nats of each position: the head's own objective in training, else exact cross-entropy."""
        if not self._asks_own_objective:
            return self.exact_nats(labels)
        if self.head.trains_exactly:
            self._known[labels.key] = labels, -self.head.log_prob(self.hidden, labels.ids)
        hidden, _ = without_broken(self.hidden, weights)
        return self.head.training_loss(hidden, labels.ids, *self.more)

    def exact_nats(self, labels: "Labels") -> tf.Tensor | None:
        """Exact cross-entropy of each position, computed once for the loss and the metrics.

        In training it is None unless the loss has already computed it. Computing it here would
        cost the full softmax that many heads avoid, and metrics are updated after the weights
        have changed.
        """
        # A loss that leaves out no class knows the nats of all positions that a metric counts.
        for key in (labels.key, (id(labels.source), None)):
            if key in self._known:
                return self._known[key][1]
        if self.training and self.head.is_distribution:
            return None
        nats = -self.head.log_prob(self.hidden, labels.ids)
        if not self.head.trains_exactly:
            nats = _warns_if_differentiated(nats, (
                "`training` should be True in a training loop, and `call` of a model of your own "
                f"should pass it on, so that {self._name} computes its own objective. "
                "Received: the gradient of the exact loss, over "
                f"{self.head.vocab_size} words."
            ))
        self._known[labels.key] = labels, nats
        return nats

    def top_k(self, k: int) -> tf.Tensor:
        """Ids (..., k) of the likeliest words, which metrics that ask for fewer need not search."""
        longest = max(self._lists, default=0)
        if k > longest:
            longest = k
            self._lists[k] = self.head.top_k(tf.stop_gradient(self.hidden), k)[0]
        return self._lists[longest][..., :k]

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


@dataclasses.dataclass(frozen=True)
class Labels:
    """Labels with the tensor and the option that they were made from, which identify them.

    Attributes:
        ids: (...) integers.
        source: the `y_true` of the loss or metric.
        ignore_class: the `ignore_class` of the loss or metric.
        kept: scalar float32, the number of positions that no mask and no `ignore_class` leaves out.

    Example:
        logits = tfsoftmax.FullSoftmax(1000)(keras.random.normal((8, 16)))
        y_true = keras.random.randint((8, 1), 0, 1000)
        labels, weights = tfsoftmax.losses.logits_tag.positions(y_true, logits, ignore_class=0)
        assert labels.ids.shape == weights.shape == (8,)
    """

    ids: tf.Tensor
    source: tf.Tensor
    ignore_class: int | None
    kept: tf.Tensor

    @property
    def key(self) -> tuple[int, int | None]:
        """Equal for the same labels in the loss and in a metric."""
        return id(self.source), self.ignore_class


def positions(
    y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: tf.Tensor | None = None,
    ignore_class: int | None = None,
) -> tuple[Labels, tf.Tensor]:
    """Labels and weights of the positions that a loss or a metric counts.

    Args:
        y_true: (...) or (..., 1) integers; Keras sometimes adds the last axis.
        y_pred: logits (..., V). Positions that their Keras mask leaves out have weight zero.
        sample_weight: None, or real numbers or a mask of bool that broadcast to (...) from the
            left. One weight a sequence is (B, 1) where the labels are (B, T).
        ignore_class: label whose positions have weight zero, or None.

    Returns:
        `Labels` (...) and weights (...) float32.

    Raises:
        TypeError: if labels or weights are no numbers.
        ValueError: for weights (B,) and labels (B, T). Keras makes such weights from
            `class_weight`, by the argmax of the labels over T.
    """
    labels = dense_ids(y_true, "y_true")
    rank = len(y_pred.shape) - 1
    if labels.shape.rank is None:
        labels = _of_positions(labels, y_pred)
    if len(labels.shape) == rank - 1 and y_pred.shape[-2] == 1:
        labels = labels[..., None]
    if len(labels.shape) == rank + 1 and labels.shape[-1] == 1:
        labels = tf.squeeze(labels, -1)
    mask = get_keras_mask(y_pred)
    if ignore_class is not None:
        kept = labels != ignore_class
        labels = tf.where(kept, labels, 0)
        mask = kept if mask is None else kept & mask
    weights = tf.ones(tf.shape(labels))
    if sample_weight is not None:
        weights *= _aligned(sample_weights(sample_weight), labels.shape)
    kept = tf.cast(tf.size(labels), tf.float32)
    if mask is not None:
        mask = tf.cast(mask, tf.float32)
        weights, kept = weights * mask, tf.reduce_sum(mask)
    return Labels(labels, y_true, ignore_class, kept), weights


def _of_positions(labels, y_pred):
    """Labels of unknown rank as (...), which they are but for axes of one at the end."""
    shape, size = tf.shape(y_pred)[:-1], len(y_pred.shape)
    with_ones = (tf.concat([s, [1] * size], 0)[:size] for s in (tf.shape(labels), shape))
    message = "`y_true` must have the shape of the positions, and perhaps an axis of one more:"
    same = tf.reduce_all(tf.equal(*with_ones))
    with tf.control_dependencies(
        [tf.debugging.Assert(same, [message, shape, "Received:", tf.shape(labels)])]
    ):
        labels = tf.reshape(labels, shape)
    return tf.ensure_shape(labels, y_pred.shape[:-1])


def _aligned(sample_weight, shape):
    """Sample weights with axes added or removed at the end, as many as the labels' `shape` has."""
    rank = len(shape)
    fits = len(sample_weight.shape) != 1 or rank <= 1 or shape[1] == 1
    expect(
        fits, "sample_weight", f"have the shape of the labels, {shape}, or one weight a sequence, "
        f"{(*shape[:1], *[1] * (rank - 1))}", received=f"shape {sample_weight.shape}, which Keras "
        "also makes of `class_weight`; that takes one label a sample.",
    )
    if len(sample_weight.shape) == rank + 1 and sample_weight.shape[-1] in (1, None):
        sample_weight = tf.squeeze(sample_weight, -1)
    for _ in range(rank - len(sample_weight.shape)):
        sample_weight = sample_weight[..., None]
    check_weights(sample_weight, shape, "sample_weight")
    return sample_weight


def check_weights(weights: tf.Tensor, shape: tf.TensorShape, name: str) -> None:
    """Raises ValueError unless weights are a scalar or fit the labels' shape, with axes of one."""
    if weights.shape.rank in (None, 0):  # of an unknown rank, TensorFlow finds out later
        return
    fits = len(weights.shape) == len(shape) and all(
        own in (1, None, size) or size is None for own, size in zip(weights.shape, shape)
    )
    expect(fits, name, f"have the shape of the labels, {shape}, with axes of one allowed",
           received=f"shape {weights.shape}")


def _warns_if_differentiated(tensor, message):
    """`tensor`, with a warning when a gradient through it is computed."""

    @tf.custom_gradient
    def identity(tensor):
        def gradient(upstream):
            warnings.warn(message, stacklevel=2)
            return upstream

        return tf.identity(tensor), gradient

    return identity(tensor)
