"""The base of our metrics: means over tokens of quantities that a head computes."""

import warnings

import keras
import tensorflow as tf

from tfsoftmax.losses.labels import Labels, positions
from tfsoftmax.losses.logits_tag import LogitsTag
from tfsoftmax.ops.inputs import WHOLE_BITS, asserted
from tfsoftmax.ops.replicas import sum_of_replicas
from tfsoftmax.support.arguments import expect
from tfsoftmax.support.saved_options import SavedOptions


def whole_ids(ids: tf.Tensor, least: int, end: int) -> tf.Tensor:
    """Ids of any type as int64. XLA does not check them.

    Raises:
        InvalidArgumentError: when run, if an id of `y_true` is not a whole number in [least, end),
            or a float so large that other ids become the same.
    """
    whole, kind = tf.cast(ids, tf.int64), ""
    if ids.dtype.is_floating:
        kind = f", in whole numbers of {ids.dtype.name}"
        end = min(end, 1 << WHOLE_BITS.get(ids.dtype, 0))
    valid = (whole >= least) & (whole < end) & (tf.cast(whole, ids.dtype) == ids)
    message = f"`y_true` must lie in [{max(least, 0)}, {end}){kind}"
    if least < 0:
        message += ", or below zero where there is no item"
    message += ". Received at position, value:"
    with tf.control_dependencies(asserted(valid, ids, message, "")):
        return tf.identity(whole)


class TokenMean(SavedOptions, keras.metrics.Metric):
    """Base of the metrics: weighted means over all positions since the last reset.

    The weights of `weighted_metrics` say how many tokens each position counts for. Sums are
    kept in float64, and those of all replicas of a strategy are added. Values that `fit` does not
    compute are not in its logs, and a warning says why. A subclass names its `quantities` and
    writes `_values` and `_report`.

    Args:
        ignore_class: label whose positions are not counted, or None. The `ignore_class` of a
            loss does not apply to metrics, as in Keras.
        name, dtype: as in `keras.metrics.Metric`.

    Example:
        class TrueLabelRank(tfsoftmax.metrics.token_mean.TokenMean):
            quantities, default_name = ("rank",), "rank"
            def _values(self, tag, labels):
                own = tag.head.log_prob(tag.hidden, labels.ids)[..., None]
                above = tag.head.log_probs(tag.hidden) > own
                return (keras.ops.sum(keras.ops.cast(above, "float32"), axis=-1) + 1,)
        metric = TrueLabelRank()

    Raises:
        ValueError: when updated, if `y_pred` is not the output of a head that the metric can
            measure.
    """

    saved_options = ("ignore_class",)
    quantities = ("nats",)
    default_name = None
    needs = ("log_prob", "a tfsoftmax head")  # a method of the head, and which heads have it
    asks_head = True  # and reads no logits, which a training step then need not compute
    not_in_fit = ""  # why
    _unknown = False  # whether the last update, of a graph that is being traced, computed nothing
    _has_said_why = _has_warned = False

    def __init__(
        self, ignore_class: int | None = None, name: str | None = None,
        dtype: str | keras.DTypePolicy | None = None,
    ):
        super().__init__(name=name or self.default_name, dtype=dtype)
        self.ignore_class = ignore_class
        self.sums = {
            name: self.add_variable((), "zeros", dtype="float64", name=name)
            for name in (*self.quantities, "tokens")
        }

    def update_state(self, y_true, y_pred, sample_weight=None):
        tag = self._tag(y_pred)
        if tag is None:
            return
        self._compare_with_loss(tag, sample_weight)
        labels, weights = positions(y_true, y_pred, sample_weight, self.ignore_class)
        tag, labels = tag.counted(labels)
        values = self._values(tag, labels)
        if values is None:
            self._say_why(tag)
        else:
            self._add(values, tag.taken(tf.reshape(weights, [-1])))

    def _say_why(self, tag):
        self._unknown = True
        if self._has_said_why:
            return
        self._has_said_why = True
        warnings.warn(
            f"`{self.name}` is not computed in `fit`: {self.not_in_fit}. `evaluate` and "
            f"`validation_data` measure it. Received: the output of {type(tag.head).__name__} in "
            "training", stacklevel=3,
        )

    def _compare_with_loss(self, tag, sample_weight):
        """Warns once of labels that the loss leaves out, and the metric does not."""
        counts_all = self.ignore_class is None and sample_weight is None
        if not counts_all or tag.ignored is None or self._has_warned:
            return
        self._has_warned = True
        warnings.warn(
            f"`ignore_class` of `{self.name}` should be {tag.ignored}, that of the loss, unless it "
            "is meant to count these labels. Received: ignore_class=None", stacklevel=3,
        )

    def _tag(self, y_pred):
        tag = LogitsTag.of(y_pred)
        method, heads = self.needs
        if tag is not None:
            expect(hasattr(tag.head, method), "y_pred", f"be the output of {heads}",
                   received=f"the output of {type(tag.head).__name__}")
        return tag

    def _add(self, values, weights):
        self._unknown = False
        weights = tf.cast(weights, "float64")
        self.sums["tokens"].assign_add(tf.reduce_sum(weights))
        for quantity, value in zip(self.quantities, values, strict=True):
            weighted = tf.math.multiply_no_nan(tf.cast(value, "float64"), weights)
            self.sums[quantity].assign_add(tf.reduce_sum(weighted))

    def result(self):
        nothing = {}  # in Keras's logs
        if self._unknown and not tf.executing_eagerly():
            return nothing
        # Keras averages what replicas report of a step, which is no perplexity of all of them.
        sums = sum_of_replicas(tf.stack([self.sums[name].value for name in self.sums]))
        *totals, tokens = tf.unstack(sums)
        if self._has_said_why and tf.executing_eagerly() and tokens == 0:
            return nothing
        report = self._report(*(total / tokens for total in totals))
        if not isinstance(report, dict) or self.name == self.default_name:
            return report
        return {f"{self.name}_{key}": value for key, value in report.items()}

    def _values(self, tag: LogitsTag, labels: Labels):
        """A tensor (n,) for each of `quantities`, or None if they cannot be known.

        Args:
            tag: of the n positions that count, with hidden states (n, D).
            labels: theirs, (n,).
        """
        raise NotImplementedError

    def _report(self, *means):
        """What the metric reports, from the means of `quantities`: by default the only mean.

        Keras's logs have the keys of a dictionary, without the names of metric and output. If the
        metric has another name than `default_name`, the keys begin with it.
        """
        (mean,) = means
        return tf.cast(mean, "float32")
