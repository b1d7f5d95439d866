"""How often the label is the likeliest word, or one of the likeliest."""

import keras
import tensorflow as tf

from tfsoftmax.metrics.token_mean import TokenMean, whole_ids
from tfsoftmax.support.arguments import check_positive


@keras.saving.register_keras_serializable(package="tfsoftmax")
class TopKAccuracy(TokenMean):
    """Share of the labels among the k likeliest words, by `head.top_k`, in bounded memory.

    Keras's `SparseTopKCategoricalAccuracy` reads the logits (..., V), which are then all in memory.

    Args:
        k: the number of likeliest words.
        in_training: whether `fit` measures it too, at the cost of `head.top_k` in each step, with
            the weights that the step has just updated. Otherwise `fit` does not compute it.
        ignore_class: label whose positions are not counted, or None.
        name, dtype: as in `keras.metrics.Metric`.

    Example:
        model = keras.Sequential([keras.Input((16,)), tfsoftmax.SampledSoftmax(1000, 50)])
        model.compile("sgd", tfsoftmax.SoftmaxLoss(), metrics=[tfsoftmax.metrics.TopKAccuracy(10)])
        hidden, labels = keras.random.normal((8, 16)), keras.random.randint((8,), 0, 1000)
        print(model.evaluate(hidden, labels, return_dict=True)["top_k_accuracy"])
    """

    saved_options = ("k", "in_training")
    quantities = ("hits",)
    default_name = "top_k_accuracy"
    not_in_fit = "it costs a search of all words in each step, which `in_training=True` asks for"
    _direction = "up"

    def __init__(
        self, k: int = 5, in_training: bool = False, ignore_class: int | None = None,
        name: str | None = None, dtype: str | keras.DTypePolicy | None = None,
    ):
        super().__init__(ignore_class, name, dtype)
        check_positive(k=k)
        self.k, self.in_training = k, in_training

    def _values(self, tag, labels):
        if tag.training and not self.in_training:
            return None
        own = whole_ids(labels.ids, 0, tag.head.vocab_size)
        own, _ = tag.head.checked_items(own, labels.counted)
        ids = tag.top_k(self.k)
        return (tf.reduce_any((ids == tf.cast(own, ids.dtype)[..., None]) & (ids >= 0), axis=-1),)


@keras.saving.register_keras_serializable(package="tfsoftmax")
class Accuracy(TopKAccuracy):
    """Share of the labels that are the likeliest word, by `head.top_k`, in bounded memory.

    Args:
        in_training: as in `TopKAccuracy`.
        ignore_class: label whose positions are not counted, or None.
        name, dtype: as in `keras.metrics.Metric`.

    Example:
        model = keras.Sequential([keras.Input((16,)), tfsoftmax.SampledSoftmax(1000, 50)])
        model.compile("sgd", tfsoftmax.SoftmaxLoss(), metrics=[tfsoftmax.metrics.Accuracy()])
        hidden, labels = keras.random.normal((8, 16)), keras.random.randint((8,), 0, 1000)
        print(model.evaluate(hidden, labels, return_dict=True)["accuracy"])
    """

    default_name = "accuracy"
    decided_options = ("k",)

    def __init__(
        self, in_training: bool = False, ignore_class: int | None = None,
        name: str | None = None, dtype: str | keras.DTypePolicy | None = None,
    ):
        super().__init__(1, in_training, ignore_class, name, dtype)
