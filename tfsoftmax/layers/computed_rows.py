"""Layers that compute the row of a word or of an item instead of looking it up."""

import weakref
from collections.abc import Callable, Sequence

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.layers.initializers import check_float_policy
from tfsoftmax.ops.computed_table import table_of, with_recomputed_rows
from tfsoftmax.ops.inputs import checked_ids
from tfsoftmax.support._compat import AutocastScope, record
from tfsoftmax.support.arguments import check_positive
from tfsoftmax.support.saved_options import SavedOptions


class ComputedRows(SavedOptions, keras.layers.Layer):
    """Base of layers whose rows are computed from the ids, and serve heads as their kernel.

    A head that is `tied_to` the layer scores with `table()`. If it samples, a training step uses
    only the rows of the labels and of the samples, each computed once. Called with words, the layer
    is an embedding with the same rows, each computed once per word. A subclass adds its weights and
    layers in `build`, and implements `rows`, whose results must depend only on the ids and the
    weights: no dropout, no batch statistics. Put those into `rows_in_training`.

    `table()` keeps what it computed, and copies of the weights that it was computed from. It is
    computed again when a weight differs from its copy, or other weights have replaced the
    originals, as with LoRA and quantised layers. So evaluation and prediction compute it once. The
    copies are neither weights of the layer nor part of files of weights, and memory is allocated
    when the table is first computed. Within the scope of a strategy of `tf.distribute` nothing is
    kept.

    Args:
        input_dim: V, the number of words.
        output_dim: D, units of a row; None for those of the head that is tied to the layer.
        **kwargs: arguments of `keras.layers.Layer`.

    Attributes:
        order: (V,) ids in the order in which the table is computed, or None for their own.
        rows_at_once: the largest number of rows that the table computes at once.

    Example:
        class Powers(tfsoftmax.layers.computed_rows.ComputedRows):
            def rows(self, ids):
                share = keras.ops.cast(ids, "float32")[:, None] / self.input_dim
                return share ** keras.ops.arange(1, self.output_dim + 1, dtype="float32")

        head = tfsoftmax.FullSoftmax(1000, tied_to=Powers(1000, 64))
        logits = head(keras.random.normal((8, 64)))
    """

    saved_options = ("input_dim", "output_dim")
    order: np.ndarray | None = None
    rows_at_once = 512

    def __init__(self, input_dim: int, output_dim: int | None = None, **kwargs):
        super().__init__(autocast=False, **kwargs)  # words may be floats
        check_float_policy(self)
        check_positive(input_dim=input_dim, output_dim=output_dim)
        self.input_dim, self.output_dim = input_dim, output_dim
        self.supports_jit = False  # the number of distinct words varies
        self._kept = []  # functions that were traced earlier use the earlier ones

    def build(self, input_shape=None):
        self.built = True

    def rows(self, ids: tf.Tensor) -> tf.Tensor:
        """The rows (n, D) of ids (n,) int32 in [0, V)."""
        raise NotImplementedError

    def rows_in_training(self, ids: tf.Tensor) -> tf.Tensor:
        """The rows that a training step which samples words computes; these may be random."""
        return self.rows(ids)

    def table(self) -> tf.Tensor:
        """The rows of all words (V, D) in the dtype of the layer's weights.

        Differentiable with respect to the trainable weights.
        """
        order = np.arange(self.input_dim) if self.order is None else self.order
        order = tf.constant(order, tf.int32)
        variables = self.trainable_variables
        weights = values_of(variables)

        def rows(values, ids):
            state = list(zip(variables, values))
            with AutocastScope(None), keras.StatelessScope(state_mapping=state):
                return tf.cast(self.rows(ids), self.variable_dtype)

        def compute():
            return table_of(lambda ids: rows(weights, ids), order, self.rows_at_once)

        with record.stop_recording():
            keeps = tf.compat.v1.executing_eagerly_outside_functions()
            if keeps and not tf.distribute.has_strategy():
                table = self._kept_table().table(self.variables, compute)
            else:
                table = compute()
            table = tf.ensure_shape(table, [self.input_dim, self.output_dim])
        return with_recomputed_rows(table, rows, weights, order, self.rows_at_once)

    def _kept_table(self):
        if not self._kept or not self._kept[-1].fits(self.variables):
            kept = KeptTable(self.variables, self.output_dim, self.variable_dtype)
            self._kept = [*self._kept, kept]
        return self._kept[-1]

    def distinct_rows(self, ids: tf.Tensor, training: bool = False) -> tf.Tensor:
        """The rows (n, D) of ids (n,) int32, each id's computed once."""
        distinct, place = tf.unique(ids)
        # Layers of Keras that compute rows may fail for none, so that word 0 stands in.
        some = tf.pad(distinct, [[0, tf.cast(tf.size(distinct) == 0, tf.int32)]])
        with AutocastScope(None):  # whatever layer's call is running
            rows = self.rows_in_training(some) if training else self.rows(some)
        return tf.gather(rows, place)

    def call(self, words, training=None):
        words = checked_ids(words, self.input_dim, "words")[0]
        rows = self.distinct_rows(tf.reshape(words, [-1]), bool(training))
        shape = tf.concat([tf.shape(words), [self.output_dim]], 0)
        rows = tf.cast(tf.reshape(rows, shape), self.compute_dtype)
        return tf.ensure_shape(rows, [*words.shape, self.output_dim])

    def compute_output_shape(self, words_shape):
        return (*words_shape, self.output_dim)


class KeptTable(tf.Module):
    """A table in memory, and copies of the weights that it was computed from.

    Its variables are empty until the table is first computed.

    Args:
        weights: the Keras variables that the table depends on.
        units: D.
        dtype: that of the table.

    Example:
        weight = keras.Variable([[1.0, 2.0]])
        kept = tfsoftmax.layers.computed_rows.KeptTable([weight], units=2)
        once = kept.table([weight], lambda: 3 * weight.value)
        same = kept.table([weight], lambda: 0 * weight.value)  # [[3, 6]], not computed again
    """

    def __init__(self, weights: Sequence[keras.Variable], units: int, dtype: str = "float32"):
        super().__init__(name="kept")
        self._weights = tuple(map(weakref.ref, weights))
        with tf.init_scope():
            self.rows = tf.Variable(tf.zeros([0, units], dtype), False, shape=[None, units])
            self.copies = [
                tf.Variable(tf.zeros([0], value.dtype), False, shape=tf.TensorShape(None))
                for value in values_of(weights)
            ]

    def fits(self, weights: Sequence[keras.Variable]) -> bool:
        """Whether these are the weights that it has copies of."""
        same = [known() is weight for known, weight in zip(self._weights, weights)]
        return len(self._weights) == len(weights) and all(same)

    def table(self, weights: Sequence[keras.Variable], compute: Callable[[], tf.Tensor]):
        """The kept table (V, D), or `compute()` if a weight has changed since."""
        values = values_of(weights)

        def refresh():
            self.rows.assign(compute(), read_value=False)
            for copy, value in zip(self.copies, values, strict=True):
                copy.assign(value, read_value=False)
            return self.rows.read_value()

        def fresh():
            pairs = zip(self.copies, values, strict=True)
            equal = [tf.reduce_all(copy == value) for copy, value in pairs]
            return tf.reduce_all(tf.stack(equal)) if equal else tf.constant(True)

        has_rows = tf.shape(self.rows)[0] > 0
        valid = tf.cond(has_rows, fresh, lambda: tf.constant(False))
        return tf.cond(valid, self.rows.read_value, refresh)


def values_of(variables: Sequence[keras.Variable]) -> list[tf.Tensor]:
    """The values of variables in their own dtype, whatever layer's call is running."""
    with AutocastScope(None):
        return [tf.convert_to_tensor(variable.value) for variable in variables]
