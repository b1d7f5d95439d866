"""Objects in JSON files, checked against a shape, and what they say of the files beside them."""

import json
import os
from collections.abc import Callable, Mapping, Sequence

from tfsoftmax.support import textio, whole_files
from tfsoftmax.support.arguments import expect, refusal

# What a value must be: a type, (rule, test), [shape of every item], or {key: shape}, where the key
# `...` stands for all keys that have no shape of their own.
Shape = type | tuple[str, Callable[[object], bool]] | Mapping | list


def at_least(least: int) -> Shape:
    """The shape of a whole number."""
    rule = f"be a whole number of at least {least}"
    return rule, lambda value: type(value) is int and value >= least


def one_of(values: Sequence[str]) -> Shape:
    """The shape of one of several strings."""
    return f"be {' or '.join(values)}", lambda value: value in values


COUNT = at_least(0)
FILE = {"bytes": COUNT, "sha256": str}
_NAMES = {str: "be a string", int: "be a whole number", dict: "be a JSON object", list: "be a list"}


def described(path: str | os.PathLike) -> dict:
    """What a manifest says of a file: {"bytes", "sha256"}."""
    return {"bytes": os.path.getsize(path), "sha256": whole_files.sha256_of(path)}


def check_file(path: str | os.PathLike, expected: Mapping) -> None:
    """Raises ValueError unless a file is what its manifest says.

    Args:
        path: the file, which may be missing.
        expected: what the manifest says, of which "bytes", if it is there, and "sha256" count.
    """
    found = described(path) if os.path.isfile(path) else {}
    wanted = {key: expected[key] for key in ("bytes", "sha256") if key in expected}
    if wanted != {key: found.get(key) for key in wanted}:
        raise refusal(f"{path}:", f"be as it was written, with {_listed(wanted)}",
                      received=_listed(found) or "no such file")


def read_object(path: str | os.PathLike, shape: Mapping, finite: bool = False) -> dict:
    """Reads a JSON object and checks what a reader relies on. It may hold more.

    Args:
        path: the file.
        shape: {key: what its value must be}.
        finite: an argument of `textio.read_json`.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is not JSON or not of this shape.

    Example:
        from tfsoftmax.support.manifests import COUNT, read_object, write_object
        write_object("a.json", {"name": "a", "files": [{"bytes": 3}]})
        print(read_object("a.json", {"name": str, "files": [{"bytes": COUNT}]}))
    """
    value = textio.read_json(path, finite)
    check_shape(value, shape, textio.name_of(path))
    return value


def check_shape(value: object, shape: Shape, path: str, advice: str = "", keys: tuple = ()) -> None:
    """Raises ValueError unless a value is of a shape.

    Args:
        value: a value that JSON can hold.
        shape: what it must be.
        path: the file that holds it.
        advice: what to do about it, as an end of the rule in the message.
        keys: those that lead to the value in the file.
    """
    place = f"{path}: `{'.'.join(map(str, keys))}`" if keys else f"{path}:"
    kind = dict if isinstance(shape, Mapping) else list if isinstance(shape, list) else shape
    rule, right = kind if isinstance(kind, tuple) else (_NAMES[kind], lambda v: type(v) is kind)
    expect(right(value), place, rule + advice, value)
    if isinstance(shape, list):
        below = dict.fromkeys(range(len(value)), shape[0])
    elif isinstance(shape, Mapping):
        others = dict.fromkeys(value, shape[...]) if ... in shape else {}
        below = {key: each for key, each in {**others, **shape}.items() if key is not ...}
        for key in below:
            expect(key in value, place, f"have {key!r}{advice}", [*value])
    else:
        below = {}
    for key, each in below.items():
        check_shape(value[key], each, path, advice, (*keys, key))


def write_object(path: str | os.PathLike, value: object, indent: int | None = None) -> None:
    """Writes a JSON value to a file as `whole_files.written_whole` does."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    whole_files.write_whole(path, f"{text}\n")


def _listed(values):
    return ", ".join(f"{key} {value}" for key, value in values.items())
