"""The cross-entropy of `Rows` and its gradient, also with smoothing, z-loss and drawn tiles.

`FullSoftmax` trains by it. Positions come in chunks, and the gradient is written by hand.

Words may lie in bands. Band b has a kernel W_b (V_b, d_b), biases b_b, and sees a part h_b
(N, d_b) of the hidden state h = [h_0, h_1, ...]; full softmax is the case of one band. With

    z_b = h_b W_bᵀ + b_b,   ln s = ln Σ exp z over all bands,   e_b = exp(z_b - o_b),

the loss of a position with weight w is w (ln s - z_y), and with f_b = w exp(o_b) / s its gradient
is

    dh_b = f_b (e_b W_b) - w W_y,   dW_b = e_bᵀ (f_b h_b) - [scatter of w h_b to row y],

where the terms of the label y belong to its band only. Each block of a band's words has an offset
of its own, so that its exponentials are formed while its logits are in the cache. In float32 and
bfloat16, and without smoothing or a cap, they are never multiplied by f_b; instead, matrices of the
size (N, D) are.

Chunks of `CHUNK_ROWS` positions, and blocks of the kernels' rows for the products that have the
kernels' shape, limit the memory besides weights and gradients to

    4 V CHUNK_ROWS bytes for e, about three times BLOCK_BYTES, and 4 D CHUNK_ROWS for each block,
    whose products for the gradient of h are summed at the end;

where e takes up to three times as much with a soft cap or label smoothing. If a chunk would need
more than LOGITS_BYTES and more than the kernel itself, it has fewer rows.

Shapes: N positions, n of them in a chunk or a subset, D = Σ d_b hidden units, V = Σ V_b words.
"""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from tfsoftmax.distributions import products
from tfsoftmax.distributions.base import HandWritten
from tfsoftmax.distributions.chunk_gradients import (
    RowLoss,
    blocks_of,
    by_band,
    cap_slope,
    chunk_gradients,
    logits_of,
    normaliser_terms,
)
from tfsoftmax.distributions.drawn_tiles import Draw
from tfsoftmax.distributions.log_sums import log_sum_of_blocks
from tfsoftmax.ops.chunks import sum_over_chunks
from tfsoftmax.ops.logits import (
    block_words,
    capped,
    label_logits,
    labels_of_blocks,
    logits_rows,
    map_row_chunks,
    narrow_rows,
    parts_of,
    words_of,
)


@dataclasses.dataclass(frozen=True)
class Penalised(HandWritten):
    """The cross-entropy of words in bands, and what `RowLoss` adds to it.

    `nats` takes four matmuls of N V D with its gradient, and `weighted_nats` three.

    Attributes:
        parameters: [(kernel (V_b, d_b) float32, biases (V_b,) float32 or None) of each band]. The
            products are taken in the dtype of the hidden states.
        loss: a `RowLoss`.
        subset: function of N to the positions (n,) int32 whose normalisers are computed, the same
            ones whenever it is called. Each of them stands for N / n positions, and the others keep
            only the term of z_y. None: all positions.
        draw: a `Draw` of the tiles from which the gradient is estimated. None: it is exact.

    Example:
        rows = tfsoftmax.distributions.rows.Rows(keras.random.normal((1000, 64)))
        assert isinstance(rows.penalised(), tfsoftmax.distributions.penalised.Penalised)
    """

    parameters: list[tuple[tf.Tensor, tf.Tensor | None]]
    loss: RowLoss = RowLoss()
    subset: Callable[[tf.Tensor], tf.Tensor] | None = None
    draw: Draw | None = None

    def forward(self, hidden, labels, parameters):
        loss, subset = self.loss, self._subset(labels)
        most = block_words(words_of(parameters))
        blocks = blocks_of(parameters, hidden.dtype, most)

        def chunk(hidden, labels):
            logits = logits_of(parts_of(hidden, parameters), blocks, loss.soft_cap)
            target, read = labels_of_blocks(logits, labels)
            return normaliser_terms(logits, log_sum_of_blocks(logits, read), loss), target

        rows = [_rows_of(subset, tensor) for tensor in (hidden, labels)]
        terms, target = map_row_chunks(chunk, rows[0], words_of(parameters), rows[1])
        terms = _scattered(subset, labels, _scale(subset, labels) * terms)
        target = _targets(target, hidden, parameters, labels, subset, loss.soft_cap)
        return _losses(terms, target, loss)

    def backward(self, hidden, labels, weights, parameters):
        """Without a subset, the plain cross-entropies (N,) follow the losses."""
        loss, subset, draw = self.loss, self._subset(labels), self.draw
        blocks, scale = blocks_of(parameters, hidden.dtype, draw=draw), _scale(subset, labels)

        def chunk(hidden, labels, weights, *others):
            *offsets, totals = others
            of_chunk = draw and (draw.share, offsets[0][0])
            parts = parts_of(hidden, parameters)
            return chunk_gradients(labels, weights, parts, blocks, loss, totals, draw=of_chunk)

        def function(weights):
            rows = [hidden, labels, scale * weights]
            rows += [] if draw is None else [draw.offsets(tf.size(labels))]
            rows = [_rows_of(subset, tensor) for tensor in rows]
            most = logits_rows(words_of(parameters), hidden.shape[1])
            (d_hidden, log_sum, terms, target), totals = sum_over_chunks(chunk, most, *rows)
            target = _targets(target, hidden, parameters, labels, subset, loss.soft_cap)
            d_hidden = _scattered(subset, labels, d_hidden)
            d_bands = [[tf.concat(t, 0) for t in zip(*band)] for band in by_band(totals, blocks)]
            return [log_sum, terms, target], minus_targets(
                d_hidden, d_bands, hidden, parameters, labels, target, weights, loss
            )

        (log_sum, terms, target), gradients = products.with_unit_weights(
            function, weights, hidden.dtype
        )
        losses = _losses(_scattered(subset, labels, scale * terms), target, loss)
        return [losses] if subset is not None else [losses, log_sum - target], gradients

    def _subset(self, labels):
        return None if self.subset is None else self.subset(tf.size(labels))


def _losses(terms, target, loss):
    """The losses (N,) from their normaliser terms and the labels' logits."""
    return terms - (1 - loss.label_smoothing) * target


def _targets(found, hidden, bands, labels, subset, soft_cap):
    """The labels' logits (N,): those `found` among all words', of a subset's positions only."""
    if subset is None:
        return found
    logits = 0.0
    for part, band, (inside, words) in zip(
        parts_of(hidden, bands), bands, _places(labels, bands)
    ):
        logits += tf.where(inside, label_logits(part, *band, words)[0], 0.0)
    return capped(logits, soft_cap)


def _places(labels, bands):
    """Whether each band holds the label (N,), and as which word (N,), which is 0 if not."""
    places, first = [], 0
    for kernel, _ in bands:
        inside = (labels >= first) & (labels < first + kernel.shape[0])
        places.append((inside, tf.where(inside, labels - first, 0)))
        first += kernel.shape[0]
    return places


def _rows_of(subset, tensor):
    """The rows (n, ...) of a tensor (N, ...)."""
    return tensor if subset is None else tf.gather(tensor, subset)


def _scattered(subset, labels, tensor):
    """A tensor (n, ...) as (N, ...), with zeros outside the subset."""
    if subset is None:
        return tensor
    shape = tf.concat([tf.shape(labels), tf.shape(tensor)[1:]], 0)
    return tf.scatter_nd(subset[:, None], tensor, shape)


def _scale(subset, labels):
    """N / n, the number of positions for which one of the subset stands."""
    return 1.0 if subset is None else tf.cast(tf.size(labels) / tf.size(subset), tf.float32)


def minus_targets(d_hidden, d_bands, hidden, bands, labels, target, weights, loss):
    """Subtracts (1-ε) w ∂z_y, the part of the gradients that the labels alone determine.

    Args:
        d_hidden, d_bands: the rest of the gradients.
        hidden, weights: as in `HandWritten.backward`.
        bands, loss: `parameters` and `loss` of a `Penalised`.
        labels: (N,) int32; those that no band holds have no gradient.
        target: (N,), the labels' logits, which only a soft cap needs.
    """
    weights = (1 - loss.label_smoothing) * weights
    if loss.soft_cap is not None:
        weights *= cap_slope(target, loss.soft_cap)
    of_labels, gradients = [], []
    for part, (kernel, _), (inside, words), terms in zip(
        parts_of(hidden, bands), bands, _places(labels, bands), d_bands
    ):
        own = tf.where(inside, weights, 0.0)
        of_labels.append(own[:, None] * narrow_rows(kernel, words, part.dtype))
        gradients.append(products.minus_labels(terms, words, own, part))
    return d_hidden - tf.concat(of_labels, axis=1), gradients
