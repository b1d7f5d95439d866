"""Softmax over a tree of any shape: at each node a softmax over its children."""

import keras
import tensorflow as tf

from tfsoftmax.heads.base import SoftmaxHead
from tfsoftmax.ops import chunks
from tfsoftmax.ops.nary import all_log_probs, path_nats, steps_of, weighted_path_nats
from tfsoftmax.ops.prunable import prunable
from tfsoftmax.partitions import trees


@keras.saving.register_keras_serializable(package="tfsoftmax")
class NarySoftmax(SoftmaxHead):
    """Hierarchical softmax over a corpus tree: P(w | h) is a product of softmaxes, exact.

    Every edge of the tree has a row of the kernel. Training and `log_prob` compute the nodes on
    the paths of the labels alone; `log_probs` one pass over all edges. All computation is in
    float32 whatever the policy. With one level this is `FullSoftmax`, with two `ClassSoftmax`;
    binary trees are faster in `TreeSoftmax`.

        tree = trees.from_nested([["golf", "soccer"], ["piano", "violin"]], ids)
        head = NarySoftmax(4, tree)

    Args:
        vocab_size: V, the number of words.
        tree: a `tfsoftmax.partitions.tree.Tree`, what its `to_config` returns, the path of a
            file (nested lists of words in JSON, or lines `code<TAB>word`), or a name as in
            `TreeSoftmax`.
        counts: (V,) occurrences of the words, for "huffman".
        words: V str, for "alphabetical" and files.
        use_bias: whether edges have biases.
        kernel_initializer: of the kernel (E, D), one row an edge.
        bias_initializer: of the bias (E,).
        **kwargs: of `keras.layers.Layer`.

    Source: Mao 2019. The biases of inner nodes are there too.
    """

    trains_exactly = True

    def __init__(
        self,
        vocab_size,
        tree,
        counts=None,
        words=None,
        use_bias=True,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        **kwargs,
    ):
        super().__init__(vocab_size, **kwargs)
        self.tree = trees.build(tree, self.vocab_size, counts, words)
        self.use_bias = use_bias
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.supports_jit = False  # nodes differ in their numbers of positions and children

    @classmethod
    def for_vocabulary(cls, vocabulary, **options):
        options = {"counts": vocabulary.counts, "words": vocabulary.words, **options}
        return cls(len(vocabulary), **options)

    def build(self, hidden_shape):
        edges = len(self.tree.words)
        self.kernel = self.add_weight(
            name="kernel", shape=(edges, hidden_shape[-1]), autocast=False,
            initializer=self.kernel_initializer,
        )
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                name="bias", shape=(edges,), autocast=False, initializer=self.bias_initializer
            )
        with tf.init_scope():  # plain variables: they belong to the configuration, not the weights
            arrays = self.tree.paths(), self.tree.owners, self.tree.starts, self.tree.sizes
            self._layout = [tf.Variable(array, trainable=False) for array in arrays]
            self._leaves = tf.Variable(self.tree.leaves, trainable=False)
        self.built = True

    def _parameters(self):
        return self.kernel.value, None if self.bias is None else self.bias.value

    def _steps(self, labels):
        paths, *layout = self._layout
        return steps_of(tf.gather(paths, labels), *layout)

    def _training_loss(self, hidden, labels):
        return path_nats(hidden, *self._parameters(), self._steps(labels))

    def _weighted_loss(self, hidden, labels, weights):
        return weighted_path_nats(hidden, *self._parameters(), self._steps(labels), weights)

    def _log_prob(self, hidden, labels):
        return -self._training_loss(hidden, labels)

    def _logits(self, hidden):
        return prunable(self._log_probs, hidden)

    def _log_probs(self, hidden):
        return self._map(lambda log_probs: log_probs, hidden, tf.TensorSpec([self.vocab_size]))

    def _top_k(self, hidden, k):
        signature = tf.TensorSpec([k]), tf.TensorSpec([k], tf.int32)
        values, ids = self._map(lambda x: tuple(tf.math.top_k(x, k)), hidden, signature)
        return ids, values

    def _map(self, function, hidden, signature):
        """A function of the log-probabilities (rows, V) of some positions, for all positions."""
        parameters = [None if p is None else tf.convert_to_tensor(p) for p in self._parameters()]
        leaves = tf.convert_to_tensor(self._leaves)
        return chunks.map_chunks(
            lambda rows: function(all_log_probs(rows, *parameters, self.tree, leaves)),
            # About eight tensors of the size of the result are alive at a time.
            hidden, chunks.rows_within(8 * 4 * len(self.tree.words)), signature,
        )

    def get_config(self):
        return {
            **super().get_config(),
            "tree": self.tree.to_config(),
            "use_bias": self.use_bias,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
        }
