"""Reads and writes the files of a run. Each is whole, old or new, and errors name the file."""

import os
from collections.abc import Mapping

from tfsoftmax.support import textio
from tfsoftmax.support.arguments import brief, refusal
from tfsoftmax.support.whole_files import errors_name, written_whole


def read_object(path: str, keys: Mapping[str, type | tuple[type, ...]]) -> dict:
    """Reads the JSON object in a file.

    Args:
        path: the file.
        keys: the keys that the object must have, with the types of their values.

    Raises:
        ValueError: the file holds no JSON object, or one without these keys and types.
    """
    value = textio.read_json(path, finite=False)
    for key, kind in keys.items():
        if not isinstance(value, dict) or key not in value:
            raise refusal(f"{path}:", f"be a JSON object with {key!r}", received="none")
        if not isinstance(value[key], kind) or isinstance(value[key], bool):
            raise ValueError(f"{path}: {key!r} has a value of the wrong type. "
                             f"Received: {brief(repr(value[key]))}")
    return value


def write_whole(path: str, content: str | bytes) -> None:
    """Writes a file as `whole_files.written_whole` does."""
    with written_whole(path) as file:
        file.write(content.encode("utf-8") if isinstance(content, str) else content)


def append_line(path: str, line: str) -> None:
    """Appends a line to a file, after a newline if a killed process left half a line there."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
    with errors_name(path), open(os.open(path, flags, 0o666), "a+b", buffering=0) as file:
        content = line.encode("utf-8") + b"\n"
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                content = b"\n" + content
        while content:
            content = content[file.write(content) :]
