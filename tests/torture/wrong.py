"""Values that are wrong, for each kind of argument of a public name."""

import math
import os

import keras
import numpy as np
import tensorflow as tf

from .arguments import BAD, HIDDEN, V

WORDS = ["<unk>", "<eos>", *(f"w{i}" for i in range(V - 2))]
HUGE = (2**32, 2**32 + 1, 2**62, -(2**32))  # what a cast to int32 makes 0, 1, 0 and 0


def _ragged(array):
    return tf.RaggedTensor.from_row_lengths(array, [1, len(array) - 1])


def wrong_arrays(array):
    """Ids that are wrong, from valid ones: (name, value)."""

    def one(value, dtype):
        changed = np.array(array, dtype)
        changed.flat[1] = value
        return changed

    yield from ((f"an id of {value}", one(value, np.int64)) for value in (V, *HUGE, -1, -V))
    for value in (0.5, math.nan, math.inf):
        yield f"an id of {value}", one(value, np.float64)
    yield "an id of 2**64 - 1", one(2**64 - 1, np.uint64)
    yield from (("booleans", array > 3), ("texts", array.astype(str)), ("complex", array + 1j))
    yield from (("None", None), ("a text", "words"), ("an object", object()))
    yield "sparse", tf.sparse.from_dense(array)
    yield "ragged", _ragged(array)


def wrong_values(kind, valid):
    """What is wrong for a kind: (name, value)."""
    if kind in ("ids", "ids or none", "lists"):
        for name, value in wrong_arrays(np.asarray(valid)):
            if name not in {"ids or none": ("an id of -1",),
                            "lists": ("an id of -1", "None")}.get(kind, ()):
                yield name, value
        return
    for value in WRONG.get(kind, BAD.get(kind, ())):
        yield repr(value)[:60], value


OBJECT = object()
STATES = [None, HIDDEN[:, :3], HIDDEN.astype(complex), HIDDEN.astype(str), _ragged(HIDDEN),
          tf.sparse.from_dense(HIDDEN), np.float32(1)]
WRONG = {
    str: [3, OBJECT, ["a"], b"a", math.nan],
    object: [OBJECT, 3, 2.5, "nonsense", [OBJECT]],
    "object": [OBJECT],
    "class": ["no", 1.5, math.nan, [3], True],
    "states": [*STATES, OBJECT, "h"], "tensors": STATES,  # Keras itself refuses others
    "weights": [OBJECT, "h", np.full(6, "a"), np.ones(6, complex), np.ones((6, 2)), np.ones(5),
                _ragged(np.ones(6))],
    "features": [None, OBJECT, [], 1.0, np.ones(V), np.ones((V, 3), complex), _ragged(np.ones(V)),
                 tf.sparse.from_dense(np.ones((V, 3))), [[1, 2], [3]], {"a": None}, {}],
    "model": [None, OBJECT, 3, "model", lambda x: x, keras.layers.Flatten],
    "inputs": [None, OBJECT, 3, "a", np.arange(5), np.arange(6)[:, None, None] / 2,
               np.full(6, "a"), [], {"a": np.arange(6)}],  # Keras casts to the type of the `Input`
    "index": [OBJECT, 3, "index", [1], True],
    "names": [OBJECT, 3, "a" * V, [1] * V, [f"{i}" for i in range(V - 1)], ["a"] * V, {}],
    "folder": [OBJECT, 3, None, "", ["a"], os.devnull, os.path.dirname(__file__)],
    "earlier ids": [OBJECT, 3, None, "ab", [], [0, 0], [V], [-2], [0.5], [[0, 1]], [math.nan], {}],
    "draw seed": [1.5, None, "a", True, [1, 2, 3], [1.5, 2], OBJECT, [], 2**70],
    "rows of ids": [OBJECT, 3, None, "ab", [], [[0, V]], [[-1, 0]], [[0.5, 1]], [[2**32, 1]],
                    [["a", "b"]], [[math.nan, 1.0]]],
    "ends": [OBJECT, "ab", None, [0.5, 1.5], ["a"], [[1, 2]], [2**40, 2**41], [math.nan] * 2, []],
    "excluded": [OBJECT, "ab", None, [], [0.5], ["a"], [[0]], [V], [-1], [0, 0], [2**40], [True]],
    "batches": [OBJECT, "ab", None, [0.5, 1.5], ["a"] * 2, [[1, 2]], [2, 1], [0, 1], [1]],
    "share": [*BAD[float], {}, {"class_name": "Odd", "config": {}}, 2.0, OBJECT],
    "words or none": [-1, 0, 1.5, "3", True, [2], OBJECT],
    "nested": [3, [], [0, 1.5], [0, "a"], [0, [True, 1]], None, OBJECT, [[]], [0, 0], [0, 2**40]],
    "codes": [[], "0101", [0, 1], ["0", "01"], None, OBJECT, [b"0"]],
    "two steps": [(1,), (0, 1), (2, 1), (1.5, 2), ("1", "2"), 3, "ab", OBJECT, (True, True)],
    "filters": [[-1], [0.5], ["a"], [True], 3, "ab", [0], OBJECT],
    "occurrences": [[1.5] * V, [math.nan] * V, ["a"] * V, [1] * (V - 1), 3, None, OBJECT,
                    [2**70] * V, [-1] * V],
    "vocabulary": [3, None, OBJECT, "ab", [1] * V, ["a b", *WORDS[1:]], WORDS[1:],
                   [*WORDS[1:], ""]],
    "monitor": [3, None, "loss_of_another", OBJECT],
    "name": [3, OBJECT, "float33", []],
}
