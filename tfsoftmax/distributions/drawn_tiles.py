"""An unbiased gradient from a share of the tiles of the slopes, drawn at random.

The slopes M (n, V) of a chunk fall into tiles of TILE_WORDS consecutive words, of which most hold
next to no probability once a model is trained. Tile t is drawn with probability π_t, and then
divided by it, so that the means of

    dh = f Σ_drawn (M_t / π_t) W_t,    dW_t = (M_t / π_t)ᵀ (f h)

over all draws are the whole sums. The variance is least where π_t is in proportion to the norm of
the tile's gradient. For that stands the norm of Σ_n |w| p of its words, which is the gradient of
their biases if no weight w is negative: experiments/results/light_blocks compares it with the norm
itself and with other sizes.

Shapes: n positions, D hidden units, V words; a block of a kernel has R rows in R / G tiles, of
which K are drawn, and G is TILE_WORDS, or R if the block is smaller.
"""

import math
import typing
from collections.abc import Callable

import tensorflow as tf

from tfsoftmax.ops.inclusion import inclusion_probabilities, systematic_sample
from tfsoftmax.support import budgets

LEAST_SIZE = 1e-3  # of the mean size, so that slopes that underflow are drawn, too


class Draw(typing.NamedTuple):
    """How many tiles are drawn, and the random numbers that say which.

    Attributes:
        share: of the tiles of a chunk, in (0, 1]; their number is rounded up.
        offsets: function of N that returns (N,) float64, uniform in [0, 1), the same whenever it
            is called. A chunk uses that of its first position.

    Example:
        from tfsoftmax.distributions.drawn_tiles import Draw
        half = Draw(0.5, lambda count: keras.ops.zeros(count, "float64"))
    """

    share: float
    offsets: Callable[[tf.Tensor], tf.Tensor]


def drawn_tiles(slopes, masses, kernels, share, offset):
    """What a chunk draws of each block of the kernel.

    Args:
        slopes: list of (n, R) float32, M of each block.
        masses: list of (R,) float32, Σ_n |w| p of each word.
        kernels: list of (R, D).
        share: of the tiles, as in `Draw`.
        offset: scalar float64, uniform in [0, 1).

    Returns:
        For each block, M / π (n, K G) of its drawn tiles, their rows of the kernel (K G, D), and
        their numbers in the block (K,).
    """
    counts = [kernel.shape[0] // _words(kernel) for kernel in kernels]
    sizes = [tf.norm(tf.reshape(m, [t, -1]), axis=1) for m, t in zip(masses, counts)]
    drawn = math.ceil(share * sum(counts))
    inclusion = inclusion_probabilities(tf.concat(sizes, 0), drawn, LEAST_SIZE)
    tiles = systematic_sample(inclusion, drawn, offset)
    scales, results, first = tf.cast(1 / tf.gather(inclusion, tiles), tf.float32), [], 0
    for m, kernel, count in zip(slopes, kernels, counts):
        inside = (tiles >= first) & (tiles < first + count)
        own, scale = (tf.boolean_mask(t, inside) for t in (tiles - first, scales))
        m = tf.gather(tf.reshape(m, [-1, count, _words(kernel)]), own, axis=1) * scale[:, None]
        m = tf.reshape(m, [tf.shape(m)[0], tf.size(own) * _words(kernel)])
        kernel = tf.reshape(tf.gather(_tiles(kernel), own), [-1, kernel.shape[1]])
        results.append((m, kernel, own))
        first += count
    return results


def add_to_tiles(total, product, numbers):
    """Adds the product (K G, D) of some tiles to the gradient (R, D) of their block."""
    tiles = _tiles(total)
    product = tf.reshape(product, [-1, *tiles.shape[1:]])
    return tf.reshape(tf.tensor_scatter_nd_add(tiles, numbers[:, None], product), total.shape)


def _words(rows):
    return min(budgets.TILE_WORDS, rows.shape[0])


def _tiles(rows):
    """(R / G, G, D) for (R, D)."""
    return tf.reshape(rows, [-1, _words(rows), rows.shape[1]])
