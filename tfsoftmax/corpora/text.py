"""Reads text files, plain or compressed, with one sentence per line, in blocks of bounded size."""

import bz2
import glob
import gzip
import lzma
import os
import zlib
from collections.abc import Iterable, Iterator

from tfsoftmax.corpora.records import sha256_of

BLOCK_BYTES = 1 << 20
LINE_BYTES = 16 << 20

_OPENERS = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
_DECOMPRESSION_ERRORS = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)


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

    def __init__(self, paths: Iterable[str], block_bytes: int = BLOCK_BYTES):
        self._paths = list(paths)
        self._block_bytes = block_bytes

    def __iter__(self) -> Iterator[list[str]]:
        for path in self._paths:
            yield from self._lines(path)

    def _lines(self, path):
        number, blank = 1, True
        for block in _blocks(path, self._block_bytes):
            try:
                text = block.decode("utf-8")
            except UnicodeDecodeError as error:
                line = number + block.count(b"\n", 0, error.start)
                raise ValueError(
                    f"{path}, line {line}: must be UTF-8. "
                    f"Received: {block[error.start : error.start + 20]!r}"
                ) from error
            if number == 1:
                text = text.removeprefix("\ufeff")
            number += block.count(b"\n")
            blank = blank and not text.strip()
            yield text.split("\n")
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
        found = [pattern] if os.path.exists(pattern) else sorted(glob.glob(pattern, recursive=True))
        if not found:
            raise FileNotFoundError(
                f"`{argument}` must name existing files. Received: {argument}={pattern!r}"
            )
        paths += found
    for path in paths:
        if not os.path.isfile(path):
            raise ValueError(f"`{argument}` must name files. Received: {argument}={path!r}")
    return list(dict.fromkeys(paths))


def fingerprint(path: str) -> dict:
    """The name, size and SHA-256 of a file, for the manifest. Reads about 1 GB/s."""
    stat = os.stat(path)
    digest = sha256_of(path, stat.st_size, stat.st_mtime_ns)
    return {"name": os.path.basename(path), "bytes": stat.st_size, "sha256": digest}


def _blocks(path, size):
    """Yields the bytes of a file in blocks of whole lines."""
    opener = _OPENERS.get(os.path.splitext(path)[1], open)
    try:
        with opener(path, "rb") as file:
            while block := file.read(size):
                line = file.readline(LINE_BYTES)
                if len(line) == LINE_BYTES:
                    raise ValueError(
                        f"{path}: must hold one sentence per line. Received: a line above "
                        f"{LINE_BYTES >> 20} MiB"
                    )
                yield block + line
    except _DECOMPRESSION_ERRORS as error:
        raise ValueError(f"{path}: must be an undamaged file. Received: {error}") from error
    except OSError as error:
        if opener is open or error.errno is not None:
            raise
        raise ValueError(f"{path}: must be an undamaged file. Received: {error}") from error
