"""What users pass to a head: checks of hidden states and labels, and their leading axes.

`Positions` turns methods of rows (N, D) into methods of positions (...), some of which may not
count.
"""

import operator

import keras
import tensorflow as tf

from tfsoftmax.losses.labels import check_weights
from tfsoftmax.ops.graphs import under_xla
from tfsoftmax.ops.inputs import (
    asserted,
    checked_ids,
    dense,
    dense_lists,
    dense_weights,
    real,
)
from tfsoftmax.ops.ranking import found, given
from tfsoftmax.ops.weighting import Counted
from tfsoftmax.support.arguments import expect


def checked_hidden(hidden, units):
    """Hidden states as a tensor (..., D). `units` is D, or None before the head is built.

    Raises:
        TypeError: if they are not a dense tensor.
        ValueError: if they have no axis of units, or another number of units.
    """
    hidden = real(hidden, "hidden")
    known = [] if hidden.shape.rank is None else hidden.shape[-1:].as_list()
    fits = known and (not units or known[0] in (None, units))
    rule = f"have {units or 'an axis of'} units on its last axis"
    expect(fits, "hidden", rule, received=f"hidden of shape {hidden.shape}")
    return hidden


def check_input(hidden):
    """Raises ValueError for an input of a layer, perhaps a placeholder, without known axes."""
    known = hidden is not None and getattr(hidden, "shape", ()) != tf.TensorShape(None)
    expect(known, "hidden", "be a tensor (..., D) with a known number of axes", hidden)
    several = isinstance(hidden, (list, tuple)) and any(map(keras.backend.is_keras_tensor, hidden))
    expect(not several, "hidden", "be one tensor, such as head.input[0] for a head that was called "
           "with `exclude`", hidden)


def check_exclude_shape(exclude, hidden):
    """Raises ValueError unless the placeholder `exclude` may be a list for each position."""
    shape, positions = exclude.shape, hidden.shape[:-1]
    fits = len(shape) == len(hidden.shape) and all(
        a is None or b is None or a in (1, b) for a, b in zip(shape, positions)
    )
    hint = ""
    if len(positions) == len(shape) == 2:
        hint = ". Pass exclude[:, None] if all positions have the same list"
    expect(fits, "exclude", f"have the shape {(*positions, 'E')}, where axes before the last "
           "may be 1", received=f"exclude of shape {shape}{hint}")


def refuse_xla(why: str) -> None:
    """Raises NotImplementedError if XLA is compiling what it cannot compile."""
    if under_xla():
        raise NotImplementedError(
            f"{why}. Compile the model or the function with `jit_compile=False`."
        )


def checked_k(k, most, name="k"):
    """A number of words as an int in [1, most]."""
    whole = hasattr(k, "__index__") and not isinstance(k, bool)
    expect(whole and 0 < k <= most, name, f"be an integer in [1, {most}]", k)
    return operator.index(k)


def checked_lists(ids, name, positions, vocab_size):
    """Several ids of words for each position, (..., E) int32, padded with -1.

    Args:
        ids: (..., E) integers.
        name: of the argument.
        positions: the shape (...).
        vocab_size: V.

    Raises:
        TypeError: if they are not a dense tensor of integers.
        ValueError: if they have another shape.
        InvalidArgumentError: when run, if an id lies outside [-1, V), unless XLA compiles it.
    """
    ids = dense(ids, name)
    shape, dtype = ids.shape, ids.dtype
    expect(dtype.is_integer, name, "be integers", received=dtype.name, error=TypeError)
    fits = shape.rank and shape[:-1].is_compatible_with(positions)
    expect(fits, name, f"have the shape {(*positions, 'E')}, with E ids for each position, padded "
           "with -1", received=f"{name} of shape {shape}")
    return checked_ids(ids, vocab_size, name, least=-1)[0]


def checked_labels(labels, vocab_size, hidden):
    """Labels as int32. Those outside [0, V) are an error, or make the loss NaN under XLA.

    Args:
        labels: (...) integers, or floats that are whole numbers, as Keras's losses take them.
        vocab_size: V.
        hidden: (..., D), whose positions the labels must match.

    Returns:
        labels: (...) int32 in [0, V).
        validity: (...) float32, a factor of the loss: one, or NaN where the label was wrong,
            which makes loss and gradients NaN. XLA drops assertions, and a clamped gather
            would hide the mistake.

    Raises:
        TypeError: if labels are not numbers, or of a type that cannot hold all of [0, V).
        ValueError: if their shape is not that of the positions.
        InvalidArgumentError: when run, if a label is not an integer in [0, V).
    """
    labels = dense(labels, "labels")
    shape, positions = labels.shape, hidden.shape[:-1]
    one_hot = shape.is_compatible_with([*positions, vocab_size])
    hint = ". They look one-hot: pass keras.ops.argmax(labels, -1)" if one_hot else ""
    expect(shape.is_compatible_with(positions), "labels",
           f"have the shape of the positions of `hidden`, {positions}",
           received=f"labels of shape {shape}{hint}")
    labels, valid = checked_ids(labels, vocab_size, "labels", hint=(
        "(`ignore_class` leaves labels out: that of a SoftmaxLoss in the loss, that of a metric in "
        "the metric.)"
    ))
    return labels, tf.where(valid, 1.0, float("nan"))


def checked_items(labels, weights, is_none):
    """Checks that the labels of all positions that count are items.

    Args:
        labels: (...) integers.
        weights: a tensor that broadcasts to (...).
        is_none: a function of labels (...) that returns which are `not_items`, (...) bool.

    Returns:
        labels: (...), unchanged.
        weights: (...) float32, NaN where a label is not an item, for callers that XLA compiles.

    Raises:
        InvalidArgumentError: when run, if a label of a position that counts is not an item.
    """
    labels, weights = dense(labels, "labels"), checked_weights(weights, labels.shape)
    wrong = is_none(labels) & (weights != 0)
    message = "`labels` must be no `not_items` of the head. Received at position, value:"
    hint = "(Leave them out by `ignore_class`, of the loss and of each metric, or by weight zero.)"
    with tf.control_dependencies(asserted(~wrong, labels, message, hint)):
        return tf.identity(labels), tf.where(wrong, float("nan"), weights)


def checked_weights(weights, shape, name="weights"):
    """Weights of positions, or a mask, as float32; their shape must broadcast to the labels'."""
    weights = dense_weights(weights, name)
    check_weights(weights, shape, name)
    return weights


def checked_exclude(exclude, hidden, vocab_size):
    """The words that positions (...) leave out, as (N, E) int32, padded with -1; or None.

    Args:
        exclude: (..., E) integers, with axes of one for several positions, as (B, 1, E) is for
            (B, T, D); or ragged with any number of them at each position; or None.
        hidden: (..., D).
        vocab_size: V.
    """
    if exclude is None:
        return None
    exclude = _of_each_position(dense_lists(exclude, "exclude"), hidden)
    exclude = checked_lists(exclude, "exclude", hidden.shape[:-1], vocab_size)
    width = exclude.shape[-1] if exclude.shape[-1] is not None else tf.shape(exclude)[-1]
    return tf.reshape(exclude, [tf.reduce_prod(tf.shape(hidden)[:-1]), width])


def _of_each_position(lists, hidden):
    """Lists (..., E) whose axes of one are those of `hidden` (..., D)."""
    own, axes = lists.shape, hidden.shape[:-1]
    if own.rank != len(axes) + 1 or all(a != 1 or b == 1 for a, b in zip(own[:-1], axes)):
        return lists
    shape = [tf.shape(hidden)[i] if a == 1 else tf.shape(lists)[i] for i, a in enumerate(own[:-1])]
    return tf.broadcast_to(lists, [*shape, tf.shape(lists)[-1]])


def flatten(hidden):
    """hidden (..., D) as (N, D), and the leading shape for `restore`."""
    leading = (hidden.shape[:-1], tf.shape(hidden)[:-1])
    return tf.reshape(hidden, [-1, hidden.shape[-1]]), leading


def restore(rows, leading, *size):
    """Rows (N, *size) as (..., *size)."""
    static, dynamic = leading
    result = tf.reshape(rows, tf.concat([dynamic, tf.constant(size, tf.int32)], 0))
    result.set_shape([*static, *size])  # TFLite has no operation that checks a shape
    return result


def check_objective(label_smoothing, z_loss=0.0, soft_cap=None):
    """Raises ValueError if a loss is asked for that has no minimum, or no meaning."""
    expect(0 <= label_smoothing < 1, "label_smoothing", "lie in [0, 1)", label_smoothing)
    expect(z_loss >= 0, "z_loss", "not be negative", z_loss)
    expect(soft_cap is None or soft_cap > 0, "soft_cap", "be positive", soft_cap)


class Positions:
    """Mixin for `SoftmaxHead`: checks what users pass, and calls methods of rows with it.

    Example:
        head = tfsoftmax.HEADS["full"](1000)
        hidden, labels = keras.random.normal((2, 5, 64)), keras.random.randint((2, 5), 0, 1000)
        assert isinstance(head, tfsoftmax.heads.inputs.Positions)
        assert head.log_prob(hidden, labels).shape == (2, 5)
    """

    no_label = 0  # for the training of a replica, where a position does not count

    def checked_items(self, labels: tf.Tensor, weights: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Labels (...) and weights; `Items` checks that the labels that count are items."""
        return labels, weights

    def _run(self, method, *tensors, wide=False):
        """`method(*tensors)`, which a head in shards has to call in all replicas.

        `wide` says that the result has V columns.
        """
        return method(*tensors)

    def _listed(self, search, hidden, k, exclude):
        """The list `search(rows, k)`, or `search(rows, k, excluded)`, of each position."""
        k, hidden = checked_k(k, self.vocab_size), self._as_hidden(hidden)
        rows, leading = flatten(hidden)
        lists = search(rows, k, *given(checked_exclude(exclude, hidden, self.vocab_size)))
        return tuple(restore(each, leading, k) for each in found(*lists))

    def _as_hidden(self, hidden):
        if not self.supports_jit:
            refuse_xla(f"{type(self).__name__} cannot be compiled by XLA as it is configured "
                       "(`supports_jit` is False)")
        hidden = checked_hidden(hidden, self.input_spec and self.input_spec.axes[-1])
        if not self.built:
            self.build(hidden.shape)
        return tf.cast(hidden, self.compute_dtype)

    def _by_row(self, method, hidden):
        rows, leading = flatten(self._as_hidden(hidden))
        return restore(self._run(method, rows), leading)

    def _weighted(self, method, hidden, labels, weights, *more):
        """The sum and the nats of a `weighted_nats`, where nats are NaN if the weight is zero."""
        hidden = self._as_hidden(hidden)
        labels, validity = checked_labels(labels, self.vocab_size, hidden)
        rows, leading = flatten(hidden)
        weights = tf.reshape(checked_weights(weights, validity.shape) * validity, [-1])
        counted = Counted(weights != 0)
        weights = tf.where(counted.mask, weights, 0.0)  # whose gradients are zero under XLA, too
        total, nats = method(
            *_counted_rows(counted, rows, labels, self.no_label), counted.taken(weights),
            *[counted.taken(flatten(each)[0]) for each in more],
        )
        if nats is not None:
            nats = restore(counted.restored(nats, float("nan")), leading) * validity
        return total, nats

    def _trained_by_position(self, hidden, labels, *more, mask):
        return self._by_position(
            self._training_loss, hidden, labels, *more, mask=mask, no_label=self.no_label
        )

    def _by_position(self, method, hidden, labels, *more, mask=None, no_label=0):
        hidden = self._as_hidden(hidden)
        labels, validity = checked_labels(labels, self.vocab_size, hidden)
        rows, leading = flatten(hidden)
        more = [flatten(each)[0] for each in more]
        if mask is None:
            results = self._run(method, rows, tf.reshape(labels, [-1]), *more)
            return restore(results, leading) * validity
        mask = checked_weights(mask, validity.shape, "mask") * tf.ones_like(validity)
        counted = Counted(tf.reshape(mask != 0, [-1]))
        results = self._run(
            method, *_counted_rows(counted, rows, labels, no_label), *map(counted.taken, more)
        )
        return restore(counted.restored(results, 0.0), leading) * validity


def _counted_rows(counted, rows, labels, no_label):
    """Hidden states (n, D) and labels (n,) of the positions that count."""
    return counted.taken_hidden(rows), counted.taken_labels(tf.reshape(labels, [-1]), no_label)
