"""`TopK` and `LogProb`: layers for models that are served, without the logits of all words."""

import keras
import tensorflow as tf

from tfsoftmax.heads.base import SoftmaxHead
from tfsoftmax.heads.inputs import check_input, checked_k
from tfsoftmax.ops.ranking import NOT_SEARCHED
from tfsoftmax.support.saved_options import SavedOptions


class _HeadLayer(SavedOptions, keras.layers.Layer):
    """Base of layers that end a model with results of a head other than its logits.

    Args:
        head: a `SoftmaxHead`, for example that of a trained model.
        **kwargs: arguments of `keras.layers.Layer`.
    """

    saved_options = ("head",)

    def __init__(self, head: SoftmaxHead, **kwargs):
        kwargs.setdefault("dtype", head.dtype_policy)
        super().__init__(autocast=False, **kwargs)  # labels may be floats; the head casts hidden
        self.head = head
        self.supports_jit = head.supports_jit
        self.supports_masking = True

    def __call__(self, hidden, *args, **kwargs):
        check_input(hidden)
        self.head.find_tie(hidden)
        return super().__call__(hidden, *args, **kwargs)

    def build(self, hidden_shape, *others):
        if not self.head.built:
            self.head.build(hidden_shape)
        self.built = True

    def get_config(self):
        # Where a model saves a layer twice, Keras gives it an identity, but too late for the first
        # configuration, of which it has made a copy. This one is the second.
        keras.saving.serialize_keras_object(self.head)
        return super().get_config()


@keras.saving.register_keras_serializable(package="tfsoftmax")
class TopK(_HeadLayer):
    """The k likeliest words of each position, by `head.top_k`.

    Args:
        head: a `SoftmaxHead`, for example that of a trained model.
        k: how many words.
        **kwargs: arguments of `keras.layers.Layer`.

    Returns, when called with hidden (..., D), and perhaps with `exclude` (..., E), ids of words to
    leave out, padded with -1:
        ids (..., k) int32 and exact log-probabilities (..., k) float32, likeliest first.

    A model in training may have the layer in addition to its head, for
    `tfsoftmax.metrics.RecallAtK`. Training steps do not search: all ids are then -2, and the metric
    is NaN.

    Example:
        words = keras.Input((20,), dtype="int32")
        hidden = tfsoftmax.Embedding(1000, 64)(words)
        head = tfsoftmax.AdaptiveSoftmax(1000, cutoffs=[100, 400])
        training = keras.Model(words, head(hidden))
        serving = keras.Model(words, tfsoftmax.TopK(head, 5)(hidden))  # the same weights
    """

    saved_options = ("k",)

    def __init__(self, head: SoftmaxHead, k: int, **kwargs):
        super().__init__(head, **kwargs)
        self.k = checked_k(k, head.vocab_size)

    def call(self, hidden, exclude=None, training=None):
        if training:
            shape = tf.concat([tf.shape(hidden)[:-1], [self.k]], 0)
            return tf.fill(shape, NOT_SEARCHED), tf.fill(shape, -float("inf"))
        return self.head.top_k(hidden, self.k, exclude=exclude)

    def compute_mask(self, hidden, mask=None):
        return mask, mask

    def compute_output_spec(self, hidden, exclude=None, training=None):
        shape = (*hidden.shape[:-1], self.k)
        return keras.KerasTensor(shape, "int32"), keras.KerasTensor(shape, "float32")


@keras.saving.register_keras_serializable(package="tfsoftmax")
class LogProb(_HeadLayer):
    """The exact log-probability of each label, by `head.log_prob`, in bounded memory.

    Args:
        head: a `SoftmaxHead`, for example that of a trained model.
        **kwargs: arguments of `keras.layers.Layer`.

    Returns, when called with hidden (..., D) and labels (...):
        (...) float32, log-probabilities.

    Example:
        words, following = (keras.Input((20,), dtype="int32") for _ in range(2))
        hidden = tfsoftmax.Embedding(1000, 64)(words)
        head = tfsoftmax.AdaptiveSoftmax(1000, cutoffs=[100, 400])
        scoring = keras.Model([words, following], tfsoftmax.LogProb(head)(hidden, following))
    """

    def call(self, hidden, labels):
        return self.head.log_prob(hidden, labels)

    def compute_output_spec(self, hidden, labels):
        return keras.KerasTensor(hidden.shape[:-1], "float32")

    def compute_mask(self, hidden, previous_mask=None):  # Keras passes the first argument only
        return previous_mask
