"""Large arrays of numbers as short strings, for the configurations of layers.

As a JSON list, the occurrences or the order of three million words take tens of megabytes, which
Keras also visits number by number. Packed, they are compressed bytes in Base64.
"""

import base64
import zlib
from collections.abc import Mapping

import numpy as np

from tfsoftmax.support.arguments import ArrayLike

LISTED = 1000  # arrays of at most this many numbers stay lists, which people can read


def packed(values: ArrayLike | None) -> list | dict | None:
    """An array of numbers in a form that JSON can hold, from which `unpacked` restores it.

    Args:
        values: numbers of any shape, or None.

    Returns:
        None for None; the array as a list if it is small; else a dict of its `dtype` and
        `shape`, and of its `packed` bytes. If `differences` is true, the bytes are those of the
        differences between neighbours, which are small numbers where the values rise or fall.
    """
    if values is None:
        return None
    array = np.asarray(values)
    if array.size <= LISTED or array.dtype.kind not in "iuf":
        return array.tolist()
    flat = array.astype(array.dtype.newbyteorder("<")).ravel()
    choices = [_compressed(flat)]
    if array.dtype.kind != "f":  # integers overflow in a circle, so that their sums are exact
        choices.append(_compressed(np.diff(flat, prepend=flat.dtype.type(0))))
    best = min(choices, key=len)
    return {
        "dtype": array.dtype.name, "shape": list(array.shape), "differences": best != choices[0],
        "packed": base64.b64encode(best).decode("ascii"),
    }


def unpacked(config):
    """The array that `packed` made a dict of; anything else is returned as it is."""
    if not isinstance(config, Mapping) or "packed" not in config:
        return config
    dtype = np.dtype(config["dtype"]).newbyteorder("<")
    columns = zlib.decompress(base64.b64decode(config["packed"]))
    flat = np.frombuffer(columns, np.uint8).reshape(dtype.itemsize, -1).T.copy().view(dtype)[:, 0]
    if config["differences"]:
        flat = np.cumsum(flat, dtype=dtype)
    return flat.astype(config["dtype"]).reshape(config["shape"])


def _compressed(flat):
    """All first bytes, then all second bytes, and so on: the high bytes are nearly all alike."""
    return zlib.compress(flat.view(np.uint8).reshape(-1, flat.dtype.itemsize).T.tobytes(), 3)
