"""Input embeddings that a sparse optimiser may update."""

from collections.abc import Callable

import keras
import tensorflow as tf

from tfsoftmax.layers.initializers import Initializer, check_float_policy
from tfsoftmax.ops.inputs import checked_ids, rows_of_valid
from tfsoftmax.ops.replicas import gathered_rows
from tfsoftmax.ops.saved_arrays import WithoutCopies
from tfsoftmax.support.arguments import CheckedArguments, check_positive, expect


@keras.saving.register_keras_serializable(package="tfsoftmax")
class Embedding(CheckedArguments, keras.layers.Embedding):
    """`keras.layers.Embedding` that reads only the requested rows.

    Keras's own layer reads the whole variable. TensorFlow then copies all of it in each step
    after an optimiser has updated it sparsely, and a mixed policy casts all of it. Words outside
    [0, V) are an error; if XLA compiles the step, their embeddings are NaN. The arguments are those
    of `keras.layers.Embedding`, without `lora_rank`.

    Keras first casts the inputs of a model to the type of its `keras.Input`. For ids that may
    exceed 2^31, such as hashes, this type must be int64.

    Example:
        words = keras.random.randint((32, 20), 0, 1000)
        embedding = tfsoftmax.Embedding(1000, 64)
        hidden = embedding(words)  # (32, 20, 64)
        head = tfsoftmax.FullSoftmax(1000, tied_to=embedding)
    """

    def __init__(
        self, input_dim: int, output_dim: int, embeddings_initializer: Initializer = "uniform",
        embeddings_regularizer: str | Callable | None = None,
        embeddings_constraint: str | Callable | None = None, mask_zero: bool = False, **kwargs,
    ):
        super().__init__(
            input_dim, output_dim, embeddings_initializer, embeddings_regularizer,
            embeddings_constraint, mask_zero, **kwargs,
        )
        check_float_policy(self)
        check_positive(input_dim=input_dim, output_dim=output_dim)

    def build(self, input_shape=None):
        rank = self.lora_rank
        expect(not rank, "lora_rank", "be unset; keras.layers.Embedding has it", rank)
        self._embeddings = self._add_embeddings(
            name="embeddings", shape=(self.input_dim, self.output_dim),
            initializer=self.embeddings_initializer, regularizer=self.embeddings_regularizer,
            constraint=self.embeddings_constraint,
        )
        self.built = True

    def _add_embeddings(self, **options):
        return self.add_weight(autocast=False, **options)

    def enable_lora(self, *args, **kwargs):
        raise ValueError("tfsoftmax.Embedding has no LoRA; keras.layers.Embedding has it.")

    def call(self, words):
        ids, valid = checked_ids(words, self.input_dim, "words")
        rows = tf.cast(gathered_rows(self._embeddings.value, ids), self.compute_dtype)
        return rows_of_valid(rows, valid)

    def save_own_variables(self, store):
        super().save_own_variables(WithoutCopies(store))
