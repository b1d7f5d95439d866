"""Full softmax over a vocabulary whose rows lie on several devices."""

import keras
import tensorflow as tf
from numpy.typing import ArrayLike

from tfsoftmax._compat import in_symbolic_scope, metrics_in_call, model_in_call
from tfsoftmax.heads.base import SoftmaxHead
from tfsoftmax.heads.full import check_objective
from tfsoftmax.layers.sharded_weights import add_sharded_weight
from tfsoftmax.ops.cross_entropy import Objective
from tfsoftmax.ops.logits import LOGITS_BYTES, full_logits
from tfsoftmax.ops.replicas import in_replica, local_replicas
from tfsoftmax.ops.sharded import sharded_cross_entropy, sharded_logits, sharded_top_k
from tfsoftmax.ops.shards import Shard
from tfsoftmax.optimizers import SparseRows


@keras.saving.register_keras_serializable(package="tfsoftmax")
class ShardedSoftmax(SoftmaxHead):
    """`FullSoftmax` whose kernel, bias and optimiser slots are divided among replicas.

    Under a `tf.distribute.MirroredStrategy` or `MultiWorkerMirroredStrategy` of P replicas, each
    holds ⌈V / P⌉ rows, and loss and weights are those of `FullSoftmax` on one device. The
    replicas exchange hidden states instead of gradients of the kernel, see `ops.sharded`.
    Optimisers must be those of `tfsoftmax.optimizers`, which do not sum what is sharded. With one
    replica the head is `FullSoftmax`.

    With several replicas, a call returns logits that cannot be read, as no device has V columns:
    `fit` and `evaluate` do without, and for `predict`, `TopK` and `LogProb` end a model.
    The methods may be called outside of the strategy as well, without gradients; with several
    workers, all call them together. Within `tf.function` a second call costs no tracing.
    `log_probs` then works on pieces of positions, and each device holds (n, V) numbers of a piece,
    at most 512 MiB.

    `tfsoftmax.sharded_checkpoints` writes and reads all shards. `.keras` files, `get_weights`,
    `set_weights`, `tf.train.Checkpoint` and `export` know only one, and raise an error, and so
    does `EarlyStopping(restore_best_weights=True)`. `count_params` and `summary` count one shard.
    A custom loop must take an optimiser of `tfsoftmax.optimizers` as well: `fit` refuses others,
    but a loop cannot tell, and they would sum the gradients of different words.

    Args:
        vocab_size: V, the number of words.
        label_smoothing, z_loss, soft_cap: as in `FullSoftmax`.
        **kwargs: arguments of `SoftmaxHead` and of `keras.layers.Layer`. Several replicas take
            no regularizers and constraints, and only initializers of Keras.

    Raises:
        ValueError: when built, if several replicas cannot do what is asked for.

    Example:
        import tensorflow as tf
        with tf.distribute.get_strategy().scope():  # or tf.distribute.MirroredStrategy()
            model = keras.Sequential([keras.Input((16,)), tfsoftmax.ShardedSoftmax(1000)])
            model.compile(tfsoftmax.optimizers.Adagrad(0.2), tfsoftmax.SoftmaxLoss())

    Source: Shoeybi et al. 2019, section 3; departures are in `ops.sharded`.
    """

    trains_exactly = True

    def __init__(
        self, vocab_size: int, label_smoothing: float = 0.0, z_loss: float = 0.0,
        soft_cap: float | None = None, **kwargs,
    ):
        super().__init__(vocab_size, **kwargs)
        check_objective(label_smoothing, z_loss, soft_cap)
        self.soft_cap = soft_cap
        self.self_normalised = z_loss > 0
        self.objective = Objective(soft_cap, label_smoothing, z_loss)

    def build(self, hidden_shape):
        super().build(hidden_shape)
        self._strategy = tf.distribute.get_strategy()
        self._replicas = self._strategy.num_replicas_in_sync
        self.kernel, self.bias = self._kernel_and_bias(self.vocab_size, hidden_shape[-1])

    def _add_kernel(self, rows, units, name="kernel"):
        return add_sharded_weight(
            self, name, (rows, units), self.kernel_initializer,
            regularizer=self.kernel_regularizer, constraint=self.kernel_constraint,
        )

    def _add_bias(self, rows, name="bias"):
        return None if not self.use_bias else add_sharded_weight(
            self, name, (rows,), self.bias_initializer,
            regularizer=self.bias_regularizer, constraint=self.bias_constraint,
        )

    def call(self, hidden, training=None):
        if training and self._replicas > 1:
            optimizer = getattr(model_in_call(), "optimizer", None)
            if optimizer is not None and not isinstance(optimizer, SparseRows):
                raise ValueError(
                    "`optimizer` must be one of tfsoftmax.optimizers, because others add the "
                    "gradients of different words; Keras wraps those of the policy mixed_float16 "
                    f"in another, but not those of mixed_bfloat16. Received: {optimizer}"
                )
        return super().call(hidden, training)

    def save_own_variables(self, store):
        if self._replicas > 1:
            self.kernel.refuse()
        super().save_own_variables(store)

    def training_products(self, labels: ArrayLike) -> list[tuple[int, int, int]]:
        return [(len(labels), self.kernel.shape[1], self.vocab_size)]

    def log_normaliser(self, hidden: ArrayLike) -> tf.Tensor:
        """ln Z(h) = ln Σ_v exp(z_v), exact: (...) float32 for hidden (..., D), no gradient."""
        return self._by_row(self._log_normaliser, hidden)

    def self_normalised_log_prob(self, hidden: ArrayLike, labels: ArrayLike) -> tf.Tensor:
        """The label's score, which is its log-probability if Z(h) = 1; as in `LinearHead`."""
        return self._by_position(self._self_normalised, hidden, labels)

    def _log_normaliser(self, hidden):
        labels = tf.zeros(tf.shape(hidden)[:1], tf.int32)
        return tf.stop_gradient(self._cross_entropy(hidden, labels, self._plain)[2])

    def _self_normalised(self, hidden, labels):
        losses, _, log_z = self._cross_entropy(hidden, labels, self._plain)
        return log_z - losses

    @property
    def _plain(self):
        return Objective(soft_cap=self.soft_cap)

    def _training_loss(self, hidden, labels):
        return self._cross_entropy(hidden, labels, self.objective)[0]

    def _log_prob(self, hidden, labels):
        return -self._cross_entropy(hidden, labels, self._plain)[0]

    def _loss_and_nats(self, hidden, labels, weights):
        losses, nats, _ = self._cross_entropy(hidden, labels, self.objective)
        return tf.reduce_sum(weights * losses), nats

    def _top_k(self, hidden, k):
        def top_k(hidden):
            shard = Shard.here(self.vocab_size)
            return sharded_top_k(hidden, *self._parameters(), k, shard, self.soft_cap)

        return self._in_replicas(top_k, hidden)

    def _cross_entropy(self, hidden, labels, objective):
        def cross_entropy(hidden, labels):
            return sharded_cross_entropy(
                hidden, *self._parameters(), labels, Shard.here(self.vocab_size), objective
            )

        return self._in_replicas(cross_entropy, hidden, labels)

    def _logits(self, hidden):
        if self._replicas > 1 and (in_replica() or in_symbolic_scope()):
            return _unreadable(hidden, self.vocab_size, self._replicas)
        return self._all_logits(hidden)

    def _log_probs(self, hidden):
        return tf.nn.log_softmax(self._all_logits(hidden))

    def _all_logits(self, hidden):
        if self._replicas == 1:
            return full_logits(hidden, *self._parameters(), self.soft_cap)

        def logits(hidden):
            shard = Shard.here(self.vocab_size)
            return sharded_logits(hidden, *self._parameters(), shard, self.soft_cap)

        if in_replica():
            return logits(hidden)
        most = max(1, LOGITS_BYTES // (4 * self.vocab_size))
        pieces = [hidden[i : i + most] for i in range(0, hidden.shape[0] or 1, most)]
        return tf.concat([self._in_replicas(logits, piece) for piece in pieces], axis=0)

    def _in_replicas(self, function, *tensors):
        """`function(*tensors)` within a replica; outside, of all replicas the first has tensors."""
        if self._replicas == 1 or in_replica():
            return function(*tensors)
        values = self._strategy.experimental_distribute_values_from_function
        local = self._strategy.experimental_local_results
        first = local_replicas(self._strategy)[0]

        def given(tensor):
            # One position more, as a collective of no positions at all ends the process.
            padded = tf.pad(tensor, [[0, 1]] + [[0, 0]] * (len(tensor.shape) - 1))
            return values(lambda c: padded if c.replica_id_in_sync_group == first else tensor[:0])

        results = self._strategy.run(function, [given(tensor) for tensor in tensors])
        return tf.nest.map_structure(lambda result: local(result)[0][:-1], results)

    def get_config(self):
        return {
            **super().get_config(),
            "label_smoothing": self.objective.label_smoothing,
            "z_loss": self.objective.z_loss,
            "soft_cap": self.objective.soft_cap,
        }


def _unreadable(hidden, vocab_size, replicas):
    """Logits (n, V) which raise an error if something reads them, and take no memory."""
    received = f"Received: logits of {vocab_size} words in {replicas} shards"
    if tf.executing_eagerly():
        raise ValueError(
            "`run_eagerly` must be False, because eager mode makes the logits, which no device "
            f"can hold; custom steps must run within `tf.function`. {received}"
        )
    names = [getattr(metric, "name", metric) for metric in metrics_in_call()]
    message = (
        "nothing must read the logits, which no device can hold: for `predict`, end the model with "
        "tfsoftmax.TopK(head, k) or tfsoftmax.LogProb(head), and for `fit` and `evaluate`, choose "
        f"among tfsoftmax.metrics. {received}, and the metrics {names}"
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
