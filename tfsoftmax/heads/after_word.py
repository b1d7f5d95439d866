"""The exact distribution of a head whose hidden states carry the word that was read last."""

import typing
from collections.abc import Callable

import tensorflow as tf

from tfsoftmax.layers.previous_word import without_word
from tfsoftmax.ops.chunks import sum_over_chunks
from tfsoftmax.ops.logits import logits_rows, map_row_chunks, top_k_of
from tfsoftmax.ops.row_softmax import WholeSoftmax


class SoftmaxAfterWord(typing.NamedTuple):
    """The methods of `WholeSoftmax` for hidden states with the word v before in their last units.

    Attributes:
        softmax: the softmax over what is left of the hidden states.
        vocab_size: V.
        log_factors: function of words v (n,) to what is added to the logits, (n, V), or None.
    """

    softmax: WholeSoftmax
    vocab_size: int
    log_factors: Callable | None = None

    def logits(self, hidden):
        hidden, before = without_word(hidden)
        logits = self.softmax.logits(hidden)
        return logits if self.log_factors is None else logits + self.log_factors(before)

    def log_normaliser(self, hidden):
        if self.log_factors is None:
            return self.softmax.log_normaliser(without_word(hidden)[0])
        return map_row_chunks(
            lambda rows: tf.reduce_logsumexp(self.logits(rows), axis=1), hidden, self.vocab_size
        )

    def top_k(self, hidden, k):
        if self.log_factors is None:
            return self.softmax.top_k(without_word(hidden)[0], k)
        return top_k_of(self.logits, hidden, k, self.vocab_size)

    def cross_entropy(self, hidden, labels, objective):
        if self.log_factors is None:
            return self.softmax.cross_entropy(without_word(hidden)[0], labels, objective)

        def chunk(hidden, labels, _):
            return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, self.logits(hidden)), []

        most = logits_rows(self.vocab_size, hidden.shape[1])
        return sum_over_chunks(chunk, most, hidden, labels)[0]
