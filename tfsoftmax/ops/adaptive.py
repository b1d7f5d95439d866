"""Softmax over clusters of words: a head of the frequent ones, and tails for the rest.

The head cluster holds the shortlist and one more logit for each tail; a tail sees only the
positions whose labels it holds (Müller 2017, eq. 2.16):

    P(w | h) = P_head(w | h)                  for a word of the shortlist,
    P(w | h) = P_head(c_t | h) P_t(w | h)     for a word of tail t,

P_head = softmax(h Wᵀ + b) over shortlist and tails, P_t = softmax(h P_t W_tᵀ + b_t). Words are
named by their frequency rank: cluster boundaries are `cutoffs`, the last of which is V.

The gradient is hand-written as in `ops/cross_entropy.py`: exponentials are never normalised,
the division falls on (N, D). (What oneDNN's softmax normalises in passing is normalised over a
block of words only.)

Shapes: N positions, D hidden units, K tails, V_k words in tail k.
"""

import tensorflow as tf

from tfsoftmax.ops.adaptive_clusters import Cluster, sum_over_clusters
from tfsoftmax.ops.cross_entropy import full_logits
from tfsoftmax.ops.xla import under_xla


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
        (nats,), _ = sum_over_clusters(
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
    base = _log_sum(head)[:, None] if normalised else head[:, :1]
    parts = [head[:, :shortlist] - base]
    for k, tail in enumerate(tails, start=shortlist):
        projected = tail.project(hidden)
        logits = [full_logits(projected, *block) for block in tail.blocks(hidden.dtype)]
        log_sum = tf.reduce_logsumexp(tf.stack([_log_sum(z) for z in logits]), axis=0)
        gate = head[:, k] - base[:, 0] - log_sum
        parts += [z + gate[:, None] for z in logits]
    return tf.concat(parts, axis=1)


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
        logits = tail.logits(tf.gather_nd(hidden, able))
        more, more_ranks = _top_k(logits, k)
        more += (tf.gather_nd(gate, able) - _log_sum(logits))[:, None]
        found = tf.concat([tf.gather_nd(scores, able), more], 1)
        found_ranks = tf.concat([tf.gather_nd(ranks, able), first + more_ranks], 1)
        best, columns = tf.math.top_k(found, k)
        scores = tf.tensor_scatter_nd_update(scores, able, best)
        ranks = tf.tensor_scatter_nd_update(
            ranks, able, tf.gather(found_ranks, columns, batch_dims=1)
        )
        computed = tf.tensor_scatter_nd_add(computed, able, tf.ones_like(able[:, 0], tf.int32))
        first += tail.kernel.shape[0]
    return ranks, scores - _log_sum(head)[:, None], computed


def _top_k(scores, k):
    """The k best of each row and their columns; -inf where a row has fewer."""
    present = min(k, scores.shape[1])
    values, columns = tf.math.top_k(scores, present)
    padding = [[0, 0], [0, k - present]]
    return tf.pad(values, padding, constant_values=-float("inf")), tf.pad(columns, padding)


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
    (nats, d_hidden), d_clusters = sum_over_clusters(
        _chunk_with_gradients, hidden, clusters, ranks, cutoffs, weights / unit, shares
    )
    gradients = (d_hidden, d_clusters)
    return nats, tf.nest.map_structure(lambda g: unit * g, gradients) if half else gradients


def _chunk_nats(cluster, hidden, labels, weights, totals):
    """One chunk of `sum_over_clusters`: [nats], and nothing to total."""
    del weights, totals
    hidden = cluster.project(hidden)
    log_sum = _exponentials(cluster, hidden)[-1]
    return [log_sum - _target(cluster, hidden, labels)[0]], []


def _chunk_with_gradients(cluster, hidden, labels, weights, totals):
    """One chunk of `sum_over_clusters`: [nats, dh], and the gradients of the parameters."""
    projected = cluster.project(hidden)
    exps, offsets, log_sum = _exponentials(cluster, projected)
    target, target_rows = _target(cluster, projected, labels)
    d_projected, by_word = 0.0, []
    for e, (kernel, _), offset in zip(exps, cluster.blocks(hidden.dtype), offsets):
        scale = weights * tf.exp(offset - log_sum)
        if hidden.dtype == tf.float16:  # sums of what is not normalised overflow
            e, scale = e * scale[:, None], tf.ones_like(scale)
        slopes = tf.cast(e, hidden.dtype)
        d_projected += tf.cast(tf.matmul(slopes, kernel), tf.float32) * scale[:, None]
        scaled = projected * tf.cast(scale, hidden.dtype)[:, None]
        terms = [tf.cast(tf.matmul(slopes, scaled, transpose_a=True), tf.float32)]
        if cluster.bias is not None:
            terms.append(tf.linalg.matvec(tf.cast(slopes, tf.float32), scale, transpose_a=True))
        by_word.append(terms)
    d_projected -= weights[:, None] * target_rows
    targets = [weights[:, None] * tf.cast(projected, tf.float32), weights]
    gradients = [
        tf.tensor_scatter_nd_sub(tf.concat(parts, 0), labels[:, None], t)
        for parts, t in zip(zip(*by_word), targets)
    ]
    d_hidden = d_projected
    if cluster.projection is not None:
        slopes = tf.cast(d_projected, hidden.dtype)
        projection = tf.cast(cluster.projection, hidden.dtype)
        d_hidden = tf.cast(tf.matmul(slopes, projection, transpose_b=True), tf.float32)
        gradients.append(tf.cast(tf.matmul(hidden, slopes, transpose_a=True), tf.float32))
    if totals is not None:
        gradients = [old + new for old, new in zip(totals, gradients)]
    return [log_sum - target, d_hidden], gradients


def _exponentials(cluster, projected):
    """exp(z - o_b) of each block of words, for projected hidden states (N, d).

    Returns:
        [exponentials (N, words)], [o_b (N,)], and ln Σ exp z over all words (N,). Each block has
        an offset of its own, so that it can be done with while it is cached.
    """
    exps, offsets, log_sums = zip(*(
        _offset_exponentials(full_logits(projected, *block))
        for block in cluster.blocks(projected.dtype)
    ))
    if len(exps) == 1:
        return exps, offsets, log_sums[0]
    return exps, offsets, tf.reduce_logsumexp(tf.stack(log_sums), axis=0)


def _offset_exponentials(logits):
    """exp(z - o) (N, words), o (N,) and ln Σ exp z (N,)."""
    maximum = tf.reduce_max(logits, axis=1)
    if under_xla():
        exps = tf.exp(logits - maximum[:, None])
        return exps, maximum, maximum + tf.math.log(tf.reduce_sum(exps, axis=1))
    # oneDNN's softmax takes a third of the time of exp, its subtraction and its sum, and the
    # greatest probability is exp(max - ln Σ exp z).
    probabilities = tf.nn.softmax(logits)
    log_sum = maximum - tf.math.log(tf.reduce_max(probabilities, axis=1))
    return probabilities, log_sum, log_sum


@tf.custom_gradient
def _log_sum(logits):
    """ln Σ exp z of each row, (N,)."""
    exps, offset, log_sum = _offset_exponentials(logits)

    def gradient(upstream):
        return exps * (upstream * tf.exp(offset - log_sum))[:, None]

    return log_sum, gradient


def _target(cluster, hidden, labels):
    """The labels' logits (N,) and their rows of the kernel (N, d), float32."""
    rows = tf.cast(tf.cast(tf.gather(cluster.kernel, labels), hidden.dtype), tf.float32)
    logits = tf.reduce_sum(tf.cast(hidden, tf.float32) * rows, axis=1)
    return logits if cluster.bias is None else logits + tf.gather(cluster.bias, labels), rows
