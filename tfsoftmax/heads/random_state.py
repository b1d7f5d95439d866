"""Seeds for heads that draw at random while training, as a weight that is saved with them."""

import random

import keras
import tensorflow as tf

from tfsoftmax.ops.replicas import add_state, replica_id
from tfsoftmax.support.arguments import expect


class RandomState(keras.layers.Layer):
    """A stateless seed for each draw: the same sequence from the same seed, also after reloading.

    Keras's `SeedGenerator` starts anew when a `.keras` file is loaded.

    Args:
        seed: integer, or None for one that `keras.utils.set_random_seed` decides.

    Example:
        from tfsoftmax.heads.random_state import RandomState
        state, same = RandomState(seed=3), RandomState(seed=3)
        assert bool(keras.ops.all(state.next() == same.next()))
        assert bool(keras.ops.any(state.next() != RandomState(seed=3).next()))
    """

    def __init__(self, seed: int | None = None):
        super().__init__(name="random_state")
        right = seed is None or -(2**63) <= seed < 2**63
        expect(right, "seed", "lie in [-2**63, 2**63)", seed)
        start = random.randint(1, 10**9) if seed is None else seed
        self.state = add_state(
            self, "state", (2,), "int64", lambda shape, dtype: tf.constant([start, 0], dtype)
        )
        self.built = True

    def load_own_variables(self, store):
        """Keeps the current state if the file is that of a head without random draws."""
        if store.keys():
            super().load_own_variables(store)

    def next(self, synchronized: bool = False) -> tf.Tensor:
        """A seed (2,) int64.

        Args:
            synchronized: whether all replicas of a strategy get the same seed, or each its own.
        """
        seed = tf.identity(self.state.value)
        self.state.assign_add(tf.constant([0, 1], tf.int64))
        if synchronized:
            return seed
        high = tf.bitwise.left_shift(tf.cast(replica_id(), tf.int64), tf.constant(32, tf.int64))
        return seed + tf.stack([high, 0])
