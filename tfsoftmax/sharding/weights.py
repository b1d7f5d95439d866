"""Weights whose rows lie on several replicas, and their initial values."""

from collections.abc import Callable, Iterator, Sequence

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.layers.initializers import add_weight
from tfsoftmax.ops.replicas import local_replicas, of_first_worker
from tfsoftmax.sharding.shards import Shard, assign_range, mark_sharded, sharded_words
from tfsoftmax.support._compat import in_stateless_scope
from tfsoftmax.support.arguments import expect

# The random rows of a block follow from a seed of its own, so that they are the same in any shard.
BLOCK_ROWS = 4096
_BY_ROW = (
    keras.initializers.Zeros, keras.initializers.Ones, keras.initializers.RandomNormal,
    keras.initializers.RandomUniform, keras.initializers.TruncatedNormal,
    keras.initializers.VarianceScaling,
)


def add_sharded_weight(
    layer: keras.layers.Layer, name: str, shape: Sequence[int], initializer: Callable, **options
) -> keras.Variable:
    """Adds a weight (V, ...) of which each replica of the strategy in scope holds ⌈V / P⌉ rows.

    Initial values depend on the seed of the initializer, and not on the number of replicas.

    Args:
        layer: the layer that owns the weight.
        name: name of the weight.
        shape: shape of the whole weight, (V, ...).
        initializer: a Keras initializer; without a seed of its own, all workers take the first's.
        **options: `regularizer` and `constraint`, as in `keras.layers.Layer.add_weight`, where
            there is one replica.

    Raises:
        ValueError: with several replicas, for an initializer whose rows are not independent of
            each other, for a regularizer or constraint, or if there are fewer words than replicas.
    """
    vocab_size, *units = shape
    size = tf.distribute.get_strategy().num_replicas_in_sync
    if size > 1:
        _check(layer, name, vocab_size, size, initializer, options)
    elif not _divides(initializer):
        return add_weight(layer, name, shape, initializer, **options)
    initializer = initializer.clone()  # with a seed of its own, unless one is given
    if size == 1:
        def whole(shape, dtype=None):
            return tf.concat(list(initial_rows(shape, initializer, 0, vocab_size, dtype)), 0)

        return add_weight(layer, name, shape, whole, **options)
    rows = Shard(0, size, vocab_size).rows
    variable = add_weight(layer, name, (rows, *units), keras.initializers.get("zeros"))
    mark_sharded(variable, vocab_size)
    _agree_on_seed(initializer)
    for shard, part in shards_of(variable):
        start = 0
        for values in initial_rows(
            shape, initializer, shard.first, shard.first + shard.words, variable.dtype
        ):
            assign_range(part, start, values)
            start += len(values)
    return variable


def shards_of(variable: keras.Variable) -> list[tuple[Shard, tf.Variable]]:
    """The shards of a weight that this process holds, each a variable on its device."""
    strategy = variable.value.distribute_strategy
    parts = strategy.experimental_local_results(variable.value)
    return [
        (Shard(rank, strategy.num_replicas_in_sync, sharded_words(variable)), part)
        for rank, part in zip(local_replicas(strategy), parts, strict=True)
    ]


def initial_rows(
    shape: Sequence[int], initializer: keras.initializers.Initializer, first: int, stop: int,
    dtype: str | None = None,
) -> Iterator[tf.Tensor]:
    """Yields the initial rows [first, stop) of a weight, a block at a time.

    Args:
        shape: shape of the whole weight, (V, ...).
        initializer: a Keras initializer. Those that scale by the number of rows, such as
            "glorot_uniform", scale by V.
        first, stop: the rows.
        dtype: dtype of the weight.
    """
    vocab_size, *rest = shape
    for block in range(first // BLOCK_ROWS, -(-stop // BLOCK_ROWS)):
        start = block * BLOCK_ROWS
        end = min(start + BLOCK_ROWS, vocab_size)
        values = _of_block(initializer, block, end - start, shape)((end - start, *rest), dtype)
        yield values[max(first - start, 0) : stop - start]


def _of_block(initializer, block, rows, shape):
    """The initializer of a block of rows, with a seed of its own."""
    if not hasattr(initializer, "seed"):
        return initializer
    (seed,) = np.random.SeedSequence([int(initializer.seed), block]).generate_state(1)
    options = {"seed": int(seed >> 1)}
    if not isinstance(initializer, keras.initializers.VarianceScaling):
        return type(initializer).from_config({**initializer.get_config(), **options})

    def fan(rows):
        fan_in, fan_out = rows, shape[1] if len(shape) > 1 else rows
        means = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}
        return max(1, means[initializer.mode])

    scale = initializer.scale * fan(rows) / fan(shape[0])
    return keras.initializers.VarianceScaling(
        scale, initializer.mode, initializer.distribution, **options
    )


def _divides(initializer):
    """Whether some rows of a matrix can be made without the others."""
    if isinstance(initializer, keras.initializers.Constant):
        return np.ndim(initializer.value) == 0
    return isinstance(initializer, _BY_ROW)


def _agree_on_seed(initializer):
    """Gives an initializer the seed that it has in the first worker."""
    if hasattr(initializer, "seed"):
        initializer.seed = int(of_first_worker(np.int64(initializer.seed)))


def _check(layer, name, vocab_size, size, initializer, options):
    for key, value in options.items():
        expect(value is None, f"{name}_{key}", "be unset with several replicas, each of which "
               "would see its own rows only", value)
    expect(
        _divides(initializer), f"{name}_initializer", "be an initializer of Keras whose rows are "
        "independent with several replicas, because each makes its own rows", initializer,
    )
    rule = f"be at least the number of replicas, {size}"
    expect(vocab_size >= size, "vocab_size", rule, vocab_size)
    outside = not in_stateless_scope() and tf.distribute.in_cross_replica_context()
    expect(outside, f"Layer {layer.name!r}",
           "be built in the scope of the strategy, before `fit`: make a functional model or one "
           "with keras.Input, or call the head's `build` there",
           received="a build within a replica")
