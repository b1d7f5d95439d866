"""Reads members of zip and tar archives, and refuses archives that are damaged or unexpected."""

import contextlib
import errno
import hashlib
import os
import tarfile
import zipfile
from collections.abc import Iterator

from tfsoftmax.support.arguments import expect, refusal

_CHUNK_BYTES = 1 << 20


def check_digest(path: str, digest: str | None, member: str | None = None) -> None:
    """Raises ValueError if a file, or a member of an archive, has another digest.

    Args:
        path, member: arguments of `open_member`.
        digest: `algorithm:hexadecimal digits`; None if nobody has published one.
    """
    if digest is None:
        return
    algorithm, _, expected = digest.partition(":")
    with open_member(path, member) as (file, _):
        found = hashlib.new(algorithm, usedforsecurity=False)
        while chunk := file.read(_CHUNK_BYTES):
            found.update(chunk)
    expect(found.hexdigest() == expected,
           f"{path}: the {algorithm.upper()}{f' of {member}' if member else ''}",
           f"be {expected}; delete the file, and download it again",
           received=f"{found.hexdigest()}")


@contextlib.contextmanager
def open_member(path: str, member: str | None) -> Iterator[tuple]:
    """Opens a file, or a member of an archive, and yields it with its size in bytes.

    The checksums of an archive are compared before the member is handed out. That of a compressed
    tar archive stands at its end, to which `tarfile` does not read by itself.

    Args:
        path: a file, or a zip or tar archive.
        member: the member of the archive to open; None to open the file at `path` itself.

    Raises:
        ValueError: the archive is damaged or has no such member.
    """
    with contextlib.ExitStack() as stack:
        if member is None:
            file, size = stack.enter_context(open(path, "rb")), os.path.getsize(path)
        else:
            with _damage_explained(path):
                is_zip = zipfile.is_zipfile(path)
                archive = stack.enter_context((zipfile.ZipFile if is_zip else tarfile.open)(path))
                names = archive.namelist() if is_zip else archive.getnames()
            name = _match(names, member, path)
            with _damage_explained(path):
                file, size = (_zip_member if is_zip else _tar_member)(archive, name)
                stack.enter_context(file)
        yield file, size


def _zip_member(archive, name):
    with archive.open(name) as file:
        _read_to_the_end(file)
    return archive.open(name), archive.getinfo(name).file_size


def _tar_member(archive, name):
    info = archive.getmember(name)
    if not info.isfile():
        raise tarfile.TarError(f"{name} is no file")
    archive.fileobj.seek(0)
    _read_to_the_end(archive.fileobj)
    return archive.extractfile(info), info.size


def _read_to_the_end(file):
    while file.read(_CHUNK_BYTES):
        pass


@contextlib.contextmanager
def _damage_explained(path):
    """Turns the many errors of damaged archives into one, but not those of the disk."""
    try:
        yield
    except Exception as error:
        if getattr(error, "errno", None) not in (None, errno.EINVAL):
            raise
        raise refusal(f"{path}:", "be an undamaged archive",
                      received=f"{type(error).__name__}: {error}") from error


def _match(names, member, path):
    for name in names:
        if name == member or name.endswith(f"/{member}"):
            return name
    raise refusal(f"{path}:", f"contain {member}", received=f"{', '.join(names[:10])}")
