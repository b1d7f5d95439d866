"""The loss for `keras.Model.compile`: the head's own objective in training, exact elsewhere."""

import dataclasses

import keras
import tensorflow as tf

from tfsoftmax.losses.labels import check_weights, positions
from tfsoftmax.losses.logits_tag import LogitsTag
from tfsoftmax.ops.inputs import dense_lists, sample_weights
from tfsoftmax.ops.replicas import sum_of_replicas
from tfsoftmax.ops.weighting import weighted
from tfsoftmax.support.arguments import expect
from tfsoftmax.support.saved_options import SavedOptions

REDUCTIONS = ("sum_over_batch_size", "mean", "mean_with_sample_weight", "sum", "none", None,
              "sum_over_steps")


@keras.saving.register_keras_serializable(package="tfsoftmax")
class SoftmaxLoss(SavedOptions, keras.losses.Loss):
    """The head's own training loss in `fit`, exact cross-entropy in `evaluate`; in nats.

    For a head that is not a distribution (`CubicScores`), it is the head's own loss in both.

    Call arguments:
        y_true: (...) or (..., 1) integers, the labels; (..., M) with `multi_label`.
        y_pred: (..., V), the output of a head, without any layer after it.
        sample_weight: real numbers or a mask of bool that broadcasts to (...), as (B, 1) does for
            labels (B, T), or None. With `multi_label` also (..., M), a weight for each label.

    Returns, when called: scalar float32, or (...) with the reduction "none".

    Args:
        ignore_class: label whose positions do not contribute to the loss, or None.
        reduction: one of the reductions of Keras, or `"sum_over_steps"`: the nats of a batch
            (B, T) are summed over the T steps and averaged over the B streams. The learning
            rates and clipping thresholds of Zaremba et al. 2014 and Müller 2017 are meant for
            this objective. With several replicas of a `tf.distribute` strategy, every reduction
            except `"sum"` and `"none"` divides by the total of the whole batch over all replicas.
            On each of P replicas, the loss has the gradient of the replica's own positions, and its
            value is the loss of the whole batch divided by P. So sums over the replicas, and the
            values that Keras reports, are right however unevenly a batch is divided.
        multi_label: whether positions have several labels: `y_true` is (..., M), padded with -1,
            or ragged. The loss of a position is the mean over its labels, or their sum with weights
            (..., M). With any head, its minimum is that of the loss of a label drawn from them. A
            position without labels does not count. A position costs as much as M positions with one
            label.
        name: name of the loss.
        dtype: accepted because Keras passes it to every loss. The loss is always float32.

    Raises:
        ValueError: if `reduction` is unknown, or, when called, if `y_pred` is not the output of
            a head, or shapes do not fit.

    Example:
        model = keras.Sequential([keras.Input((16,)), tfsoftmax.SampledSoftmax(1000, 50)])
        model.compile("sgd", loss=tfsoftmax.SoftmaxLoss())
        hidden, labels = keras.random.normal((8, 16)), keras.random.randint((8,), 0, 1000)
        model.fit(hidden, labels)
    """

    saved_options = ("ignore_class", "multi_label")

    def __init__(
        self, ignore_class: int | None = None, reduction: str | None = "sum_over_batch_size",
        name: str = "softmax_loss", dtype: str | keras.DTypePolicy | None = None,
        multi_label: bool = False,
    ):
        expect(reduction in REDUCTIONS, "reduction", f"be one of {REDUCTIONS}", reduction)
        super().__init__(name=name, reduction="sum", dtype=dtype)
        self.reduction = reduction
        self.ignore_class, self.multi_label = ignore_class, multi_label

    def __call__(self, y_true, y_pred, sample_weight=None) -> tf.Tensor:
        tag = LogitsTag.of(y_pred)
        places = _positions_of_sets if self.multi_label else positions
        labels, weights = places(y_true, y_pred, sample_weight, self.ignore_class)
        if tag is None:  # Keras builds the model, and only the shape matters
            return self._by_position(weights) if self.reduction in (None, "none") else tf.zeros(())
        tag.ignored = self.ignore_class
        if self.multi_label:
            tag = _repeated(tag, tf.shape(weights)[-1])
        if self.reduction in (None, "none"):
            return self._by_position(weighted(tag.nats(labels), weights))
        if self.reduction != "sum":
            weights = tf.math.divide_no_nan(weights, _of_whole_batch(self._size(labels, weights)))
        return _of_equal_shares(tag.total_loss(labels, weights))

    def _size(self, labels, weights):
        """What the sum over this replica's positions is divided by, if it is the only one."""
        if self.reduction == "sum_over_steps":
            return tf.cast(tf.shape(weights)[0], tf.float32)
        if self.reduction == "mean_with_sample_weight":
            return tf.reduce_sum(weights)
        return labels.kept  # as in Keras, a mean goes over the positions that a mask leaves in

    def _by_position(self, nats):
        return tf.reduce_sum(nats, axis=-1) if self.multi_label else nats


def _positions_of_sets(y_true, y_pred, sample_weight, ignore_class):
    """`positions` of labels (..., M): labels and weights (..., M), as if each had a position."""
    labels = dense_lists(y_true, "y_true")
    expect(
        labels.shape.rank == len(y_pred.shape) and labels.dtype.is_integer, "y_true",
        "be integers (..., M) with multi_label=True, M labels for each of the positions "
        f"{tuple(y_pred.shape[:-1])}",
        received=f"y_true of shape {labels.shape} and type {labels.dtype.name}",
    )
    labels = tf.cast(labels, tf.int64)
    own = labels >= 0 if ignore_class is None else (labels >= 0) & (labels != ignore_class)
    by_label = None
    if sample_weight is not None:
        sample_weight = sample_weights(sample_weight)
        if sample_weight.shape.rank == labels.shape.rank and sample_weight.shape[-1] != 1:
            by_label, sample_weight = sample_weight, None
            check_weights(by_label, labels.shape, "sample_weight")
    some = tf.where(tf.reduce_any(own, axis=-1), tf.constant(0, tf.int64), -1)
    of_positions, weights = positions(some, y_pred, sample_weight, -1)  # which leaves out the empty
    own = tf.cast(own, tf.float32)
    if by_label is None:
        by_label = tf.math.divide_no_nan(1.0, tf.reduce_sum(own, axis=-1, keepdims=True))
    weights = weights[..., None] * by_label * own
    ids = tf.where(own > 0, labels, 0)
    return dataclasses.replace(of_positions, ids=ids, counted=weights != 0, source=y_true), weights


def _repeated(tag, count):
    """A tag of the same hidden states (..., D), as (..., M, D): each `count`, M, times."""

    def repeated(tensor):
        return tf.repeat(tensor[..., None, :], count, axis=-2)

    result = LogitsTag(tag.head, repeated(tag.hidden), tag.training)
    result.more = tuple(map(repeated, tag.more))
    return result


def _of_whole_batch(size):
    """The sum of a size over all replicas, whose losses Keras and the optimisers add."""
    if tf.distribute.in_cross_replica_context():  # no replica is running that could be asked
        return size * tf.distribute.get_strategy().num_replicas_in_sync
    return sum_of_replicas(size)


def _of_equal_shares(loss):
    """A loss with the same gradient, whose value is the mean over all replicas.

    Keras weighs the value of each replica by its rows, which is right for equal values only.
    """
    total = sum_of_replicas(loss)
    if total is loss:
        return loss
    mean = total / tf.distribute.get_strategy().num_replicas_in_sync
    return loss + tf.stop_gradient(mean - loss)
