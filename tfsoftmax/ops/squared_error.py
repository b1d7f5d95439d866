"""Squared error of all words' scores against one-hot labels, in chunks of positions.

Shapes: N positions, n of them in a chunk, D hidden units, V words.
"""

import tensorflow as tf

from tfsoftmax.ops.chunks import sum_over_chunks
from tfsoftmax.ops.custom_gradients import recomputed_gradient
from tfsoftmax.ops.logits import full_logits, logits_rows


def squared_errors(hidden, kernel, bias, labels, function):
    """Σ_v (f(x_v) - 1[v = y])² with x = h Wᵀ + b.

    Args:
        hidden: (N, D) float; its dtype is the dtype of the matmuls.
        kernel: (V, D) float32.
        bias: (V,) float32, or None.
        labels: (N,) int32 in [0, V).
        function: f, of tensors.

    Returns:
        (N,) float32. The gradient computes the scores a second time.
    """
    most = logits_rows(kernel.shape[0], hidden.shape[1])

    def errors(hidden, labels, kernel, bias):
        values = function(full_logits(hidden, kernel, bias))
        own = tf.gather(values, labels, batch_dims=1)
        return tf.reduce_sum(tf.square(values), axis=1) - 2 * own + 1

    def all_errors(hidden, *parameters):
        def chunk(hidden, labels, _):
            return errors(hidden, labels, *parameters), []

        return sum_over_chunks(chunk, most, hidden, labels)[0]

    def gradients(upstream, hidden, *parameters):
        given = [p for p in parameters if p is not None]

        def chunk(hidden, labels, upstream, totals):
            with tf.GradientTape() as tape:
                tape.watch([hidden, *given])
                of_chunk = errors(hidden, labels, *parameters)
            d_hidden, *terms = tape.gradient(of_chunk, [hidden, *given], upstream)
            return d_hidden, terms if totals is None else [a + b for a, b in zip(totals, terms)]

        d_hidden, totals = sum_over_chunks(chunk, most, hidden, labels, upstream)
        return [d_hidden, *totals]

    return recomputed_gradient(all_errors, gradients, hidden, kernel, bias)
