"""Makes a directory whole or not at all, by one process at a time, also after one was killed."""

import contextlib
import errno
import os
import re
import shutil
from collections.abc import Iterator

from tfsoftmax.support.arguments import refusal
from tfsoftmax.support.whole_files import locked_file, sync


@contextlib.contextmanager
def alone(out: str) -> Iterator[None]:
    """Keeps other processes from making `out`, and clears up what a killed one has left.

    The lock ends with its process, on whatever machine that is, so what is found under the lock
    belongs to nobody. Where nothing can be written, nothing is locked.

    Args:
        out: the absolute path of a directory.

    Raises:
        ValueError: another process holds the lock.
    """
    os.makedirs(os.path.dirname(out), exist_ok=True)
    try:
        lock = locked_file(_beside(out, "lock"))
    except BlockingIOError:
        raise refusal(
            "out", "not be written by another process", received=f"out={out!r}, which is"
        ) from None
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        yield
        return
    try:
        _clear_up(out)
        yield
    except BaseException:  # which an error here must not hide
        with contextlib.suppress(OSError):
            os.unlink(_beside(out, "lock"))
        raise
    else:
        os.unlink(_beside(out, "lock"))
    finally:
        lock.close()


@contextlib.contextmanager
def whole_or_nothing(out: str, replace: bool) -> Iterator[str]:
    """Yields a directory that takes the place of `out` at the end, or is removed on an error.

    Its files are on the disk before it does, so that they survive a power cut.

    Args:
        out: the directory to make.
        replace: whether it may replace a directory that holds something; an OSError if not.
    """
    partial, replaced = partial_of(out), _beside(out, "replaced")
    _clear_up(out)
    os.mkdir(partial)
    try:
        yield partial
        for folder, _, files in os.walk(partial):
            sync(*(os.path.join(folder, file) for file in files), folder)
        if replace and os.path.isdir(out) and os.listdir(out):
            os.rename(out, replaced)
        os.rename(partial, out)
        sync(os.path.dirname(out))
    finally:
        _clear_up(out)


def partial_of(out: str) -> str:
    """The path of the directory that `whole_or_nothing` yields."""
    return _beside(out, "partial")


def remains_of(name: str) -> str | None:
    """The name of the directory of which a directory beside it is a part; None of others."""
    found = re.fullmatch(r"\.(.+)\.tfsoftmax\.(partial|replaced)", name)
    return found and found[1]


def _beside(out, purpose):
    """The path of something that is kept next to `out` while it is made."""
    parent, name = os.path.split(out)
    return os.path.join(parent, f".{name}.tfsoftmax.{purpose}")


def _clear_up(out):
    """Removes what is not complete, and puts back what was replaced by nothing."""
    replaced = _beside(out, "replaced")
    if os.path.isdir(replaced) and not (os.path.isdir(out) and os.listdir(out)):
        os.rename(replaced, out)
    shutil.rmtree(partial_of(out), ignore_errors=True)
    shutil.rmtree(replaced, ignore_errors=True)
