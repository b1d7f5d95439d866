"""Tree softmax: a word is a path of binary decisions."""

from collections.abc import Sequence
from typing import Unpack

import keras
import tensorflow as tf

from tfsoftmax.distributions.tree import BinaryPaths
from tfsoftmax.heads.base import SoftmaxHead
from tfsoftmax.heads.inputs import flatten, restore
from tfsoftmax.heads.options import HeadOptions
from tfsoftmax.partitions import tree_builders
from tfsoftmax.samplers.base import stateless
from tfsoftmax.support.arguments import ArrayLike, check_at_least, expect

MODES = ("parallel", "sequential")


@keras.saving.register_keras_serializable(package="tfsoftmax")
class TreeSoftmax(SoftmaxHead):
    """Hierarchical softmax over a binary tree, exact; a label costs the length of its path.

    P(w | h) is the product of σ(±(θ_n h + b_n)) over the nodes n on the path to w; in a balanced
    tree, these are O(log V). Training and `log_prob` compute the nodes on the paths of the labels,
    and in mode "parallel" also the top 64 nodes, at all positions with one matrix product;
    `log_probs` makes one pass over all nodes. All computation is in float32 under any dtype policy.

    Args:
        vocab_size: V >= 2, the number of words.
        tree: "huffman", "balanced" (over the ids), "random", "alphabetical", the path of a file
            (bit strings or Brown `paths`, or nested lists in JSON), a
            `tfsoftmax.partitions.tree.Tree`, or what its `to_config` returns. Nodes with more than
            two children become Huffman trees. None: "huffman" if there are counts, else "balanced".
        counts: (V,) occurrences of the words, for Huffman trees.
        words: the V words in the order of their ids, for "alphabetical" and files.
        mode: "parallel" computes all nodes of all paths at once (p-tHSM); "sequential" computes
            one level after the other (tHSM), the conventional way, which is slower and agrees
            up to rounding. XLA compiles neither: it has no sparse matrices, and its steps by levels
            took three times as long.
        **kwargs: options of the weights and of the layer, `heads.options.HeadOptions`. The kernel
            (V-1, D) has one row for each node.

    Example:
        counts = [1_000_000 // rank for rank in range(1, 1001)]
        hidden, labels = keras.random.normal((8, 64)), keras.random.randint((8,), 0, 1000)
        head = tfsoftmax.TreeSoftmax(1000, counts=counts)
        nats, words = head.training_loss(hidden, labels), head.sample(hidden, seed=(0, 1))

    Source: Jiang et al. 2017, equations 2-6; Morin and Bengio 2005. The biases are an addition.
    Misprints: the sum over the nodes of a path in equation 4 is the product of equation 3; the
    conventional cost in equation 6 lacks its minus sign, and its d is 0 where that of equation 2
    is +1, and 1 where that is -1.
    """

    saved_options = ("tree", "mode")
    trains_exactly = logits_in_loop = True

    def __init__(
        self, vocab_size: int, tree: tree_builders.TreeOption | None = None,
        counts: ArrayLike | None = None, words: Sequence[str] | None = None, mode: str = "parallel",
        **kwargs: Unpack[HeadOptions],
    ):
        super().__init__(vocab_size, **kwargs)
        check_at_least(2, vocab_size=self.vocab_size)
        expect(mode in MODES, "mode", f"be one of {MODES}", mode)
        if tree is None:
            tree = "balanced" if counts is None else "huffman"
        tree = tree_builders.build(tree, self.vocab_size, counts, words)
        self.tree = tree_builders.binarised(tree, counts)
        self.mode, self.supports_jit = mode, False

    def build(self, hidden_shape):
        super().build(hidden_shape)
        self.kernel, self.bias = self._kernel_and_bias(self.vocab_size - 1, hidden_shape[-1])
        with tf.init_scope():  # plain variables: the configuration has them, not the weights
            self._above = tf.Variable(self.tree.above(), trainable=False)
            self._leaves = tf.Variable(self.tree.leaves, trainable=False)
            self._children = tf.Variable(self.tree.children(), trainable=False)

    def distribution(self):
        layout = self.tree, self._above, self._leaves, self._children
        return BinaryPaths(*self._parameters(), *layout, sequential=self.mode == "sequential")

    def sample(self, hidden: ArrayLike, seed: ArrayLike) -> tf.Tensor:
        """A random word at each position, drawn from P(w | h) in O(log V) time.

        Args:
            hidden: (..., D) float.
            seed: (2,) int32; the same seed draws the same words.

        Returns:
            (...) int32.

        Raises:
            NotImplementedError: if XLA is to compile it.
        """
        rows, leading = flatten(self._as_hidden(hidden))
        return restore(self.distribution().sample(rows, stateless(seed)), leading)
