"""Linear heads with rows that belong to no word: padding, and retired items."""

from collections.abc import Sequence
from typing import Unpack

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.heads.inputs import checked_items
from tfsoftmax.heads.linear import LinearHead
from tfsoftmax.heads.options import HeadOptions
from tfsoftmax.ops.inputs import dense
from tfsoftmax.samplers.excluding import NEVER, different_ids


class Items(LinearHead):
    """A linear head whose vocabulary may have rows that are not items.

    Their probability is zero: they do not count in ln Z, are never drawn as samples, and are in no
    list of `top_k`, of metrics, of hard negatives or of an exported model. In `log_probs` they
    have about -1e4. As labels of positions that count they are an error, in training and in
    evaluation: give these the weight zero, as `ignore_class=0` of losses and metrics does for
    padding.

    Args:
        vocab_size: V, the number of rows.
        tied_to: as in `TiedHead`.
        not_items: ids of rows that are not items, such as [0] for padding.
        **kwargs: options of the weights and of the layer, `heads.options.HeadOptions`.

    Raises:
        ValueError: if `not_items` are not different ids in [0, V), fewer than V.

    Example:
        head = tfsoftmax.FullSoftmax(1000, not_items=[0])
        ids, _ = head.top_k(keras.random.normal((8, 64)), 999)  # all but 0
    """

    saved_options = ("not_items",)

    def __init__(
        self, vocab_size: int, tied_to: keras.layers.Layer | None = None, *,
        not_items: Sequence[int] = (), **kwargs: Unpack[HeadOptions],
    ):
        super().__init__(vocab_size, tied_to, **kwargs)
        self.not_items = different_ids("not_items", not_items, self.vocab_size)

    def _is_none(self, ids):
        """Whether each id is one of `not_items`; False for ids outside the vocabulary.

        This looks ids up in a table, because LiteRT and OpenVINO cannot search a sorted list.
        """
        table = tf.constant(np.isin(np.arange(self.vocab_size + 1), self.not_items))
        ids = tf.cast(ids, tf.int64)
        inside = (ids >= 0) & (ids < self.vocab_size)
        return tf.gather(table, tf.where(inside, ids, self.vocab_size))

    def _log_allowed(self, ids):
        """Zero for items, and -1e4 for other rows: (...) float32."""
        return tf.where(self._is_none(ids), NEVER, 0.0)

    def checked_items(self, labels: tf.Tensor, weights: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        if not self.not_items:
            return labels, weights
        return checked_items(labels, weights, self._is_none)

    def _weighted(self, method, hidden, labels, weights, *more):
        labels, weights = self.checked_items(labels, weights)
        return super()._weighted(method, hidden, labels, weights, *more)

    def _by_position(self, method, hidden, labels, *more, mask=None, **options):
        if not self.not_items:
            return super()._by_position(method, hidden, labels, *more, mask=mask, **options)
        labels = dense(labels, "labels")
        counted = tf.ones(tf.shape(labels)) if mask is None else mask
        labels, weights = self.checked_items(labels, counted)
        results = super()._by_position(method, hidden, labels, *more, mask=mask, **options)
        return results * (1.0 + 0.0 * weights)  # NaN if wrong

    def _parameters(self):
        kernel, bias = super()._parameters()
        return kernel, self._raised(bias, self._log_allowed) if self.not_items else bias

    def _raised(self, bias, function):
        """The biases, and what a function of ids adds to them."""
        more = function(self._word_ids())
        return more if bias is None else tf.cast(bias, tf.float32) + more

    def _listed(self, search, hidden, k, exclude):
        ids, scores = super()._listed(search, hidden, k, exclude)
        if not self.not_items:
            return ids, scores
        none = self._is_none(ids)  # whose scores of -1e4 put them last
        return tf.where(none, -1, ids), tf.where(none, -float("inf"), scores)
