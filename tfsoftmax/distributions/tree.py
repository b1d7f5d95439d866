"""Probabilities of the words of a binary tree: the product of the decisions on their paths.

With the sign d = ±1 of an edge and the score z_n = θ_n h + b_n of the node above it, the edge is
taken with probability σ(d z_n). So

    -ln P(w | h) = Σ ζ(-d z_n) over the path of w,    ζ(x) = ln(1 + eˣ),

and the derivative with respect to z_n is -d σ(-d z_n). Edge 2n of node n has d = +1, and edge
2n + 1 has d = -1.

Shapes: N positions, D hidden units, V words, L the depth of the tree, R steps of paths, U nodes.
Source: Jiang et al. 2017, equations 2-6.
"""

import dataclasses

import tensorflow as tf

from tfsoftmax.distributions.factored import Factored, tensors
from tfsoftmax.distributions.sparse_product import sparse_product
from tfsoftmax.distributions.tree_search import best_first, walk
from tfsoftmax.ops import chunks
from tfsoftmax.ops.custom_gradients import custom_gradient
from tfsoftmax.ops.graphs import may_be_exported
from tfsoftmax.ops.logits import label_logits, rows_of
from tfsoftmax.ops.ranking import given
from tfsoftmax.partitions.tree import Tree
from tfsoftmax.support import budgets


@dataclasses.dataclass(frozen=True)
class BinaryPaths(Factored):
    """P(w | h) as the product of the decisions on the path to w.

    Losses compute the nodes on the paths of the labels.

    Attributes:
        kernel: (V-1, D) float32 tensor or variable, one row a node.
        bias: (V-1,) float32 tensor or variable, or None.
        tree: the `Tree`.
        above, leaves, children: tensors or variables with what `Tree.above`, `Tree.leaves` and
            `Tree.children` say.
        sequential: whether losses compute one level of the tree after the other.

    Example:
        head = tfsoftmax.TreeSoftmax(1000)
        head.build((None, 64))
        words = head.distribution().sample(keras.random.normal((8, 64)), (0, 1))
    """

    kernel: tf.Tensor
    bias: tf.Tensor | None
    tree: Tree
    above: tf.Tensor
    leaves: tf.Tensor
    children: tf.Tensor
    sequential: bool = False

    @property
    def vocab_size(self) -> int:
        return self.leaves.shape[0]

    def nats(self, hidden, labels):
        leaves = tf.gather(self.leaves, labels)
        paths = paths_upwards(leaves, self.above, len(self.tree.levels))
        nats = sequential_path_nats if self.sequential else path_nats
        return nats(hidden, self.kernel, self.bias, paths)

    def full_pass(self):
        parameters, leaves = tensors(self.kernel, self.bias), tf.convert_to_tensor(self.leaves)
        layout = self.tree.levels, self.tree.entries, leaves
        return lambda hidden: all_log_probs(hidden, *parameters, *layout)

    def top_k(self, hidden, k, excluded=None):
        parameters, children = [self.kernel, self.bias], self.children
        if may_be_exported():  # Converters know no gather from a variable within a loop.
            parameters, children = tensors(*parameters), tf.convert_to_tensor(children)

        def chunk(rows, excluded=None):
            log_probs, ids, done = best_first(rows, *parameters, children, k, excluded)
            return tf.cond(done, lambda: (ids, log_probs), lambda: by_full_pass(rows, k, excluded))

        by_full_pass = super().top_k
        # The search holds the rows of the nodes that it opens, and a kernel row is D wide.
        opened = max(budgets.OPENED_NODES, k) * hidden.shape[1]
        most = chunks.chunk_rows(2 * 4 * opened)
        return chunks.map_chunks(chunk, hidden, most, *given(excluded))

    def sample(self, hidden: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """A random word of each position, (N,) int32, by a stateless seed (2,)."""
        return walk(
            hidden, self.kernel, self.bias, self.children, len(self.tree.levels), seed
        )


def paths_upwards(leaves, above, depth):
    """The edges of paths, from the words up to the root.

    Args:
        leaves: (N,) int32, the edge that ends in each word.
        above: (1 + E,) int32 tensor or variable, what `Tree.above` returns.
        depth: L, the depth of the tree.

    Returns:
        (N, L) int32, filled up with -1.
    """
    edges = [leaves]
    for _ in range(depth - 1):
        edges.append(tf.gather(above, edges[-1] + 1))
    return tf.stack(edges, axis=1)


def signs(edges):
    """d of each edge: float32 ±1."""
    return 1.0 - 2.0 * tf.cast(edges % 2, tf.float32)


def path_nats(hidden, kernel, bias, edges):
    """Cross-entropy of the words at the ends of paths, with all steps of all paths at once.

    Each node that occurs is gathered once, so that the gradient is an IndexedSlices without
    duplicates. The top nodes are scored by a matmul, and the steps below them one by one, in
    chunks. The gradients of these are products with a sparse matrix (N, U).

    Args:
        hidden: (N, D) float.
        kernel: (V-1, D) float32 tensor or variable.
        bias: (V-1,) float32 tensor or variable, or None.
        edges: (N, L) int32, the path of each position, filled up with -1.

    Returns:
        (N,) float32, nats. Differentiable with respect to hidden, kernel and bias.
    """
    top = min(budgets.TOP_NODES, kernel.shape[0])
    upper = _steps((edges >= 0) & (edges < 2 * top), edges)
    positions, nodes, below_signs = _steps(edges >= 2 * top, edges)
    below, local = tf.unique(nodes)
    gathered = tf.concat([tf.range(top), below], 0)
    rows = rows_of(kernel, gathered)
    biases = tf.zeros(tf.shape(gathered)) if bias is None else rows_of(bias, gathered)
    lower = positions, local + top, below_signs
    return _nats(tf.cast(hidden, tf.float32), rows, biases, top, upper, lower)


def _steps(chosen, edges):
    """Positions, nodes and signs (R,) of the edges that `chosen` (N, L) marks, by position."""
    index = tf.where(chosen)
    taken = tf.gather_nd(edges, index)
    return tf.cast(index[:, 0], tf.int32), taken // 2, signs(taken)


def _nats(hidden, rows, biases, top, upper, lower):
    """Nats (N,) from gathered rows (U, D), of which the first `top` are the top nodes.

    `upper` and `lower` are the steps at the top nodes and at the others: their positions, the
    numbers of their nodes among the rows, and their signs.
    """
    positions, nodes, _ = lower
    index = tf.stack(upper[:2], 1)
    all_positions, all_nodes, all_signs = (tf.concat(both, 0) for both in zip(upper, lower))

    @custom_gradient
    def differentiable(hidden, rows, biases):
        at_top = tf.gather_nd(tf.matmul(hidden, rows[:top], transpose_b=True), index)
        scores = tf.concat([at_top, _scores(hidden, rows, positions, nodes)], 0)
        against = -all_signs * (scores + tf.gather(biases, all_nodes))
        nats = tf.math.unsorted_segment_sum(
            tf.nn.softplus(against), all_positions, tf.shape(hidden)[0]
        )

        def gradient(upstream):
            slopes = -all_signs * tf.sigmoid(against) * tf.gather(upstream, all_positions)
            d_biases = tf.math.unsorted_segment_sum(slopes, all_nodes, tf.shape(rows)[0])
            at_top, below = tf.split(slopes, [tf.shape(index)[0], tf.size(nodes)])
            at_top = tf.scatter_nd(index, at_top, tf.stack([tf.shape(hidden)[0], top]))
            d_hidden = tf.matmul(at_top, rows[:top])
            d_hidden += sparse_product(positions, nodes, below, rows, tf.shape(hidden)[0])
            order = tf.argsort(nodes, stable=True)
            by_node = [tf.gather(t, order) for t in (nodes, positions, below)]
            d_rows = sparse_product(*by_node, hidden, tf.shape(rows)[0])
            # A concatenation copies all rows, and so does tensor_scatter_nd_add, in twice the time.
            d_top = d_rows[:top] + tf.matmul(at_top, hidden, transpose_a=True)
            d_rows = tf.concat([d_top, d_rows[top:]], 0)
            return d_hidden, d_rows, d_biases

        return nats, gradient

    return differentiable(hidden, rows, biases)


def _scores(hidden, rows, positions, nodes):
    """h·θ of each step (R,), in chunks."""
    # Without steps, one of padding has to find a row.
    hidden = tf.pad(hidden, [[0, tf.cast(tf.size(nodes) == 0, tf.int32)], [0, 0]])

    def chunk(positions, nodes, _):
        return tf.reduce_sum(tf.gather(hidden, positions) * tf.gather(rows, nodes), 1), []

    return chunks.sum_over_chunks(chunk, budgets.PATH_STEPS, positions, nodes)[0]


def sequential_path_nats(hidden, kernel, bias, edges):
    """The same as `path_nats`, but one level of the tree after the other: the conventional tHSM.

    Arguments and result are those of `path_nats`. The gradient of the kernel has a row for each
    step.
    """
    hidden = tf.cast(hidden, tf.float32)
    nats = tf.zeros(tf.shape(hidden)[:1])
    for level in tf.unstack(edges, axis=1):
        on_path = tf.cast(level >= 0, tf.float32)
        node, bit = tf.maximum(level, 0) // 2, tf.cast(level % 2, tf.float32)
        score, _ = label_logits(hidden, kernel, bias, node)
        taken = (1.0 - bit) * tf.math.log_sigmoid(score) + bit * tf.math.log_sigmoid(-score)
        nats -= on_path * taken
    return nats


def all_log_probs(hidden, kernel, bias, levels, entries, leaves):
    """ln P(w | h) of all words by sums down the tree, one level after the other, in O(N V D).

    Args:
        hidden: (N, D) float.
        kernel: (V-1, D) float32.
        bias: (V-1,) float32, or None.
        levels: pairs (first, last + 1) of the nodes of each level.
        entries: (V-1,) int32 array, the edge that leads to each node.
        leaves: (V,) int32 tensor, the edge that ends in each word.

    Returns:
        (N, V) float32.
    """
    # Nodes come first in all tensors, because a gather copies whole rows fast.
    scores = tf.matmul(kernel, tf.cast(hidden, tf.float32), transpose_b=True)
    scores = scores if bias is None else scores + bias[:, None]
    both = tf.stack([tf.math.log_sigmoid(scores), tf.math.log_sigmoid(-scores)], 1)
    edges = []
    above, offset = tf.zeros_like(scores[:1]), 0
    for first, last in levels:
        if first:
            above = tf.gather(edges[-1], entries[first:last] - offset)
            offset = 2 * first
        level = both[first:last] + above[:, None]
        edges.append(tf.reshape(level, [2 * (last - first), -1]))
    return tf.transpose(tf.gather(tf.concat(edges, 0), leaves))
