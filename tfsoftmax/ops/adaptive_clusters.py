"""Clusters of words, and which positions each sees: all the head, a tail those of its labels.

Positions come in rounds, so that a matrix of exponentials takes at most CHUNK_BYTES, or as much
as the cluster's kernel, or MIN_CHUNK_ROWS rows where V is large. Under XLA, where all shapes are fixed, a tail takes rounds
of a fixed number of positions, its capacity; nearly always one is enough, and if not, another
round follows.

Shapes: N positions, D hidden units, K tails.
"""

import functools
import typing

import tensorflow as tf

from tfsoftmax.ops.chunks import sum_over_chunks
from tfsoftmax.ops.cross_entropy import CHUNK_BYTES, MIN_CHUNK_ROWS, full_logits
from tfsoftmax.ops.xla import under_xla

BLOCK_WORDS = 4096  # one block's logits stay in the cache between the passes over them


class Cluster(typing.NamedTuple):
    """The parameters of one softmax.

    Attributes:
        kernel: (V_k, d) float32, one row a word; in the head cluster V_0 + K rows.
        bias: (V_k,) float32, or None.
        projection: (D, d) float32 from the hidden state, or None where d = D.
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
        """[(rows of the kernel in `dtype`, their biases)], `BLOCK_WORDS` at most in each."""
        words = self.kernel.shape[0]
        most = words if under_xla() else BLOCK_WORDS  # XLA copies what it splits
        sizes = [min(most, words - start) for start in range(0, words, most)]
        biases = [None] * len(sizes) if self.bias is None else tf.split(self.bias, sizes)
        return list(zip(tf.split(tf.cast(self.kernel, dtype), sizes), biases))


def clusters_of(ranks, cutoffs):
    """Which cluster holds each rank, (N,) int32: 0 the shortlist, k the kth tail."""
    bounds = tf.constant(list(cutoffs[:-1]), ranks.dtype)
    return tf.reduce_sum(tf.cast(ranks[:, None] >= bounds, tf.int32), axis=1)


def sum_over_clusters(chunk, hidden, clusters, ranks, cutoffs, weights, shares):
    """Sums what `chunk` returns over the clusters that hold each label.

    `chunk` takes (cluster, hidden, labels, weights, totals) of some positions, and returns a
    list of tensors with these positions first, which are summed by position, and a list of
    totals, which it has added to those given unless they are None.

    Returns:
        The tensors, (N, ...) each; the totals of each cluster.
    """
    which = clusters_of(ranks, cutoffs)
    head_labels = tf.where(which == 0, ranks, cutoffs[0] + which - 1)
    head, tails = clusters[0], clusters[1:]
    by_row, totals = sum_over_chunks(
        functools.partial(chunk, head), _affordable_rows(head), hidden, head_labels, weights
    )
    totals = [totals]
    order = tf.argsort(which, stable=True)
    ends = tf.cumsum(tf.math.bincount(which, minlength=len(clusters), maxlength=len(clusters)))
    for k, tail in enumerate(tails, start=1):
        first, last = cutoffs[k - 1], cutoffs[k] - 1
        if first == last:  # the one word of its tail is certain
            totals.append([tf.zeros_like(p) for p in tail if p is not None])
            continue
        inputs = hidden, tf.clip_by_value(ranks, first, last) - first, weights
        rounds = _rounds(order, ends[k - 1], ends[k], tail, shares[k - 1])
        by_row, tail_totals = _tail(chunk, tail, inputs, rounds, by_row)
        totals.append(tail_totals)
    return by_row, totals


def _tail(chunk, cluster, inputs, rounds, by_row):
    """`chunk` over the positions of each of the rounds, added to `by_row`."""
    count, positions_of = rounds

    def visit(i, by_row, totals):
        positions, valid = positions_of(i)
        hidden, labels, weights = (tf.gather(t, positions) for t in inputs)
        if valid is not None:
            weights = tf.where(valid, weights, 0.0)
        more, totals = chunk(cluster, hidden, labels, weights, totals)
        if valid is not None:
            more[0] = tf.where(valid, more[0], 0.0)
        where = positions[:, None]
        return [tf.tensor_scatter_nd_add(a, where, b) for a, b in zip(by_row, more)], totals

    by_row, totals = visit(0, by_row, None)

    def body(i, by_row, totals):
        return i + 1, *visit(i, by_row, totals)

    _, by_row, totals = tf.while_loop(
        lambda i, *_: i < count, body, (1, by_row, totals), parallel_iterations=1
    )
    return by_row, totals


def _rounds(order, start, end, cluster, share):
    """How the positions order[start:end] of a tail are taken, some at a time.

    Returns:
        Number of rounds, and a function from its number to the positions of a round and, where
        shapes are fixed, whether each is one of the tail's: the rest are others' and count nothing.
    """
    rows = _affordable_rows(cluster)
    if under_xla():
        rows = tf.minimum(rows, _capacity(tf.size(order), share))

        def positions_of(i):
            slots = start + i * rows + tf.range(rows)
            return tf.gather(order, tf.minimum(slots, tf.size(order) - 1)), slots < end
    else:
        def positions_of(i):
            first = start + i * rows
            return order[first:tf.minimum(first + rows, end)], None

    return (end - start + rows - 1) // rows, positions_of


def _capacity(length, share):
    """Positions of `length` that a tail nearly never exceeds: two standard deviations above."""
    mean = share * tf.cast(length, tf.float32)
    enough = tf.cast(tf.math.ceil(mean + 2 * tf.sqrt(mean)), tf.int32)
    return tf.clip_by_value(enough, 1, tf.maximum(length, 1))


def _affordable_rows(cluster):
    words, units = cluster.kernel.shape
    return max(CHUNK_BYTES // (4 * words), units, MIN_CHUNK_ROWS)
