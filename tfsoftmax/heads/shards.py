"""Linear heads whose rows may be divided among the replicas of a strategy of `tf.distribute`."""

from collections.abc import Sequence
from typing import Unpack

import keras
import tensorflow as tf

from tfsoftmax.heads.items import Items
from tfsoftmax.heads.options import HeadOptions
from tfsoftmax.ops.chunks import map_chunks
from tfsoftmax.ops.replicas import in_replica, run_in_replicas
from tfsoftmax.sharding.embedding import ShardedEmbedding
from tfsoftmax.sharding.rows import RowsInShards
from tfsoftmax.sharding.shards import Shard, refuse_whole
from tfsoftmax.sharding.weights import add_sharded_weight
from tfsoftmax.support import budgets
from tfsoftmax.support._compat import in_symbolic_scope, metrics_in_call
from tfsoftmax.support.arguments import expect


class Shards(Items):
    """A head whose rows can be divided among P replicas: `shard=True`.

    Under a `tf.distribute.MirroredStrategy` or `MultiWorkerMirroredStrategy` of P replicas, each
    holds ⌈V / P⌉ rows of the kernel, of the bias and of the optimiser's slots, and loss and
    weights are those on one device. Optimisers must be those of `tfsoftmax.optimizers`, which do
    not sum the gradients of sharded rows; others raise an error. With one replica nothing changes.

    With several replicas, a call returns logits that cannot be read, because no device has V
    columns. `fit` and `evaluate` do not need them; for `predict`, end the model with `TopK` or
    `LogProb`. XLA does not compile the head. The methods may also be called outside the strategy,
    without gradients; with several workers, all must call them together. Within `tf.function` a
    second call costs no tracing. `log_probs` then works on pieces of positions, and each device
    holds (n, V) numbers of a piece, at most 512 MiB.

    `tfsoftmax.sharded_checkpoints` writes and reads all shards. `.keras` files, `get_weights`,
    `set_weights`, `tf.train.Checkpoint` and `export` see only one shard and raise an error, and so
    does `EarlyStopping(restore_best_weights=True)`. Keras has already opened the file by then, so
    an older file of that name is lost. `count_params` and `summary` count one shard.

    Args:
        vocab_size: V, the number of words.
        tied_to: as in `TiedHead`.
        shard: whether replicas divide the rows; always true if `tied_to` is a `ShardedEmbedding`.
            With several replicas, the rows cannot have regularizers or constraints, and only
            initializers of Keras whose rows are independent of each other.
        not_items: as in `Items`.
        **kwargs: options of the weights and of the layer, `heads.options.HeadOptions`.

    Raises:
        ValueError: when built, if several replicas cannot do what is asked for.

    Example:
        import tensorflow as tf
        with tf.distribute.get_strategy().scope():  # or tf.distribute.MirroredStrategy()
            head = tfsoftmax.SampledSoftmax(1000, num_samples=50, shard=True)
            model = keras.Sequential([keras.Input((16,)), head])
            model.compile(tfsoftmax.optimizers.Adagrad(0.2), tfsoftmax.SoftmaxLoss())
    """

    saved_options = ("shard",)
    may_shard = True

    def __init__(
        self, vocab_size: int, tied_to: keras.layers.Layer | None = None, *, shard: bool = False,
        not_items: Sequence[int] = (), **kwargs: Unpack[HeadOptions],
    ):
        super().__init__(vocab_size, tied_to, not_items=not_items, **kwargs)
        tied_to_shards = isinstance(self.tied_to, ShardedEmbedding)
        expect(not shard or self.tied_to is None or tied_to_shards, "shard",
               "be False with `tied_to`, unless that is a ShardedEmbedding",
               received={"shard": shard, "tied_to": self.tied_to})
        self.shard = shard or tied_to_shards
        self._strategy = None

    def build(self, hidden_shape):
        if self.shard:
            self._strategy = tf.distribute.get_strategy()
            self.supports_jit = self.supports_jit and not self.in_shards  # numbers of rows vary
        super().build(hidden_shape)

    @property
    def in_shards(self) -> bool:
        """Whether several replicas have rows of their own; False before the head is built."""
        return self._strategy is not None and self._strategy.num_replicas_in_sync > 1

    def save_own_variables(self, store):
        refuse_whole(*self.weights)
        super().save_own_variables(store)

    def _add_rows(self, name, shape, initializer, **options):
        if not self.shard:
            return super()._add_rows(name, shape, initializer, **options)
        return add_sharded_weight(self, name, shape, initializer, **options)

    def distribution(self):
        rows = super().distribution()
        return RowsInShards(rows, Shard.here(self.vocab_size)) if self.in_shards else rows

    def _word_ids(self):
        return Shard.here(self.vocab_size).ids if self.in_shards else super()._word_ids()

    def _reader(self, ids):
        return Shard.here(self.vocab_size).reader(ids) if self.in_shards else super()._reader(ids)

    def _run(self, method, *tensors, wide=False):
        if not self.in_shards:
            return method(*tensors)
        if not wide or in_replica():
            return run_in_replicas(self._strategy, method, *tensors)
        (rows,) = tensors

        def piece(rows):
            logits = run_in_replicas(self._strategy, method, rows)
            return tf.ensure_shape(logits, (None, self.vocab_size))

        # All pieces have one shape, as collectives want it.
        return map_chunks(piece, rows, max(1, budgets.LOGITS_BYTES // (4 * self.vocab_size)))

    def _logits_of_call(self, rows, training):
        if not self.in_shards:
            return super()._logits_of_call(rows, training)
        if in_replica() or in_symbolic_scope():
            return _unreadable(rows, self.vocab_size, self._strategy.num_replicas_in_sync)
        return self._run(self._logits, rows, wide=True)


def _unreadable(hidden, vocab_size, replicas):
    """Logits (n, V) which raise an error if something reads them, and take no memory."""
    received = f"logits of {vocab_size} words in {replicas} shards"
    expect(
        not tf.executing_eagerly(), "run_eagerly", "be False, because eager mode makes the logits, "
        "which no device can hold; custom steps must run within `tf.function`", received=received,
    )
    names = [getattr(metric, "name", metric) for metric in metrics_in_call()]
    message = (
        "nothing must read the logits, which no device can hold: for `predict`, end the model with "
        "tfsoftmax.TopK(head, k) or tfsoftmax.LogProb(head), and for `fit` and `evaluate`, choose "
        f"among tfsoftmax.metrics. Received: {received}, and the metrics {names}"
    )

    def refuse(hidden):
        with tf.control_dependencies([tf.raw_ops.Assert(condition=False, data=[message])]):
            return tf.fill([tf.shape(hidden)[0], vocab_size], float("nan"))

    inner = tf.function(refuse, autograph=False).get_concrete_function(
        tf.TensorSpec(hidden.shape, hidden.dtype)
    )
    (logits,) = tf.raw_ops.PartitionedCall(args=[hidden], Tout=[tf.float32], f=inner)
    logits.set_shape([hidden.shape[0], vocab_size])
    return logits
