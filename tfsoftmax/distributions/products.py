"""dh, dW and db of a loss from its slopes with respect to the logits z = h Wᵀ + b.

With ∂loss/∂z = f ∘ M, where the factors f (n,) multiply the rows of M (n, V),

    dh = f (M W),    dW = Mᵀ (f h),    db = Mᵀ f,

so that only matrices with D columns are multiplied by f. The products are taken in the dtype of h,
and their results are float32.

Shapes: n positions, D hidden units, V words.
"""

import tensorflow as tf


def narrowed(matrices, factors, dtype):
    """Slopes in the dtype of the products.

    Args:
        matrices: list of (n, V_i) float32, M in blocks of words.
        factors: list of (n,) float32, f of each block.
        dtype: the dtype of the products. Sums of exponentials that are not normalised overflow
            float16, so with float16 M is multiplied by f.

    Returns:
        The matrices in `dtype`, and the factors that are still left out.
    """
    if dtype == tf.float16:
        matrices = [m * f[:, None] for m, f in zip(matrices, factors)]
        factors = [tf.ones_like(f) for f in factors]
    return [tf.cast(m, dtype) for m in matrices], factors


def by_hidden(slopes, factors, kernel):
    """dh = f (M W): (n, D) float32 from slopes (n, V) and a kernel (V, D) of their dtype."""
    return factors[:, None] * tf.cast(tf.matmul(slopes, kernel), tf.float32)


def by_words(slopes, factors, hidden):
    """dW = Mᵀ (f h): (V, D) float32."""
    scaled = hidden * tf.cast(factors, hidden.dtype)[:, None]
    return tf.cast(tf.matmul(slopes, scaled, transpose_a=True), tf.float32)


def by_biases(matrix, factors):
    """db = Mᵀ f: (V,) float32 from a matrix that is not yet `narrowed`."""
    return tf.linalg.matvec(matrix, factors, transpose_a=True)


def minus_labels(gradients, labels, weights, hidden):
    """Subtracts the gradients of weights · z_y from [dW] or [dW, db]; labels y are (n,) ints."""
    terms = weights[:, None] * tf.cast(hidden, tf.float32), weights
    return [tf.tensor_scatter_nd_sub(g, labels[:, None], t) for g, t in zip(gradients, terms)]


def with_unit_weights(function, weights, dtype):
    """Calls `function(weights)` so that small weights do not underflow in float16.

    Args:
        function: returns results that do not depend on the weights, and a structure of float32
            gradients that are linear in them.
        weights: (N,) float32.
        dtype: the dtype of the products. In float16 the largest weight becomes one, and the
            gradients are scaled back.

    Returns:
        The results and the gradients.
    """
    if dtype != tf.float16:
        return function(weights)
    unit = tf.maximum(tf.reduce_max(tf.abs(weights)), 1e-30)
    results, gradients = function(weights / unit)
    return results, tf.nest.map_structure(lambda g: unit * g, gradients)
