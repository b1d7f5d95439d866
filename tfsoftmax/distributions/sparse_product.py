"""Products of sparse matrices, which XLA does not compile."""

import tensorflow as tf

from tfsoftmax.ops.custom_gradients import custom_gradient


def sparse_product(rows, columns, values, dense, size):
    """Product of the sparse matrix (size, M) of entries sorted by row with dense (M, D)."""
    height = tf.maximum(size, 1)  # The op divides by the height.
    width = tf.shape(dense)[0]
    shape = tf.cast(tf.stack([height, width]), tf.int64)

    # TensorFlow's own gradient, of use in second derivatives only, needs static shapes.
    @custom_gradient
    def product(values, dense):
        matrix = tf.raw_ops.SparseTensorToCSRSparseMatrix(
            indices=tf.cast(tf.stack([rows, columns], 1), tf.int64), values=values,
            dense_shape=shape,
        )

        def gradient(upstream):
            above = tf.gather(upstream, rows)
            d_values = tf.reduce_sum(above * tf.gather(dense, columns), axis=1)
            return d_values, tf.math.unsorted_segment_sum(values[:, None] * above, columns, width)

        return tf.raw_ops.SparseMatrixMatMul(a=matrix, b=dense), gradient

    return product(values, dense)[:size]
