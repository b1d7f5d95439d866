"""Checks tensors that users pass: ids before anything casts them to a smaller type, and numbers."""

import tensorflow as tf

from tfsoftmax.ops.graphs import under_xla
from tfsoftmax.support.arguments import expect, refusal

# Below 2 to the power of these, a float tells all whole numbers apart.
WHOLE_BITS = {tf.bfloat16: 8, tf.float16: 11, tf.float32: 24, tf.float64: 53}
_COMPOSITE = (tf.SparseTensor, tf.RaggedTensor, tf.IndexedSlices)


def dense(value, name):
    """`value` as a dense tensor, unless it is one of the kinds that Keras layers pass around.

    Raises:
        TypeError: if it is a ragged or a sparse tensor, or nothing that TensorFlow converts.
    """
    expect(
        not isinstance(value, _COMPOSITE), name, "be a dense tensor (`to_tensor()` makes one of a "
        "ragged tensor, tf.sparse.to_dense() of a sparse one)",
        received=f"a {type(value).__name__}", error=TypeError,
    )
    try:
        return tf.convert_to_tensor(value)
    except (TypeError, ValueError):
        raise refusal(name, "be a tensor of numbers", value, error=TypeError) from None


def dense_lists(value, name):
    """`dense` for lists of ids, which may be ragged: they are padded with -1."""
    if isinstance(value, tf.RaggedTensor):  # of a type that may lack -1
        value = tf.cast(value, tf.int64 if value.dtype.is_unsigned else value.dtype).to_tensor(-1)
    return dense(value, name)


def real(value, name):
    """`value` as a dense tensor of real numbers, or TypeError."""
    tensor = dense(value, name)
    _check_real(tensor.dtype, name, "be real numbers")
    return tensor


def dense_ids(value, name):
    """`value` as a dense tensor of int64 or floats. Whether floats are whole is not checked."""
    ids = dense(value, name)
    _check_real(ids.dtype, name, "be integers, the ids of words")
    return tf.cast(ids, tf.int64) if ids.dtype.is_integer else ids  # uint8 holds neither V nor -1


def dense_weights(value, name):
    """Weights, or a mask of True and False, as a dense tensor of float32."""
    weights = dense(value, name)
    return tf.cast(weights if weights.dtype.is_bool else real(weights, name), tf.float32)


def sample_weights(value):
    """`sample_weight` as a dense tensor of float32 and known rank."""
    weights = dense_weights(value, "sample_weight")
    expect(weights.shape.rank is not None, "sample_weight",
           "have a known number of axes, which `set_shape` declares",
           received=f"shape {weights.shape}", error=TypeError)
    return weights


def checked_ids(ids, size, name, least=0, hint=""):
    """Ids as int32. Those outside [least, size) are an error, which XLA drops.

    Args:
        ids: (...) integers, or floats that are whole numbers, as Keras's layers take them.
        size: the number of ids there are.
        name: of the argument.
        least: the smallest, 0, or -1 for places without an id.
        hint: a sentence for the end of the message.

    Returns:
        ids: (...) int32; wrong ones are `least`.
        valid: (...) bool, whether each was right, for callers that XLA compiles.

    Raises:
        TypeError: if they are no dense tensor of numbers, or of a type that cannot hold all of
            [0, size).
        InvalidArgumentError: when run, if one of them is not an integer in [least, size).
    """
    ids = dense(ids, name)
    _check_type(ids.dtype, size, name)
    wide = tf.cast(ids, tf.int64)
    valid = (wide >= least) & (wide < size)
    if ids.dtype.is_floating:
        valid &= tf.cast(wide, ids.dtype) == ids
    elif ids.dtype == tf.uint64:  # whose upper half is negative as int64
        valid &= wide >= 0
    whole = ", in whole numbers" if ids.dtype.is_floating else ""
    message = f"`{name}` must lie in [{least}, {size}){whole}. Received at position, value:"
    with tf.control_dependencies(asserted(valid, ids, message, hint)):
        return tf.where(valid, tf.cast(wide, tf.int32), least), valid


def rows_of_valid(rows, valid):
    """The rows (..., D) of ids, of which XLA, which drops errors, gets NaN for the wrong ones."""
    return tf.where(valid[..., None], rows, float("nan")) if under_xla() else rows


def _check_type(dtype, size, name):
    _check_real(dtype, name, "be integers, ids")
    rule = f"be integers: {dtype.name} does not hold every id below {size}"
    holds = dtype.is_integer or size - 1 <= 1 << WHOLE_BITS.get(dtype, 0)
    expect(holds, name, rule, received=dtype.name, error=TypeError)


def _check_real(dtype, name, rule):
    real = dtype.is_floating or dtype.is_integer
    expect(real, name, rule, received=dtype.name, error=TypeError)


def asserted(valid, ids, message, hint):
    """[an operation that fails unless all ids are valid], or [] if they have been checked."""

    def check(valid, ids):
        """Whether all are valid, and where the first of the others is, and its value."""
        if ids.shape.rank == 0:
            valid, ids = valid[None], ids[None]
        wrong = tf.where(~valid)[:1]
        return tf.reduce_all(valid), wrong, tf.gather_nd(ids, wrong)

    if tf.executing_eagerly():
        every, *found = check(valid, ids)
        if not every:
            place, value = (t.numpy()[0] for t in found)
            raise tf.errors.InvalidArgumentError(None, None, f"{message} {place} {value} {hint}")
        return []
    every, *found = check(valid, ids)
    return [tf.raw_ops.Assert(condition=every, data=[message, *found, hint])]
