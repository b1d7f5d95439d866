"""Exact perplexity of the words of each range of frequencies."""

import keras
import tensorflow as tf

from tfsoftmax.metrics.perplexity import NO_NATS
from tfsoftmax.metrics.token_mean import TokenMean
from tfsoftmax.support.arguments import ArrayLike, expect
from tfsoftmax.support.counts import checked_counts


@keras.saving.register_keras_serializable(package="tfsoftmax")
class NatsByFrequency(TokenMean):
    """Nats per token, and the share of the tokens, of words by their number of occurrences.

    The bands are those of counts 0, 1 to 9, 10 to 99, and so on up to the highest count. The nats
    are those of the exact, normalised distribution; `fit` does not compute them with a head that
    trains on a sample. The nats of a band without tokens are NaN.

    Args:
        counts: (V,) integers, occurrences of the words in training, in the order of their ids.
        ignore_class, dtype: as in `tfsoftmax.metrics.Perplexity`.
        name: a name, with which the keys then begin, as in `a_nats_10`. Keras's logs have nothing
            else that tells the metrics of several outputs apart.

    Raises:
        ValueError: if a count is negative or not finite, or all are zero; when the metric is
            updated, if there are not V counts.

    Example:
        head = tfsoftmax.FullSoftmax(100)
        model = keras.Sequential([keras.Input((16,)), head])
        metric = tfsoftmax.metrics.NatsByFrequency(counts=list(range(100, 0, -1)))
        model.compile("sgd", tfsoftmax.SoftmaxLoss(), weighted_metrics=[metric])
        model.evaluate(keras.random.normal((8, 16)), keras.random.randint((8,), 0, 100))
        print(metric.result())  # {"nats_1": ..., "tokens_1": ..., "nats_10": ..., ...}
    """

    saved_options = ("counts",)
    default_name = "nats_by_frequency"
    not_in_fit = NO_NATS

    def __init__(self, counts: ArrayLike, **kwargs):
        self.counts = checked_counts(counts)
        digits = [len(str(int(count))) if count else 0 for count in self.counts.tolist()]
        self.starts = {band: 10 ** (band - 1) if band else 0 for band in sorted({*digits})}
        self.quantities = tuple(
            f"{what}_{start}" for start in self.starts.values() for what in ("nats", "tokens")
        )
        super().__init__(**kwargs)
        with tf.init_scope():  # outside the graph that asks first, as other graphs use it
            self._bands = tf.constant(digits, tf.int32)

    def _values(self, tag, labels):
        expect(len(self.counts) == tag.head.vocab_size, "counts",
               f"be those of the head's {tag.head.vocab_size} words",
               received=f"counts of {len(self.counts)} words")
        nats = tag.exact_nats(labels)
        if nats is None:
            return None
        bands = tf.gather(self._bands, tf.cast(labels.ids, tf.int32))
        inside = [tf.cast(bands == band, nats.dtype) for band in self.starts]
        of_band = tf.math.multiply_no_nan  # nats may be infinite in another band
        return tuple(value for mask in inside for value in (of_band(nats, mask), mask))

    def _report(self, *means):
        result = dict(zip(self.quantities, means, strict=True))
        for start in self.starts.values():
            result[f"nats_{start}"] /= result[f"tokens_{start}"]
        return {name: tf.cast(value, "float32") for name, value in result.items()}
