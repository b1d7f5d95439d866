"""The lock that keeps a second process from training in the folder of a run."""

import os
import secrets
from typing import BinaryIO

from tfsoftmax.whole_files import errors_name, lock_if_possible


def locked_file(path: str, directory: str) -> BinaryIO:
    """Locks the file of a run, whose content then tells this process from earlier ones.

    The lock ends with the process, or when the file is closed.

    Args:
        path: the file to lock, which is made if there is none.
        directory: the folder of the run, for the error.

    Returns:
        The open file, which has a new random content.

    Raises:
        ValueError: another process has locked it.
        OSError: the file cannot be opened or written, for example because it is a link.
    """
    while True:
        try:
            with errors_name(path):
                flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
                file = os.fdopen(os.open(path, flags, 0o666), "rb")
                lock_if_possible(file.fileno(), path)
        except BlockingIOError:
            file.close()
            raise ValueError(
                "`run` must not be in training by another process. "
                f"Received: run={directory!r}, which is"
            ) from None
        if os.path.exists(path) and os.path.samestat(os.stat(path), os.fstat(file.fileno())):
            with errors_name(path):  # by which other workers know the folder, see `training`
                os.ftruncate(file.fileno(), 0)
                os.write(file.fileno(), secrets.token_hex(8).encode())
                os.fsync(file.fileno())
            return file
        file.close()  # another process has removed it meanwhile
