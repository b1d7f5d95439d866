"""Which rows of a vocabulary each replica of a `tf.distribute` strategy holds."""

import contextlib
import dataclasses
import functools
import threading
from collections.abc import Iterator

import keras
import tensorflow as tf
from numpy.typing import ArrayLike

from tfsoftmax.ops.custom_gradients import differentiable
from tfsoftmax.ops.replicas import (
    gathered_rows,
    in_replica,
    of_all_replicas,
    replica_id,
    sum_of_replicas,
)
from tfsoftmax.support.arguments import refusal

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

    @property
    def ids(self) -> tf.Tensor:
        """The words (rows,) int32 of the rows; that of a padding row is any word."""
        return tf.minimum(self.first + tf.range(self.rows), self.vocab_size - 1)

    def gather_positions(self, hidden, labels=None):
        """The positions of all replicas.

        Args:
            hidden: (n, D), or None.
            labels: (n,) int32, or None.

        Returns:
            hidden (N, D) and labels (N,) of all replicas, and a function that takes a tensor
            (N, ...) to the rows (n, ...) of this replica.
        """
        count = tf.shape(hidden if labels is None else labels)[0]
        labels = tf.zeros([count], tf.int32) if labels is None else labels
        columns = tf.stack([labels, tf.fill([count], self.rank)], axis=1)
        parts = of_all_replicas([columns] if hidden is None else [hidden, columns])
        columns = parts[-1]
        start = tf.reduce_sum(tf.cast(columns[:, 1] < self.rank, tf.int32))

        def own(tensor):
            if self.size == 1:
                return tensor
            return tensor[start : start + count]

        return None if hidden is None else parts[0], columns[:, 0], own

    def reader(self, ids):
        """A function that reads rows of some words, in whichever shards they lie.

        Of the U different words that any replica reads, each holder sends its rows: the replicas
        exchange (U, ...) by an all-reduce, and its gradient by another. The gradient of a table
        is sparse, has rows of this shard only, and is that of the sum of all replicas' losses,
        which must not be summed again. All replicas call it together, and what it returns too.

        Args:
            ids: (n,) int32 in [0, V), other ones in each replica.

        Returns:
            A function that takes the variable (⌈V / P⌉, ...) to rows (n, ...) float32.
        """
        _, every, own = self.gather_positions(None, ids)
        words, place = tf.unique(every)
        inside = tf.where((words >= self.first) & (words < self.first + self.words))
        rows = tf.gather_nd(words, inside) - self.first

        def exchanged(held):
            shape = tf.concat([tf.shape(words), tf.shape(held)[1:]], 0)
            every_row = sum_of_replicas(tf.scatter_nd(tf.cast(inside, tf.int32), held, shape))

            def gradients(upstream):
                return [tf.gather_nd(sum_of_replicas(upstream), inside)]

            return every_row, gradients

        def read(table):
            held = tf.cast(gathered_rows(table, rows), tf.float32)
            return tf.gather(differentiable(exchanged, held), own(place))

        return read


def _overwrite_with_gradient(variable):
    """Whether a gradient is the new value, which every optimiser of Keras asks for."""
    if not getattr(_thread, "knows_shards", False):
        raw = variable.value if isinstance(variable, keras.Variable) else variable
        raise refusal(
            "optimizer", "be one of tfsoftmax.optimizers, because others add the gradients of "
            "different words. Under the policy mixed_float16, Keras wraps it in another unless you "
            "call `compile` with auto_scale_loss=False; give it a `loss_scale_factor` instead",
            received=f"another optimizer, for {getattr(variable, 'path', raw.name)} in "
            f"{raw.distribute_strategy.num_replicas_in_sync} shards",
        )
    return False


@functools.cache
def _refusing(raw_class):
    """A class of TensorFlow's variables that optimisers may get in place of Keras's."""
    overwrite = property(_overwrite_with_gradient)
    return type(raw_class.__name__, (raw_class,), {"overwrite_with_gradient": overwrite})


class _ShardedVariable(keras.Variable):
    """A variable that is not read or assigned as if one replica had all of its rows."""

    def refuse(self, *_, **__):
        size = self.value.distribute_strategy.num_replicas_in_sync
        raise refusal(
            "tfsoftmax.sharded_checkpoints.save(model, folder) and restore(model, folder)",
            "be called instead of what reads or assigns whole weights (Keras's files, "
            "`get_weights`, `set_weights`, `EarlyStopping(restore_best_weights=True)`, "
            "`tf.train.Checkpoint`, `export`), which has the rows of one replica",
            received=f"{self.path} in {size} shards",
        )

    numpy = __array__ = refuse
    overwrite_with_gradient = property(_overwrite_with_gradient)

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
    raw = variable.value
    for each in (variable, raw):
        setattr(each, _MARK, vocab_size)
    # The methods of Keras and of the strategy create them.
    variable.__class__, raw.__class__ = _ShardedVariable, _refusing(type(raw))
    return variable


def mark_as(variable: keras.Variable, slot: keras.Variable) -> keras.Variable:
    """Notes that the rows of a slot are divided as those of a variable."""
    words = sharded_words(variable)
    return slot if words is None else mark_sharded(slot, words)


def sharded_words(variable: keras.Variable | tf.Variable) -> int | None:
    """V, if each replica has rows of its own in the variable; else None."""
    return getattr(variable, _MARK, None)


def assign_range(variable: tf.Variable, first: int, rows: ArrayLike) -> None:
    """Assigns rows (n, ...) to the rows of a variable from `first` on, in place.

    `variable[first:stop].assign(rows)` reads the variable beforehand, and so copies all of it.
    """
    places = tf.range(first, first + len(rows))
    variable.scatter_update(tf.IndexedSlices(tf.cast(rows, variable.dtype), places))


def refuse_whole(*variables: keras.Variable | None) -> None:
    """Raises the error of whatever takes the rows of one replica for the whole variable."""
    for variable in variables:
        if variable is not None and sharded_words(variable):
            variable.refuse()
