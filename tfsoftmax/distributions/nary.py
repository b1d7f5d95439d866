"""Probabilities of the words of a tree with any number of children: a softmax at each node.

    ln P(w | h) = Σ over the path of w of  z_e - ln Σ exp z_c,   z_e = θ_e h + b_e,

where e is the edge that the path takes and c runs over all edges below the same node. Edges below
a node are numbered consecutively, so that a node's part of the kernel is a range of its rows.

Only the nodes on the paths of the batch are computed. The steps of all paths are sorted by node,
and a loop takes one node after the other, with the positions that pass it and its own rows. So
neither positions nor children are padded, as they are under XLA (`distributions.nary_tiles`). The
rows (M, D) of all nodes are gathered before the loop; to gather those of each node where they are
used was no faster for a step with its update.

Shapes: N positions, D hidden units, V words, E edges, L the depth of the tree, R steps of paths,
M rows of the nodes that occur.
Source: Mao 2019; with two levels Goodman 2001, Mikolov et al. 2011.
"""

import dataclasses
import typing

import tensorflow as tf

from tfsoftmax.distributions import nary_tiles
from tfsoftmax.distributions.base import HandWritten, Objective
from tfsoftmax.distributions.factored import Factored, tensors
from tfsoftmax.ops.graphs import may_be_exported, under_xla
from tfsoftmax.ops.logits import rows_of
from tfsoftmax.ops.subsets import sums_of_sorted
from tfsoftmax.partitions.tree import Tree
from tfsoftmax.support import budgets


class Layout(typing.NamedTuple):
    """What the losses have to know of a tree, as tensors or variables.

    Attributes:
        paths: (V, L) int32, the edges of each word's path, filled up with -1.
        owners: (E,) int32, the node above each edge.
        starts: (I,) int32, the first edge below each node.
        sizes: (I,) int32, the number of edges below each node.
        leaves: (V,) int32, the edge that ends in each word.

    Example:
        from tfsoftmax.distributions.nary import Layout
        tree = tfsoftmax.NarySoftmax(5, "balanced").tree
        layout = Layout(tree.paths(), tree.owners, tree.starts, tree.sizes, tree.leaves)
    """

    paths: tf.Tensor
    owners: tf.Tensor
    starts: tf.Tensor
    sizes: tf.Tensor
    leaves: tf.Tensor


@dataclasses.dataclass(frozen=True)
class Nary(Factored):
    """P(w | h) as the product of softmaxes on the path to w.

    Attributes:
        kernel: (E, D) float32 tensor or variable, one row an edge.
        bias: (E,) float32 tensor or variable, or None.
        tree: the `Tree`.
        layout: its `Layout`.
        bounds: `nary_tiles.Bounds`, what is known of all batches.

    Example:
        head = tfsoftmax.ClassSoftmax(1000)
        head.build((None, 64))
        assert isinstance(head.distribution(), tfsoftmax.distributions.nary.Nary)
    """

    kernel: tf.Tensor
    bias: tf.Tensor | None
    tree: Tree
    layout: Layout
    bounds: nary_tiles.Bounds

    @property
    def vocab_size(self) -> int:
        return self.layout.leaves.shape[0]

    def nats(self, hidden, labels):
        return self._paths(labels).nats(hidden, labels)

    def weighted_nats(self, hidden, labels, weights):
        return self._paths(labels).weighted_nats(hidden, labels, weights)

    def full_pass(self):
        parameters = tensors(self.kernel, self.bias)
        leaves = tf.convert_to_tensor(self.layout.leaves)
        return lambda hidden: all_log_probs(hidden, *parameters, self.tree, leaves)

    def _paths(self, labels):
        edges = tf.gather(self.layout.paths, labels)
        nodes = tf.gather(self.layout.owners, tf.maximum(edges, 0))
        _, _, starts, sizes, _ = self.layout
        steps = steps_of(edges, nodes, starts, sizes, self.bounds)
        return paths_of(self.kernel, self.bias, steps)


@dataclasses.dataclass(frozen=True)
class _Steps:
    """The steps of the paths of a batch, sorted by node.

    Attributes:
        positions: (R,) int32, the position whose path has the step.
        targets: (R,) int32, the number of the edge taken among those below its node.
        ends: (G,) int32, the index after the last step of each node that occurs.
        rows: (M,) int32, the edges below these nodes, one node after the other.
        row_ends: (G,) int32, the index after the last row of each node.
        places: (N, L) int32, where the steps of each path stand, and R where it has ended.
    """

    positions: tf.Tensor
    targets: tf.Tensor
    ends: tf.Tensor
    rows: tf.Tensor
    row_ends: tf.Tensor
    places: tf.Tensor


def steps_of(paths, nodes, starts, sizes, bounds, members=None):
    """The steps of some paths.

    Args:
        paths: (N, L) int32, the edges of each path, filled up with -1.
        nodes: (N, L) int32, the node above each of these edges.
        starts: (I,) int32, the first edge below each node.
        sizes: (I,) int32, the number of edges below each node.
        bounds: `nary_tiles.Bounds`, what is known of all batches.
        members: (E,) int32, the row of each edge in the kernel, or None where they have the same
            numbers.

    Returns:
        `_Steps`, or `TiledSteps` under XLA.
    """
    if under_xla():
        return nary_tiles.tiled_steps(paths, nodes, starts, sizes, bounds, members)
    taken = tf.where(paths >= 0)
    nodes, taken_edges = tf.gather_nd(nodes, taken), tf.gather_nd(paths, taken)
    order = tf.argsort(nodes, stable=True)
    taken, nodes, taken_edges = (tf.gather(t, order) for t in (taken, nodes, taken_edges))
    count = tf.size(order)
    last = tf.concat([nodes[1:] != nodes[:-1], tf.fill([tf.minimum(count, 1)], True)], 0)
    ends = tf.cast(tf.where(last)[:, 0], tf.int32) + 1  # of the steps of each node
    places = tf.tensor_scatter_nd_update(tf.fill(tf.shape(paths), count), taken, tf.range(count))
    places.set_shape(paths.shape)
    present = tf.gather(nodes, ends - 1)
    first, size = tf.gather(starts, present), tf.gather(sizes, present)
    row_ends = tf.cumsum(size)
    rows = tf.repeat(first - row_ends + size, size) + tf.range(tf.reduce_sum(size))
    rows = rows if members is None else tf.gather(members, rows)
    targets = taken_edges - tf.gather(starts, nodes)
    return _Steps(tf.cast(taken[:, 0], tf.int32), targets, ends, rows, row_ends, places)


def paths_of(
    kernel: tf.Tensor, bias: tf.Tensor | None, steps: "_Steps | nary_tiles.TiledSteps"
) -> Objective:
    """The cross-entropy of the words at the ends of some paths, whichever labels it is given.

    Args:
        kernel, bias: as in `Nary`.
        steps: what `steps_of` returns for the paths.
    """
    if isinstance(steps, nary_tiles.TiledSteps):
        return _TiledPaths(kernel, bias, steps)
    biases = None if bias is None else rows_of(bias, steps.rows)
    return _Paths((rows_of(kernel, steps.rows), biases), steps)


@dataclasses.dataclass(frozen=True)
class _Paths(HandWritten):
    """The gradient of the kernel is an IndexedSlices without duplicates.

    Attributes:
        parameters: rows (M, D) and biases (M,) or None of the nodes that occur.
        steps: `_Steps` of the paths.
    """

    parameters: tuple[tf.Tensor, tf.Tensor | None]
    steps: "_Steps"

    def forward(self, hidden, labels, parameters):
        return _by_node(tf.cast(hidden, tf.float32), *parameters, self.steps)

    def backward(self, hidden, labels, weights, parameters):
        hidden = tf.cast(hidden, tf.float32)
        nats, *gradients = _by_node(hidden, *parameters, self.steps, weights)
        return [nats, nats], gradients


@dataclasses.dataclass(frozen=True)
class _TiledPaths(Objective):
    """The same for XLA."""

    kernel: tf.Tensor
    bias: tf.Tensor | None
    steps: nary_tiles.TiledSteps
    are_exact = True

    def nats(self, hidden, labels):
        return nary_tiles.path_nats(hidden, self.kernel, self.bias, self.steps)


def _by_node(hidden, rows, biases, steps, weights=None):
    """Nats (N,) and, given weights (N,), the gradients of Σ weights · nats."""
    if weights is None and may_be_exported():
        return _nats_by_node(hidden, rows, biases, steps)
    size = hidden.shape[1]
    of_steps = [tf.gather(t, steps.positions) for t in (hidden, weights) if t is not None]
    of_steps.append(steps.targets)
    parameters = [rows] if biases is None else [rows, biases]
    bounds = [tf.concat([[0], ends], 0) for ends in (steps.ends, steps.row_ends)]
    count = tf.size(steps.ends)
    shapes = [[]] if weights is None else [[], [size], [size], []]
    arrays = [
        tf.TensorArray(tf.float32, count + 1, element_shape=[None, *shape], infer_shape=False)
        for shape in shapes[: 2 + len(parameters)]
    ]
    # At the end a step of zeros, where `places` points, and no row.
    lengths = [1, 1, 0, 0]
    arrays = [a.write(count, tf.zeros([n, *s])) for a, n, s in zip(arrays, lengths, shapes)]

    def body(i, arrays):
        step, row = (slice(bound[i], bound[i + 1]) for bound in bounds)  # These make views.
        part = _node([t[row] for t in parameters], *[t[step] for t in of_steps])
        return i + 1, [array.write(i, value) for array, value in zip(arrays, part)]

    _, arrays = tf.while_loop(
        lambda i, _: i < count, body, (0, arrays), parallel_iterations=budgets.PARALLEL_NODES
    )
    nats, *gradients = [array.concat() for array in arrays]
    nats = _sum_of_levels(nats, steps)
    return nats if weights is None else [nats, _sum_of_levels(gradients[0], steps), *gradients[1:]]


def _nats_by_node(hidden, rows, biases, steps):
    """Nats (N,), by operations that converters for other runtimes know."""
    hidden = tf.gather(hidden, steps.positions)

    def body(i, step, row, nats):
        here, edges = tf.range(step, steps.ends[i]), tf.range(row, steps.row_ends[i])
        scores = tf.matmul(tf.gather(hidden, here), tf.gather(rows, edges), transpose_b=True)
        scores = scores if biases is None else scores + tf.gather(biases, edges)
        taken = tf.gather(scores, tf.gather(steps.targets, here), batch_dims=1)
        own = tf.reduce_logsumexp(scores, axis=1) - taken
        nats = tf.tensor_scatter_nd_update(nats, here[:, None], own)
        return i + 1, steps.ends[i], steps.row_ends[i], nats

    start = 0, 0, 0, tf.zeros([tf.size(steps.positions) + 1])
    nats = tf.while_loop(lambda i, *_: i < tf.size(steps.ends), body, start)[-1]
    return _sum_of_levels(nats, steps)


def _sum_of_levels(by_step, steps):
    """The sums (N, ...) over each path of a tensor (R + 1, ...) that ends in zeros."""
    # Gathers copy whole rows; a sum over segments takes several times as long for few levels.
    total, *others = [tf.gather(by_step, places) for places in tf.unstack(steps.places, axis=1)]
    for other in others:
        total += other
    return total


def _node(parameters, hidden, *weights_and_targets):
    """One node: nats (n,) and, given weights (n,), gradients of hidden, rows and biases."""
    *weights, targets = weights_and_targets
    rows, *biases = parameters
    scores = tf.matmul(hidden, rows, transpose_b=True)
    for bias in biases:
        scores = tf.nn.bias_add(scores, bias)
    nats, slopes = tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(features=scores, labels=targets)
    if not weights:
        return [nats]
    slopes *= weights[0][:, None]
    d_parameters = [tf.matmul(slopes, hidden, transpose_a=True), tf.reduce_sum(slopes, 0)]
    return [nats, tf.matmul(slopes, rows), *d_parameters[:len(parameters)]]


def all_log_probs(hidden, kernel, bias, tree, leaves):
    """ln P(w | h) of all words by sums down the tree, one level after the other, in O(N E D).

    Args:
        hidden: (N, D) float.
        kernel: (E, D) float32.
        bias: (E,) float32, or None.
        tree: `tfsoftmax.partitions.tree.Tree`, or an object that has its `levels`, `owners`,
            `entries`, `starts` and `sizes`.
        leaves: (V,) int32 tensor, the edge that ends in each word.

    Returns:
        (N, V) float32.
    """
    # Edges come first in all tensors, because a gather copies whole rows fast.
    scores = tf.matmul(kernel, tf.cast(hidden, tf.float32), transpose_b=True)
    scores = scores if bias is None else scores + bias[:, None]
    # TFLite has a sum over sorted segments, which is the faster one, but no maximum.
    log_sums = _log_sums(scores, tree.owners)  # of each node
    levels, offset = [], 0
    for first, last in tree.levels:
        above = -log_sums[first:last]
        if first:
            above += tf.gather(levels[-1], tree.entries[first:last] - offset)
        offset, end = tree.starts[first], tree.starts[last - 1] + tree.sizes[last - 1]
        owners = tree.owners[offset:end] - first
        levels.append(scores[offset:end] + tf.gather(above, owners))
    return tf.transpose(tf.gather(tf.concat(levels, 0), leaves))


def _log_sums(scores, owners):
    """ln Σ exp of the scores (E, N) below each node, (I, N), for sorted owners (E,)."""
    # The greatest score of all stands for that of each node, which takes two passes less. A node
    # whose scores lie so far below it that their exponentials vanish has to be computed anew.
    greatest, nodes = tf.reduce_max(scores, axis=0), int(owners[-1]) + 1

    def by_node():
        greatest = tf.math.unsorted_segment_max(scores, owners, nodes)
        exps = tf.exp(scores - tf.gather(greatest, owners))
        return greatest + tf.math.log(sums_of_sorted(exps, owners))

    if may_be_exported():  # OpenVINO's CPU plugin returns wrong numbers from some conditions
        return by_node()
    sums = sums_of_sorted(tf.exp(scores - greatest), owners)
    return tf.cond(tf.reduce_min(sums) > 1e-20, lambda: greatest + tf.math.log(sums), by_node)
