"""A softmax over clusters of words and one over the words of a cluster, each of its own projection.

    P(w | h) = P(c | h_c) · P(w | h_w, c),    h_c = f(h P_c),  h_w = f(h P_w).

Shapes: N positions, D hidden units, V words, C clusters.
Source: Shen et al. 2017, equations 1 to 4.
"""

import dataclasses
import typing
from collections.abc import Callable

import tensorflow as tf

from tfsoftmax.distributions.base import Objective
from tfsoftmax.distributions.factored import Factored, tensors
from tfsoftmax.distributions.nary import paths_of, steps_of
from tfsoftmax.distributions.nary_tiles import Bounds
from tfsoftmax.distributions.rows import Rows
from tfsoftmax.ops.logits import full_logits
from tfsoftmax.ops.weighting import weighted_sum


class Members(typing.NamedTuple):
    """Which words are in which cluster, as tensors or variables.

    Attributes:
        clusters: (V,) int32, the cluster of each word.
        members: (V,) int32, the words cluster by cluster.
        slots: (V,) int32, the place of each word there.
        sizes: (C,) int32, the number of words of each cluster.

    Example:
        from tfsoftmax.distributions.organised import Members
        members = Members(clusters=[0, 1, 0], members=[0, 2, 1], slots=[0, 2, 1], sizes=[2, 1])
    """

    clusters: tf.Tensor
    members: tf.Tensor
    slots: tf.Tensor
    sizes: tf.Tensor


@dataclasses.dataclass(frozen=True)
class Organised(Factored):
    """The distribution; losses compute all clusters, and the words of those of the labels.

    Attributes:
        clusters: `Rows` over the C clusters, given h_c.
        kernel, bias: (V, D) and (V,) or None, float32 tensors or variables.
        projections: P_c and P_w, (D, D) each.
        activation: f.
        members: `Members`.
        bounds: `nary_tiles.Bounds`, what is known of all batches.

    Example:
        head = tfsoftmax.SelfOrganisedSoftmax(1000, [1] * 1000)
        head.build((None, 64))
        assert isinstance(head.distribution(), tfsoftmax.distributions.organised.Organised)
    """

    clusters: Rows
    kernel: tf.Tensor
    bias: tf.Tensor | None
    projections: tuple[tf.Tensor, tf.Tensor]
    activation: Callable
    members: Members
    bounds: Bounds

    @property
    def vocab_size(self) -> int:
        return self.kernel.shape[0]

    def nats(self, hidden, labels):
        by_cluster, by_word = self.projected(hidden)
        nats = self.clusters.nats(by_cluster, self.clusters_of(labels))
        return nats + self.within(labels).nats(by_word, labels)

    def weighted_nats(self, hidden, labels, weights):
        by_cluster, by_word = self.projected(hidden)
        of_labels = self.clusters_of(labels)
        total, nats = self.clusters.weighted_nats(by_cluster, of_labels, weights)
        of_words, nats_of_words = self.within(labels).weighted_nats(by_word, labels, weights)
        return total + of_words, nats + nats_of_words

    def cluster_nats(self, hidden: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """-ln P(c | h) of the labels' clusters, (N,)."""
        return self.clusters.nats(self.projected(hidden)[0], self.clusters_of(labels))

    def projected(self, hidden: tf.Tensor) -> list[tf.Tensor]:
        """h_c and h_w, (N, D) float32."""
        hidden = tf.cast(hidden, tf.float32)
        return [self.activation(tf.matmul(hidden, p)) for p in tensors(*self.projections)]

    def clusters_of(self, labels: tf.Tensor) -> tf.Tensor:
        """The clusters of words (N,)."""
        return tf.gather(self.members.clusters, labels)

    def within(self, labels: tf.Tensor) -> Objective:
        """-ln P(w | h_w, c) of the labels, given h_w."""
        slots = tf.gather(self.members.slots, labels)
        sizes = tf.convert_to_tensor(self.members.sizes)
        steps = steps_of(
            slots[:, None], self.clusters_of(labels)[:, None], tf.cumsum(sizes, exclusive=True),
            sizes, self.bounds, self.members.members,
        )
        return paths_of(self.kernel, self.bias, steps)

    def full_pass(self):
        of_clusters = tensors(self.clusters.kernel, self.clusters.bias)
        of_words, projections = tensors(self.kernel, self.bias), tensors(*self.projections)
        clusters, number = tf.convert_to_tensor(self.members.clusters), self.clusters.vocab_size

        def full_pass(hidden):
            hidden = tf.cast(hidden, tf.float32)
            # Stacked, as TFLite's converter loses a relu right behind a product with a variable.
            projected = self.activation(tf.stack([tf.matmul(hidden, p) for p in projections]))
            by_cluster, by_word = tf.unstack(projected)
            log_clusters = tf.nn.log_softmax(full_logits(by_cluster, *of_clusters))
            scores = tf.transpose(full_logits(by_word, *of_words))  # words first
            maximum = tf.math.unsorted_segment_max(scores, clusters, number)
            exps = tf.exp(scores - tf.gather(maximum, clusters))
            norms = maximum + tf.math.log(tf.math.unsorted_segment_sum(exps, clusters, number))
            shifts = tf.transpose(log_clusters) - norms
            return tf.transpose(scores + tf.gather(shifts, clusters))

        return full_pass


@dataclasses.dataclass(frozen=True)
class Observed(Objective):
    """The cross-entropy of an `Organised`, which shows P(c | h) of all clusters to a function.

    Attributes:
        distribution: the `Organised`.
        observe: a function of the scores (N, C) of all clusters, their log-normalisers (N,), the
            labels (N,) and the weights (N,).

    Example:
        head = tfsoftmax.SelfOrganisedSoftmax(1000, [1] * 1000)
        head.build((None, 64))
        assert isinstance(head.objective(), tfsoftmax.distributions.organised.Observed)
    """

    distribution: Organised
    observe: Callable

    def nats(self, hidden, labels):
        nats, by_word = self._cluster_nats(hidden, labels, tf.ones(tf.shape(labels)))
        return nats + self.distribution.within(labels).nats(by_word, labels)

    def weighted_nats(self, hidden, labels, weights):
        nats, by_word = self._cluster_nats(hidden, labels, weights)
        within = self.distribution.within(labels)
        of_words, nats_of_words = within.weighted_nats(by_word, labels, weights)
        return weighted_sum(nats, weights) + of_words, tf.stop_gradient(nats) + nats_of_words

    def _cluster_nats(self, hidden, labels, weights):
        """-ln P(c | h) of the labels' clusters (N,), and h_w."""
        by_cluster, by_word = self.distribution.projected(hidden)
        scores = self.distribution.clusters.logits(by_cluster)
        clusters = self.distribution.clusters_of(labels)
        nats = tf.nn.sparse_softmax_cross_entropy_with_logits(clusters, scores)
        log_sums = nats + tf.gather(scores, clusters, batch_dims=1)
        self.observe(*map(tf.stop_gradient, (scores, log_sums)), labels, weights)
        return nats, by_word
