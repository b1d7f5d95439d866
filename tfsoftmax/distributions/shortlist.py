"""A softmax over frequent words, and an n-gram model that divides one score among the others.

Shapes: N positions, V words, S words in the shortlist.
"""

import dataclasses

import tensorflow as tf

from tfsoftmax.distributions.base import Distribution
from tfsoftmax.distributions.rows import Rows
from tfsoftmax.ngrams.previous_word import without_word
from tfsoftmax.ngrams.tables import BigramTables
from tfsoftmax.ops.graphs import held
from tfsoftmax.ops.logits import map_row_chunks
from tfsoftmax.ops.ranking import columns_of_best, known
from tfsoftmax.ops.weighting import weighted_sum
from tfsoftmax.partitions.ranks import Ranks


@dataclasses.dataclass(frozen=True)
class ShortlistAndTail(Distribution):
    """P(w | h) = P(node of w | h) · share of w, where only nodes of the shortlist have one word.

    Attributes:
        nodes: `Rows` over the S words, and where there is a node for all others, that.
        shortlist: S.
        order: the `Ranks` of the words.
        extra: (V,) float32, by rank, what is added to the log-probability of a word's node; a word
            outside of the shortlist has the log-probability zero without the node.
        likeliest_tail: (V - S,) int32, ranks of the words outside the shortlist, likeliest first.
        bigrams: in the place of the last two, the `BigramTables` of the word before, which
            `PreviousWord` put into the hidden states; or None.

    Example:
        head = tfsoftmax.Shortlist(1000, 100, counts=[1000 - i for i in range(1000)])
        head.build((None, 64))
        nats = head.distribution().nats(keras.random.normal((2, 64)), keras.ops.array([3, 900]))
    """

    nodes: Rows
    shortlist: int
    order: Ranks
    extra: tf.Tensor | None
    likeliest_tail: tf.Tensor | None
    bigrams: BigramTables | None = None

    @property
    def vocab_size(self) -> int:
        table = self.extra if self.bigrams is None else self.bigrams.log_unigram
        return table.shape[0]

    @property
    def _has_node(self):
        return self.nodes.vocab_size > self.shortlist

    def nats(self, hidden, labels):
        hidden, (nodes, extra) = self.targets(hidden, labels)
        return self._is_learned(labels) * self.nodes.nats(hidden, nodes) - extra

    def weighted_nats(self, hidden, labels, weights):
        hidden, (nodes, extra) = self.targets(hidden, labels)
        learned = self._is_learned(labels)
        total, nats = self.nodes.weighted_nats(hidden, nodes, weights * learned)
        return total - weighted_sum(extra, weights), learned * nats - extra

    def targets(
        self, hidden: tf.Tensor, labels: tf.Tensor
    ) -> tuple[tf.Tensor, tuple[tf.Tensor, tf.Tensor]]:
        """The part of the hidden states that is scored, and a pair.

        The pair is the node (N,) of each label and what is added to the node's log-probability.
        """
        ranks = self.order.rank(labels)
        nodes = tf.minimum(ranks, self.nodes.vocab_size - 1)
        if self.bigrams is None:
            return hidden, (nodes, tf.gather(held(self.extra), ranks))
        bigrams = held(self.bigrams)
        hidden, before = without_word(hidden)
        extra = tf.where(
            ranks < self.shortlist, bigrams.log_shortlist(before),
            bigrams.log_tail(before, labels),
        )
        return hidden, (nodes, extra)

    def logits(self, hidden):
        if self.bigrams is not None:
            bigrams = held(self.bigrams)
            hidden, before = without_word(hidden)
            log_shortlist = bigrams.log_shortlist(before)[:, None]
            shares = bigrams.log_tails(before)
        else:
            extra = held(self.extra)
            log_shortlist, shares = extra[0], extra[self.shortlist :]
        words, others = self._node_logits(hidden, log_shortlist)
        return self.order.by_word(tf.concat([words, others + shares], axis=1))

    def top_k(self, hidden, k, excluded=None):
        if self.bigrams is not None or excluded is not None:
            return super().top_k(hidden, k, excluded)
        extra, tail = held((self.extra, self.likeliest_tail))
        tail = tail[:k]
        shares = tf.gather(extra, tail)

        def chunk(hidden):
            words, others = self._node_logits(hidden, extra[0])
            sums = tf.reduce_logsumexp(tf.concat([words, others], 1), axis=1, keepdims=True)
            scores = tf.concat([words, others + shares], axis=1)
            values, places = columns_of_best(known(scores), k)
            ranks = tf.gather(tf.concat([tf.range(self.shortlist), tail], 0), places)
            return self.order.word(ranks), values - float(self._has_node) * sums

        return map_row_chunks(chunk, hidden, self.shortlist + tail.shape[0])

    def _is_learned(self, labels):
        """Whether each label has a node: 1 or 0, (N,) float32."""
        if self._has_node:
            return tf.ones(tf.shape(labels))
        return tf.cast(self.order.rank(labels) < self.shortlist, tf.float32)

    def _node_logits(self, hidden, log_shortlist):
        """Logits of the words' nodes (N, S), and of all other words together (N, 1)."""
        logits = self.nodes.logits(hidden)
        if self._has_node:
            return logits[:, : self.shortlist], logits[:, self.shortlist :]
        return tf.nn.log_softmax(logits) + log_shortlist, tf.zeros_like(logits[:, :1])
