"""The labels that a loss or a metric counts, and their weights."""

import dataclasses

import tensorflow as tf

from tfsoftmax.ops.inputs import dense_ids, sample_weights
from tfsoftmax.support._compat import get_keras_mask
from tfsoftmax.support.arguments import expect


@dataclasses.dataclass(frozen=True)
class Labels:
    """Labels with the tensors and the option that they were made from, which identify them.

    Attributes:
        ids: (...) integers.
        counted: (...) bool, the positions whose weight is not zero.
        source: the `y_true` of the loss or metric.
        sample_weight: the `sample_weight` of the loss or metric, or None.
        ignore_class: the `ignore_class` of the loss or metric.
        kept: scalar float32, the number of positions that no mask and no `ignore_class` leaves out.

    Example:
        logits = tfsoftmax.FullSoftmax(1000)(keras.random.normal((8, 16)))
        y_true = keras.random.randint((8, 1), 0, 1000)
        labels, weights = tfsoftmax.losses.labels.positions(y_true, logits, ignore_class=0)
        assert labels.ids.shape == weights.shape == (8,)
    """

    ids: tf.Tensor
    counted: tf.Tensor
    source: tf.Tensor
    sample_weight: tf.Tensor | None
    ignore_class: int | None
    kept: tf.Tensor

    @property
    def key(self) -> tuple[int, int | None, int | None]:
        """Equal for the same labels, and positions that count, in the loss and in a metric."""
        weight = None if self.sample_weight is None else id(self.sample_weight)
        return id(self.source), self.ignore_class, weight

    def covers(self, other: "Labels", any_weight: bool = False) -> bool:
        """Whether these are labels at all positions that count in the other ones.

        With `any_weight` they need not be at positions where only the `sample_weight` of these is
        zero.
        """
        (source, ignored, weight), of_other = self.key, other.key
        fits = source == of_other[0] and ignored in (None, of_other[1])
        return fits and (any_weight or weight in (None, of_other[2]))


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
        TypeError: if labels or weights are not numbers.
        ValueError: for labels that do not fit the positions; and for weights (B,) and labels
            (B, T), which Keras makes of `class_weight` by the argmax of the labels over T.
    """
    labels = dense_ids(y_true, "y_true")
    rank = len(y_pred.shape) - 1
    if labels.shape.rank is None:
        labels = of_positions(labels, y_pred)
    if len(labels.shape) == rank - 1 and y_pred.shape[-2] == 1:
        labels = labels[..., None]
    if len(labels.shape) == rank + 1 and labels.shape[-1] == 1:
        labels = tf.squeeze(labels, -1)
    mask = get_keras_mask(y_pred)
    _check_shape(labels.shape, y_pred.shape)
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
    return Labels(labels, weights != 0, y_true, sample_weight, ignore_class, kept), weights


def _check_shape(labels, logits):
    """Raises ValueError unless labels (...) are one for each position of logits (..., V)."""
    hint = ""
    if labels.is_compatible_with(logits):
        hint = ". They look one-hot: pass keras.ops.argmax(y_true, -1)"
    elif labels[:-1].is_compatible_with(logits[:-1]):
        hint = (". For several labels, give them to SoftmaxLoss(multi_label=True), and to the "
                "metrics RecallAtK, PrecisionAtK, MRR, MAP and NDCG")
    expect(labels.is_compatible_with(logits[:-1]), "y_true",
           f"have one label at each of the positions {tuple(logits[:-1])}",
           received=f"labels of shape {labels}{hint}")


def of_positions(labels: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
    """Labels of unknown rank as (...), without additional axes of one at the end."""
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
        fits, "sample_weight", f"have the shape of the labels, {shape}, or one weight per "
        f"sequence, {(*shape[:1], *[1] * (rank - 1))}", received=f"shape "
        f"{sample_weight.shape}, which Keras also makes from `class_weight`; that takes one label "
        "per sample.",
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
