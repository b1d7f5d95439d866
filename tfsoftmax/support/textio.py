"""Reads the files that users name: text, plain or compressed, and JSON.

Errors name the file, and the line where there is one.
"""

import bz2
import contextlib
import gzip
import json
import lzma
import math
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping

from tfsoftmax.support.arguments import expect, refusal
from tfsoftmax.support.whole_files import errors_name

BLOCK_BYTES = 1 << 20
LINE_BYTES = 1 << 20
STANDARD_INPUT = "-"

COMPRESSED = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
NOT_READ = (".zst", ".lz4", ".zip", ".7z", ".Z")


def lines(path: str | os.PathLike, line_bytes: int = LINE_BYTES) -> Iterator[tuple[str, str]]:
    """Yields the place of each line, for messages, and the line without its end.

    Args:
        path: a UTF-8 file; .gz, .xz and .bz2 are decompressed; "-" for standard input.
        line_bytes: the most bytes of a line.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is not UTF-8, is damaged, or has a longer line.
    """
    name = name_of(path)
    for first, block in line_blocks(path, line_bytes=line_bytes):
        for number, line in enumerate(block, start=first):
            yield f"{name}, line {number}", line


def line_blocks(
    path: str | os.PathLike, block_bytes: int = BLOCK_BYTES, line_bytes: int = LINE_BYTES
) -> Iterator[tuple[int, list[str]]]:
    """Yields the number of a line, from 1, and a list of lines from there on.

    Lines end at "\\n" or "\\r\\n" only. A byte order mark at the start of the file is dropped.

    Args:
        path, line_bytes: arguments of `lines`.
        block_bytes: about how many bytes of text to hold in memory.

    Raises:
        FileNotFoundError, ValueError: as `lines`.
    """
    for first, block in blocks(path, block_bytes, line_bytes):
        found = split_lines(_decoded(block, path, first))
        yield first, found[:-1] if block.endswith(b"\n") else found


def split_lines(text: str) -> list[str]:
    """The lines of a text, which end at "\\n" or "\\r\\n" only."""
    return text.replace("\r\n", "\n").split("\n")


def blocks(
    path: str | os.PathLike, block_bytes: int = BLOCK_BYTES, line_bytes: int = LINE_BYTES,
    progress: Callable[[int], None] | None = None,
) -> Iterator[tuple[int, bytes]]:
    """Yields the number of a line, from 1, and a block of whole lines from there on, as bytes.

    Args:
        path, block_bytes, line_bytes: arguments of `line_blocks`.
        progress: a function that is called with the position in the file, before decompression.
    """
    block_bytes, number = min(block_bytes, line_bytes), 1  # lines within a block are short enough
    with _opened(path) as (raw, file):
        # From a pipe, take what is there, so that lines are answered as they come.
        read = file.read1 if path == STANDARD_INPUT else file.read
        while block := read(block_bytes):
            if not block.endswith(b"\n"):
                begun = len(block) - (block.rfind(b"\n") + 1)
                rest = file.readline(line_bytes - begun + 1)
                if begun + len(rest.removesuffix(b"\n")) > line_bytes:
                    line = number + block.count(b"\n")
                    raise refusal(f"{name_of(path)}, line {line}: a line",
                                  f"have at most {line_bytes:,} bytes", received="a longer line")
                block += rest
            if progress is not None:
                progress(raw.tell())
            yield number, block
            number += block.count(b"\n")


def read_json(path: str | os.PathLike, finite: bool = True):
    """Reads a JSON file.

    Args:
        path: the file.
        finite: whether to refuse NaN and Infinity, which Python writes, but which are no JSON.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is not JSON, or an object in it has a key twice.
    """
    return parsed_json(_decoded(read_bytes(path), path, 1), f"{name_of(path)}:", finite)


def read_bytes(path: str | os.PathLike) -> bytes:
    """The bytes of a file, decompressed as by `lines`.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is damaged.
    """
    with _opened(path) as (_, file):
        return file.read()


def parsed_json(text: str, name: str, finite: bool = True):
    """Parses JSON.

    Args:
        text: JSON.
        name: what the text is, with which messages begin.
        finite: an argument of `read_json`.

    Raises:
        ValueError: the text is not JSON, or an object in it has a key twice.
    """
    try:
        return json.loads(
            text, object_pairs_hook=_object, parse_constant=_refused if finite else None
        )
    except RecursionError:
        raise ValueError(f"{name} must be JSON. Received: too many levels of brackets") from None
    except ValueError as error:
        raise ValueError(f"{name} must be JSON. Received: {error}") from None


def records_of(path: str | os.PathLike) -> list[dict]:
    """The JSON objects that `append_line` has written to a file, one a line; none without a file.

    Lines that hold no object are left out: a process was killed while it wrote them.
    """
    records = []
    if os.path.exists(path):
        with errors_name(path), open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                with contextlib.suppress(ValueError):
                    records.append(parsed_json(line, path, finite=False))
    return [values for values in records if isinstance(values, dict)]


def json_line(values: Mapping) -> str:
    """Values by their names as JSON, which has no numbers that are not finite: they are null."""
    return json.dumps({
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in values.items()
    }, allow_nan=False)


def name_of(path: str | os.PathLike) -> str:
    """How messages name a file, or standard input."""
    return "standard input" if path == STANDARD_INPUT else os.fspath(path)


def is_read_once(path: str | os.PathLike) -> bool:
    """Whether a path is standard input, a pipe or a device, and no file or folder to read again."""
    others = os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path))
    return path == STANDARD_INPUT or others


def plain_name(path: str | os.PathLike) -> str:
    """The path of a file as it was before it was compressed."""
    name, end = os.path.splitext(path)
    return name if end.lower() in COMPRESSED else os.fspath(path)


@contextlib.contextmanager
def _opened(path):
    """Opens a file, and yields it as it is and decompressed. Damage is a ValueError."""
    if path == STANDARD_INPUT:
        expect(sys.stdin is not None, "standard input", "be open", received="a closed one")
        yield sys.stdin.buffer, sys.stdin.buffer
        return
    end = os.path.splitext(path)[1]
    expect(end not in NOT_READ, f"{path}:", f"be plain, or one of {', '.join(COMPRESSED)}", end)
    decompressed = COMPRESSED.get(end.lower(), lambda raw: raw)
    try:
        with errors_name(path), open(path, "rb") as raw:
            yield raw, decompressed(raw)
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        if getattr(error, "errno", None) is not None:
            raise
        raise refusal(f"{path}:", "be an undamaged file", received=f"{error}") from error


def _decoded(data, path, first):
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        number = first + data.count(b"\n", 0, error.start)
        raise refusal(f"{name_of(path)}, line {number}:", "be UTF-8",
                      data[error.start:error.start + 20]) from error
    return text.removeprefix("\ufeff") if first == 1 else text


def _object(pairs):
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} twice")
    return found


def _refused(constant):
    raise ValueError(f"{constant}, which is no JSON")
