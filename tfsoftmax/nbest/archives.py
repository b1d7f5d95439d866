"""Reads the archives and tables (.scp) of Kaldi that n-best lists need: words and costs.

Nothing is run or unpickled, which kaldiio would do where a table or an archive asks for it. Nor
does kaldiio read costs in binary form, which it takes for vectors of integers.
"""

import re
from collections.abc import Callable, Iterator

import numpy as np

from tfsoftmax.nbest.rows import read_fields
from tfsoftmax.support import textio
from tfsoftmax.support.arguments import expect, refusal

_BINARY = re.compile(rb"(\S+) \0B")
_INTEGERS = np.dtype([("size", "u1"), ("value", "<i4")])
_FLOATS = {4: np.dtype("<f4"), 8: np.dtype("<f8")}
_VECTORS = {b"FV ": _FLOATS[4], b"DV ": _FLOATS[8]}


def words(path: str, ids: bool) -> Iterator[tuple[str, str, list[str]]]:
    """Yields the place (for messages), the key and the words of each entry.

    Args:
        path: an archive of words or of ids, as text or in binary form, or a table
            *.scp of places in such archives, which are relative to the working directory.
        ids: whether brackets around an entry are those of a vector of ids, and no words.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: an entry is damaged, or of another kind.
    """
    return _entries(path, _integers, _without_brackets if ids else list)


def costs(path: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yields the same of an archive or table of costs, each of which is the text of a number."""
    return _entries(path, _float, _without_brackets)


def _entries(path: str, value: Callable, of_text: Callable) -> Iterator[tuple[str, str, list[str]]]:
    """The entries, by a function of data and a place in them and one of the fields of a line."""
    if textio.plain_name(path).endswith(".scp"):
        yield from _table(path, value, of_text)
        return
    data = textio.read_bytes(path)
    if _BINARY.match(data) is None:
        for where, (key, *fields) in read_fields(path):
            yield where, key, of_text(fields)
        return
    at = 0
    while at < len(data):
        where, found = f"{path}, byte {at}", _BINARY.match(data, at)
        if found is None:
            raise refusal(f"{where}:", "be a key and a binary value", received="other bytes")
        fields, at = _checked(value, data, found.end(), where)
        yield where, found[1].decode("utf-8", "replace"), fields


def _table(path, value, of_text):
    opened, data = None, b""
    for where, (key, *fields) in read_fields(path):
        place = " ".join(fields)
        name, _, offset = place.rpartition(":")
        if not (name and offset.isascii() and offset.isdigit()):
            name, offset = place, "0"
        if name in ("", textio.STANDARD_INPUT) or "|" in name[0] + name[-1] or "\0" in name:
            raise refusal(f"{where}:", "be `key file:offset`; commands are not run", place)
        if name != opened:
            opened, data = name, _bytes(name, where)
        at = int(offset)
        expect(at < len(data), f"{where}:", "name a place in the file", place)
        if data[at : at + 2] == b"\0B":
            yield where, key, _checked(value, data, at + 2, where)[0]
        else:
            end = data.find(b"\n", at)
            line = data[at : len(data) if end < 0 else end].decode("utf-8", "replace")
            yield where, key, of_text(line.split())


def _bytes(name, where):
    try:
        return textio.read_bytes(name)
    except OSError as error:
        raise refusal(
            f"{where}:", "name a readable file", received=f"{name!r}, {error.strerror}"
        ) from None


def _without_brackets(fields):
    """The elements of a vector of numbers, which stands in brackets in a text archive."""
    return fields[1:-1] if fields[:1] == ["["] and fields[-1] == "]" else fields


def _checked(value, data, at, where):
    try:
        return value(data, at)
    except (ValueError, IndexError, KeyError):
        kind = "ids of words" if value is _integers else "costs"
        raise refusal(f"{where}:", f"be an undamaged entry of an archive of {kind}",
                      data[at:at + 10]) from None


def _integers(data, at):
    """A vector of int32, each of which follows the number of its bytes, and where it ends."""
    (size, count), at = np.frombuffer(data, _INTEGERS, 1, at)[0], at + _INTEGERS.itemsize
    if size != 4 or count < 0:
        raise ValueError
    values = np.frombuffer(data, _INTEGERS, count, at) if count else np.zeros(0, _INTEGERS)
    if (values["size"] != 4).any():
        raise ValueError
    return [str(i) for i in values["value"]], at + values.nbytes


def _float(data, at):
    """A number, or a vector of one number, which kaldiio writes; and where it ends."""
    if data[at : at + 3] in _VECTORS:
        dtype, at = _VECTORS[data[at : at + 3]], at + 3
        size, count = np.frombuffer(data, _INTEGERS, 1, at)[0]
        if size != 4 or count != 1:
            raise ValueError
        at += _INTEGERS.itemsize
    else:
        dtype, at = _FLOATS[data[at]], at + 1
    return [str(np.frombuffer(data, dtype, 1, at)[0])], at + dtype.itemsize
