"""The vectors of words and of hidden states whose inner products rank the words."""

import numpy as np
import tensorflow as tf

from tfsoftmax.ops.logits import with_one
from tfsoftmax.support.arguments import ArrayLike, expect


class Vectors:
    """Mixin for `SoftmaxHead`: what an index for inner products needs of a head, if it has it.

    Example:
        head = tfsoftmax.HEADS["full"](1000)
        head.build((None, 64))
        assert head.vectors().shape == (1000, 65)
        scores = head.queries(keras.random.normal((8, 64))) @ head.vectors().T  # the logits
    """

    _queries_with_bias: bool | None = None  # None: not known yet

    def plain_softmax(self):
        """The exact distribution of a built head if it is softmax of h Wᵀ + b, perhaps capped.

        None for other functions of the scores, rows in shards, and scores that depend on the word
        before.
        """
        return None

    def vectors(self) -> np.ndarray:
        """[W | b], (V, D + 1) float32, or W alone (V, D) for a head without biases.

        The likeliest words of a hidden state are those whose vectors have the largest inner
        products with its `queries`, also where logits are capped.

        Raises:
            ValueError: if the head is not built, or its distribution is not softmax of h Wᵀ + b,
                as with clusters, projections or trees.
        """
        softmax = softmax_of(self)
        kernel, bias = softmax.kernel, softmax.bias
        columns = [kernel] if bias is None else [kernel, tf.reshape(bias, [-1, 1])]
        return np.array(tf.concat([tf.cast(c, tf.float32) for c in columns], 1))

    def queries(self, hidden: ArrayLike) -> tf.Tensor:
        """[h | 1], (..., D + 1) float32, or h (..., D) for a head without biases; see `vectors`."""
        if self._queries_with_bias is None:
            # Traced and never run: a layer may compute the rows of all words for it.
            tf.function(self._find_bias, autograph=False).get_concrete_function()
        hidden = tf.cast(self._as_hidden(hidden), tf.float32)
        return with_one(hidden) if self._queries_with_bias else hidden

    def _find_bias(self):
        self._queries_with_bias = softmax_of(self).bias is not None


def check_is_index(index):
    """Raises ValueError for what is not an index. Only `retrieval.faiss_indexes` imports faiss."""
    expect(hasattr(index, "likeliest"), "index", "be a tfsoftmax.search.WordIndex", index)


def softmax_of(head):
    """The `plain_softmax` of a head.

    Raises:
        ValueError: if it has none.
    """
    softmax = head.plain_softmax() if isinstance(head, Vectors) else None
    expect(
        softmax is not None, "head", "be built, with P(w | h) = softmax of h Wᵀ + b and all rows "
        "on one device, such as FullSoftmax; the words of others have no vectors", head,
    )
    return softmax
