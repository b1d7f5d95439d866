"""Adaptive softmax: frequent words in the head cluster, rare ones in tails of fewer units."""

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.heads.base import SoftmaxHead
from tfsoftmax.ops.adaptive import (
    adaptive_cross_entropy,
    adaptive_logits,
    adaptive_top_k,
    weighted_adaptive_cross_entropy,
)
from tfsoftmax.ops.adaptive_clusters import Cluster
from tfsoftmax.ops.logits import map_row_chunks
from tfsoftmax.partitions.bands import band_units, frequency_bands
from tfsoftmax.partitions.cutoffs import automatic_cutoffs


@keras.saving.register_keras_serializable(package="tfsoftmax")
class AdaptiveSoftmax(SoftmaxHead):
    """P(w | h) = P_head(w | h) for frequent words, P_head(tail | h) P_tail(w | h) for others.

    The head cluster is a softmax over the shortlist, the most frequent words, and one more
    logit for each of K tails. Tail k sees the hidden state through a projection to
    D / projection_factor^k units, and in training only the positions whose labels it holds.

    Args:
        vocab_size: V, the number of words.
        cutoffs: K rising frequency ranks: the shortlist is the `cutoffs[0]` most frequent words,
            tail k the words from `cutoffs[k - 1]` on. `"auto"`, which wants `counts`: those of
            least expected cost on this machine, found when the head is built.
        projection_factor: by which each tail has fewer units than the one before, or None for
            tails that see the whole hidden state.
        use_bias: whether there is a bias for each word and tail.
        counts: (V,) occurrences of each word, by which words are ranked. Without counts or
            permutation, ids must already fall in frequency.
        permutation: (V,) word ids by falling frequency, if not by the counts; `"ids"`: they fall
            already. Warns if counts say otherwise.
        shares: K floats, the share of labels in each tail, from which compiled code takes the
            size of its buffers. By default from the counts, or Zipf's law.
        kernel_initializer: of the kernels, (V_0 + K, D) and (V_k, D_k), one row a word.
        projection_initializer: of the projections (D, D_k).
        bias_initializer: of the biases.
        tied_to: an `AdaptiveEmbedding` of the same layout, whose embeddings serve as the kernels.
        tie_projections: whether its projections serve, transposed, as the projections too.
        **kwargs: of `keras.layers.Layer`.

    Source: Grave et al. 2017; Müller 2017, eq. 2.16 and sections 2.2.2.4, 3.4 (without biases;
    full-vocabulary logits by eq. 3.5 and 3.6); Baevski and Auli 2019 (tying).
    """

    trains_exactly = True
    machine_options = ("cutoffs",)
    tails = None  # number of tails among which "auto" looks for cutoffs; None: any

    def __init__(
        self,
        vocab_size,
        cutoffs="auto",
        projection_factor=4.0,
        use_bias=False,
        counts=None,
        permutation=None,
        shares=None,
        kernel_initializer="glorot_uniform",
        projection_initializer="glorot_uniform",
        bias_initializer="zeros",
        tied_to=None,
        tie_projections=True,
        **kwargs,
    ):
        super().__init__(vocab_size, **kwargs)
        if projection_factor is not None and projection_factor < 1:
            raise ValueError(
                "`projection_factor` must be at least 1, or None. "
                f"Received: projection_factor={projection_factor}"
            )
        self.projection_factor = projection_factor
        self.use_bias = use_bias
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.projection_initializer = keras.initializers.get(projection_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.tied_to = tied_to
        self.tie_projections = tie_projections
        self._counts, self._permutation, self._shares = counts, permutation, shares
        self.bands = None
        if tied_to is not None:
            self._take_bands_of_embedding(cutoffs)
        elif not isinstance(cutoffs, str):
            self.bands = frequency_bands(vocab_size, cutoffs, counts, permutation, shares)
        elif cutoffs != "auto" or counts is None:
            raise ValueError(
                '`cutoffs` must be a list of ranks, or "auto" together with `counts`. '
                f"Received: cutoffs={cutoffs!r}, counts={counts}"
            )

    @classmethod
    def for_vocabulary(cls, vocabulary, **options):
        return cls(len(vocabulary), **{"counts": vocabulary.counts, **options})

    def build(self, hidden_shape):
        size = hidden_shape[-1]
        if self.bands is None:
            cutoffs = automatic_cutoffs(
                self._counts, self._permutation, size, self.projection_factor, self.tails
            )
            self.bands = frequency_bands(
                self.vocab_size, cutoffs, self._counts, self._permutation, self._shares
            )
        if self.tied_to is not None:
            if self.tied_to.output_dim != size:
                raise ValueError(
                    f"`tied_to` must have as many units as the hidden state, {size}. "
                    f"Received: an embedding of {self.tied_to.output_dim} units"
                )
            if not self.tied_to.built:
                self.tied_to.build()
        tails = len(self.bands.cutoffs)
        widths = band_units(size, tails, self.projection_factor)
        self.kernels, self.biases, self.projections = [], [], []
        for k, (words, units) in enumerate(zip(self.bands.sizes, widths)):
            rows = words + tails if k == 0 else words
            if self.tied_to is None:
                self._add(self.kernels, f"kernel_{k}", (rows, units), self.kernel_initializer)
            if self.use_bias:
                self._add(self.biases, f"bias_{k}", (rows,), self.bias_initializer)
            tied = self.tied_to is not None and self.tie_projections
            if k and self.projection_factor is not None and not tied:
                shape = (size, units)
                self._add(self.projections, f"projection_{k}", shape, self.projection_initializer)
        if self.tied_to is not None:
            self._add(self.kernels, "tail_kernel", (tails, size), self.kernel_initializer)
        self.built = True

    def top_k_and_tails(self, hidden, k):
        """`top_k`, and how many tails were computed for each position, (...) int32."""
        hidden = tf.convert_to_tensor(hidden)
        rows = self._as_hidden(tf.reshape(hidden, [-1, hidden.shape[-1]]))
        leading = tf.shape(hidden)[:-1]
        ids, log_probs, tails = self._top_k_and_tails(rows, k)
        wide = tf.concat([leading, [k]], 0)
        return tf.reshape(ids, wide), tf.reshape(log_probs, wide), tf.reshape(tails, leading)

    def _add(self, weights, name, shape, initializer):
        again = type(initializer).from_config(initializer.get_config())  # draws anew each time
        weights.append(self.add_weight(name=name, shape=shape, initializer=again, autocast=False))

    def _take_bands_of_embedding(self, cutoffs):
        tied_to = self.tied_to
        if not hasattr(tied_to, "bands") or tied_to.input_dim != self.vocab_size:
            raise ValueError(
                f"`tied_to` must be an AdaptiveEmbedding of {self.vocab_size} words. "
                f"Received: {tied_to}"
            )
        if cutoffs not in ("auto", tied_to.bands.cutoffs):
            raise ValueError(
                f"`cutoffs` must be those of `tied_to`, {tied_to.bands.cutoffs}. "
                f"Received: cutoffs={cutoffs}"
            )
        self.bands = tied_to.bands
        self.projection_factor = tied_to.projection_factor

    def _clusters(self):
        """The parameters as `Cluster`s, the head first."""
        kernels = [w.value for w in self.kernels]
        projections = [None, *(w.value for w in self.projections)]
        if self.tied_to is not None:
            tables = [w.value for w in self.tied_to.tables]
            kernels = [tf.concat([tables[0], *kernels], axis=0), *tables[1:]]
            if self.tie_projections:
                projections = [None, *(w.value for w in self.tied_to.projections)]
        biases = [w.value for w in self.biases] or [None] * len(kernels)
        if len(projections) == 1:
            projections = [None] * len(kernels)
        return [Cluster(*parts) for parts in zip(kernels, biases, projections)]

    def _ranked(self, labels):
        order = self.bands.order
        return labels if order is None else tf.gather(order.ranks, labels)

    def _by_word(self, by_rank):
        order = self.bands.order
        return by_rank if order is None else tf.gather(by_rank, order.ranks, axis=1)

    def _logits(self, hidden):
        return self._by_word(adaptive_logits(hidden, self._clusters()))

    def _log_probs(self, hidden):
        return self._by_word(adaptive_logits(hidden, self._clusters(), normalised=True))

    def _training_loss(self, hidden, labels):
        return adaptive_cross_entropy(
            hidden, self._clusters(), self._ranked(labels), self.bands.ends, self.bands.shares
        )

    def _loss_and_nats(self, hidden, labels, weights):
        return weighted_adaptive_cross_entropy(
            hidden, self._clusters(), self._ranked(labels), self.bands.ends, weights,
            self.bands.shares,
        )

    def _log_prob(self, hidden, labels):
        return -self._training_loss(hidden, labels)

    def _top_k(self, hidden, k):
        return self._top_k_and_tails(hidden, k)[:2]

    def _top_k_and_tails(self, hidden, k):
        clusters = self._clusters()
        ranks, log_probs, tails = map_row_chunks(
            lambda rows: adaptive_top_k(rows, clusters, k), hidden, max(self.bands.sizes)
        )
        order = self.bands.order
        return ranks if order is None else tf.gather(order.ids, ranks), log_probs, tails

    def get_config(self):
        known = self.bands is not None
        return {
            **super().get_config(),
            "cutoffs": self.bands.cutoffs if known else "auto",
            "projection_factor": self.projection_factor,
            "use_bias": self.use_bias,
            "counts": None if known else np.asarray(self._counts).tolist(),
            "permutation": self.bands.permutation if known else self._permutation,
            "shares": list(self.bands.shares) if known else self._shares,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "projection_initializer": keras.initializers.serialize(self.projection_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
            "tied_to": keras.saving.serialize_keras_object(self.tied_to),
            "tie_projections": self.tie_projections,
        }

    @classmethod
    def from_config(cls, config):
        tied_to = keras.saving.deserialize_keras_object(config["tied_to"])
        return cls(**{**config, "tied_to": tied_to})
