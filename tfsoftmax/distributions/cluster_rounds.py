"""Clusters of words: the head cluster computes all positions, a tail those of its labels.

Positions are taken in rounds, so that a matrix of exponentials takes at most LOGITS_BYTES, or as
much as the cluster's kernel, or LEAST_ROWS rows where V is large. Under XLA, where all
shapes are fixed, a tail takes rounds of a fixed number of positions, its capacity. One
round is nearly always enough; if it is not, another follows.

Shapes: N positions, D hidden units, K tails.
"""

import functools
import math
import typing

import tensorflow as tf

from tfsoftmax.ops.chunks import in_turn, sum_over_chunks
from tfsoftmax.ops.graphs import under_xla
from tfsoftmax.ops.logits import block_words, full_logits, interval_of, kernel_blocks, logits_rows


class Cluster(typing.NamedTuple):
    """The parameters of one softmax.

    Attributes:
        kernel: (V_k, d) float32, one row a word; in the head cluster V_0 + K rows.
        bias: (V_k,) float32, or None.
        projection: (D, d) float32 from the hidden state, or None where d = D.

    Example:
        from tfsoftmax.distributions.cluster_rounds import Cluster
        tail = Cluster(keras.random.normal((900, 16)), None, keras.random.normal((64, 16)))
        assert tail.logits(keras.random.normal((8, 64))).shape == (8, 900)
    """

    kernel: tf.Tensor
    bias: tf.Tensor | None = None
    projection: tf.Tensor | None = None

    def logits(self, hidden):
        """(N, V_k) float32 for hidden (N, D)."""
        return full_logits(self.project(hidden), self.kernel, self.bias)

    def project(self, hidden):
        if self.projection is None:
            return hidden
        return tf.matmul(hidden, tf.cast(self.projection, hidden.dtype))

    def blocks(self, dtype):
        """[(rows of the kernel in `dtype`, their biases)]."""
        return kernel_blocks(self.kernel, self.bias, dtype, block_words(self.kernel.shape[0]))

    def chunk_rows(self):
        """How many positions are taken at a time."""
        return logits_rows(*self.kernel.shape, most=math.inf)


def sum_over_clusters(chunk, hidden, clusters, ranks, ends, weights, shares):
    """Sums the results of `chunk` over the clusters that hold each label.

    Args:
        chunk: takes (cluster, hidden, labels, weights, totals) of some positions. Returns a list
            of tensors with these positions first, which are summed by position, and a list of
            totals, which it has added to those given unless they are None.
        hidden, clusters, ends, weights, shares: as in `distributions.clusters`.
        ranks: (N,) int32 in [0, V), the frequency ranks of the labels.

    Returns:
        The tensors, (N, ...) each, and the totals of each cluster.
    """
    length = tf.shape(ranks)[0]
    fixed = under_xla()
    if fixed:  # Rounds of a fixed size hold at least one position.
        missing = tf.cast(length == 0, tf.int32)
        hidden = tf.pad(hidden, [[0, missing], [0, 0]])
        ranks, weights = (tf.pad(t, [[0, missing]]) for t in (ranks, weights))
    which = interval_of(ranks, ends)  # 0 for the shortlist, k for the kth tail
    head_labels = tf.where(which == 0, ranks, ends[0] + which - 1)
    head, tails = clusters[0], clusters[1:]
    by_row, totals = sum_over_chunks(
        functools.partial(chunk, head), head.chunk_rows(), hidden, head_labels, weights
    )
    totals = [totals]
    order = tf.argsort(which, stable=True)
    until = tf.cast(which[:, None] <= tf.range(len(clusters)), tf.int32)
    slots = tf.reduce_sum(until, axis=0)  # where the positions of each cluster end in `order`
    for k, tail in enumerate(tails, start=1):
        first, last = ends[k - 1], ends[k] - 1
        if first == last:  # The only word of a tail is certain.
            totals.append([tf.zeros(p.shape) for p in tail if p is not None])  # float32
            continue
        inputs = hidden, tf.clip_by_value(ranks, first, last) - first, weights
        capacity = _capacity(tf.size(order), shares[k - 1]) if fixed else None
        rounds = _rounds(order, slots[k - 1], slots[k], tail.chunk_rows(), capacity)
        by_row, tail_totals = _tail(chunk, tail, inputs, rounds, by_row)
        totals.append(tail_totals)
    return [rows[:length] for rows in by_row], totals


def _tail(chunk, cluster, inputs, rounds, by_row):
    """Adds the results of `chunk` for each round to `by_row`, and returns them and the totals."""
    count, positions_of = rounds

    def visit(i, sums_and_totals):
        sums, totals = sums_and_totals or (by_row, None)
        positions, valid = positions_of(i)
        hidden, labels, weights = (tf.gather(t, positions) for t in inputs)
        if valid is not None:
            weights = tf.where(valid, weights, 0.0)
        more, totals = chunk(cluster, hidden, labels, weights, totals)
        if valid is not None:
            more[0] = tf.where(valid, more[0], 0.0)
        where = positions[:, None]
        # ONNX has no operation that adds to some rows of a tensor.
        sums = [a + tf.scatter_nd(where, b, tf.shape(a)) for a, b in zip(sums, more)]
        return [], (sums, totals)

    return in_turn(visit, count)[1]


def _rounds(order, start, end, rows, capacity):
    """Divides the positions order[start:end] of a tail into rounds of at most `rows`.

    With a `capacity` all rounds have one size, at most that many positions.

    Returns:
        The number of rounds, and a function from the number of a round to its positions. Where
        shapes are fixed, the function also returns whether each position is one of the tail's;
        the others only fill the round. Elsewhere it returns None for that.
    """
    if capacity is not None:
        rows = tf.minimum(rows, capacity)

        def positions_of(i):
            slots = start + i * rows + tf.range(rows)
            return tf.gather(order, tf.minimum(slots, tf.size(order) - 1)), slots < end
    else:
        def positions_of(i):
            first = start + i * rows
            return order[first:tf.minimum(first + rows, end)], None

    return (end - start + rows - 1) // rows, positions_of


def _capacity(length, share):
    """Positions out of `length` that a tail rarely exceeds: mean plus two standard deviations."""
    mean = share * tf.cast(length, tf.float32)
    enough = tf.cast(tf.math.ceil(mean + 2 * tf.sqrt(mean)), tf.int32)
    return tf.clip_by_value(enough, 1, length)
