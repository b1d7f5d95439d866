"""Input embeddings whose rows lie on several devices."""

import keras
import tensorflow as tf

from tfsoftmax.layers.embedding import Embedding
from tfsoftmax.ops.inputs import checked_ids
from tfsoftmax.ops.replicas import run_in_replicas
from tfsoftmax.sharding.shards import Shard, refuse_whole
from tfsoftmax.sharding.weights import add_sharded_weight


@keras.saving.register_keras_serializable(package="tfsoftmax")
class ShardedEmbedding(Embedding):
    """`Embedding` whose rows and optimiser slots are divided among replicas.

    Under a `tf.distribute.MirroredStrategy` or `MultiWorkerMirroredStrategy` of P replicas, each
    holds ⌈V / P⌉ rows, and embeddings and weights are those of `Embedding` on one device. The
    replicas exchange the row of each word in their batches once, and its gradient; both
    grow with the words of a batch, and not with V. With one replica the layer is `Embedding`.

    What `tfsoftmax.heads.shards.Shards` says of optimisers, checkpoints and Keras's files holds
    here too. A head that is tied to the layer, by `tied_to`, divides its words in the same way.

    Args:
        input_dim: V, the number of words.
        output_dim: D, the units of an embedding.
        embeddings_initializer: an initializer of Keras.
        mask_zero: whether word 0 is masked.
        **kwargs: other arguments of `Embedding`. With several replicas, regularizers and
            constraints are an error.

    Raises:
        ValueError: when built, if several replicas cannot do what is asked for.
        InvalidArgumentError: when run, if a word lies outside [0, V). Under XLA its embedding is
            NaN.

    Example:
        import tensorflow as tf
        with tf.distribute.get_strategy().scope():  # or tf.distribute.MirroredStrategy()
            words = keras.Input((20,), dtype="int32")
            embedding = tfsoftmax.ShardedEmbedding(1000, 64)
            logits = tfsoftmax.ShardedSoftmax(1000, tied_to=embedding)(embedding(words))
            model = keras.Model(words, logits)
    """

    def build(self, input_shape=None):
        self._strategy = tf.distribute.get_strategy()
        self.supports_jit = self._strategy.num_replicas_in_sync == 1
        super().build(input_shape)

    def _add_embeddings(self, **options):
        return add_sharded_weight(self, **options)

    def call(self, words):
        if self._strategy.num_replicas_in_sync == 1:
            return super().call(words)
        ids = tf.reshape(checked_ids(words, self.input_dim, "words")[0], [-1])
        rows = run_in_replicas(self._strategy, self._rows, ids)
        shape = tf.concat([tf.shape(words), [self.output_dim]], 0)
        embeddings = tf.ensure_shape(tf.reshape(rows, shape), [*words.shape, self.output_dim])
        return tf.cast(embeddings, self.compute_dtype)

    def _rows(self, ids):
        return Shard.here(self.input_dim).reader(ids)(self._embeddings.value)

    def save_own_variables(self, store):
        refuse_whole(self._embeddings)
        super().save_own_variables(store)
