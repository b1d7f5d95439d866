"""Writes files of a run so that a killed process leaves each of them complete, old or new."""

import json
import os


def write_whole(path: str, text: str) -> None:
    """Writes a text file; a reader, or a crash, finds either the old content or the new one."""
    partial = path + ".partial"
    with open(partial, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def read_object(path: str, keys: tuple[str, ...]) -> dict:
    """Reads the JSON object in a file.

    Raises:
        ValueError: the file holds no JSON object, or the object lacks one of the keys.
    """
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except ValueError as error:
        raise ValueError(f"{path}: must be JSON. Received: {error}") from None
    missing = [key for key in keys if not isinstance(value, dict) or key not in value]
    if missing:
        raise ValueError(f"{path}: must be a JSON object with {missing[0]!r}. Received: none")
    return value
