"""Distributions that stand on another one: of words in another order, or of other hidden states.

Shapes: N positions, D hidden units, V words.
"""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from tfsoftmax.distributions.base import Distribution
from tfsoftmax.ngrams.previous_word import without_word
from tfsoftmax.partitions.ranks import Ranks


@dataclasses.dataclass(frozen=True)
class Ranked(Distribution):
    """A distribution over frequency ranks, as one over the ids of words.

    Attributes:
        by_rank: a `Distribution` whose word r has the rank r.
        order: the `Ranks` of the words.

    Example:
        from tfsoftmax.distributions.views import Ranked
        from tfsoftmax.partitions.bands import frequency_order
        rows = tfsoftmax.distributions.rows.Rows(keras.random.normal((3, 64)))
        by_id = Ranked(rows, frequency_order(3, counts=[2, 9, 5]))  # row 0 is that of word 1
    """

    by_rank: Distribution
    order: Ranks

    @property
    def vocab_size(self) -> int:
        return self.by_rank.vocab_size

    def logits(self, hidden):
        return self.order.by_word(self.by_rank.logits(hidden))

    def log_probs(self, hidden):
        return self.order.by_word(self.by_rank.log_probs(hidden))

    def top_k(self, hidden, k, excluded=None):
        if excluded is not None:
            ranks = self.order.rank(tf.maximum(excluded, 0))
            excluded = tf.where(excluded < 0, -1, ranks)
        ranks, log_probs = self.by_rank.top_k(hidden, k, excluded)
        return self.order.word(ranks), log_probs

    def nats(self, hidden, labels):
        return self.by_rank.nats(hidden, self.order.rank(labels))

    def weighted_nats(self, hidden, labels, weights):
        return self.by_rank.weighted_nats(hidden, self.order.rank(labels), weights)


@dataclasses.dataclass(frozen=True)
class Mapped(Distribution):
    """A distribution given a function of the hidden state.

    Attributes:
        distribution: the `Distribution`, given f(h).
        function: f, of (N, D) to what the distribution takes.

    Example:
        rows = tfsoftmax.distributions.rows.Rows(keras.random.normal((1000, 64)))
        doubled = tfsoftmax.distributions.views.Mapped(rows, lambda hidden: 2 * hidden)
    """

    distribution: Distribution
    function: Callable[[tf.Tensor], tf.Tensor]

    @property
    def vocab_size(self) -> int:
        return self.distribution.vocab_size

    def logits(self, hidden):
        return self.distribution.logits(self.function(hidden))

    def log_probs(self, hidden):
        return self.distribution.log_probs(self.function(hidden))

    def log_normaliser(self, hidden):
        return self.distribution.log_normaliser(self.function(hidden))

    def top_k(self, hidden, k, excluded=None):
        return self.distribution.top_k(self.function(hidden), k, excluded)

    def nats(self, hidden, labels):
        return self.distribution.nats(self.function(hidden), labels)

    def weighted_nats(self, hidden, labels, weights):
        return self.distribution.weighted_nats(self.function(hidden), labels, weights)


@dataclasses.dataclass(frozen=True)
class AfterWord(Distribution):
    """Logits to which something is added by the word v before, which `PreviousWord` put into h.

    Attributes:
        distribution: the `Distribution` of what is left of the hidden state.
        added: a function of words v (n,) to what is added to the logits, (n, V).

    Example:
        from tfsoftmax.distributions.views import AfterWord
        rows = tfsoftmax.distributions.rows.Rows(keras.random.normal((1000, 64)))
        table = keras.random.normal((1000, 1000))
        after = AfterWord(rows, lambda before: keras.ops.take(table, before, axis=0))
    """

    distribution: Distribution
    added: Callable[[tf.Tensor], tf.Tensor]

    @property
    def vocab_size(self) -> int:
        return self.distribution.vocab_size

    def logits(self, hidden):
        hidden, before = without_word(hidden)
        return self.distribution.logits(hidden) + self.added(before)


def without_previous_word(distribution: Distribution) -> Mapped:
    """A distribution given what `PreviousWord` has put an id behind."""
    return Mapped(distribution, lambda hidden: without_word(hidden)[0])
