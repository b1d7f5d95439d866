"""A step of gradient descent on all rows of a matrix Ŵ = A U that reads only the labels' rows.

The gradients of the spherical family (`survey.spherical_distribution`) are Ŵ G minus rows E of
labels. With the rate η and P, which zeroes the columns that are not trained, a step is

    Ŵ' = Ŵ T + η E P,   T = I - η G P:   U' = U T,   A' = A + η E P U'⁻¹.

Other rows of A stay as they are. Q = Ŵᵀ Ŵ follows: with F = η E P and the labels' rows R of Ŵ T,

    Q' = Tᵀ Q T + Fᵀ (R + F / 2) + (R + F / 2)ᵀ F.

T shrinks U where hidden states are large, and A' loses the digits that U'⁻¹ multiplies. Once the
singular values of U, or their inverses, exceed `LIMIT` in their root mean square, or U has no
inverse, A becomes A U, and U the identity, at a cost of 2 V E² multiplications. Q is then computed
anew.

Source: Vincent, de Brébisson and Bouthillier 2015. Departures: the steps are those of batches;
U'⁻¹ is computed from U' in each step; and all of A is renewed at once, when it has to be.

Shapes: N positions, V words, E columns.
"""

import numpy as np
import tensorflow as tf

from tfsoftmax.ops.chunks import in_turn
from tfsoftmax.ops.replicas import gathered_rows
from tfsoftmax.support import budgets

LIMIT = 10.0


def descend(rows, mixer, moments, hidden, labels, factors, slopes, rate, trained):
    """Makes a step on A, U and Q.

    Args:
        rows, mixer, moments: variables A (V, E), U (E, E) and Q (E, E), float32.
        hidden: (N, E), ĥ.
        labels: (N,) int32.
        factors: (N,), g, so that G = Σ g ĥ ĥᵀ.
        slopes: (N,), of which the row of E for a label has Σ slope ĥ.
        rate: scalar, η.
        trained: (E,) float32, the diagonal of P.
    """
    size = hidden.shape[1]
    identity = tf.eye(size)
    gram = tf.matmul(hidden, factors[:, None] * hidden, transpose_a=True)
    shrink = identity - rate * gram * trained
    mixed = tf.matmul(mixer, shrink)
    carried = tf.matmul(shrink, tf.matmul(moments, shrink), transpose_a=True)
    # `inv` fails where a matrix is singular, which `fold` handles, and where it is not finite,
    # which would hide that training diverges. The logarithm of the determinant is -inf or NaN.
    _, log_volume = tf.linalg.slogdet(mixed)
    inverse = tf.linalg.inv(tf.where(tf.math.is_finite(log_volume), mixed, identity))
    spread = tf.maximum(tf.norm(mixed), tf.norm(inverse)) / size**0.5

    def folded():
        return fold(rows, mixed), identity, identity

    carried, mixed, inverse = tf.cond(
        (spread > LIMIT) | (log_volume == -np.inf), folded, lambda: (carried, mixed, inverse)
    )
    ids, place = tf.unique(labels)
    added = tf.math.unsorted_segment_sum(slopes[:, None] * hidden, place, tf.size(ids))
    added *= rate * trained
    own = tf.matmul(gathered_rows(rows, ids), mixed)
    half = tf.matmul(added, own + added / 2, transpose_a=True)
    rows.scatter_add(tf.IndexedSlices(tf.matmul(added, inverse), ids))
    mixer.assign(mixed)
    moments.assign(carried + half + tf.transpose(half))


def fold(rows, mixer):
    """Makes A the product A U, a chunk of rows at a time, and returns its second moments."""

    def chunk(ids):
        folded = tf.matmul(gathered_rows(rows, ids), mixer)
        rows.scatter_update(tf.IndexedSlices(folded, ids))
        return folded

    return second_moments(chunk, *rows.shape)


def second_moments(rows, words, size):
    """Σ r rᵀ, (E, E), over rows (n, E) of ids (n,), which a function returns, a chunk at a time."""
    most = max(1, budgets.BLOCK_BYTES // (4 * size))

    def visit(i, total):
        chunk = rows(tf.range(i * most, tf.minimum((i + 1) * most, words)))
        term = tf.matmul(chunk, chunk, transpose_a=True)
        return [], term if total is None else total + term

    return in_turn(visit, -(-words // most))[1]
