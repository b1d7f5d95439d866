"""Reads text files, plain or compressed, with one sentence per line, in blocks of bounded size."""

import glob
import os
from collections.abc import Iterable, Iterator

from tfsoftmax import textio
from tfsoftmax.corpora.records import sha256_of

LINE_BYTES = 16 << 20
PATH_BYTES = 4096  # of the longest path that Linux opens


class TextFiles:
    """The lines of files, as an iterable of lists of str that can be iterated several times.

    Lines end at "\\n" only. A byte order mark at the start of a file is dropped.

    Args:
        paths: the files; .gz, .xz and .bz2 are decompressed.
        block_bytes: about how many bytes of text to hold in memory.

    Raises:
        ValueError: during iteration, if a file is not UTF-8, is damaged or empty, or has a line
            above 16 MiB. The message names the file and, where possible, the line.

    Example:
        from tfsoftmax.corpora.text import TextFiles
        for lines in TextFiles(["train.txt"]):
            print(len(lines))
            print(lines[0])
    """

    def __init__(self, paths: Iterable[str], block_bytes: int = textio.BLOCK_BYTES):
        self._paths = list(paths)
        self._block_bytes = block_bytes

    def __iter__(self) -> Iterator[list[str]]:
        for path in self._paths:
            blank = True
            for _, lines in textio.line_blocks(path, self._block_bytes, LINE_BYTES):
                blank = blank and not any(map(str.strip, lines))
                yield lines
            if blank:
                raise ValueError(f"{path}: must hold sentences. Received: an empty file")


def expand(patterns: Iterable[str], argument: str) -> list[str]:
    """Lists the files that paths and globs name, each once; those of a glob are sorted.

    Args:
        patterns: paths and globs.
        argument: the name of the argument that they come from, for messages.

    Raises:
        FileNotFoundError: a path or a glob names nothing.
        ValueError: a path does not name a file.
    """
    paths = []
    for pattern in patterns:
        found = [pattern] if os.path.exists(pattern) else _matches(pattern)
        if not found:
            raise FileNotFoundError(
                f"`{argument}` must name existing files. Received: {argument}={pattern!r}"
            )
        paths += found
    for path in paths:
        if not os.path.isfile(path):
            raise ValueError(f"`{argument}` must name files. Received: {argument}={path!r}")
    return list(dict.fromkeys(paths))


def _matches(pattern):
    """The files that a glob names. None is as long as a path can be; many brackets take hours."""
    return sorted(glob.glob(pattern, recursive=True)) if len(pattern) < PATH_BYTES else []


def fingerprint(path: str) -> dict:
    """The name, size and SHA-256 of a file, for the manifest. Reads about 1 GB/s."""
    stat = os.stat(path)
    digest = sha256_of(path, stat.st_size, stat.st_mtime_ns)
    return {"name": os.path.basename(path), "bytes": stat.st_size, "sha256": digest}
