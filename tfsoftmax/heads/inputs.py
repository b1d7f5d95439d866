"""What users pass to a head: checks of hidden states and labels, and their leading axes."""

import operator

import tensorflow as tf

from tfsoftmax.logits_tag import dense


def checked_hidden(hidden, units):
    """Hidden states as a tensor (..., D). `units` is D, or None before the head is built.

    Raises:
        TypeError: if they are not a dense tensor.
        ValueError: if they have no axis of units, or another number of units.
    """
    hidden = dense(hidden, "hidden")
    if not (hidden.dtype.is_floating or hidden.dtype.is_integer):
        raise TypeError(f"`hidden` must be real numbers. Received: {hidden.dtype.name}")
    known = hidden.shape[-1:].as_list()
    if not known or (units and known[0] not in (None, units)):
        raise ValueError(
            f"`hidden` must have {units or 'an axis of'} units on its last axis. "
            f"Received: hidden of shape {hidden.shape}"
        )
    return hidden


def checked_k(k, vocab_size):
    """`k` as an int in [1, V]."""
    if isinstance(k, bool) or not hasattr(k, "__index__") or not 0 < k <= vocab_size:
        raise ValueError(f"`k` must be an integer in [1, {vocab_size}]. Received: k={k!r}")
    return operator.index(k)


def checked_ids(ids, name, positions):
    """Several ids of words for each position, (..., E), -1 where there is none.

    Args:
        ids: (..., E) integers.
        name: of the argument.
        positions: the shape (...).

    Raises:
        TypeError: if they are not a dense tensor of integers.
        ValueError: if they have another shape.
    """
    ids = dense(ids, name)
    if not ids.dtype.is_integer:
        raise TypeError(f"`{name}` must be integers. Received: {ids.dtype.name}")
    shape = ids.shape
    if not shape.rank or shape[-1] is None or not shape[:-1].is_compatible_with(positions):
        raise ValueError(
            f"`{name}` must have the shape {(*positions, 'E')}, with a known number E of ids for "
            f"each position, padded with -1. Received: {name} of shape {shape}"
        )
    return tf.cast(ids, tf.int32)


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
    _check_type(labels.dtype, vocab_size)
    _check_shape(labels, vocab_size, hidden.shape[:-1])
    ids = tf.cast(labels, tf.int64)
    valid = (ids >= 0) & (ids < vocab_size)
    if labels.dtype.is_floating:
        valid &= tf.cast(ids, labels.dtype) == labels
    with tf.control_dependencies(_assertion(valid, labels, vocab_size)):
        safe = tf.where(valid, tf.cast(ids, tf.int32), 0)
    return safe, tf.where(valid, 1.0, float("nan"))


def _check_type(dtype, vocab_size):
    if dtype.is_integer:
        return
    if not dtype.is_floating:
        raise TypeError(f"`labels` must be integers, the ids of words. Received: {dtype.name}")
    bits = {tf.bfloat16: 8, tf.float16: 11, tf.float32: 24, tf.float64: 53}.get(dtype, 0)
    if vocab_size - 1 > 1 << bits:
        raise TypeError(
            f"`labels` must be integers: {dtype.name} does not hold every id of {vocab_size} "
            f"words. Received: {dtype.name}"
        )


def _check_shape(labels, vocab_size, positions):
    if labels.shape.is_compatible_with(positions):
        return
    hint = ""
    if labels.shape.is_compatible_with([*positions, vocab_size]):
        hint = " They look one-hot: pass keras.ops.argmax(labels, -1)."
    raise ValueError(
        f"`labels` must have the shape of the positions of `hidden`, {positions}. "
        f"Received: labels of shape {labels.shape}.{hint}"
    )


def _assertion(valid, labels, vocab_size):
    """[an operation that fails unless all labels are valid], or [] if they have been checked."""
    message = f"`labels` must lie in [0, {vocab_size}). Received at position, value:"
    hint = (
        "(SoftmaxLoss(ignore_class=...) leaves labels out; a metric with an `ignore_class` of its "
        "own uses that instead.)"
    )

    def check(valid, labels):
        """Whether all are valid, and where the first of the others is, and its value."""
        if labels.shape.rank == 0:
            valid, labels = valid[None], labels[None]
        wrong = tf.where(~valid)[:1]
        return tf.reduce_all(valid), wrong, tf.gather_nd(labels, wrong)

    if tf.executing_eagerly():
        every, *found = check(valid, labels)
        if not every:
            place, value = (t.numpy()[0] for t in found)
            raise tf.errors.InvalidArgumentError(None, None, f"{message} {place} {value} {hint}")
        return []
    # TensorFlow prints the stack of an operation, 900 characters and more, before its message.
    # Operations that are imported have none.
    with tf.Graph().as_default() as graph:
        inputs = [tf.compat.v1.placeholder(t.dtype, t.shape) for t in (valid, labels)]
        every, *found = check(*inputs)
        assertion = tf.raw_ops.Assert(condition=every, data=[message, *found, hint])
    definition = graph.as_graph_def()
    for tensor in inputs:
        definition.node.remove(next(n for n in definition.node if n.name == tensor.op.name))
    return tf.graph_util.import_graph_def(
        definition, {t.name: v for t, v in zip(inputs, (valid, labels))}, [assertion.name],
        name="check",
    )


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
