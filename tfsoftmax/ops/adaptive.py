"""Softmax over clusters of words: a head of the frequent ones, and tails for the rest.

The head cluster holds the shortlist and one more logit for each tail; a tail sees only the
positions whose labels it holds (Müller 2017, eq. 2.16):

    P(w | h) = P_head(w | h)                  for a word of the shortlist,
    P(w | h) = P_head(c_t | h) P_t(w | h)     for a word of tail t,

P_head = softmax(h Wᵀ + b) over shortlist and tails, P_t = softmax(h P_t W_tᵀ + b_t). Words are
named by their frequency rank: cluster boundaries are `cutoffs`, the last of which is V.

The gradient is hand-written as in `ops/cross_entropy.py`: exponentials are never normalised,
the division falls on (N, D). Positions come in rounds, so that a matrix of exponentials takes
at most CHUNK_BYTES, or MIN_CHUNK_ROWS rows where V is large.

Under XLA, where all shapes are fixed, a tail takes rounds of a fixed number of positions, its
capacity; nearly always one is enough, and if not, another round follows.

Shapes: N positions, D hidden units, K tails, V_k words in tail k.
"""

import typing

import tensorflow as tf
from tensorflow.python.ops.control_flow_util import GraphOrParentsInXlaContext

from tfsoftmax.ops.cross_entropy import full_logits

CHUNK_BYTES = 1 << 28
MIN_CHUNK_ROWS = 64


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


def clusters_of(ranks, cutoffs):
    """Which cluster holds each rank, (N,) int32: 0 the shortlist, k the kth tail."""
    bounds = tf.constant(list(cutoffs[:-1]), ranks.dtype)
    return tf.reduce_sum(tf.cast(ranks[:, None] >= bounds, tf.int32), axis=1)


def adaptive_cross_entropy(hidden, clusters, ranks, cutoffs, shares):
    """-ln P(label | hidden), computing only the clusters that hold the labels.

    Args:
        hidden: (N, D) float; its dtype is the dtype of the matmuls.
        clusters: K + 1 `Cluster`s, the head first.
        ranks: (N,) int32 in [0, V), the frequency ranks of the labels.
        cutoffs: K + 1 ints, the rank at which each cluster ends; the last is V.
        shares: K floats, the share of labels expected in each tail: how many positions a tail
            takes at once under XLA.

    Returns:
        (N,) float32, nats. Differentiable with respect to hidden and clusters; the gradient
        computes the logits a second time, as in `cross_entropy`.
    """
    def function(hidden, clusters):
        weights = tf.ones(tf.shape(ranks))
        (nats,), _ = _by_cluster(
            _chunk_nats, hidden, clusters, ranks, cutoffs, weights, shares
        )

        def gradient(upstream):
            return _with_gradients(hidden, clusters, ranks, cutoffs, upstream, shares)[1]

        return nats, gradient

    return _differentiable(function, hidden, clusters)


def weighted_adaptive_cross_entropy(hidden, clusters, ranks, cutoffs, weights, shares):
    """Σ weights · cross-entropy, whose gradients are formed while the logits are at hand.

    Args:
        hidden, clusters, ranks, cutoffs, shares: as in `adaptive_cross_entropy`.
        weights: (N,) float32, the weight of each position in the total.

    Returns:
        total: scalar float32, differentiable with respect to hidden and clusters.
        nats: (N,) float32, cross-entropy without a gradient.
    """
    def function(hidden, clusters):
        nats, gradients = _with_gradients(hidden, clusters, ranks, cutoffs, weights, shares)

        def gradient(upstream, _):
            return tf.nest.map_structure(lambda g: upstream * g, gradients)

        return (tf.reduce_sum(weights * nats), nats), gradient

    return _differentiable(function, hidden, clusters)


def adaptive_logits(hidden, clusters, normalised=False):
    """Logits over the whole vocabulary in the order of ranks, whose softmax is eq. 2.16.

    Args:
        hidden: (N, D) float.
        clusters: K + 1 `Cluster`s, the head first.
        normalised: whether to return log-probabilities instead.

    Returns:
        (N, V) float32.

    Source: Müller 2017, eq. 3.5 and 3.6: the logit of the first word is zero.
    """
    head, tails = clusters[0].logits(hidden), clusters[1:]
    shortlist = head.shape[1] - len(tails)
    base = tf.reduce_logsumexp(head, axis=1, keepdims=True) if normalised else head[:, :1]
    parts = [head[:, :shortlist] - base]
    for k, tail in enumerate(tails, start=shortlist):
        logits = tail.logits(hidden)
        gate = head[:, k, None] - base
        parts.append(logits + (gate - tf.reduce_logsumexp(logits, axis=1, keepdims=True)))
    return tf.concat(parts, axis=1)


def _differentiable(function, hidden, clusters):
    """Calls `function(hidden, clusters)`, a custom gradient over the structure of its arguments.

    `function` returns results and a gradient function, which returns float32 gradients for
    (hidden, [those of each cluster's parameters]).
    """
    present = [[p is not None for p in cluster] for cluster in clusters]
    flat = [p for cluster in clusters for p in cluster if p is not None]

    @tf.custom_gradient
    def differentiable(hidden, *flat):
        flat = iter(flat)
        packed = [Cluster(*(next(flat) if p else None for p in ps)) for ps in present]
        results, gradient = function(hidden, packed)

        def flat_gradient(*upstream):
            d_hidden, d_clusters = gradient(*upstream)
            return [tf.cast(d_hidden, hidden.dtype), *(g for gs in d_clusters for g in gs)]

        return results, flat_gradient

    return differentiable(hidden, *flat)


def _with_gradients(hidden, clusters, ranks, cutoffs, weights, shares):
    """Nats (N,), and the gradients of Σ weights · nats: dh (N, D), [those of each cluster]."""
    half = hidden.dtype == tf.float16  # whose range small weights would leave
    unit = tf.maximum(tf.reduce_max(tf.abs(weights)), 1e-30) if half else 1.0
    (nats, d_hidden), d_clusters = _by_cluster(
        _chunk_with_gradients, hidden, clusters, ranks, cutoffs, weights / unit, shares
    )
    gradients = (d_hidden, d_clusters)
    return nats, tf.nest.map_structure(lambda g: unit * g, gradients) if half else gradients


def _by_cluster(chunk, hidden, clusters, ranks, cutoffs, weights, shares):
    """Sums what `chunk` returns over the clusters that hold each label.

    `chunk` takes (cluster, hidden, labels, weights, totals) of some positions, and returns a
    list of tensors with these positions first, which are summed by position, and a list of
    totals, which it has added to those given unless they are None.

    Returns:
        The tensors, (N, ...) each; the totals of each cluster.
    """
    which = clusters_of(ranks, cutoffs)
    head_labels = tf.where(which == 0, ranks, cutoffs[0] + which - 1)
    by_row, totals = _head(chunk, clusters[0], hidden, head_labels, weights)
    totals = [totals]
    order = tf.argsort(which, stable=True)
    ends = tf.cumsum(tf.math.bincount(which, minlength=len(clusters), maxlength=len(clusters)))
    for k, tail in enumerate(clusters[1:], start=1):
        first, last = cutoffs[k - 1], cutoffs[k] - 1
        if first == last:  # the one word of its tail is certain
            totals.append([tf.zeros_like(p) for p in tail if p is not None])
            continue
        inputs = hidden, tf.clip_by_value(ranks, first, last) - first, weights
        rounds = _rounds(order, ends[k - 1], ends[k], tail, shares[k - 1])
        by_row, tail_totals = _tail(chunk, tail, inputs, rounds, by_row)
        totals.append(tail_totals)
    return by_row, totals


def _head(chunk, cluster, *inputs):
    """`chunk` over all positions, in even chunks of rows, zero-padded at the end."""
    length = inputs[0].shape[0] or tf.shape(inputs[0])[0]
    most = _affordable_rows(cluster)
    if isinstance(length, int):
        count = max((length + most - 1) // most, 1)
    else:
        count = tf.maximum((length + most - 1) // most, 1)
    rows = (length + count - 1) // count

    def chunked(tensor):
        padding = [[0, count * rows - length]] + [[0, 0]] * (len(tensor.shape) - 1)
        shape = tf.concat([tf.stack([count, rows]), tf.shape(tensor)[1:]], 0)
        static = [s if isinstance(s, int) else None for s in (count, rows)]
        return tf.ensure_shape(
            tf.reshape(tf.pad(tensor, padding), shape), static + tensor.shape[1:].as_list()
        )

    chunks = [chunked(t) for t in inputs]

    def visit(i, totals):
        return chunk(cluster, *(t[i] for t in chunks), totals)

    # The first chunk stands outside the loop: zeros to start from would cost the kernel's size.
    first, totals = visit(0, None)
    if chunks[0].shape[0] == 1:
        return first, totals
    arrays = [tf.TensorArray(t.dtype, count, element_shape=t.shape).write(0, t) for t in first]

    def body(i, arrays, totals):
        by_row, totals = visit(i, totals)
        return i + 1, [array.write(i, t) for array, t in zip(arrays, by_row)], totals

    _, arrays, totals = tf.while_loop(
        lambda i, *_: i < count, body, (1, arrays, totals), parallel_iterations=1
    )
    shapes = [tf.concat([[count * rows], tf.shape(t)[1:]], 0) for t in first]
    return [tf.reshape(a.stack(), s)[:length] for a, s in zip(arrays, shapes)], totals


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
    if _under_xla():
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


def _under_xla():
    return GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())


def _affordable_rows(cluster):
    return max(CHUNK_BYTES // (4 * cluster.kernel.shape[0]), MIN_CHUNK_ROWS)


def _chunk_nats(cluster, hidden, labels, weights, totals):
    """One chunk of `_by_cluster`: [nats], and nothing to total."""
    del weights, totals
    hidden = cluster.project(hidden)
    logits = full_logits(hidden, cluster.kernel, cluster.bias)
    maximum = tf.reduce_max(logits, axis=1)
    sums = tf.reduce_sum(tf.exp(logits - maximum[:, None]), axis=1)
    return [maximum + tf.math.log(sums) - _target(cluster, hidden, labels)[0]], []


def _target(cluster, hidden, labels):
    """The labels' logits (N,) and their rows of the kernel (N, d), float32."""
    rows = tf.cast(tf.cast(tf.gather(cluster.kernel, labels), hidden.dtype), tf.float32)
    logits = tf.reduce_sum(tf.cast(hidden, tf.float32) * rows, axis=1)
    return logits if cluster.bias is None else logits + tf.gather(cluster.bias, labels), rows


def _chunk_with_gradients(cluster, hidden, labels, weights, totals):
    """One chunk of `_by_cluster`: [nats, dh], and the gradients of the cluster's parameters."""
    projected = cluster.project(hidden)
    logits = full_logits(projected, cluster.kernel, cluster.bias)
    target, target_rows = _target(cluster, projected, labels)
    maximum = tf.reduce_max(logits, axis=1)
    exps = tf.exp(logits - maximum[:, None])
    sums = tf.reduce_sum(exps, axis=1)
    scale = weights / sums
    if hidden.dtype == tf.float16:  # sums of what is not normalised overflow
        exps, scale = exps * scale[:, None], tf.ones_like(scale)
    slopes = tf.cast(exps, hidden.dtype)
    kernel = tf.cast(cluster.kernel, hidden.dtype)
    d_projected = tf.cast(tf.matmul(slopes, kernel), tf.float32) * scale[:, None]
    d_projected -= weights[:, None] * target_rows
    scaled = projected * tf.cast(scale, hidden.dtype)[:, None]
    d_kernel = tf.cast(tf.matmul(slopes, scaled, transpose_a=True), tf.float32)
    ids = labels[:, None]
    gradients = [tf.tensor_scatter_nd_sub(
        d_kernel, ids, weights[:, None] * tf.cast(projected, tf.float32)
    )]
    if cluster.bias is not None:
        d_bias = tf.linalg.matvec(tf.cast(slopes, tf.float32), scale, transpose_a=True)
        gradients.append(tf.tensor_scatter_nd_sub(d_bias, ids, weights))
    d_hidden = d_projected
    if cluster.projection is not None:
        slopes = tf.cast(d_projected, hidden.dtype)
        projection = tf.cast(cluster.projection, hidden.dtype)
        d_hidden = tf.cast(tf.matmul(slopes, projection, transpose_b=True), tf.float32)
        gradients.append(tf.cast(tf.matmul(hidden, slopes, transpose_a=True), tf.float32))
    if totals is not None:
        gradients = [old + new for old, new in zip(totals, gradients)]
    nats = maximum + tf.math.log(sums) - target
    return [nats, d_hidden], gradients


def adaptive_top_k(hidden, clusters, k):
    """The k likeliest words; a tail is computed only where it may hold one of them.

    A word is never likelier than its cluster, so a tail whose logit in the head is not above
    the kth best word found so far is skipped.

    Args:
        hidden: (N, D) float.
        clusters: K + 1 `Cluster`s, the head first.
        k: number of words.

    Returns:
        Ranks (N, k) int32, log-probabilities (N, k) float32, likeliest first, and how many tails
        were computed for each position, (N,) int32.
    """
    head, tails = clusters[0].logits(hidden), clusters[1:]
    shortlist = head.shape[1] - len(tails)
    # Scores are head logits: log-probabilities but for the normaliser, which comes last.
    scores, ranks = _top_k(head[:, :shortlist], k)
    computed, first = tf.zeros_like(ranks[:, 0]), shortlist
    for number, tail in enumerate(tails):
        gate = head[:, shortlist + number]
        able = tf.where(gate > scores[:, -1])
        more, more_ranks = _top_k(_conditional(tf.gather_nd(hidden, able), tail), k)
        found = tf.concat([tf.gather_nd(scores, able), tf.gather_nd(gate, able)[:, None] + more], 1)
        found_ranks = tf.concat([tf.gather_nd(ranks, able), first + more_ranks], 1)
        best, columns = tf.math.top_k(found, k)
        scores = tf.tensor_scatter_nd_update(scores, able, best)
        ranks = tf.tensor_scatter_nd_update(
            ranks, able, tf.gather(found_ranks, columns, batch_dims=1)
        )
        computed = tf.tensor_scatter_nd_add(computed, able, tf.ones_like(able[:, 0], tf.int32))
        first += tail.kernel.shape[0]
    return ranks, scores - tf.reduce_logsumexp(head, axis=1, keepdims=True), computed


def _conditional(hidden, tail):
    """ln P(word | tail), (N, V_k)."""
    return tf.nn.log_softmax(tail.logits(hidden))


def _top_k(scores, k):
    """The k best of each row and their columns; -inf where a row has fewer."""
    present = min(k, scores.shape[1])
    values, columns = tf.math.top_k(scores, present)
    padding = [[0, 0], [0, k - present]]
    return tf.pad(values, padding, constant_values=-float("inf")), tf.pad(columns, padding)
