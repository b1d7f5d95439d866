"""Tree softmax: a word is a path of binary decisions."""

import keras
import tensorflow as tf

from tfsoftmax.heads.hierarchical import HierarchicalHead, tensors
from tfsoftmax.ops import chunks
from tfsoftmax.ops.tree import all_log_probs, path_nats, sequential_path_nats
from tfsoftmax.ops.tree_search import OPENED, best_first, walk
from tfsoftmax.partitions import tree_builders

MODES = {"parallel": path_nats, "sequential": sequential_path_nats}


@keras.saving.register_keras_serializable(package="tfsoftmax")
class TreeSoftmax(HierarchicalHead):
    """Hierarchical softmax over a binary tree, exact, at a training cost of O(log V) a word.

    P(w | h) is the product of σ(±(θ_n h + b_n)) over the nodes n on the path to w. Training
    and `log_prob` compute the paths of the labels alone; `log_probs` one pass over all nodes.
    All computation is in float32 whatever the policy.

    Args:
        vocab_size: V >= 2, the number of words.
        tree: "huffman", "balanced" (over the ids), "random", "alphabetical", the path of a file
            (bit strings or Brown `paths`, or nested lists in JSON), a
            `tfsoftmax.partitions.tree.Tree`, or what its `to_config` returns. Nodes of more
            than two children become Huffman trees. None: "huffman" if there are counts, else
            "balanced".
        counts: (V,) occurrences of the words, for Huffman trees.
        words: V str, for "alphabetical" and files.
        mode: "parallel", all nodes of all paths at once (p-tHSM); or "sequential", a level
            after the other (tHSM), the slower, conventional computation of the same.
        **kwargs: of `HierarchicalHead`, whose kernel has one row a node, (V-1, D); and of
            `keras.layers.Layer`.

    Source: Jiang et al. 2017, equations 2-6; Morin and Bengio 2005. The biases are an addition.
    """

    def __init__(
        self, vocab_size, tree=None, counts=None, words=None, mode="parallel", **kwargs
    ):
        super().__init__(vocab_size, **kwargs)
        if self.vocab_size < 2:
            raise ValueError(f"`vocab_size` must be at least 2. Received: vocab_size={vocab_size}")
        if mode not in MODES:
            raise ValueError(f"`mode` must be one of {list(MODES)}. Received: mode={mode!r}")
        if tree is None:
            tree = "balanced" if counts is None else "huffman"
        tree = tree_builders.build(tree, self.vocab_size, counts, words)
        self.tree = tree_builders.binarised(tree, counts)
        self.mode = mode

    @classmethod
    def for_vocabulary(cls, vocabulary, **options):
        options = {"counts": vocabulary.counts, "words": vocabulary.words, **options}
        return cls(len(vocabulary), **options)

    def build(self, hidden_shape):
        self._add_kernel_and_bias(self.vocab_size - 1, hidden_shape[-1])
        with tf.init_scope():  # plain variables: they belong to the configuration, not the weights
            self._paths = tf.Variable(self.tree.paths(), trainable=False)
            self._leaves = tf.Variable(self.tree.leaves, trainable=False)
            self._children = tf.Variable(self.tree.children(), trainable=False)
        self.built = True

    def _training_loss(self, hidden, labels):
        paths = tf.gather(self._paths, labels)
        return MODES[self.mode](hidden, *self._parameters(), paths)

    def _loss_and_nats(self, hidden, labels, weights):
        nats = self._training_loss(hidden, labels)
        return tf.reduce_sum(weights * nats), tf.stop_gradient(nats)

    def _top_k(self, hidden, k):
        def chunk(rows):
            log_probs, ids, done = best_first(rows, *self._parameters(), self._children, k)
            return tf.cond(done, lambda: (ids, log_probs), lambda: by_full_pass(rows, k))

        by_full_pass = super()._top_k
        # The search holds the rows of the nodes that it opens, and a kernel row is D wide.
        opened = max(OPENED, k) * hidden.shape[1]
        return chunks.map_chunks(chunk, hidden, chunks.chunk_rows(2 * 4 * opened))

    def sample(self, hidden, seed):
        """A random word at each position, drawn from P(w | h): O(log V) a word.

        Args:
            hidden: (..., D) float.
            seed: (2,) int32; the same seed draws the same words.

        Returns:
            (...) int32.
        """
        hidden = self._as_hidden(hidden)
        depth = int(self.tree.depths.max())
        rows = tf.reshape(hidden, [-1, hidden.shape[-1]])
        words = walk(rows, *self._parameters(), self._children, depth, seed)
        return tf.reshape(words, tf.shape(hidden)[:-1])

    def _full_pass(self):
        parameters, leaves = tensors(self._parameters()), tf.convert_to_tensor(self._leaves)
        layout = self.tree.levels, self.tree.entries, leaves
        return lambda hidden: all_log_probs(hidden, *parameters, *layout)

    def get_config(self):
        return {**super().get_config(), "tree": self.tree.to_config(), "mode": self.mode}
