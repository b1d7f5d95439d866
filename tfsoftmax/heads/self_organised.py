"""Self-organised softmax: a softmax over clusters that are learned while the model is trained."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Unpack

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.distributions.nary_tiles import bounds
from tfsoftmax.distributions.organised import Members, Observed, Organised
from tfsoftmax.distributions.rows import Rows
from tfsoftmax.heads.base import SoftmaxHead
from tfsoftmax.heads.options import WeightOptions
from tfsoftmax.layers.initializers import add_weight
from tfsoftmax.ops.replicas import add_state, gathered_rows, of_all_replicas, own_copy
from tfsoftmax.ops.subsets import distinct, kept_where
from tfsoftmax.partitions import assignment, classes, code_files
from tfsoftmax.support.arguments import ArrayLike, check_at_least, expect
from tfsoftmax.support.counts import checked_counts
from tfsoftmax.support.packing import packed

NOWHERE = tf.int32.max  # a word beyond all, where XLA writes nothing


@keras.saving.register_keras_serializable(package="tfsoftmax")
class SelfOrganisedSoftmax(SoftmaxHead):
    """P(w | h) = P(c | h_c) · P(w | h_w, c), exact, with h_c = relu(W_c h) and h_w = relu(W_w h).

    Training keeps, for each word, a smoothed average of the clusters' log-probabilities at the
    positions of the word. `reassign` assigns the words to clusters by these averages, and the
    callback `tfsoftmax.Reassign` calls it while `fit` runs. The averages take 4 V ⌈√V⌉ bytes. A
    word keeps its row of the kernel when it moves to another cluster. You can also pass clusters
    that another model has learned; these are fixed.

    Args:
        vocab_size: V, the number of words.
        counts: (V,) occurrences of the words.
        gamma: γ >= 1. A cluster has at most γ√V words; there are ⌈√V⌉ clusters.
        frequency_budget: a cluster takes no more words once its words make up this share of
            the tokens, until all clusters have reached it.
        activation: activation of the projections of h.
        use_bias: whether clusters and words have biases.
        seed: seed of the random clusters that training starts from.
        clusters: None to learn the clusters. Else what `ClassSoftmax` takes as `classes`: the
            path of a file that `save_clusters` (`tfsoftmax show_clusters --out=...`) wrote, int
            (V,), or a name. These clusters are fixed, nothing is kept for `reassign`, and gamma
            and frequency_budget have no effect. Words that the file lacks share a cluster.
        words: the V words in the order of their ids, for a file.
        **kwargs: options of the weights and of the layer, `heads.options.WeightOptions`. The
            kernel (V, D) has one row for each word. There are also a kernel (C, D) of the clusters
            and two projections (D, D).

    Example:
        counts = [1_000_000 // rank for rank in range(1, 1001)]
        hidden, labels = keras.random.normal((8, 64)), keras.random.randint((8,), 0, 1000)
        head = tfsoftmax.SelfOrganisedSoftmax(1000, counts)
        nats, moved = head.training_loss(hidden, labels), head.reassign()

    Source: Shen et al. 2017; fixed clusters are those of section 5.2, with the same equations 1
    to 4. Departures: λ(w) = 1 - 1/f_w in equation 9, as equation 10 would forget all but the last
    occurrence of a frequent word; the occurrences of a word in a batch count as their mean;
    `reassign` adds 1e-4 bits to q(w, c) of a word's current cluster, so that words that prefer
    none stay where they are; biases are optional.
    """

    saved_options = ("counts", "gamma", "frequency_budget", "seed")
    trains_exactly = logits_in_loop = True

    def __init__(
        self, vocab_size: int, counts: ArrayLike, gamma: float = 1.5, frequency_budget: float = 0.1,
        activation: str | Callable = "relu", use_bias: bool = False, seed: int = 0,
        clusters: classes.ClassesOption | None = None, words: Sequence[str] | None = None,
        **kwargs: Unpack[WeightOptions],
    ):
        super().__init__(vocab_size, use_bias=use_bias, **kwargs)
        self.counts = checked_counts(counts, self.vocab_size).astype(np.float64)
        self.num_clusters, self.most_words = assignment.limits(self.vocab_size, gamma)
        self.fixed_clusters = None
        if clusters is not None:
            self.fixed_clusters = classes.build(
                clusters, self.vocab_size, counts=counts, words=words, argument="clusters"
            )
            self.num_clusters = int(self.fixed_clusters.max()) + 1
            self.most_words = int(np.bincount(self.fixed_clusters).max())
        expect(frequency_budget > 0, "frequency_budget", "be positive", frequency_budget)
        self.gamma, self.frequency_budget = gamma, frequency_budget
        self.activation = keras.activations.get(activation)
        check_at_least(0, seed=seed)
        self.seed = seed

    def build(self, hidden_shape):
        super().build(hidden_shape)
        size, rows = hidden_shape[-1], self.vocab_size
        self.cluster_projection, self.word_projection = (
            add_weight(self, name, (size, size), self.kernel_initializer)
            for name in ("cluster_projection", "word_projection")
        )
        self.cluster_kernel = self._add_kernel(self.num_clusters, size, "cluster_kernel")
        self.cluster_bias = self._add_bias(self.num_clusters, "cluster_bias")
        self.kernel, self.bias = self._kernel_and_bias(rows, size)
        clusters = self.fixed_clusters
        if clusters is None:
            clusters = np.random.default_rng(self.seed).permutation(rows) % self.num_clusters
        layout = _layout(clusters, self.num_clusters)
        self.layout = {
            name: self._state(name, value, value.shape) for name, value in layout.items()
        }
        if self.fixed_clusters is not None:
            return
        even = np.float32(-np.log2(self.num_clusters))
        self.preferences = self._state(  # q(w, c), bits
            "preferences", even, (rows, self.num_clusters)
        )

    def _state(self, name, value, shape):
        return add_state(
            self, name, shape, value.dtype.name, lambda shape, dtype: tf.broadcast_to(value, shape)
        )

    @property
    def clusters(self) -> np.ndarray:
        """int32 array (V,), the cluster of each word."""
        return self.layout["clusters"].numpy()

    def reassign(self) -> dict[str, float]:
        """Moves the words to the clusters that they preferred in training.

        Returns:
            dict: the share of the words, `changed_words`, and of the tokens, `changed_tokens`,
            whose cluster has changed. Fixed clusters, and those of a layer with
            `trainable=False`, do not change.
        """
        if not self._learns_clusters:
            return {"changed_words": 0.0, "changed_tokens": 0.0}
        before = self.clusters
        preferences = self.preferences.numpy()
        preferences[np.arange(len(before)), before] += 1e-4  # words without a preference stay
        shares = self.counts / self.counts.sum()
        after = assignment.assign(preferences, shares, self.most_words, self.frequency_budget)
        for name, value in _layout(after, self.num_clusters).items():
            self.layout[name].assign(value)
        changed = after != before
        return {
            "changed_words": float(changed.mean()), "changed_tokens": float(shares[changed].sum())
        }

    @property
    def _learns_clusters(self):
        return self.fixed_clusters is None and self.trainable

    def save_clusters(self, path: str | PathLike, words: Sequence[str]) -> None:
        """Writes the clusters to a file that `SelfOrganisedSoftmax(clusters=path)` reads.

        `ClassSoftmax(classes=path)` reads it, too. The lines are cluster<TAB>word<TAB>count.
        """
        width = len(str(self.num_clusters - 1))
        codes = [f"{c:0{width}}" for c in self.clusters]
        code_files.write_codes(path, codes, words, self.counts)

    def cluster_log_prob(self, hidden: ArrayLike, labels: ArrayLike) -> tf.Tensor:
        """ln P(c | h) of the labels' clusters: (...) for hidden (..., D) and labels (...)."""
        return self._by_position(
            lambda *rows: -self.distribution().cluster_nats(*rows), hidden, labels
        )

    def distribution(self):
        biases = None if self.cluster_bias is None else self.cluster_bias.value
        return Organised(
            Rows(self.cluster_kernel.value, biases), *self._parameters(),
            (self.cluster_projection.value, self.word_projection.value), self.activation,
            Members(**{name: variable.value for name, variable in self.layout.items()}),
            bounds([[self.most_words]], self.vocab_size),
        )

    def objective(self):
        distribution = self.distribution()
        return Observed(distribution, self._observe) if self._learns_clusters else distribution

    def _observe(self, scores, log_sums, labels, weights):
        """Equation 9: q(w, ·) moves towards log₂ P(· | h) where w stands.

        Positions of weight zero do not count. They are left out after the replicas have told each
        other, since a collective of nothing ends the process.
        """
        labels = tf.where(weights != 0, labels, NOWHERE)
        scores, log_sums, labels = of_all_replicas([scores, log_sums, labels])
        scores, log_sums, labels = kept_where(labels != NOWHERE, scores, log_sums, labels)
        words, index = distinct(labels, NOWHERE)
        count = tf.size(words)
        repeats = tf.math.unsorted_segment_sum(tf.ones(tf.shape(labels)), index, count)
        scores, log_sums = (
            tf.math.unsorted_segment_mean(x, index, count) for x in (scores, log_sums)
        )
        bits = (scores - log_sums[:, None]) / np.log(2)
        known = tf.minimum(words, self.vocab_size - 1)
        frequency = tf.gather(tf.constant(np.maximum(self.counts, 1.0), tf.float32), known)
        kept = tf.pow(1 - 1 / frequency, repeats)[:, None]
        rows = kept * gathered_rows(self.preferences.value, known) + (1 - kept) * bits
        own_copy(self.preferences.value).scatter_update(tf.IndexedSlices(rows, words))

    def get_config(self):
        return {
            **super().get_config(),
            "clusters": packed(self.fixed_clusters),
            "activation": keras.activations.serialize(self.activation),
        }


def _layout(clusters, num_clusters):
    """Each word's cluster, the words cluster by cluster, each word's place there, and all sizes."""
    members = np.argsort(clusters, kind="stable").astype(np.int32)
    slots = np.empty_like(members)
    slots[members] = np.arange(len(members), dtype=np.int32)
    sizes = np.bincount(clusters, minlength=num_clusters).astype(np.int32)
    return {
        "clusters": clusters.astype(np.int32), "members": members, "slots": slots, "sizes": sizes
    }
