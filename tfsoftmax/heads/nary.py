"""Softmax over a tree of any shape: at each node a softmax over its children."""

from collections.abc import Sequence
from typing import Unpack

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.distributions.nary import Layout, Nary
from tfsoftmax.distributions.nary_tiles import bounds
from tfsoftmax.heads.base import SoftmaxHead
from tfsoftmax.heads.options import HeadOptions
from tfsoftmax.partitions import tree_builders
from tfsoftmax.support.arguments import ArrayLike


@keras.saving.register_keras_serializable(package="tfsoftmax")
class NarySoftmax(SoftmaxHead):
    """Hierarchical softmax over any tree: P(w | h) is a product of softmaxes, exact.

    Every edge of the tree has a row of the kernel. Training and `log_prob` compute only the
    nodes on the paths of the labels; `log_probs` makes one pass over all edges. With one level this
    is `FullSoftmax`, with two `ClassSoftmax`; binary trees are faster in `TreeSoftmax`.

    Args:
        vocab_size: V, the number of words.
        tree: a `tfsoftmax.partitions.tree.Tree`, what its `to_config` returns, the path of a
            file (nested lists of words in JSON, or lines `code<TAB>word`), or a name as in
            `TreeSoftmax`.
        counts: (V,) occurrences of the words, for "huffman".
        words: the V words in the order of their ids, for "alphabetical" and files.
        **kwargs: options of the weights and of the layer, `heads.options.HeadOptions`. The kernel
            (E, D) has one row for each edge.

    Example:
        ids = {"golf": 0, "soccer": 1, "piano": 2, "violin": 3}
        sports_and_instruments = [["golf", "soccer"], ["piano", "violin"]]
        tree = tfsoftmax.partitions.tree_builders.from_nested(sports_and_instruments, ids)
        head = tfsoftmax.NarySoftmax(4, tree)

    Source: Mao 2019. The biases of inner nodes are an addition.
    """

    saved_options = ("tree",)
    trains_exactly = logits_in_loop = True

    def __init__(
        self, vocab_size: int, tree: tree_builders.TreeOption, counts: ArrayLike | None = None,
        words: Sequence[str] | None = None, **kwargs: Unpack[HeadOptions],
    ):
        super().__init__(vocab_size, **kwargs)
        self.tree = tree_builders.build(tree, self.vocab_size, counts, words)

    def build(self, hidden_shape):
        super().build(hidden_shape)
        rows = len(self.tree.words)
        self.kernel, self.bias = self._kernel_and_bias(rows, hidden_shape[-1])
        with tf.init_scope():  # plain variables: the configuration has them, not the weights
            arrays = self.tree.paths(), self.tree.owners, self.tree.starts, self.tree.sizes
            self._layout = [
                tf.Variable(array, trainable=False) for array in (*arrays, self.tree.leaves)
            ]
        paths, owners, _, sizes = arrays
        self._bounds = bounds(np.where(paths < 0, 0, sizes[owners[paths]]), rows)

    def distribution(self):
        return Nary(*self._parameters(), self.tree, Layout(*self._layout), self._bounds)
