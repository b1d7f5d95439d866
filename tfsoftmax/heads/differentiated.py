"""Differentiated softmax: many hidden units for frequent words, few for rare ones."""

from collections.abc import Sequence
from typing import Unpack

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.distributions.rows import Rows
from tfsoftmax.distributions.views import Mapped, Ranked
from tfsoftmax.heads.base import SoftmaxHead
from tfsoftmax.heads.options import HeadOptions
from tfsoftmax.layers.initializers import Initializer, add_weight
from tfsoftmax.partitions.bands import band_units, frequency_bands
from tfsoftmax.support.arguments import ArrayLike, check_at_least, expect
from tfsoftmax.support.packing import packed


@keras.saving.register_keras_serializable(package="tfsoftmax")
class DifferentiatedSoftmax(SoftmaxHead):
    """One softmax over all words, where each score uses a part of the hidden state.

    Words of similar frequency form a band. Band b of V_b words has d_b units:

        z_w = W_w · h_b + bias_w,    P(w | h) = exp(z_w) / Σ_v exp(z_v),

    where h_b is a block of the hidden state that no other band sees, Σ d_b = D, or, if `projected`,
    h P_b with a projection (D, d_b). Scores cost Σ V_b d_b instead of V D, in training and after
    it. Words may have any ids.

    Args:
        vocab_size: V, the number of words.
        cutoffs: K rising frequency ranks, at which bands 1 to K begin.
        units: K + 1 numbers d_b, which add up to D unless the bands are projected. None: units
            that fall by `projection_factor` from band to band; the first band has D units if
            projected.
        projected: whether each band sees a projection of the whole hidden state. A band of D
            units sees the hidden state as it is.
        projection_factor: the factor by which the default `units` fall.
        counts: (V,) occurrences of each word, by which words are ranked. Without counts or
            permutation, the ids must be sorted by descending frequency.
        permutation: (V,) word ids by descending frequency, which overrides the order of the counts;
            `"ids"` says that the ids are sorted so. There is a warning if the counts disagree.
        projection_initializer: initializer of the projections (D, d_b).
        **kwargs: options of the weights and of the layer, `heads.options.HeadOptions`. The kernels
            are (V_b, d_b).

    Example:
        hidden, labels = keras.random.normal((8, 64)), keras.random.randint((8,), 0, 1000)
        head = tfsoftmax.DifferentiatedSoftmax(1000, cutoffs=[100, 400], units=[40, 16, 8])
        nats = head.training_loss(hidden, labels)
        words, log_probs = head.top_k(hidden, 5)

    Source: Müller 2017, section 2.2.2.3: Chen et al. 2016 (blocks), Grave et al. 2017 (projected).
    """

    saved_options = ("units", "projected", "projection_factor", "projection_initializer")
    trains_exactly = True

    def __init__(
        self, vocab_size: int, cutoffs: Sequence[int], units: Sequence[int] | None = None,
        projected: bool = False, projection_factor: float = 4.0, counts: ArrayLike | None = None,
        permutation: ArrayLike | str | None = None,
        projection_initializer: Initializer = "glorot_uniform", **kwargs: Unpack[HeadOptions],
    ):
        super().__init__(vocab_size, **kwargs)
        self.bands = frequency_bands(self.vocab_size, cutoffs, counts, permutation)
        bands = len(self.bands.sizes)
        given = np.ones(bands, int) if units is None else np.asarray(units)
        right = given.shape == (bands,) and given.dtype.kind in "iu" and given.min() >= 1
        expect(right, "units", f"be {bands} positive integers, one for each band", units)
        check_at_least(1, projection_factor=projection_factor)
        self.units = None if units is None else list(units)
        self.projected = bool(projected)
        self.projection_factor = projection_factor
        self.projection_initializer = keras.initializers.get(projection_initializer)

    def build(self, hidden_shape):
        super().build(hidden_shape)
        size = hidden_shape[-1]
        self.kernels, self.biases, self.projections = [], [], []
        for b, (words, units) in enumerate(zip(self.bands.sizes, self._band_units(size))):
            kernel, bias = self._kernel_and_bias(words, units, f"_{b}")
            self.kernels.append(kernel)
            if self.use_bias:
                self.biases.append(bias)
            if self.projected and units != size:
                shape = size, units
                self.projections.append(
                    add_weight(self, f"projection_{b}", shape, self.projection_initializer)
                )

    def _band_units(self, size):
        """Units of each band for a hidden state of `size` units."""
        bands, units = len(self.bands.sizes), self.units
        if units is None and self.projected:
            return band_units(size, bands - 1, self.projection_factor)
        if units is None:
            units = block_units(size, bands, self.projection_factor)
        fits = self.projected or sum(units) == size
        expect(fits, "units", f"add up to those of the hidden state, {size}", list(units))
        return units

    def _by_band(self, hidden):
        """The projected hidden states that the bands see, side by side."""
        projections = iter(self.projections)
        return tf.concat([
            hidden if kernel.shape[1] == hidden.shape[1]
            else tf.matmul(hidden, tf.cast(next(projections).value, hidden.dtype))
            for kernel in self.kernels
        ], axis=1)

    def distribution(self):
        kernels = [kernel.value for kernel in self.kernels]
        rows = Rows(kernels, [bias.value for bias in self.biases] or [None] * len(kernels))
        return Ranked(Mapped(rows, self._by_band) if self.projected else rows, self.bands.order)

    def get_config(self):
        return {
            **super().get_config(),
            "cutoffs": self.bands.cutoffs,
            "permutation": packed(self.bands.permutation),
        }


def block_units(size, bands, factor):
    """Units of each block, `size` in all, falling by `factor`, at least one each."""
    rule = f"make no more bands than there are hidden units, {size}"
    expect(bands <= size, "cutoffs", rule, received=f"{bands} bands")
    shares = float(factor) ** -np.arange(bands)
    units = np.maximum(1, np.floor(size * shares / shares.sum())).astype(int)
    while units.sum() > size:
        units[units.argmax()] -= 1
    units[0] += size - units.sum()
    return units.tolist()
