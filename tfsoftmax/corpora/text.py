"""Reads files of text, of JSON in lines or of Parquet, in blocks of sentences of bounded size."""

import glob
import itertools
import os
from collections.abc import Iterable, Iterator

from tfsoftmax.support import textio
from tfsoftmax.support.arguments import expect, refusal
from tfsoftmax.support.extras import imported
from tfsoftmax.support.whole_files import known_sha256

LINE_BYTES = 16 << 20
ROWS = 1000  # of a table, that are read at a time
PATH_BYTES = 4096  # of the longest path that Linux opens


class TextFiles:
    """The lines of files, as an iterable of lists of str that can be iterated several times.

    Lines end at "\\n" or "\\r\\n" only. A byte order mark at the start of a file is dropped. A file
    whose name ends in .jsonl, .ndjson or .json has a JSON object in each line, and one in .parquet
    is a table: their texts are in a field, and the lines of a text are as those of a file.

    Args:
        paths: the files; .gz, .xz and .bz2 are decompressed.
        block_bytes: about how many bytes of text to hold in memory.
        field: the name of the texts in files of JSON and of Parquet.

    Attributes:
        without_words: the files in which the last iteration found no word.

    Raises:
        ValueError: during iteration, if a file is not UTF-8, is damaged, has a line above 16 MiB,
            or no such field. The message names the file and, where possible, the line.

    Example:
        from tfsoftmax.corpora.text import TextFiles
        for lines in TextFiles(["train.txt"]):
            print(len(lines))
            print(lines[0])
    """

    def __init__(
        self, paths: Iterable[str], block_bytes: int = textio.BLOCK_BYTES, field: str = "text"
    ):
        self._paths = list(map(os.fspath, paths))
        self._block_bytes, self._field = block_bytes, field
        self.without_words = []

    def __iter__(self) -> Iterator[list[str]]:
        self.without_words = []
        for path in self._paths:
            blank = True
            for lines in self._blocks(path):
                blank = blank and not any(map(str.strip, lines))
                yield lines
            if blank:
                self.without_words.append(path)

    def place(self, number: int) -> str:
        """Names the file, and the line or row in it, of the line with a number from 0 on."""
        places = (
            where for path in self._paths for where, text in self._texts(path)
            for _ in textio.split_lines(text)
        )
        return next(itertools.islice(places, number, None))

    def _blocks(self, path):
        if has_fields(path):
            return blocks_of((text for _, text in self._texts(path)), self._block_bytes)
        return (lines for _, lines in textio.line_blocks(path, self._block_bytes, LINE_BYTES))

    def _texts(self, path):
        """Yields the places and the texts of a file: its lines, unless it has texts in a field."""
        return READERS.get(_kind(path), _lines)(path, self._field)


def has_fields(path: str) -> bool:
    """Whether `TextFiles` reads the texts of a file from a field."""
    return _kind(path) in READERS


def blocks_of(texts: Iterable[str], block_bytes: int = textio.BLOCK_BYTES) -> Iterator[list[str]]:
    """Yields lists of the lines of texts, each list as soon as it has so many characters."""
    lines, size = [], 0
    for text in texts:
        lines += textio.split_lines(text)
        size += len(text)
        if size >= block_bytes:
            yield lines
            lines, size = [], 0
    if lines:
        yield lines


def checked_text(value: str | None, where: str, field: str) -> str:
    """The text in a row of a table; a ValueError if there is none, which is not an empty text."""
    if value is None:
        raise ValueError(f"{where} must have a text under {field!r}, be it empty. Received: a null")
    return value


def _kind(path):
    """The ending of the name of a file, before it was compressed, in lower case."""
    return os.path.splitext(textio.plain_name(path))[1].lower()


def _lines(path, field):
    return textio.lines(path, LINE_BYTES)


def _json_texts(path, field):
    """Yields the places and the texts in lines of JSON."""
    for place, line in textio.lines(path, LINE_BYTES):
        if line.strip():
            where = f"{place}: each line"
            found = textio.parsed_json(line, where, finite=False)
            text = found.get(field) if isinstance(found, dict) else None
            if not isinstance(text, str):
                raise refusal(where, f"be a JSON object with a text under {field!r}, which `field` "
                              "names", received=line[:100])
            try:
                text.encode("utf-8")
            except UnicodeEncodeError as error:
                raise ValueError(f"{where} must hold whole characters. Received: {error}") from None
            yield place, text


def _parquet_texts(path, field):
    """Yields the places and the texts in a column of a Parquet file."""
    arrow, parquet = imported("pyarrow", path), imported("pyarrow.parquet", path)
    row = 0
    try:
        with parquet.ParquetFile(path) as table:
            kinds = {column.name: str(column.type) for column in table.schema_arrow}
            expect(kinds.get(field, "").removeprefix("large_").startswith("string"), f"{path}:",
                   f"have a column of strings {field!r}, which `field` names",
                   received=f"{', '.join((f'{name} ({kind})' for name, kind in kinds.items()))}")
            batches = table.iter_batches(ROWS, columns=[field])
            values = itertools.chain.from_iterable(batch.column(0) for batch in batches)
            for row, value in enumerate(values, start=1):
                place = f"{path}, row {row}"
                yield place, checked_text(value.as_py(), f"{place}:", field)
    except (arrow.ArrowException, OSError) as error:
        if getattr(error, "errno", None) is not None:
            raise  # an error of the operating system, which names the file; damage has no number
        raise refusal(f"{path}:", "be an undamaged file", received=f"{error}") from error
    except UnicodeDecodeError as error:
        raise refusal(f"{path}, row {row}:", "be UTF-8", received=f"{error}") from error


READERS = {
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), _json_texts), ".parquet": _parquet_texts,
}  # {ending of a name: what reads the texts in a field}


def expand(patterns: Iterable[str], argument: str) -> list[str]:
    """Lists the files that paths and globs name, each once; those of a glob are sorted.

    Args:
        patterns: paths and globs.
        argument: the name of the argument that they come from, for messages.

    Raises:
        FileNotFoundError: a path or a glob names nothing.
        ValueError: a path names a folder, a pipe or a device.
    """
    paths = []
    for pattern in patterns:
        found = [pattern] if os.path.exists(pattern) else _matches(pattern)
        expect(found, argument, "name existing files", pattern, error=FileNotFoundError)
        paths += found
    for path in paths:
        expect(os.path.isfile(path), argument,
               "name files that can be read twice, no folder and no pipe", path)
    files = {}
    for path in paths:
        files.setdefault(os.path.realpath(path), path)
    return list(files.values())


def _matches(pattern):
    """The files that a glob names. None is as long as a path can be; many brackets take hours."""
    return sorted(glob.glob(pattern, recursive=True)) if len(pattern) < PATH_BYTES else []


def fingerprint(path: str) -> dict:
    """The name, size and SHA-256 of a file, for the manifest. Reads about 1 GB/s."""
    return {
        "name": os.path.basename(path), "bytes": os.path.getsize(path), "sha256": known_sha256(path)
    }
