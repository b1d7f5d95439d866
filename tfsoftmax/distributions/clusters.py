"""Softmax over clusters of words: a head cluster of the frequent ones, and tails for the rest.

The head cluster holds the shortlist and one more logit for each tail. A tail sees only the
positions whose labels it holds (Müller 2017, eq. 2.16):

    P(w | h) = P_head(w | h)                  for a word of the shortlist,
    P(w | h) = P_head(c_t | h) P_t(w | h)     for a word of tail t,

P_head = softmax(h Wᵀ + b) over shortlist and tails, P_t = softmax(h R_t W_tᵀ + b_t) with the
projection R_t. Words are named by their frequency rank, and `ends` are the ranks at which the
clusters end.

The gradient is hand-written as in `distributions.penalised`, with blocks of a cluster's words.

Shapes: N positions, D hidden units, K tails, V_k words in tail k.
"""

import dataclasses

import tensorflow as tf

from tfsoftmax.distributions import products
from tfsoftmax.distributions.base import Distribution, HandWritten
from tfsoftmax.distributions.cluster_rounds import Cluster as Cluster
from tfsoftmax.distributions.cluster_rounds import sum_over_clusters
from tfsoftmax.distributions.log_sums import exponentials_of_blocks, log_sum_of, log_sum_of_blocks
from tfsoftmax.ops.logits import full_logits, labels_of_blocks, map_row_chunks, narrow_rows
from tfsoftmax.ops.ranking import best, columns_of_best, given, without


@dataclasses.dataclass(frozen=True)
class Clusters(HandWritten, Distribution):
    """P(w | h) of eq. 2.16, where w is the rank of a word.

    Losses compute only the clusters that hold the labels.

    Attributes:
        parameters: K + 1 `Cluster`s, the head cluster first. The products are taken in the dtype
            of the hidden states.
        ends: K + 1 ints, the rank at which each cluster ends; the last is V.
        shares: K floats, the share of labels expected in each tail. Under XLA it determines how
            many positions a tail takes at once.

    Example:
        from tfsoftmax.distributions.clusters import Cluster, Clusters
        head, tail = (Cluster(keras.random.normal((rows, 64))) for rows in (101, 900))
        clusters = Clusters([head, tail], (100, 1000), (0.2,))
    """

    parameters: list[Cluster]
    ends: tuple[int, ...]
    shares: tuple[float, ...]

    @property
    def vocab_size(self) -> int:
        return self.ends[-1]

    def forward(self, hidden, labels, parameters):
        weights = tf.ones(tf.shape(labels))
        (nats,), _ = sum_over_clusters(
            _chunk_nats, hidden, parameters, labels, self.ends, weights, self.shares
        )
        return nats

    def backward(self, hidden, labels, weights, parameters):
        def function(weights):
            (nats, d_hidden), d_clusters = sum_over_clusters(
                _chunk_with_gradients, hidden, parameters, labels, self.ends, weights, self.shares
            )
            return nats, [d_hidden, d_clusters]

        nats, gradients = products.with_unit_weights(function, weights, hidden.dtype)
        return [nats, nats], gradients

    def logits(self, hidden):
        """The logit of the first word is zero.

        Source: Müller 2017, eq. 3.5 and 3.6. Departure: the logits of the clusters are joined, and
        `Ranks.by_word` gathers them, instead of `tf.scatter_nd`, which section 3.4 takes for the
        losses of the clusters. With 128 positions that was faster in every case measured, and with
        8 slower in some: see experiments/results/full_logits, by
        `python -m experiments.benchmarks.run logits`.
        """
        return self._joined(hidden, lambda head: head[:, :1])

    def log_probs(self, hidden):
        return self._joined(hidden, lambda head: log_sum_of(head)[:, None])

    def _joined(self, hidden, base_of):
        """Logits (N, V) of all words, from which those (N, 1) of `base_of` are subtracted."""
        head, tails = self.parameters[0].logits(hidden), self.parameters[1:]
        shortlist, base = head.shape[1] - len(tails), base_of(head)
        parts = [head[:, :shortlist] - base]
        for k, tail in enumerate(tails, start=shortlist):
            logits = _logits(tail, tail.project(hidden))
            gate = head[:, k] - base[:, 0] - log_sum_of_blocks(logits)
            parts += [z + gate[:, None] for z in logits]
        return tf.concat(parts, axis=1)

    def top_k(self, hidden, k, excluded=None):
        """A tail is computed only where it may hold one of the k likeliest words."""
        largest = max(cluster.kernel.shape[0] for cluster in self.parameters[1:])
        return map_row_chunks(
            lambda rows, *excluded: self._chunk_top_k(rows, k, *excluded), hidden,
            max(largest, self.ends[0]), *given(excluded),
        )

    def _chunk_top_k(self, hidden, k, excluded=None):
        # A word is never likelier than its cluster. So a tail is skipped if its logit in the head
        # cluster is not above that of the kth best word found so far.
        head, tails = self.parameters[0].logits(hidden), self.parameters[1:]
        shortlist = head.shape[1] - len(tails)
        # Scores are logits of the head cluster, whose normaliser is subtracted at the end.
        scores, ranks = columns_of_best(without(head[:, :shortlist], excluded), k)
        for number, (tail, first) in enumerate(zip(tails, self.ends)):
            gate = head[:, shortlist + number]
            able = tf.where(gate > scores[:, -1])
            logits = tail.logits(tf.gather_nd(hidden, able))
            log_sum = log_sum_of(logits)
            if excluded is not None:
                logits = without(logits, tf.gather(excluded, able[:, 0]), first)
            more, more_ranks = columns_of_best(logits, k)
            more += (tf.gather_nd(gate, able) - log_sum)[:, None]
            known = tf.gather_nd(scores, able), tf.gather_nd(ranks, able)
            joined = best(k, known, (more, first + more_ranks))
            scores, ranks = (
                tf.tensor_scatter_nd_update(old, able, new)
                for old, new in zip((scores, ranks), joined)
            )
        return ranks, scores - log_sum_of(head)[:, None]


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
