"""Variables as the arrays that a file is written from."""

import keras
import numpy as np


def array_of(variable: keras.Variable) -> np.ndarray:
    """The value of a variable, which shares its memory where NumPy knows the dtype."""
    value = variable.value
    if variable.dtype == "bfloat16" or not hasattr(value, "read_value_no_copy"):
        return keras.ops.convert_to_numpy(value)
    return np.asarray(memoryview(value.read_value_no_copy()))


class WithoutCopies:
    """What `save_own_variables` of Keras writes to: a store that copies each variable once.

    Keras copies a variable when it reads it, and once more when it writes it to the file.

    Example:
        layer, arrays = keras.layers.Dense(3), {}
        layer.build((None, 2))
        layer.save_own_variables(tfsoftmax.ops.saved_arrays.WithoutCopies(arrays))
        assert arrays["0"].shape == (2, 3)  # and shares the memory of the kernel
    """

    def __init__(self, store):
        self._store = store

    def __setitem__(self, key, value):
        self._store[key] = array_of(value) if isinstance(value, keras.Variable) else value
