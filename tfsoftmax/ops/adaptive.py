"""Softmax over clusters of words: a head cluster of the frequent ones, and tails for the rest.

The head cluster holds the shortlist and one more logit for each tail. A tail sees only the
positions whose labels it holds (Müller 2017, eq. 2.16):

    P(w | h) = P_head(w | h)                  for a word of the shortlist,
    P(w | h) = P_head(c_t | h) P_t(w | h)     for a word of tail t,

P_head = softmax(h Wᵀ + b) over shortlist and tails, P_t = softmax(h R_t W_tᵀ + b_t) with the
projection R_t. Words are named by their frequency rank, and `ends` are the ranks at which the
clusters end.

The gradient is hand-written as in `ops/cross_entropy.py`, with blocks of a cluster's words.

Shapes: N positions, D hidden units, K tails, V_k words in tail k.
"""

import tensorflow as tf

from tfsoftmax.ops import products
from tfsoftmax.ops.adaptive_clusters import sum_over_clusters
from tfsoftmax.ops.custom_gradients import immediate_gradient, recomputed_gradient
from tfsoftmax.ops.log_sums import exponentials_of_blocks, log_sum_of, log_sum_of_blocks
from tfsoftmax.ops.logits import full_logits, labels_of_blocks, narrow_rows
from tfsoftmax.ops.ranking import best
from tfsoftmax.ops.weighting import weighted_sum


def adaptive_cross_entropy(hidden, clusters, ranks, ends, shares):
    """-ln P(label | hidden), computing only the clusters that hold the labels.

    Args:
        hidden: (N, D) float; its dtype is the dtype of the matmuls.
        clusters: K + 1 `Cluster`s, the head cluster first.
        ranks: (N,) int32 in [0, V), the frequency ranks of the labels.
        ends: K + 1 ints, the rank at which each cluster ends; the last is V.
        shares: K floats, the share of labels expected in each tail. Under XLA it determines how
            many positions a tail takes at once.

    Returns:
        (N,) float32, nats. Differentiable with respect to hidden and clusters; the gradient
        computes the logits a second time, as in `cross_entropy`.
    """

    def nats(hidden, clusters):
        weights = tf.ones(tf.shape(ranks))
        (nats,), _ = sum_over_clusters(
            _chunk_nats, hidden, clusters, ranks, ends, weights, shares
        )
        return nats

    def gradients(upstream, hidden, clusters):
        return _with_gradients(hidden, clusters, ranks, ends, upstream, shares)[1]

    return recomputed_gradient(nats, gradients, hidden, clusters)


def weighted_adaptive_cross_entropy(hidden, clusters, ranks, ends, weights, shares):
    """Σ weights · cross-entropy, whose gradients are formed while the logits are at hand.

    Args:
        hidden, clusters, ranks, ends, shares: as in `adaptive_cross_entropy`.
        weights: (N,) float32, the weight of each position in the total.

    Returns:
        total: scalar float32, differentiable with respect to hidden, clusters and weights.
        nats: (N,) float32, cross-entropy without a gradient.
    """

    def function(weights, hidden, clusters):
        nats, gradients = _with_gradients(hidden, clusters, ranks, ends, weights, shares)
        return (weighted_sum(nats, weights), nats), [nats, gradients]

    return immediate_gradient(function, weights, hidden, clusters)


def adaptive_logits(hidden, clusters, normalised=False):
    """Logits over the whole vocabulary in the order of ranks, whose softmax is eq. 2.16.

    Args:
        hidden: (N, D) float.
        clusters: K + 1 `Cluster`s, the head cluster first.
        normalised: whether to return log-probabilities instead.

    Returns:
        (N, V) float32.

    Source: Müller 2017, eq. 3.5 and 3.6: the logit of the first word is zero. Departure: the
    logits of the clusters are joined, and `Ranks.by_word` gathers them, instead of
    `tf.scatter_nd`, which section 3.4 takes for the losses of the clusters. With 128 positions
    that was faster in every case measured, and with 8 slower in some: see
    experiments/results/full_logits, by `python -m experiments.benchmarks.full_logits`.
    """
    head, tails = clusters[0].logits(hidden), clusters[1:]
    shortlist = head.shape[1] - len(tails)
    base = log_sum_of(head)[:, None] if normalised else head[:, :1]
    parts = [head[:, :shortlist] - base]
    for k, tail in enumerate(tails, start=shortlist):
        projected = tail.project(hidden)
        logits = [full_logits(projected, *block) for block in tail.blocks(hidden.dtype)]
        gate = head[:, k] - base[:, 0] - log_sum_of_blocks(logits)
        parts += [z + gate[:, None] for z in logits]
    return tf.concat(parts, axis=1)


def adaptive_top_k(hidden, clusters, k):
    """The k likeliest words; a tail is computed only where it may hold one of them.

    A word is never likelier than its cluster. So a tail is skipped if its logit in the head
    cluster is not above that of the kth best word found so far.

    Args:
        hidden: (N, D) float.
        clusters: K + 1 `Cluster`s, the head cluster first.
        k: number of words.

    Returns:
        Ranks (N, k) int32 and log-probabilities (N, k) float32, likeliest first.
    """
    head, tails = clusters[0].logits(hidden), clusters[1:]
    shortlist = head.shape[1] - len(tails)
    # Scores are logits of the head cluster, from which its normaliser is subtracted at the end.
    scores, ranks = _top_k(head[:, :shortlist], k)
    first = shortlist
    for number, tail in enumerate(tails):
        gate = head[:, shortlist + number]
        able = tf.where(gate > scores[:, -1])
        logits = tail.logits(tf.gather_nd(hidden, able))
        more, more_ranks = _top_k(logits, k)
        more += (tf.gather_nd(gate, able) - log_sum_of(logits))[:, None]
        found = tf.concat([tf.gather_nd(scores, able), more], 1)
        found_ranks = tf.concat([tf.gather_nd(ranks, able), first + more_ranks], 1)
        likeliest, columns = best(found, k)
        scores = tf.tensor_scatter_nd_update(scores, able, likeliest)
        ranks = tf.tensor_scatter_nd_update(
            ranks, able, tf.gather(found_ranks, columns, batch_dims=1)
        )
        first += tail.kernel.shape[0]
    return ranks, scores - log_sum_of(head)[:, None]


def _top_k(scores, k):
    """The k best of each row and their columns, filled up with -inf if a row has fewer."""
    present = min(k, scores.shape[1])
    values, columns = tf.math.top_k(scores, present)
    padding = [[0, 0], [0, k - present]]
    return tf.pad(values, padding, constant_values=-float("inf")), tf.pad(columns, padding)


def _with_gradients(hidden, clusters, ranks, ends, weights, shares):
    """Nats (N,), and the gradients of Σ weights · nats: dh (N, D), [those of each cluster]."""

    def function(weights):
        (nats, d_hidden), d_clusters = sum_over_clusters(
            _chunk_with_gradients, hidden, clusters, ranks, ends, weights, shares
        )
        return nats, [d_hidden, d_clusters]

    return products.with_unit_weights(function, weights, hidden.dtype)


def _chunk_nats(cluster, hidden, labels, weights, totals):
    """One chunk of `sum_over_clusters`: [nats], and no totals."""
    del weights, totals
    projected = cluster.project(hidden)
    logits = _logits(cluster, projected)
    target, read = labels_of_blocks(logits, labels)
    return [log_sum_of_blocks(logits, read) - target], []


def _chunk_with_gradients(cluster, hidden, labels, weights, totals):
    """One chunk of `sum_over_clusters`: [nats, dh], and the gradients of the parameters."""
    projected = cluster.project(hidden)
    logits = _logits(cluster, projected)
    target, read = labels_of_blocks(logits, labels)
    exps, shares, log_sum = exponentials_of_blocks(logits, read)
    d_projected, by_block = 0.0, []
    for e, (kernel, bias), factors in zip(exps, cluster.blocks(hidden.dtype), shares):
        d_biases = [] if bias is None else [products.by_biases(e, factors * weights)]
        (slopes,), (factors,) = products.narrowed([e], [factors], hidden.dtype)
        factors *= weights
        d_projected += products.by_hidden(slopes, factors, kernel)
        by_block.append([products.by_words(slopes, factors, projected), *d_biases])
    d_projected -= weights[:, None] * narrow_rows(cluster.kernel, labels, hidden.dtype)
    joined = [tf.concat(parts, 0) for parts in zip(*by_block)]
    d_hidden, d_projection = _through_projection(cluster.projection, hidden, d_projected)
    gradients = products.minus_labels(joined, labels, weights, projected) + d_projection
    if totals is not None:
        gradients = [old + new for old, new in zip(totals, gradients)]
    return [log_sum - target, d_hidden], gradients


def _through_projection(projection, hidden, d_projected):
    """dh (n, D) and [dP], or [] without a projection P, for the gradient of h P (n, d)."""
    if projection is None:
        return d_projected, []
    slopes, projection = (tf.cast(t, hidden.dtype) for t in (d_projected, projection))
    d_hidden = tf.matmul(slopes, projection, transpose_b=True)
    d_projection = tf.matmul(hidden, slopes, transpose_a=True)
    return tf.cast(d_hidden, tf.float32), [tf.cast(d_projection, tf.float32)]


def _logits(cluster, projected):
    """The logits (N, words) of each block of a cluster, for projected hidden states (N, d)."""
    return [full_logits(projected, *block) for block in cluster.blocks(projected.dtype)]
