"""Reads and writes the files of a run. Each is whole, old or new, and errors name the file."""

import contextlib
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping

from tfsoftmax import textio
from tfsoftmax.textio import PARTIAL, errors_name


def read_json(path: str, keys: Mapping[str, type | tuple[type, ...]]) -> dict:
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
            raise ValueError(f"{path}: must be a JSON object with {key!r}. Received: none")
        if not isinstance(value[key], kind) or isinstance(value[key], bool):
            raise ValueError(f"{path}: {key!r} has a value of the wrong type. "
                             f"Received: {_brief(value[key])}")
    return value


def write_whole(path: str, content: str | bytes) -> None:
    """Writes a file; a reader, or a crash, finds either the old content or the new one.

    A link at `path` is replaced, not followed.
    """
    content = content.encode("utf-8") if isinstance(content, str) else content
    with written_whole(path) as partial, open(partial, "xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def copy_whole(source: str, path: str) -> None:
    """Copies a file like `write_whole`."""
    with open(source, "rb") as old, written_whole(path) as partial, open(partial, "xb") as new:
        shutil.copyfileobj(old, new)
        new.flush()
        os.fsync(new.fileno())


@contextlib.contextmanager
def written_whole(path: str) -> Iterator[str]:
    """Gives a new name beside `path`; what has been written there then takes the place of `path`.

    What was written is removed after an error. A folder can only take the place of an empty one.
    """
    folder, name = os.path.split(os.path.abspath(path))
    partial = os.path.join(folder, f".{name}.{secrets.token_hex(8)}{PARTIAL}")
    try:
        with errors_name(path):
            yield partial
            os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            shutil.rmtree(partial) if os.path.isdir(partial) else os.unlink(partial)
        raise


def remove_partial(path: str) -> None:
    """Removes what `write_whole` has left beside a path where a process was killed in it."""
    folder, name = os.path.split(os.path.abspath(path))
    pattern = re.compile(rf"\.{re.escape(name)}\.[0-9a-f]{{16}}{re.escape(PARTIAL)}")
    for other in os.listdir(folder) if os.path.isdir(folder) else ():
        if pattern.fullmatch(other):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(folder, other))


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


def sha256_of(path: str) -> str:
    """The hexadecimal SHA-256 of a file, which is read at about 1 GB/s."""
    with errors_name(path), open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _brief(value):
    text = repr(value)
    return text if len(text) <= 80 else text[:79] + "…"
