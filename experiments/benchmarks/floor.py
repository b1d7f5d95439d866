"""The bare matmuls and moves that a step cannot do without, in the sizes of a head and its labels.

A product (n, d, c) stands for three matmuls of n rows of d units and c words: scores, the
gradient of the rows, the gradient of the words. Nothing is between them: no exponentials, no
gathers, no sums. An evaluation has the scores alone.

The moves are those of the rows that a step changes: they are gathered, and Adagrad's operation in
TensorFlow adds a gradient to them that is there already. Each row is read three times and written
three times, its accumulator once each.
"""

import collections

Product = collections.namedtuple("Product", "rows units words")
MOST_SCORES = 2**28  # in one matmul, 1 GiB of float32; more are computed in turns


def multiplications(products):
    """Multiplications of all three matmuls of all products."""
    return 3 * sum(rows * units * words for rows, units, words in products)


def turns(product):
    """A product as (product, times) of no more scores than `MOST_SCORES`, parted by words."""
    most = max(1, MOST_SCORES // max(1, product.rows))
    whole, rest = divmod(product.words, most)
    parts = [(product._replace(words=most), whole), (product._replace(words=rest), 1)]
    return [(part, times) for part, times in parts if times and part.words and part.rows]


def matmuls(products, dtype, gradients=True):
    """A function () -> float that computes the products, with both gradients or without."""
    import tensorflow as tf

    once, often = [], []
    for part, times in (turn for product in products for turn in turns(product)):
        (once if times == 1 else often).append((part, times))

    def matrices(product):
        rows, units, words = product
        shapes = (rows, units), (words, units)
        return [tf.cast(tf.random.normal(shape), dtype) for shape in shapes]

    def three(inputs, kernel):
        scores = tf.matmul(inputs, kernel, transpose_b=True)
        if not gradients:
            return scores[0, 0]
        of_inputs = tf.matmul(scores, kernel)
        with tf.control_dependencies([of_inputs]):  # two at a time share caches and threads
            of_kernel = tf.matmul(scores, inputs, transpose_a=True)
        return scores[0, 0] + of_inputs[0, 0] + of_kernel[0, 0]

    small = [matrices(part) for part, _ in once]
    large = [(tf.function(three), matrices(part), times) for part, times in often]

    @tf.function
    def together():
        return tf.add_n([three(*pair) for pair in small])

    def run():
        total = together() if small else None
        for function, pair, times in large:
            for _ in range(times):
                total = function(*pair)
        return float(total)

    return run


def moved(rows, of_rows, units):
    """A function () -> float that gathers distinct rows of a kernel, and updates them."""
    import numpy as np
    import tensorflow as tf

    chosen = np.sort(np.random.default_rng(0).choice(of_rows, rows, replace=False))
    chosen = tf.constant(chosen.astype(np.int32))
    kernel, accumulator = (tf.Variable(tf.ones((of_rows, units))) for _ in range(2))
    gradient = tf.ones((rows, units))

    @tf.function
    def gathered_and_updated():
        first = tf.gather(kernel, chosen)[0, 0]
        with tf.control_dependencies([first]):
            update = tf.raw_ops.ResourceSparseApplyAdagradV2(
                var=kernel.handle, accum=accumulator.handle, lr=0.1, epsilon=1e-7, grad=gradient,
                indices=chosen,
            )
        with tf.control_dependencies([update]):
            return tf.identity(first)

    return lambda: float(gathered_and_updated())
