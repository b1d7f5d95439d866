"""The spherical family P(w | h) = f(x_w) / Σ_v f(x_v) with f(x) = x² + ε and x = h Wᵀ + b.

With ĥ = [h, 1], Ŵ = [W, b] and the second moments Q = Ŵᵀ Ŵ, the normaliser needs no score:

    Σ_v f(x_v) = ε V + ĥᵀ Q ĥ.

With G = Σ_n g_n ĥ_n ĥ_nᵀ, where g = 2 w / Σ_v f(x_v) and position n has weight w_n, the gradient is

    dŴ = Ŵ G - [scatter of w f'(x_y) / f(x_y) ĥ to row y].

That is 2 V D² multiplications in the place of the 3 N V D of logits. Of few positions, 3 N < 2 D,
the logits cost less, take less memory than the kernel, and are formed whole.

Where ĥᵀ Q ĥ is small beside its terms, as for large hidden states that are nearly orthogonal to
most rows, the terms cancel and the sum has few digits left. Such positions form their scores.

Everything is float32: a sum of V squares overflows float16, and bfloat16 loses the small ones.

Shapes: N positions, D hidden units, V words, E = D + 1.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from tfsoftmax.distributions.base import Distribution
from tfsoftmax.ops.custom_gradients import differentiable
from tfsoftmax.ops.graphs import may_be_exported
from tfsoftmax.ops.logits import full_logits, label_logits, map_row_chunks, rows_of, with_one
from tfsoftmax.ops.subsets import kept_where

MOST_CANCELLATION = 50.0  # Beyond it, errors of 1e-5 nats and more were seen.


@dataclasses.dataclass(frozen=True)
class Spherical(Distribution):
    """The distribution of a kernel and biases.

    Attributes:
        kernel: (V, D) float.
        bias: (V,) float32.
        epsilon: ε.

    Example:
        from tfsoftmax.survey.spherical_distribution import Spherical
        spherical = Spherical(keras.random.normal((1000, 64)), keras.ops.zeros(1000), 1.0)
    """

    kernel: tf.Tensor
    bias: tf.Tensor
    epsilon: float

    @property
    def vocab_size(self) -> int:
        return self.kernel.shape[0]

    def logits(self, hidden):
        """ln f(x)."""
        return log_values(full_logits(_float(hidden), self.kernel, self.bias), self.epsilon)

    def label_logits(self, hidden: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """ln f(x_y), (N,), which reads the labels' rows alone."""
        scores, _ = label_logits(_float(hidden), self.kernel, self.bias, labels)
        return log_values(scores, self.epsilon)

    def log_normaliser(self, hidden):
        def by_moments():
            moments = second_moments(_float(self.kernel), self.bias)
            return _log_sums(with_one(hidden), moments, self.epsilon, self.kernel, self.bias)

        def by_logits():
            return tf.reduce_logsumexp(self.logits(hidden), axis=1)

        return _if_few(hidden, by_logits, by_moments)

    def nats(self, hidden, labels):
        tensors = _float(hidden), tf.convert_to_tensor(self.kernel), self.bias

        def by_moments():
            return differentiable(
                lambda *tensors: _nats_by_moments(*tensors, labels, self.epsilon), *tensors
            )

        def by_logits():
            logits = log_values(full_logits(*tensors), self.epsilon)
            return tf.reduce_logsumexp(logits, 1) - tf.gather(logits, labels, batch_dims=1)

        return _if_few(hidden, by_logits, by_moments)


@dataclasses.dataclass(frozen=True)
class FactoredSpherical(Distribution):
    """The distribution of Ŵ = A U, whose scores are A (U ĥ), and whose Q is known.

    Attributes:
        rows: (V, E) float32, A.
        mixer: (E, E) float32, U.
        moments: (E, E) float32, Q.
        epsilon: ε.

    Example:
        head = tfsoftmax.SphericalSoftmax(1000, sgd_learning_rate=0.1)
        head.build((None, 64))
        distribution = head.distribution()
        assert isinstance(distribution, tfsoftmax.survey.spherical_distribution.FactoredSpherical)
    """

    rows: tf.Variable
    mixer: tf.Tensor
    moments: tf.Tensor
    epsilon: float

    @property
    def vocab_size(self) -> int:
        return self.rows.shape[0]

    def mixed(self, hidden: tf.Tensor) -> tf.Tensor:
        """U ĥ, (N, E)."""
        return tf.matmul(with_one(hidden), self.mixer, transpose_b=True)

    def logits(self, hidden):
        return log_values(full_logits(self.mixed(hidden), self.rows, None), self.epsilon)

    def label_logits(self, hidden: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """ln f(x_y), (N,)."""
        scores = tf.reduce_sum(self.mixed(hidden) * rows_of(self.rows, labels), axis=1)
        return log_values(scores, self.epsilon)

    def log_normaliser(self, hidden):
        points = with_one(hidden)
        mixed = tf.matmul(points, self.mixer, transpose_b=True)
        return _log_sums(points, self.moments, self.epsilon, self.rows, None, mixed)

    def nats(self, hidden, labels):
        """Differentiable with respect to hidden, at a cost of N E²."""

        def function(hidden):
            points = with_one(hidden)
            rows = tf.matmul(rows_of(self.rows, labels), self.mixer)
            scores = tf.reduce_sum(points * rows, axis=1)
            totals, products = sums(points, self.moments, self.epsilon, self.rows.shape[0])
            mixed = tf.matmul(points, self.mixer, transpose_b=True)
            totals, scores = _restored(
                [totals, scores], points, self.moments, self.epsilon, self.rows, None, mixed, labels
            )

            def gradient(upstream):
                d_hidden = (2 * upstream / totals)[:, None] * products
                d_hidden -= (upstream * label_slopes(scores, self.epsilon))[:, None] * rows
                return d_hidden[:, :-1]

            return tf.math.log(totals) - log_values(scores, self.epsilon), gradient

        return differentiable(function, hidden)


def log_values(scores, epsilon):
    """ln f(x) = ln (x² + ε)."""
    return tf.math.log(tf.square(scores) + epsilon)


def label_slopes(scores, epsilon):
    """f'(x) / f(x)."""
    return 2 * scores / (tf.square(scores) + epsilon)


def second_moments(kernel, bias):
    """Q = Ŵᵀ Ŵ, (E, E), without a copy of the kernel."""
    square = tf.matmul(kernel, kernel, transpose_a=True)
    cross = tf.linalg.matvec(kernel, bias, transpose_a=True)
    # OpenVINO takes a wrong number for the sum of a constant to which [None] adds an axis.
    last = tf.concat([cross, tf.reduce_sum(tf.square(bias), keepdims=True)], 0)
    return tf.concat([tf.concat([square, cross[None]], 0), last[:, None]], 1)


def sums(extended_hidden, moments, epsilon, words):
    """Σ_v f(x_v) = ε V + ĥᵀ Q ĥ, (N,), and Q ĥ, (N, E)."""
    products = tf.matmul(extended_hidden, moments)
    squares = tf.reduce_sum(products * extended_hidden, axis=1)
    return epsilon * words + tf.nn.relu(squares), products  # rounding can make zero negative


def _log_sums(extended_hidden, moments, epsilon, *scored):
    """ln Σ_v f(x_v), (N,); what is scored is as in `_restored`."""
    known = sums(extended_hidden, moments, epsilon, scored[0].shape[0])[:1]
    (totals,) = _restored(known, extended_hidden, moments, epsilon, *scored)
    return tf.math.log(totals)


def _restored(known, extended_hidden, moments, epsilon, kernel, bias, hidden=None, labels=None):
    """Σ_v f(x_v) and, if they are known too, the labels' scores, (N,) each.

    Both are formed from all scores at the positions where the terms of ĥᵀ Q ĥ cancel.

    Args:
        known: [Σ_v f(x_v) by `sums`], and perhaps the labels' scores, (N,) each.
        extended_hidden, moments, epsilon: as in `sums`.
        kernel, bias: (V, D) and (V,) or None.
        hidden: (N, D), whose products with the kernel are the scores; None for ĥ without its end.
        labels: (N,) int32.
    """
    # Σ ĥ_i² Q_ii, of which the rounding of Q is a share that is about as large for all Q and ĥ.
    diagonal = tf.reduce_sum(moments * np.eye(moments.shape[0]), axis=0)  # as OpenVINO knows it
    sizes = tf.linalg.matvec(tf.square(extended_hidden), diagonal)
    lost = sizes > MOST_CANCELLATION * known[0]
    hidden = extended_hidden[:, :-1] if hidden is None else hidden

    def restored():
        # XLA, whose shapes are fixed, forms the scores of all positions if any is lost.
        (places,) = kept_where(lost, tf.range(tf.size(lost))[:, None])

        def chunk(hidden, *labels):
            scores = full_logits(hidden, kernel, bias)
            found = [tf.reduce_sum(tf.square(scores) + epsilon, axis=1)]
            return found + [tf.gather(scores, label, batch_dims=1) for label in labels]

        # TensorFlow needs the same kind of gradient from both branches: that of a product is dense.
        rows = [1.0 * hidden] + ([] if labels is None else [labels])
        rows = [tf.gather_nd(t, places) for t in rows]
        found = map_row_chunks(chunk, rows[0], kernel.shape[0], *rows[1:])
        return [tf.tensor_scatter_nd_update(*t) for t in zip(known, [places] * 2, found)]

    return tf.cond(tf.reduce_any(lost), restored, lambda: list(known))


def _nats_by_moments(hidden, kernel, bias, labels, epsilon):
    """(N,) nats, and a function of their upstream gradients."""
    extended_hidden, units = with_one(hidden), kernel.shape[1]
    wide = _float(kernel)
    moments = second_moments(wide, bias)
    totals, products = sums(extended_hidden, moments, epsilon, kernel.shape[0])
    scores, rows = label_logits(hidden, wide, bias, labels)
    rows = tf.concat([rows, tf.gather(bias, labels)[:, None]], axis=1)
    totals, scores = _restored(
        [totals, scores], extended_hidden, moments, epsilon, wide, bias, labels=labels
    )

    def gradient(upstream):
        factors = 2 * upstream / totals
        slopes = upstream * label_slopes(scores, epsilon)
        d_hidden = factors[:, None] * products - slopes[:, None] * rows
        weighted = factors[:, None] * extended_hidden
        gram = tf.matmul(extended_hidden, weighted, transpose_a=True)
        d_kernel = tf.matmul(wide, gram[:units, :units]) + bias[:, None] * gram[units, :units]
        d_bias = tf.linalg.matvec(wide, gram[:units, units]) + bias * gram[units, units]
        places = labels[:, None]
        d_kernel = tf.tensor_scatter_nd_sub(d_kernel, places, slopes[:, None] * hidden)
        return d_hidden[:, :units], d_kernel, tf.tensor_scatter_nd_sub(d_bias, places, slopes)

    return tf.math.log(totals) - log_values(scores, epsilon), gradient


def _if_few(hidden, few, many):
    """`few()` for 3 N < 2 D positions, whose logits cost less than the moments, else `many()`."""
    count, units = hidden.shape
    if may_be_exported():  # Converters know no such condition, nor some operations of `many`.
        return few()
    if count is not None:
        return few() if 3 * count < 2 * units else many()
    return tf.cond(3 * tf.shape(hidden)[0] < 2 * units, few, many)


def _float(tensor):
    return tf.cast(tensor, tf.float32)
