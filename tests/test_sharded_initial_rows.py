"""The first values of a matrix whose rows are divided among replicas."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfsoftmax import ShardedSoftmax
from tfsoftmax.sharding import weights as sharded_weights
from tfsoftmax.sharding.shards import Shard

V, D = 61, 6


@pytest.mark.parametrize("initializer", ["glorot_uniform", "he_normal", "random_normal", "zeros"])
def test_initial_rows_do_not_depend_on_the_number_of_shards(initializer, monkeypatch):
    monkeypatch.setattr(sharded_weights, "BLOCK_ROWS", 8)
    initializer = keras.initializers.get(initializer)
    every = np.concatenate(list(sharded_weights.initial_rows((V, D), initializer, 0, V)))
    assert every.shape == (V, D)
    for size in (2, 3, 61):
        shards = [Shard(rank, size, V) for rank in range(size)]
        rows = [
            block for s in shards for block in
            sharded_weights.initial_rows((V, D), initializer, s.first, s.first + s.words)
        ]
        np.testing.assert_array_equal(np.concatenate(rows), every)


class Numbered(keras.initializers.Initializer):
    """1, 2, 3, ... from the first row on."""

    def __call__(self, shape, dtype=None):
        return tf.reshape(tf.range(1, 1 + np.prod(shape), dtype=dtype), shape)


@pytest.mark.parametrize("initializer", [
    keras.initializers.Constant(np.arange(V * D).reshape(V, D)), keras.initializers.Identity(),
    keras.initializers.Orthogonal(seed=3), Numbered(),
])
def test_rows_that_depend_on_others_are_made_at_once_on_one_device(initializer, monkeypatch):
    monkeypatch.setattr(sharded_weights, "BLOCK_ROWS", 8)
    head = ShardedSoftmax(V, kernel_initializer=initializer)
    head.build((None, D))
    np.testing.assert_array_equal(head.kernel.numpy(), initializer((V, D), dtype="float32"))


@pytest.mark.parametrize("name, shape", [
    ("glorot_uniform", (20_000, 5)), ("he_normal", (20_000, 5)), ("lecun_uniform", (20_000,))
])
def test_initial_rows_scale_with_the_whole_vocabulary(name, shape):
    initializer = keras.initializers.get(name)
    rows = np.concatenate(list(sharded_weights.initial_rows(shape, initializer, 0, shape[0])))
    np.testing.assert_allclose(rows.std(), np.std(initializer(shape)), rtol=0.03)
    assert len(np.unique(rows)) > 0.95 * rows.size
