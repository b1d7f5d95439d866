"""The lock that keeps a second process from training in the folder of a run."""

import os
import secrets
from typing import BinaryIO

from tfsoftmax.support import whole_files
from tfsoftmax.support.arguments import refusing


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
    rule = "not be in training by another process"
    with refusing(BlockingIOError, "run", rule, received=f"run={directory!r}, which is"):
        file = whole_files.locked_file(path)
    with whole_files.errors_name(path):  # by which other workers know the folder, see `training`
        file.truncate()
        file.write(secrets.token_hex(8).encode())
        os.fsync(file.fileno())
    return file
