"""What `distributions.nary` computes, in tensors of fixed sizes, which XLA needs.

The steps of all paths are sorted by node. Those of a node, and the edges below it, are cut into
tiles of TILE_STEPS steps and at most TILE_EDGES edges, which may reach beyond the node and are
masked there. Two loops do the matmuls, over as many tiles as the batch has: one fills the scores
(T, s, e) of all tiles, and the other adds the tiles' products to gradients of the size of the
parameters. T, and with it the memory, is what a batch of the words with the widest nodes needs.

Shapes: N positions, D hidden units, E edges, I nodes, L the depth of the tree, R = N L + s steps,
of which the last s are padding, T the largest number of tiles, of s steps and e edges each.
"""

import dataclasses
import typing

import numpy as np
import tensorflow as tf

from tfsoftmax.ops.custom_gradients import differentiable
from tfsoftmax.support import budgets
from tfsoftmax.support._compat import dynamic_slice, dynamic_update_slice

MASKED = -1e30  # A score. With -inf, tiles that are not used would be NaN.


class Bounds(typing.NamedTuple):
    """What is known of all batches.

    Attributes:
        edges: E.
        width: e, the edges of a tile.
        tiles: the most tiles side by side that the nodes of a path have together.

    Example:
        from tfsoftmax.distributions.nary_tiles import bounds
        print(bounds(sizes=[[30, 7], [30, 300]], edges=337))  # edges, width, tiles
    """

    edges: int
    width: int
    tiles: int


def bounds(sizes, edges):
    """The `Bounds` of a tree of `edges`, from the sizes (V, L) of the nodes on each path, or 0."""
    sizes = np.asarray(sizes)
    width = int(min(budgets.TILE_EDGES, -(-sizes.max() // 16) * 16, edges))
    return Bounds(edges, width, int((-(-sizes // width)).sum(axis=1).max()))


@dataclasses.dataclass(frozen=True)
class TiledSteps:
    """The steps of the paths of a batch, sorted by node, in tiles.

    Attributes:
        positions: (R,) int32, the position whose path has the step.
        targets: (R,) int32, the edge taken, and -1 where a path has ended.
        places: (N, L) int32, where the steps of each path stand.
        count: scalar int32, the number of tiles in use.
        fit: scalar bool, whether there are as many.
        steps: (T, s) int32, the steps of each tile.
        own_steps: (T, s) bool, whether they are at the tile's node.
        edges: (T, e) int32, the edges of each tile, which follow one another.
        own_edges: (T, e) bool, whether they are below the tile's node and in no tile before.
        members: (E,) int32, the rows of the edges in the kernel, or None where they have the same
            numbers.
    """

    positions: tf.Tensor
    targets: tf.Tensor
    places: tf.Tensor
    count: tf.Tensor
    fit: tf.Tensor
    steps: tf.Tensor
    own_steps: tf.Tensor
    edges: tf.Tensor
    own_edges: tf.Tensor
    members: tf.Tensor | None


def tiled_steps(paths, nodes, starts, sizes, bounds, members=None):
    """The steps of some paths.

    Args:
        paths, nodes, starts, sizes, bounds, members: as in `nary.steps_of`.

    Returns:
        `TiledSteps`.
    """
    (edges, width, wide), count = bounds, tf.size(starts)
    ended = tf.reshape(paths < 0, [-1])
    nodes = tf.where(ended, count, tf.reshape(nodes, [-1]))  # the ended ones come last
    order = tf.argsort(nodes, stable=True)
    positions, targets = order // paths.shape[1], tf.gather(tf.reshape(paths, [-1]), order)
    steps = tf.math.unsorted_segment_sum(tf.ones_like(nodes), nodes, count)
    down, across = -(-steps // budgets.TILE_STEPS), -(-sizes // width)
    last_step, last_tile = tf.cumsum(steps), tf.cumsum(down * across)
    # A node of n steps has at most n // s rows of tiles, and one more if it occurs at all.
    widest = tf.shape(paths)[0] * wide
    bound = widest // budgets.TILE_STEPS + tf.minimum(edges // width + count, widest)
    bound = tf.maximum(bound, 1)  # XLA takes no slices of nothing
    tile = tf.range(bound)
    ends = tf.minimum(last_tile, bound)
    ends = tf.math.unsorted_segment_sum(tf.ones_like(sizes), ends, bound + 1)[:-1]
    node = tf.minimum(tf.cumsum(ends), count - 1)

    def of_node(tensor):
        return tf.gather(tensor, node)[:, None]

    within = tile[:, None] - of_node(last_tile - down * across)
    in_tile = within // of_node(across), within % of_node(across)
    of_steps = in_tile[0] * budgets.TILE_STEPS + tf.range(budgets.TILE_STEPS)
    of_steps += of_node(last_step - steps)
    first = of_node(starts) + in_tile[1] * width
    of_edges = tf.minimum(first, edges - width) + tf.range(width)
    return TiledSteps(
        tf.pad(positions, [[0, budgets.TILE_STEPS]]),
        tf.pad(targets, [[0, budgets.TILE_STEPS]], constant_values=-1),
        tf.reshape(tf.argsort(order), tf.shape(paths)),
        last_tile[-1],
        last_tile[-1] <= bound,
        tf.minimum(of_steps, tf.size(order)),
        (of_steps < of_node(last_step)) & (tile < last_tile[-1])[:, None],
        of_edges,
        (of_edges >= first) & (of_edges < of_node(starts + sizes)),
        members,
    )


def path_nats(hidden, kernel, bias, steps):
    """Cross-entropy of the words at the ends of paths, in float32.

    Args:
        hidden: (N, D) float.
        kernel: (E, D) float tensor or variable.
        bias: (E,) float tensor or variable, or None.
        steps: `TiledSteps` of the N paths.

    Returns:
        (N,) float32, nats; NaN if nodes are larger than the bounds say. Differentiable with respect
        to hidden, kernel and bias; the gradients are dense.
    """

    def function(hidden, parameters):
        of_steps = _of_steps(tf.cast(hidden, tf.float32), steps)
        exps, sums, hits, nats = _exponentials(_scores(of_steps, parameters, steps), steps)

        def gradient(upstream):
            weights = tf.where(steps.targets >= 0, _of_steps(upstream, steps), 0.0)
            slopes = exps / tf.gather(sums, steps.steps)[:, :, None] - tf.cast(hits, tf.float32)
            own = steps.own_steps[:, :, None] & steps.own_edges[:, None]
            slopes = tf.where(own, slopes * tf.gather(weights, steps.steps)[:, :, None], 0.0)
            d_steps, *d_parameters = _products(slopes, of_steps, parameters, steps)
            return _sum_of_levels(d_steps, steps), d_parameters

        return tf.where(steps.fit, _sum_of_levels(nats, steps), np.nan), gradient

    parameters = [kernel] if bias is None else [kernel, bias]
    parameters = [p if p.dtype == tf.float32 else tf.cast(p, tf.float32) for p in parameters]
    return differentiable(function, hidden, parameters)


def _of_steps(tensor, steps):
    """What belongs to each step, (R, ...), of a tensor (N, ...)."""
    padding = [[0, 1]] + [[0, 0]] * (len(tensor.shape) - 1)  # XLA gathers nothing from no rows
    return tf.gather(tf.pad(tensor, padding), steps.positions)


def _sum_of_levels(by_step, steps):
    """The sums (N, ...) over each path of a tensor (R, ...)."""
    return tf.add_n([tf.gather(by_step, places) for places in tf.unstack(steps.places, axis=1)])


def _tile_of(parameters, steps, i):
    """The rows (e, ...) of each parameter for the edges of tile i."""
    if steps.members is not None:
        rows = tf.gather(steps.members, tf.gather(steps.edges, i))
        return [tf.gather(p, rows) for p in parameters]
    first = tf.gather(steps.edges[:, 0], i)
    return [_slice(p, first, steps.edges.shape[1]) for p in parameters]


def _slice(tensor, start, length):
    rest = tensor.shape[1:]
    return dynamic_slice(tensor, [start] + [0] * len(rest), [length, *rest])


def _scores(hidden, parameters, steps):
    """z (T, s, e) of all tiles in use, and zeros."""

    def body(i, scores):
        rows, *biases = _tile_of(parameters, steps, i)
        own = _slice(hidden, tf.gather(steps.steps[:, 0], i), budgets.TILE_STEPS)
        own = tf.matmul(own, rows, transpose_b=True)
        for bias in biases:
            own += bias
        return i + 1, dynamic_update_slice(scores, own[None], [i, 0, 0])

    shape = tf.concat([tf.shape(steps.steps), tf.shape(steps.edges)[1:]], 0)
    return tf.while_loop(lambda i, _: i < steps.count, body, (0, tf.zeros(shape)))[1]


def _exponentials(scores, steps):
    """exp(z - m) (T, s, e), Σ exp(z - m) (R,), which edge is taken (T, s, e), and nats (R,)."""
    number = tf.size(steps.targets)

    def over_tiles(segments, values):
        return segments(tf.reshape(values, [-1]), tf.reshape(steps.steps, [-1]), number)

    scores = tf.where(steps.own_edges[:, None], scores, MASKED)
    highest = tf.where(steps.own_steps, tf.reduce_max(scores, axis=2), MASKED)
    highest = over_tiles(tf.math.unsorted_segment_max, highest)
    exps = tf.exp(scores - tf.gather(highest, steps.steps)[:, :, None])
    hits = steps.edges[:, None] == tf.gather(steps.targets, steps.steps)[:, :, None]
    hits &= steps.own_edges[:, None]
    of_tiles = tf.reduce_sum(exps, axis=2), tf.reduce_sum(tf.where(hits, scores, 0.0), axis=2)
    sums, taken = (
        over_tiles(tf.math.unsorted_segment_sum, tf.where(steps.own_steps, t, 0.0))
        for t in of_tiles
    )
    nats = tf.where(steps.targets >= 0, highest + tf.math.log(sums) - taken, 0.0)
    return exps, sums, hits, nats


def _products(slopes, hidden, parameters, steps):
    """The gradients of the steps' hidden states (R, D), and of the parameters."""

    def body(i, totals):
        rows, *_ = _tile_of(parameters, steps, i)
        step, edge = (tf.gather(t[:, 0], i) for t in (steps.steps, steps.edges))
        own, of_tile = _slice(hidden, step, budgets.TILE_STEPS), tf.gather(slopes, i)
        products = [tf.matmul(of_tile, rows), tf.matmul(of_tile, own, transpose_a=True)]
        products.append(tf.reduce_sum(of_tile, axis=0))
        return i + 1, [
            _added(total, product, start)
            for total, product, start in zip(totals, products, [step, edge, edge])
        ]

    zeros = [tf.zeros_like(t) for t in (hidden, *parameters)]
    _, (d_hidden, *d_parameters) = tf.while_loop(
        lambda i, _: i < steps.count, body, (0, zeros)
    )
    if steps.members is not None:
        places = tf.argsort(steps.members)
        d_parameters = [tf.gather(d, places) for d in d_parameters]
    return d_hidden, *d_parameters


def _added(total, product, start):
    """`total` with a product added to its rows from `start` on."""
    rows = _slice(total, start, product.shape[0]) + product
    return dynamic_update_slice(total, rows, [start] + [0] * len(product.shape[1:]))
