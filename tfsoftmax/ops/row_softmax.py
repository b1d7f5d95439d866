"""The exact distribution of rows of a kernel, which one device holds or several replicas share."""

import typing

import tensorflow as tf

from tfsoftmax.ops.chunk_gradients import Objective
from tfsoftmax.ops.cross_entropy import cross_entropy, weighted_cross_entropy
from tfsoftmax.ops.logits import exact_top_k, full_logits, map_row_chunks
from tfsoftmax.ops.sharded import sharded_cross_entropy, sharded_logits, sharded_top_k
from tfsoftmax.ops.shards import Shard
from tfsoftmax.ops.weighting import weighted_sum
from tfsoftmax.ops.whole_reads import whole


class WholeSoftmax(typing.NamedTuple):
    """P(w | h) = exp(z_w) / Σ_v exp(z_v) with z = h Wᵀ + b.

    Attributes:
        kernel: (V, D) float.
        bias: (V,) float, or None.
        soft_cap: caps the logits, unless it is None.
    """

    kernel: tf.Tensor
    bias: tf.Tensor | None
    soft_cap: float | None = None

    def logits(self, hidden):
        """(N, V) float32 for hidden (N, D)."""
        return full_logits(hidden, *self)

    def log_normaliser(self, hidden):
        """ln Σ_v exp(z_v), (N,) float32."""
        kernel = whole(self.kernel)

        def chunk(hidden):
            logits = full_logits(hidden, kernel, self.bias, self.soft_cap)
            return tf.reduce_logsumexp(logits, axis=1)

        return map_row_chunks(chunk, hidden, self.kernel.shape[0])

    def top_k(self, hidden, k):
        """Ids and log-probabilities (N, k) of the k likeliest words."""
        return exact_top_k(hidden, whole(self.kernel), self.bias, k, self.soft_cap)

    def cross_entropy(self, hidden, labels, objective, draw=None):
        """(N,) nats, as `ops.cross_entropy.cross_entropy` returns them."""
        return cross_entropy(hidden, self.kernel, self.bias, labels, objective, draw=draw)

    def weighted_cross_entropy(self, hidden, labels, weights, objective, draw=None):
        """(total, exact nats (N,)), as `ops.cross_entropy.weighted_cross_entropy` returns them."""
        return weighted_cross_entropy(
            hidden, self.kernel, self.bias, labels, weights, objective, draw=draw
        )


class SoftmaxInShards(typing.NamedTuple):
    """The same, of which each replica has the rows of its shard; all replicas call together."""

    kernel: tf.Tensor
    bias: tf.Tensor | None
    soft_cap: float | None
    shard: Shard

    def logits(self, hidden):
        return sharded_logits(hidden, self.kernel, self.bias, self.shard, self.soft_cap)

    def log_normaliser(self, hidden):
        labels = tf.zeros(tf.shape(hidden)[:1], tf.int32)
        plain = Objective(soft_cap=self.soft_cap)
        return self._cross_entropy(hidden, labels, plain)[2]

    def top_k(self, hidden, k):
        return sharded_top_k(hidden, self.kernel, self.bias, k, self.shard, self.soft_cap)

    def cross_entropy(self, hidden, labels, objective):
        return self._cross_entropy(hidden, labels, objective)[0]

    def weighted_cross_entropy(self, hidden, labels, weights, objective):
        losses, nats, _ = self._cross_entropy(hidden, labels, objective)
        return weighted_sum(losses, weights), nats

    def _cross_entropy(self, hidden, labels, objective):
        return sharded_cross_entropy(
            hidden, self.kernel, self.bias, labels, self.shard, objective
        )
