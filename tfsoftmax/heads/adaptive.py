"""Adaptive softmax: frequent words in the head cluster, rare ones in tails of fewer units."""

from collections.abc import Sequence
from typing import Unpack

import keras
import tensorflow as tf

from tfsoftmax.distributions.clusters import Cluster, Clusters
from tfsoftmax.distributions.smoothed import SmoothedByDraws
from tfsoftmax.distributions.views import Ranked
from tfsoftmax.heads.inputs import check_objective
from tfsoftmax.heads.options import CommonOptions
from tfsoftmax.heads.random_state import RandomState
from tfsoftmax.heads.tied import TiedHead
from tfsoftmax.layers.adaptive_embedding import AdaptiveEmbedding
from tfsoftmax.layers.computed_rows import ComputedRows
from tfsoftmax.layers.initializers import Initializer, add_weight
from tfsoftmax.ops.graphs import whole
from tfsoftmax.partitions.bands import band_units, frequency_bands
from tfsoftmax.partitions.cutoffs import are_automatic, automatic_cutoffs
from tfsoftmax.support.arguments import ArrayLike, check_at_least, expect
from tfsoftmax.support.packing import packed


@keras.saving.register_keras_serializable(package="tfsoftmax")
class AdaptiveSoftmax(TiedHead):
    """P(w | h) = P_head(w | h) for frequent words, P_head(tail | h) P_tail(w | h) for others.

    The head cluster is a softmax over the shortlist, the most frequent words, and one more
    logit for each of K tail clusters. Tail k sees the hidden state through a projection to
    `D / projection_factor^k` units. In training it is computed only at the positions whose labels
    it contains.

    Args:
        vocab_size: V, the number of words.
        cutoffs: K rising frequency ranks. The shortlist is the `cutoffs[0]` most frequent words,
            and tail k begins at rank `cutoffs[k - 1]`. `"auto"`, which needs `counts`, chooses the
            cutoffs with the least expected cost on this machine when the head is built.
        projection_factor: the factor by which the number of units falls from one tail to the next,
            or None for tails that see the whole hidden state.
        use_bias: whether there is a bias for each word and tail. Grave et al. have none; biases
            lowered test perplexity by 1.1 % on a million words (one seed,
            experiments/results/projections).
        counts: (V,) occurrences of each word, by which words are ranked. Without counts or
            permutation, the ids must be sorted by descending frequency.
        permutation: (V,) word ids by descending frequency, which overrides the order of the counts;
            `"ids"` says that the ids are sorted so. There is a warning if the counts disagree.
        shares: K floats, the share of labels in each tail, which determines the buffer sizes of
            compiled code. By default it comes from the counts or from Zipf's law.
        kernel_initializer: initializer of the kernels, (V_0 + K, D) and (V_k, D_k), which have
            one row for each word.
        projection_initializer: initializer of the projections (D, D_k).
        bias_initializer: initializer of the biases.
        tied_to: an `AdaptiveEmbedding` of the same layout, whose embeddings serve as the kernels.
            Or a `ComputedRows`: the head's own projections reduce its rows (V_k, D) as they reduce
            the hidden state, and the product is the kernel of tail k.
        tie_projections: whether the projections of an `AdaptiveEmbedding`, transposed, serve as
            the projections too.
        label_smoothing: mass ε that training takes from the label and spreads evenly over all
            words. To avoid computing all words at each position, each step draws ⌈ε N⌉ of N
            positions and gives each of them one uniformly drawn word as a second label. In
            expectation, loss and gradient are those of smoothed labels.
        seed: seed of these positions and words.
        **kwargs: options of the weights and of the layer, `heads.options.CommonOptions`.

    Example:
        counts = [1_000_000 // rank for rank in range(1, 1001)]
        hidden, labels = keras.random.normal((8, 64)), keras.random.randint((8,), 0, 1000)
        head = tfsoftmax.AdaptiveSoftmax(1000, cutoffs=[100, 400], counts=counts)
        nats, (ids, log_probs) = head.training_loss(hidden, labels), head.top_k(hidden, 5)

    Source: Grave et al. 2017; Müller 2017, eq. 2.16 and sections 2.2.2.4, 3.4 (without biases;
    full-vocabulary logits by eq. 3.5 and 3.6, joined and gathered instead of scattered by
    `scatter_nd`: `python -m experiments.benchmarks.run logits` compares the two); Baevski and
    Auli 2019 (tying).
    """

    saved_options = (
        "projection_factor", "projection_initializer", "tie_projections", "label_smoothing", "seed",
    )
    trains_exactly = True
    ties_to = AdaptiveEmbedding
    tails: int | None = None  # number of tails among which "auto" looks for cutoffs; None: any

    def __init__(
        self, vocab_size: int, cutoffs: Sequence[int] | str = "auto",
        projection_factor: float | None = 4.0, use_bias: bool = False,
        counts: ArrayLike | None = None, permutation: ArrayLike | str | None = None,
        shares: Sequence[float] | None = None, kernel_initializer: Initializer = "glorot_uniform",
        projection_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        tied_to: AdaptiveEmbedding | ComputedRows | None = None,
        tie_projections: bool = True, label_smoothing: float = 0.0, seed: int | None = None,
        **kwargs: Unpack[CommonOptions],
    ):
        super().__init__(
            vocab_size, tied_to, use_bias=use_bias, kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer, **kwargs,
        )
        check_at_least(1, projection_factor=projection_factor)
        check_objective(label_smoothing)
        self.label_smoothing, self.seed = label_smoothing, seed
        self.random_state = RandomState(seed) if label_smoothing else None
        self.projection_factor = projection_factor
        self.projection_initializer = keras.initializers.get(projection_initializer)
        self.tie_projections = tie_projections
        self._counts, self._permutation, self._shares = counts, permutation, shares
        self.bands = None
        if self._takes_bands:
            self._take_bands_of_embedding(cutoffs)
        elif not are_automatic(cutoffs, counts, vocab_size):
            self.bands = frequency_bands(vocab_size, cutoffs, counts, permutation, shares)

    def build(self, hidden_shape):
        super().build(hidden_shape)
        size = hidden_shape[-1]
        if self.bands is None:
            cutoffs = automatic_cutoffs(
                self._counts, self._permutation, size, self.projection_factor, self.tails
            )
            self.bands = frequency_bands(
                self.vocab_size, cutoffs, self._counts, self._permutation, self._shares
            )
        tied = self.tied_to is not None
        if tied:
            self._build_tied(size)
        takes_projections = self._takes_bands and self.tie_projections
        projected = self.projection_factor is not None and not takes_projections
        tails = len(self.bands.cutoffs)
        widths = band_units(size, tails, self.projection_factor)
        self.kernels, self.biases, self.projections = [], [], []
        for k, (words, units) in enumerate(zip(self.bands.sizes, widths)):
            rows = words + tails if k == 0 else words
            if not tied:
                self.kernels.append(self._add_kernel(rows, units, f"kernel_{k}"))
            if self.use_bias:
                self.biases.append(self._add_bias(rows, f"bias_{k}"))
            if k and projected:
                self.projections.append(
                    add_weight(self, f"projection_{k}", (size, units), self.projection_initializer)
                )
        if tied:
            self.kernels.append(self._add_kernel(tails, size, "tail_kernel"))

    @property
    def _takes_bands(self):
        """Whether the layout is that of an `AdaptiveEmbedding`."""
        return self.tied_to is not None and not self._computes_rows

    def _take_bands_of_embedding(self, cutoffs):
        bands = self.tied_to.bands
        if not isinstance(cutoffs, str):
            cutoffs = [*map(int, cutoffs)]
        known = cutoffs in ("auto", bands.cutoffs)
        expect(known, "cutoffs", f"be those of `tied_to`, {bands.cutoffs}", cutoffs)
        self.bands, self.projection_factor = bands, self.tied_to.projection_factor

    def _clusters(self):
        """The parameters as `Cluster`s, the head first."""
        kernels = [w.value for w in self.kernels]
        projections = [None, *(w.value for w in self.projections)]
        if self._computes_rows:
            by_rank = tf.gather(self.tied_to.table(), self.bands.order.ids)
            shortlist, *tails = tf.split(by_rank, self.bands.sizes)
            if len(projections) > 1:
                tails = [tf.matmul(rows, p) for rows, p in zip(tails, projections[1:])]
            kernels = [tf.concat([shortlist, *kernels], axis=0), *tails]
        elif self.tied_to is not None:
            tables = [w.value for w in self.tied_to.tables]
            kernels = [tf.concat([whole(tables[0]), *kernels], axis=0), *tables[1:]]
            if self.tie_projections:
                projections = [None, *(w.value for w in self.tied_to.projections)]
        biases = [w.value for w in self.biases] or [None] * len(kernels)
        if len(projections) == 1:
            projections = [None] * len(kernels)
        return [Cluster(*parts) for parts in zip(kernels, biases, projections)]

    def distribution(self):
        clusters = Clusters(self._clusters(), self.bands.ends, self.bands.shares)
        return Ranked(clusters, self.bands.order)

    def objective(self):
        if not self.label_smoothing:
            return self.distribution()
        seed = self.random_state.next()
        return SmoothedByDraws(self.distribution(), self.label_smoothing, seed)

    def get_config(self):
        known = self.bands is not None
        return {
            **super().get_config(),
            "cutoffs": self.bands.cutoffs if known else "auto",
            "counts": None if known else packed(self._counts),
            "permutation": packed(self.bands.permutation if known else self._permutation),
            "shares": list(self.bands.shares) if known else self._shares,
        }
