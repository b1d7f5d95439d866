"""Reads and writes the files that users name: text, plain or compressed, and JSON.

Errors name the file, and the line where there is one.
"""

import bz2
import contextlib
import errno
import gzip
import io
import json
import lzma
import os
import re
import secrets
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, TextIO

BLOCK_BYTES = 1 << 20
LINE_BYTES = 1 << 20
STANDARD_INPUT = "-"
PARTIAL = ".partial"  # the end of the names of files and folders that are being written

COMPRESSED = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}


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
                    raise ValueError(
                        f"{name_of(path)}, line {line}: a line must have at most {line_bytes:,} "
                        "bytes. Received: a longer line"
                    )
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


@contextlib.contextmanager
def writing(path: str | os.PathLike) -> Iterator[TextIO]:
    """Opens a UTF-8 file to write to, as `written_whole` does, but follows links.

    What is no file, such as a pipe, is written to as it is. So are standard output and standard
    error, also where they are redirected to a file.
    """
    stream = _stream_at(path)
    if stream is not None:
        sys.stdout.flush()
        with errors_name(path), os.fdopen(os.dup(stream), "w", encoding="utf-8") as file:
            yield file
        return
    if os.path.lexists(path) and not os.path.isfile(path):
        with errors_name(path), open(path, "w", encoding="utf-8") as file:
            yield file
        return
    with written_whole(os.path.realpath(path) if os.path.islink(path) else path) as binary:
        file = io.TextIOWrapper(binary, encoding="utf-8")
        try:
            yield file
            file.flush()
        finally:
            file.detach()


def check_writable(path: str | os.PathLike) -> None:
    """Raises OSError if `writing` could not begin, so that a wrong path fails at once."""
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if _stream_at(path) is None and (os.path.isfile(path) or not os.path.lexists(path)):
        with errors_name(path):
            partial, file = _locked_partial(os.path.realpath(path))
            file.close()
            os.unlink(partial)


def _stream_at(path):
    """The descriptor of standard output or error, if the path leads to where it goes."""
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):
            if os.path.samestat(os.stat(path), os.fstat(descriptor)):
                return descriptor
    return None


@contextlib.contextmanager
def written_whole(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Opens a file to write to; a reader, or a crash, finds either the old content or the new one.

    The new file has another name until it is complete, and the permissions of the old one, which
    must be writable. A link at `path` is replaced, not followed. What processes that were killed
    here have left is removed. An error names the file.
    """
    with errors_name(path):
        remove_partial(path)
        partial, file = _locked_partial(path)
        try:
            with file:
                yield file
                file.flush()
                os.fsync(file.fileno())
                os.replace(partial, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(partial)
            raise


def remove_partial(path: str | os.PathLike) -> None:
    """Removes what `written_whole` has left beside a path where a process was killed in it.

    A process that is still writing holds the lock of its file.
    """
    folder, name = os.path.split(os.path.abspath(path))
    pattern = re.compile(rf"\.{re.escape(name)}\.[0-9a-f]{{16}}{re.escape(PARTIAL)}")
    for other in os.listdir(folder) if os.path.isdir(folder) else ():
        if pattern.fullmatch(other):
            with contextlib.suppress(OSError, ImportError):
                other = os.path.join(folder, other)
                with open(os.open(other, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
                    _lock(file, wait=False)
                    os.unlink(other)


@contextlib.contextmanager
def errors_name(path: str | os.PathLike) -> Iterator[None]:
    """Makes errors of the operating system, such as a full disk, name this file."""
    try:
        yield
    except OSError as error:
        if error.errno is None or (error.filename and PARTIAL not in str(error.filename)):
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


def name_of(path: str | os.PathLike) -> str:
    """How messages name a file, or standard input."""
    return "standard input" if path == STANDARD_INPUT else os.fspath(path)


def _locked_partial(path):
    """The name of a new file beside `path`, and the file, open and locked."""
    folder, name = os.path.split(os.path.abspath(path))
    mode = _mode_of(path)
    while True:
        partial = os.path.join(folder, f".{name}.{secrets.token_hex(8)}{PARTIAL}")
        file = open(partial, "xb")
        with contextlib.suppress(OSError, ImportError):  # no locks: network disks, Windows
            _lock(file, wait=True)
        if os.path.exists(partial):
            if mode is not None:
                os.chmod(partial, mode)
            return partial, file
        file.close()  # before it was locked, another process took it for a killed one's


def _mode_of(path):
    """The permissions of a file that is to be replaced, which must be writable; None of others."""
    if os.path.islink(path) or not os.path.isfile(path):
        return None
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))
    return stat.S_IMODE(os.stat(path).st_mode)


def _lock(file, wait):
    import fcntl  # not on Windows

    fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


@contextlib.contextmanager
def _opened(path):
    """Opens a file, and yields it as it is and decompressed. Damage is a ValueError."""
    if path == STANDARD_INPUT:
        if sys.stdin is None:
            raise ValueError("standard input must be open. Received: a closed one")
        yield sys.stdin.buffer, sys.stdin.buffer
        return
    decompressed = COMPRESSED.get(os.path.splitext(path)[1].lower(), lambda raw: raw)
    try:
        with errors_name(path), open(path, "rb") as raw:
            yield raw, decompressed(raw)
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        if getattr(error, "errno", None) is not None:
            raise
        raise ValueError(f"{path}: must be an undamaged file. Received: {error}") from error


def _decoded(data, path, first):
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        number = first + data.count(b"\n", 0, error.start)
        raise ValueError(
            f"{name_of(path)}, line {number}: must be UTF-8. "
            f"Received: {data[error.start : error.start + 20]!r}"
        ) from error
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
