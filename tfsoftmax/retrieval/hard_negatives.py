"""Hard negatives: for each query, the words that a head currently ranks highest."""

from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.heads.base import SoftmaxHead
from tfsoftmax.heads.models import head_and_hidden_model
from tfsoftmax.ops.inputs import checked_ids
from tfsoftmax.ops.replicas import add_state
from tfsoftmax.support.arguments import CheckedArguments, check_positive, expect, refusing
from tfsoftmax.support.saved_options import SavedOptions


@keras.saving.register_keras_serializable(package="tfsoftmax")
class HardNegatives(SavedOptions, keras.layers.Layer):
    """The hard negatives of each query, by its number, for the second argument of a head.

    It holds a table (Q, H), which is empty at first, so training begins without hard negatives. The
    callback `MineHardNegatives` fills it. Saved models include it.

    Args:
        num_queries: Q, such as the number of users or of training examples.
        num_negatives: H, the number of hard negatives for each query.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        queries: (...) integers in [0, Q), others are an error. The result is (..., H) int32, -1
            where there is none.

    Example:
        hidden, users = keras.Input((64,)), keras.Input((), dtype="int32")
        negatives = tfsoftmax.HardNegatives(5000, 4)(users)
        head = tfsoftmax.SampledSoftmax(1000, 50, "uniform")
        model = keras.Model([hidden, users], head(hidden, negatives))
    """

    saved_options = ("num_queries", "num_negatives")

    def __init__(self, num_queries: int, num_negatives: int, **kwargs):
        super().__init__(autocast=False, **kwargs)  # queries may be floats
        check_positive(num_queries=num_queries, num_negatives=num_negatives)
        self.num_queries, self.num_negatives = num_queries, num_negatives
        self.table = add_state(
            self, "table", (num_queries, num_negatives), "int32",
            lambda shape, dtype: tf.fill(shape, tf.constant(-1, dtype)),
        )
        self.supports_jit = False  # no more than the head that reads them
        self.built = True

    def call(self, queries):
        return tf.gather(self.table.value, checked_ids(queries, self.num_queries, "queries")[0])

    def compute_output_spec(self, queries):
        return keras.KerasTensor((*queries.shape, self.num_negatives), "int32")

    def move_from(self, old, renumbering):
        """Takes over the negatives of an earlier layer, by the `Renumbering` of the words."""
        renumbering.move_weights(self, old)
        self.table.assign(renumbering.ids(self.table.numpy()))


class MineHardNegatives(CheckedArguments, keras.callbacks.Callback):
    """Fills a `HardNegatives` before epochs with the words that the head ranks highest.

    These are the top H of the whole vocabulary, by `head.top_k` at that time: exact, or approximate
    with an index. The query's label may be among them, and the head counts it once. If labels were
    left out, the head would learn that the words it ranks highest are wrong.

    Args:
        negatives: a `HardNegatives` of the model.
        inputs: the model's inputs for the queries 0 to Q - 1, in their order.
        every: number of epochs before the first search, and from one search to the next.
        index: function of the head to a `tfsoftmax.search.WordIndex`, or None for exact search.
        batch_size: the number of queries whose scores are computed at once.

    Raises:
        ValueError: if training begins with a model that is not functional, has no output of a
            head, lacks `negatives`, or has fewer than H words; or if `inputs` are not those of
            the Q queries.

    Example:
        users = keras.Input((), dtype="int32")
        negatives = tfsoftmax.HardNegatives(5000, 4)
        head = tfsoftmax.SampledSoftmax(1000, 50, "uniform")
        model = keras.Model(users, head(tfsoftmax.Embedding(5000, 64)(users), negatives(users)))
        model.compile("adam", tfsoftmax.SoftmaxLoss())
        model.fit(keras.ops.arange(5000), keras.ops.arange(5000) % 1000, epochs=2, verbose=0,
                  callbacks=[tfsoftmax.MineHardNegatives(negatives, keras.ops.arange(5000))])

    Source: Xiong et al. 2021 (ANCE), a stale index. Departure: labels are not left out.
    """

    def __init__(
        self, negatives: HardNegatives, inputs, every: int = 1,
        index: Callable[[SoftmaxHead], object] | None = None, batch_size: int = 256,
    ):
        super().__init__()
        check_positive(every=every, batch_size=batch_size)
        self.negatives, self.inputs, self.every = negatives, inputs, every
        self.index, self.batch_size = index, batch_size

    def on_train_begin(self, logs=None):
        self._head, hidden_model = head_and_hidden_model(self.model)
        table, words = self.negatives, self._head.vocab_size
        in_model = any(weight is table.table for weight in self.model.weights)
        expect(in_model, "negatives", "be a layer of the model", table)
        expect(table.num_negatives <= words, "num_negatives",
               f"be at most the vocabulary's {words}", table.num_negatives)
        self._queries = keras.Model(self.model.inputs, hidden_model.output)
        self._queries.jit_compile = False  # XLA drops the errors of wrong inputs

    def on_epoch_begin(self, epoch, logs=None):
        if epoch and epoch % self.every == 0:
            self.negatives.table.assign(self.mined())

    def mined(self) -> np.ndarray:
        """The ids (Q, H) int32 that the head ranks highest now."""
        wrong = ValueError, TypeError, AttributeError, LookupError
        rule = f"be what the model takes for the {self.negatives.num_queries} queries"
        received = f"inputs={str(self.inputs)[:80]}, and Keras says: "
        with refusing(wrong, "inputs", rule, before=received):
            hidden = self._queries.predict(self.inputs, batch_size=self.batch_size, verbose=0)
        expect(
            hidden.shape[:-1] == (self.negatives.num_queries,), "inputs",
            f"be those of the {self.negatives.num_queries} queries of `negatives`",
            received=f"inputs that lead to hidden states {hidden.shape}",
        )
        k, options = self.negatives.num_negatives, {}
        if self.index is not None:
            options["index"] = self.index(self._head)
        starts = range(0, len(hidden), self.batch_size)
        parts = [hidden[start : start + self.batch_size] for start in starts]
        return np.concatenate([self._head.top_k(part, k, **options)[0] for part in parts])
