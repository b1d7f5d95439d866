"""Adaptive softmax whose last tail lies in shards, where the rest is as in `ops.adaptive`.

Each replica computes the head cluster and the other tails of its own positions. A tail of one
word stands there for the last one, so that its probability is that of the whole tail. What
remains is the distribution within the last tail, for the positions that need it.

Shapes: N positions of a replica, D hidden units, V_K words in the last tail.
"""

import typing

import tensorflow as tf

from tfsoftmax.ops.adaptive_clusters import Cluster
from tfsoftmax.ops.ranking import best
from tfsoftmax.ops.sharded import sharded_cross_entropy, sharded_logits, sharded_top_k
from tfsoftmax.ops.shards import Shard


class ShardedTail(typing.NamedTuple):
    """The last tail. All replicas call its methods together, outside of loops.

    Attributes:
        cluster: a `Cluster` with the shard's rows of the kernel and of the bias.
        first: the rank of the tail's first word, which also is that of the word which stands for
            it.
        shard: a `Shard` of V_K words.
    """

    cluster: Cluster
    first: int
    shard: Shard

    def stand_in(self, units):
        """The `Cluster` of one word."""
        return Cluster(tf.zeros([1, units]))

    def nats(self, hidden, ranks):
        """-ln P_K(label | hidden), (N,) float32; zero for labels outside of the tail.

        Args:
            hidden: (N, D) float.
            ranks: (N,) int32, the frequency ranks of the labels.

        Returns:
            (N,) float32, differentiable with respect to hidden and the cluster.
        """
        positions = tf.where(ranks >= self.first)
        labels = tf.pad(tf.gather_nd(ranks, positions) - self.first, [[0, 1]])
        losses = sharded_cross_entropy(*self._parameters(hidden, positions), labels, self.shard)[0]
        return tf.scatter_nd(tf.cast(positions, tf.int32), losses[:-1], tf.shape(ranks))

    def split(self, by_rank, hidden):
        """Logits or log-probabilities (N, V) from those with one word for the tail."""
        projected, kernel, bias = self._parameters(hidden, None)
        within = tf.nn.log_softmax(sharded_logits(projected, kernel, bias, self.shard))[:-1]
        return tf.concat([by_rank[:, :-1], by_rank[:, -1:] + within], axis=1)

    def top_k(self, hidden, ranks, log_probs, k):
        """The k likeliest words from the k + 1 likeliest with one word for the tail.

        Positions where it is not among the first k do not compute the tail.

        Args:
            hidden: (N, D) float.
            ranks, log_probs: (N, k + 1) int32 and float32, likeliest first.
            k: number of words.

        Returns:
            Ranks (N, k) int32 and log-probabilities (N, k) float32.
        """
        is_tail = (ranks == self.first) & (log_probs > float("-inf"))
        positions = tf.where(tf.reduce_any(is_tail[:, :k], axis=1))
        some, some_ranks, is_tail = (
            tf.gather_nd(t, positions) for t in (log_probs, ranks, is_tail)
        )
        lowest = float("-inf")
        of_tail = tf.reduce_max(tf.where(is_tail, some, lowest), axis=1, keepdims=True)
        words, within = sharded_top_k(*self._parameters(hidden, positions), k, self.shard)
        found = tf.concat([tf.where(is_tail, lowest, some), of_tail + within[:-1]], axis=1)
        found_ranks = tf.concat([some_ranks, self.first + words[:-1]], axis=1)
        likeliest, columns = best(found, k)
        best_ranks = tf.gather(found_ranks, columns, batch_dims=1)
        return (
            tf.tensor_scatter_nd_update(ranks[:, :k], positions, best_ranks),
            tf.tensor_scatter_nd_update(log_probs[:, :k], positions, likeliest),
        )

    def _parameters(self, hidden, positions):
        """Projected hidden states (n + 1, d) of some positions, or all; kernel and bias."""
        rows = hidden if positions is None else tf.gather_nd(hidden, positions)
        # One position more, as a collective of no positions at all ends the process.
        rows = self.cluster.project(tf.pad(rows, [[0, 1], [0, 0]]))
        return rows, self.cluster.kernel, self.cluster.bias
