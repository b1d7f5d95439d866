"""Causal attention to the last words before each word, with rotary positions."""

import keras
import tensorflow as tf

from tfsoftmax.ops.custom_gradients import differentiable
from tfsoftmax.support import budgets

LONGEST_WAVE = 10_000
UNSEEN = -1e30  # the score of a key that a query must not see


def rotated(vectors: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """Rotates pairs of units by angles that grow with the position of the vector.

    With θ_i = 10000^(-2i/d), the units i and i + d/2 of the vector at position p become

        x_i cos(p θ_i) - x_{i+d/2} sin(p θ_i),   x_{i+d/2} cos(p θ_i) + x_i sin(p θ_i)

    so that the product of two rotated vectors depends on the difference of their positions only.

    Args:
        vectors: float (..., S, H, d), for H heads of d units, an even number.
        positions: int (S,).

    Returns:
        Rotated vectors of the same shape and dtype, computed in float32 at least.

    Source: Su et al. 2021, equation 34. Departure: there the units 2i and 2i + 1 are a pair; a
        permutation of the weights turns one form into the other.
    """
    units, dtype = vectors.shape[-1], keras.backend.result_type(vectors.dtype, "float32")
    waves = tf.constant([LONGEST_WAVE ** (-i / units) for i in range(0, units, 2)], dtype)
    angles = tf.cast(positions, dtype)[:, None, None] * waves
    cosines, sines = tf.cos(angles), tf.sin(angles)
    first, second = tf.split(tf.cast(vectors, dtype), 2, axis=-1)
    both = [first * cosines - second * sines, second * cosines + first * sines]
    return tf.cast(tf.concat(both, axis=-1), vectors.dtype)


def attention(
    queries: tf.Tensor, keys: tf.Tensor, values: tf.Tensor, sees: tf.Tensor
) -> tf.Tensor:
    """Averages of the values, weighted by softmax(q · k / √d) over the keys that a query sees.

    `keras.ops.dot_product_attention` has the same results. TensorFlow's gradient of its `einsum`
    transposes the heads for each product, and keeps four tensors (B, H, T, S) for it; this one
    transposes them once, and keeps the weights alone.

    Args:
        queries: float (B, T, H, d).
        keys, values: float (B, S, H, d).
        sees: bool, broadcast to (B, H, T, S); each query sees a key.

    Returns:
        (B, T, H, d). The softmax is computed in float32 at least.

    Source: Vaswani et al. 2017, equation 1.
    """
    dtype = keras.backend.result_type(queries.dtype, "float32")

    def transposed(*tensors):
        return [tf.transpose(tensor, (0, 2, 1, 3)) for tensor in tensors]

    def function(queries, keys, values):
        scale = queries.shape[-1] ** -0.5
        q, k, v = transposed(scale * queries, keys, values)
        scores = tf.cast(tf.matmul(q, k, transpose_b=True), dtype)
        weights = tf.nn.softmax(tf.where(sees, scores, UNSEEN))
        shares = tf.cast(weights, v.dtype)
        averages = tf.matmul(shares, v)

        def gradient(upstream):
            (upstream,) = transposed(upstream)
            slopes = tf.cast(tf.matmul(upstream, v, transpose_b=True), dtype)
            mean = tf.reduce_sum(tf.cast(upstream * averages, dtype), axis=-1, keepdims=True)
            slopes = tf.cast(weights * (slopes - mean), v.dtype)
            return transposed(
                scale * tf.matmul(slopes, k), tf.matmul(slopes, q, transpose_a=True),
                tf.matmul(shares, upstream, transpose_a=True),
            )

        return transposed(averages)[0], gradient

    return differentiable(function, queries, keys, values)


def attention_to_context(
    queries: tf.Tensor, keys: tf.Tensor, values: tf.Tensor, real: tf.Tensor, heads: int
) -> tf.Tensor:
    """Lets each word attend to itself and to the C words before it, and to no other.

    Query t belongs to key C + t, since the first C keys are those of the words before the text.
    The result does not depend on where a long text is cut, if the last C keys and values of a part
    go before those of the next one.

    Long texts are divided into blocks of C queries, or of 64 if C is smaller, which see the C keys
    before the block and those of the block. Time and memory hence grow as T C and not as T².

    Args:
        queries: float (B, T, D), of `heads` times an even number of units.
        keys: float (B, C + T, D), before any rotation.
        values: float (B, C + T, D).
        real: float (B, C + T), 0 for keys that no query must see, else 1.
        heads: H, the number of heads, each of which has D / H units.

    Returns:
        (B, T, D), the heads' averages of values, side by side.

    Source: Vaswani et al. 2017, section 3.2, with the rotations of Su et al. 2021.
    """
    rows, steps, units = tf.unstack(tf.shape(queries))
    steps = queries.shape[1] or steps
    context = tf.shape(keys)[1] - steps if keys.shape[1] is None else keys.shape[1] - steps
    block, blocks = steps, 1
    known, least = isinstance(steps, int) and isinstance(context, int), budgets.QUERIES
    if not known or steps > max(context, least):
        block = tf.maximum(1, tf.minimum(steps, tf.maximum(context, least)))
        blocks = -(-steps // block)
        behind = blocks * block - steps  # no query sees keys behind its own
        seen = block * tf.range(blocks)[:, None] + tf.range(context + block)
        queries = tf.pad(queries, [[0, 0], [0, behind], [0, 0]])
        keys, values = (
            tf.gather(tf.pad(each, [[0, 0], [0, behind], [0, 0]]), seen, axis=1)
            for each in (keys, values)
        )
        real = tf.gather(tf.pad(real, [[0, 0], [0, behind]]), seen, axis=1)

    def of_heads(vectors, length):
        return tf.reshape(vectors, (rows * blocks, length, heads, queries.shape[-1] // heads))

    length = context + block
    positions = tf.range(length)
    distances = positions[context:, None] - positions
    sees = (distances >= 0) & (distances <= context)
    real = tf.reshape(real, (rows * blocks, 1, 1, length)) > 0
    attended = attention(
        rotated(of_heads(queries, block), positions[context:]),
        rotated(of_heads(keys, length), positions), of_heads(values, length), sees & real,
    )
    return tf.reshape(attended, (rows, blocks * block, units))[:, :steps]
