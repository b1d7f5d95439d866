"""Differentiated softmax: many hidden units for frequent words, few for rare ones."""

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.heads.base import SoftmaxHead
from tfsoftmax.ops.cross_entropy import cross_entropy, weighted_cross_entropy
from tfsoftmax.ops.logits import exact_top_k, full_logits
from tfsoftmax.partitions.bands import band_units, frequency_bands


@keras.saving.register_keras_serializable(package="tfsoftmax")
class DifferentiatedSoftmax(SoftmaxHead):
    """One softmax over all words, whose scores see parts of the hidden state.

    Words of similar frequency form a band. Band b of V_b words has d_b units:

        z_w = W_w · h_b + bias_w,    P(w | h) = exp(z_w) / Σ_v exp(z_v),

    where h_b is a block of the hidden state that no other band sees, Σ d_b = D, or, projected,
    h P_b with a projection (D, d_b). Scores cost Σ V_b d_b instead of V D, in training and after
    it. Words may have any ids.

    Args:
        vocab_size: V, the number of words.
        cutoffs: K frequency ranks, rising: where bands 1 to K begin.
        units: K + 1 numbers d_b; of blocks, their sum is D. None: falling by
            `projection_factor` from band to band, the first with D units if projected.
        projected: whether each band sees a projection of the whole hidden state; one of D units
            sees it as it is.
        projection_factor: of the default `units`.
        counts: (V,) occurrences of each word, by which words are ranked. Without counts or
            permutation, ids must already fall in frequency.
        permutation: (V,) word ids by falling frequency, if not by the counts; `"ids"`: they fall
            already. Warns if counts say otherwise.
        use_bias: whether there is a bias for each word.
        kernel_initializer: of the kernels (V_b, d_b).
        projection_initializer: of the projections (D, d_b).
        bias_initializer: of the biases.
        **kwargs: of `keras.layers.Layer`.

    Source: Müller 2017, section 2.2.2.3: Chen et al. 2016 (blocks), Grave et al. 2017 (projected).
    """

    trains_exactly = True

    def __init__(
        self,
        vocab_size,
        cutoffs,
        units=None,
        projected=False,
        projection_factor=4.0,
        counts=None,
        permutation=None,
        use_bias=True,
        kernel_initializer="glorot_uniform",
        projection_initializer="glorot_uniform",
        bias_initializer="zeros",
        **kwargs,
    ):
        super().__init__(vocab_size, **kwargs)
        self.bands = frequency_bands(self.vocab_size, cutoffs, counts, permutation)
        bands = len(self.bands.sizes)
        if units is not None and (len(units) != bands or min(units) < 1):
            raise ValueError(
                f"`units` must be {bands} positive numbers, one a band. "
                f"Received: units={list(units)}"
            )
        if not projection_factor >= 1:
            raise ValueError(
                "`projection_factor` must be at least 1. "
                f"Received: projection_factor={projection_factor}"
            )
        self.units = None if units is None else list(units)
        self.projected = bool(projected)
        self.projection_factor = projection_factor
        self.use_bias = use_bias
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.projection_initializer = keras.initializers.get(projection_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)

    @classmethod
    def for_vocabulary(cls, vocabulary, **options):
        return cls(len(vocabulary), **{"counts": vocabulary.counts, **options})

    def build(self, hidden_shape):
        size = hidden_shape[-1]
        self.kernels, self.biases, self.projections = [], [], []
        for b, (words, units) in enumerate(zip(self.bands.sizes, self._band_units(size))):
            self.kernels.append(self._add(f"kernel_{b}", (words, units), self.kernel_initializer))
            if self.use_bias:
                self.biases.append(self._add(f"bias_{b}", (words,), self.bias_initializer))
            if self.projected and units != size:
                shape = size, units
                self.projections.append(
                    self._add(f"projection_{b}", shape, self.projection_initializer)
                )
        self.built = True

    def _add(self, name, shape, initializer):
        # One initializer called for several weights would draw them alike.
        initializer = initializer.clone() if hasattr(initializer, "clone") else initializer
        return self.add_weight(name=name, shape=shape, initializer=initializer, autocast=False)

    def _band_units(self, size):
        """Units of each band for a hidden state of `size` units."""
        bands, units = len(self.bands.sizes), self.units
        if units is None and self.projected:
            return band_units(size, bands - 1, self.projection_factor)
        if units is None:
            units = block_units(size, bands, self.projection_factor)
        if not self.projected and sum(units) != size:
            raise ValueError(
                f"`units` must add up to those of the hidden state, {size}. "
                f"Received: units={list(units)}"
            )
        return units

    def _by_band(self, hidden):
        """The parts of the hidden state that the bands see, side by side."""
        if not self.projected:
            return hidden
        projections = iter(self.projections)
        return tf.concat([
            hidden if kernel.shape[1] == hidden.shape[1]
            else tf.matmul(hidden, tf.cast(next(projections).value, hidden.dtype))
            for kernel in self.kernels
        ], axis=1)

    def _parameters(self):
        kernels = [kernel.value for kernel in self.kernels]
        return kernels, [bias.value for bias in self.biases] or [None] * len(kernels)

    def _ranked(self, labels):
        order = self.bands.order
        return labels if order is None else tf.gather(order.ranks, labels)

    def _training_loss(self, hidden, labels):
        return cross_entropy(
            self._by_band(hidden), *self._parameters(), self._ranked(labels)
        )

    def _log_prob(self, hidden, labels):
        return -self._training_loss(hidden, labels)

    def _loss_and_nats(self, hidden, labels, weights):
        return weighted_cross_entropy(
            self._by_band(hidden), *self._parameters(), self._ranked(labels), weights
        )

    def _logits(self, hidden):
        logits, order = full_logits(self._by_band(hidden), *self._parameters()), self.bands.order
        return logits if order is None else tf.gather(logits, order.ranks, axis=1)

    def _top_k(self, hidden, k):
        order = self.bands.order
        ranks, log_probs = exact_top_k(self._by_band(hidden), *self._parameters(), k)
        return ranks if order is None else tf.gather(order.ids, ranks), log_probs

    def get_config(self):
        return {
            **super().get_config(),
            "cutoffs": self.bands.cutoffs,
            "units": None if self.units is None else list(self.units),
            "projected": self.projected,
            "projection_factor": self.projection_factor,
            "permutation": self.bands.permutation,
            "use_bias": self.use_bias,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "projection_initializer": keras.initializers.serialize(self.projection_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
        }


def block_units(size, bands, factor):
    """Units of each block, `size` in all, falling by `factor`, at least one each."""
    if size < bands:
        raise ValueError(
            f"`cutoffs` must make no more bands than there are hidden units, {size}. "
            f"Received: {bands} bands"
        )
    shares = float(factor) ** -np.arange(bands)
    units = np.maximum(1, np.floor(size * shares / shares.sum())).astype(int)
    while units.sum() > size:
        units[units.argmax()] -= 1
    units[0] += size - units.sum()
    return units.tolist()
