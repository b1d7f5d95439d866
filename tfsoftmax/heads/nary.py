"""Softmax over a tree of any shape: at each node a softmax over its children."""

import keras
import tensorflow as tf

from tfsoftmax.heads.hierarchical import HierarchicalHead, tensors
from tfsoftmax.ops.nary import all_log_probs, path_nats, steps_of, weighted_path_nats
from tfsoftmax.partitions import tree_builders


@keras.saving.register_keras_serializable(package="tfsoftmax")
class NarySoftmax(HierarchicalHead):
    """Hierarchical softmax over a corpus tree: P(w | h) is a product of softmaxes, exact.

    Every edge of the tree has a row of the kernel. Training and `log_prob` compute the nodes on
    the paths of the labels alone; `log_probs` one pass over all edges. With one level this is `FullSoftmax`, with two `ClassSoftmax`;
    binary trees are faster in `TreeSoftmax`.

        tree = tree_builders.from_nested([["golf", "soccer"], ["piano", "violin"]], ids)
        head = NarySoftmax(4, tree)

    Args:
        vocab_size: V, the number of words.
        tree: a `tfsoftmax.partitions.tree.Tree`, what its `to_config` returns, the path of a
            file (nested lists of words in JSON, or lines `code<TAB>word`), or a name as in
            `TreeSoftmax`.
        counts: (V,) occurrences of the words, for "huffman".
        words: V str, for "alphabetical" and files.
        **kwargs: of `HierarchicalHead`, whose kernel has one row an edge, (E, D); and of
            `keras.layers.Layer`.

    Source: Mao 2019. The biases of inner nodes are there too.
    """

    def __init__(self, vocab_size, tree, counts=None, words=None, **kwargs):
        super().__init__(vocab_size, **kwargs)
        self.tree = tree_builders.build(tree, self.vocab_size, counts, words)

    @classmethod
    def for_vocabulary(cls, vocabulary, **options):
        options = {"counts": vocabulary.counts, "words": vocabulary.words, **options}
        return cls(len(vocabulary), **options)

    def build(self, hidden_shape):
        self._add_kernel_and_bias(len(self.tree.words), hidden_shape[-1])
        with tf.init_scope():  # plain variables: they belong to the configuration, not the weights
            arrays = self.tree.paths(), self.tree.owners, self.tree.starts, self.tree.sizes
            self._layout = [tf.Variable(array, trainable=False) for array in arrays]
            self._leaves = tf.Variable(self.tree.leaves, trainable=False)
        self.built = True

    def _steps(self, labels):
        paths, *layout = self._layout
        return steps_of(tf.gather(paths, labels), *layout)

    def _training_loss(self, hidden, labels):
        return path_nats(hidden, *self._parameters(), self._steps(labels))

    def _loss_and_nats(self, hidden, labels, weights):
        return weighted_path_nats(hidden, *self._parameters(), self._steps(labels), weights)

    def _full_pass(self):
        parameters, leaves = tensors(self._parameters()), tf.convert_to_tensor(self._leaves)
        return lambda hidden: all_log_probs(hidden, *parameters, self.tree, leaves)

    def get_config(self):
        return {**super().get_config(), "tree": self.tree.to_config()}
