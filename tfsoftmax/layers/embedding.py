"""Input embeddings that a sparse optimiser may update."""

import keras
import tensorflow as tf

from tfsoftmax.ops.replicas import gathered_rows


@keras.saving.register_keras_serializable(package="tfsoftmax")
class Embedding(keras.layers.Embedding):
    """`keras.layers.Embedding` that reads only the rows it is asked for.

    Keras's own layer reads the whole variable. TensorFlow then copies all of it in each step
    after an optimiser has updated it sparsely, and a mixed policy casts all of it. Words outside
    [0, V) are an error on a CPU. The arguments are those of `keras.layers.Embedding`, without
    `lora_rank`.

    Example:
        words = keras.random.randint((32, 20), 0, 1000)
        embedding = tfsoftmax.Embedding(1000, 64)
        hidden = embedding(words)  # (32, 20, 64)
        head = tfsoftmax.FullSoftmax(1000, tied_to=embedding)
    """

    def build(self, input_shape=None):
        if self.lora_rank:
            raise ValueError(
                "`lora_rank` must be unset; keras.layers.Embedding has it. "
                f"Received: lora_rank={self.lora_rank}"
            )
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
        words = tf.cast(words, tf.int32)
        return tf.cast(gathered_rows(self._embeddings.value, words), self.compute_dtype)
