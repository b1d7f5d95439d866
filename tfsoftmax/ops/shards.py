"""Which rows of a vocabulary each replica of a `tf.distribute` strategy holds."""

import contextlib
import dataclasses
import threading
from collections.abc import Iterator

import keras
import tensorflow as tf

from tfsoftmax.ops.replicas import in_replica, of_all_replicas, replica_id

_MARK = "_tfsoftmax_sharded_words"
_thread = threading.local()  # each replica of a process has a thread


@dataclasses.dataclass(frozen=True)
class Shard:
    """The words that one of several replicas holds.

    Attributes:
        rank: p, the number of the replica.
        size: P, the number of replicas.
        vocab_size: V, at least P.
    """

    rank: int
    size: int
    vocab_size: int

    @classmethod
    def here(cls, vocab_size: int) -> "Shard":
        """The shard of the replica that is running."""
        rank = int(tf.get_static_value(replica_id()))
        return cls(rank, tf.distribute.get_strategy().num_replicas_in_sync, vocab_size)

    @property
    def first(self) -> int:
        """The first word."""
        return self.rank * self.vocab_size // self.size

    @property
    def words(self) -> int:
        """How many words there are: V / P rounded down or up."""
        return (self.rank + 1) * self.vocab_size // self.size - self.first

    @property
    def rows(self) -> int:
        """Rows of the variables, the same in all shards: V / P rounded up."""
        return -(-self.vocab_size // self.size)

    def gather_positions(self, hidden, labels=None):
        """The positions of all replicas.

        Args:
            hidden: (n, D).
            labels: (n,) int32, or None.

        Returns:
            hidden (N, D) and labels (N,) of all replicas, and a function that takes a tensor
            (N, ...) to the rows (n, ...) of this replica.
        """
        count = tf.shape(hidden)[0]
        labels = tf.zeros([count], tf.int32) if labels is None else labels
        ranks = tf.fill([count], self.rank)
        gathered, columns = of_all_replicas([hidden, tf.stack([labels, ranks], axis=1)])
        start = tf.reduce_sum(tf.cast(columns[:, 1] < self.rank, tf.int32))

        def own(tensor):
            if self.size == 1:
                return tensor
            return tensor[start : start + count]

        return gathered, columns[:, 0], own


class _ShardedVariable(keras.Variable):
    """A variable that is not read or assigned as if one replica had all of its rows."""

    def refuse(self, *_, **__):
        size = self.value.distribute_strategy.num_replicas_in_sync
        raise ValueError(
            "tfsoftmax.sharded_checkpoints.save(model, folder) and restore(model, folder) must be "
            "called instead of what reads or assigns whole weights (Keras's files, `get_weights`, "
            "`set_weights`, `EarlyStopping(restore_best_weights=True)`, `tf.train.Checkpoint`, "
            f"`export`), which has the rows of one replica. Received: {self.path} in {size} shards"
        )

    numpy = __array__ = refuse

    @property
    def overwrite_with_gradient(self):
        """Whether a gradient is the new value, which every optimiser of Keras asks for."""
        if not getattr(_thread, "knows_shards", False):
            raise ValueError(
                "`optimizer` must be one of tfsoftmax.optimizers, because others add the "
                "gradients of different words; Keras wraps those of the policy mixed_float16 in "
                "another, but not those of mixed_bfloat16. Received: another one, for "
                f"{self.path} in {self.value.distribute_strategy.num_replicas_in_sync} shards"
            )
        return False

    def assign(self, value):
        return super().assign(value) if in_replica() else self.refuse()

    def _serialize_to_tensors(self):
        self.refuse()

    def _restore_from_tensors(self, restored_tensors):
        self.refuse()

    def _export_to_saved_model_graph(self, *_, **__):
        self.refuse()


@contextlib.contextmanager
def knowing_shards() -> Iterator[None]:
    """Within this context an optimiser works that leaves the gradients of shards as they are."""
    before = getattr(_thread, "knows_shards", False)
    _thread.knows_shards = True
    try:
        yield
    finally:
        _thread.knows_shards = before


def mark_sharded(variable: keras.Variable, vocab_size: int) -> keras.Variable:
    """Notes that each replica has rows of its own in a variable (⌈V / P⌉, ...)."""
    setattr(variable, _MARK, vocab_size)
    variable.__class__ = _ShardedVariable  # Keras's methods create it
    return variable


def mark_as(variable: keras.Variable, slot: keras.Variable) -> keras.Variable:
    """Notes that the rows of a slot are divided as those of a variable."""
    words = sharded_words(variable)
    return slot if words is None else mark_sharded(slot, words)


def sharded_words(variable: keras.Variable) -> int | None:
    """V, if each replica has rows of its own in the variable; else None."""
    return getattr(variable, _MARK, None)
