"""Writes files that are whole: a reader, or a crash, finds the old content or the new one."""

import bz2
import contextlib
import errno
import functools
import gzip
import hashlib
import io
import lzma
import os
import re
import secrets
import shutil
import stat
import sys
import warnings
from collections.abc import Iterator
from typing import BinaryIO, TextIO

PARTIAL = ".partial"  # the end of the names of files and folders that are being written
COMPRESSED = {  # {end of a name: opens an open binary file so as to write to it compressed}
    # Without a name and a time in it, the same text makes the same bytes.
    ".gz": lambda raw: gzip.GzipFile("", "wb", 6, raw, mtime=0),
    ".xz": lambda raw: lzma.open(raw, "wb"),
    ".bz2": lambda raw: bz2.open(raw, "wb"),
}
NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)


@contextlib.contextmanager
def writing(path: str | os.PathLike) -> Iterator[TextIO]:
    """Opens a UTF-8 file to write to, as `written_whole` does, but follows links.

    Files whose names end in .gz, .xz or .bz2 are compressed, as `textio` expects them. What is no
    file, such as a pipe, is written to as it is. So are standard output and standard error, also
    where they are redirected to a file.
    """
    stream = _stream_at(path)
    if stream is not None:
        sys.stdout.flush()
        with errors_name(path), os.fdopen(os.dup(stream), "w", encoding="utf-8") as file:
            yield file
        return
    target = os.path.realpath(path) if os.path.islink(path) else path
    if os.path.lexists(target) and not os.path.isfile(target):
        with errors_name(path), open(path, "w", encoding="utf-8") as file:
            yield file
        return
    with written_whole(target) as raw, _compressed(raw, path) as binary:
        file = io.TextIOWrapper(binary, encoding="utf-8")
        try:
            yield file
            file.flush()
        finally:
            file.detach()


def check_writable(path: str | os.PathLike) -> None:
    """Raises OSError if `writing` could not begin, so that a wrong path fails at once."""
    if os.path.isdir(path) or not os.path.basename(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if _stream_at(path) is not None:
        return
    target = os.path.realpath(path)
    with errors_name(path):
        if os.path.islink(target):  # a link to itself
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if os.path.isfile(target) or not os.path.lexists(target):
            partial, file = _locked_partial(target)
            file.close()
            os.unlink(partial)


def holds_something(path: str | os.PathLike) -> bool:
    """Whether there is a file or folder at a path that is not empty, and that is no stream."""
    if os.path.isdir(path):
        return bool(os.listdir(path))
    return os.path.isfile(path) and os.path.getsize(path) > 0 and _stream_at(path) is None


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
    here have left is removed. An error names the file, also where the path is that of a folder or a
    device, which a file must not replace.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        number = errno.EISDIR if os.path.isdir(path) else errno.EINVAL
        raise OSError(number, f"{os.strerror(number)}: must be a file", os.fspath(path))
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


def _compressed(raw, path):
    """What compresses as the end of a path says while it is open, and else the file itself."""
    end = os.path.splitext(path)[1].lower()
    return COMPRESSED[end](raw) if end in COMPRESSED else contextlib.nullcontext(raw)


def copy_whole(source: str, path: str) -> None:
    """Copies a file as `written_whole` does."""
    with open(source, "rb") as old, written_whole(path) as new:
        shutil.copyfileobj(old, new)


def write_whole(path: str | os.PathLike, content: str | bytes) -> None:
    """Writes a file as `written_whole` does, compressed if `writing` would compress it."""
    with written_whole(path) as raw, _compressed(raw, path) as file:
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


def sync(*paths: str | os.PathLike) -> None:
    """Waits until files and folders are on the disk, so that they survive a power cut."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


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


def sha256_of(path: str | os.PathLike) -> str:
    """The hexadecimal SHA-256 of a file, which is read at about 1 GB/s."""
    with errors_name(path), open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def known_sha256(path: str | os.PathLike) -> str:
    """The SHA-256 of a file, which is read again only when its size or time of change is new."""
    stat = os.stat(path)
    return _sha256_at(os.path.abspath(path), stat.st_size, stat.st_mtime_ns)


@functools.lru_cache(maxsize=4096)
def _sha256_at(path, size, modified_ns):
    return sha256_of(path)


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
                with contextlib.suppress(PermissionError):  # some network disks refuse it
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


def locked_file(path: str | os.PathLike) -> BinaryIO:
    """Opens a file, which is made if there is none, and locks it until it is closed.

    Raises:
        BlockingIOError: another process has locked it.
        OSError: the file cannot be opened, for example because it is a link.
    """
    while True:
        with errors_name(path), contextlib.ExitStack() as closing:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
            file = closing.enter_context(os.fdopen(descriptor, "r+b", buffering=0))
            lock_if_possible(descriptor, path)
            if os.path.exists(path) and os.path.samestat(os.stat(path), os.fstat(descriptor)):
                closing.pop_all()
                return file  # else another process has removed it meanwhile


def lock_if_possible(descriptor: int, path: str | os.PathLike) -> None:
    """Locks a file for this process, and warns if its file system has no locks.

    Raises:
        BlockingIOError: another process has locked it.
    """
    try:
        _lock(descriptor, wait=False)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        warnings.warn(
            f"{os.fspath(path)}: the file system has no locks, so another process may "
            "write here too", stacklevel=2,
        )


def _lock(file, wait):
    import fcntl  # not on Windows

    fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
