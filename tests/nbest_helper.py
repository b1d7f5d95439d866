"""N-best lists in the formats of Kaldi, and what must be read from them."""

import numpy as np

SYMBOLS = "<eps> 0\nthe 3\ncat 12\nmat 7\n"


def write(directory, **files):
    """Writes files; a __ in a name stands for a slash."""
    for name, text in files.items():
        path = directory / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return directory


def integers(values):
    """A binary vector of int32, as Kaldi writes it."""
    marked = (b"\4" + int(value).to_bytes(4, "little", signed=True) for value in values)
    return b"\0B\4" + len(values).to_bytes(4, "little") + b"".join(marked)


def binary_float(value, kind="<f4"):
    return b"\0B" + bytes([np.dtype(kind).itemsize]) + np.array(value, kind).tobytes()


def archive(entries, of):
    return b"".join(f"{key} ".encode() + of(value) for key, value in entries.items())


IDS = {"u-1": [3, 12, 0], "u-2": [7], "v-1": [], "u-10": [3]}
COSTS = {"u-1": 5.5, "u-2": 7.25, "v-1": 8.0, "u-10": 6.0}
WORDS = archive(IDS, integers)


def checked(lists, symbols):
    lists = lists.with_words(symbols, False)
    assert lists.utterances == ("u", "v")
    assert lists.sentences == (("the", "cat"), ("mat",), ("the",), ())
    np.testing.assert_array_equal(lists.acoustic, [-5.5, -7.25, -6, -8])
    assert lists.rank.tolist() == ["1", "2", "10", "1"]
    return lists
