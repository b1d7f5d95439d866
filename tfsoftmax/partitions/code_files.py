"""Files that say where a word belongs: lines of a code and a word, or nested lists."""

import json
import os
from collections.abc import Sequence

from numpy.typing import ArrayLike

from tfsoftmax import textio, whole_files
from tfsoftmax.vocabulary import OTHER_SPELLINGS


def read_codes(path: str | os.PathLike, words: Sequence[str]) -> list[str]:
    """The code of each word, from lines `code<TAB>word`, with or without `<TAB>count` after it.

    The `paths` files of the common brown-cluster tool, whose codes are bit strings, have this
    form, and so have the files that `write_codes` writes. A file that lacks `<unk>` or `<eos>` may
    have <UNK> and </s> for them. Words that are only in the file are left out. Words that are only
    in the vocabulary share the code "1", and then all other codes begin with "0".

    Args:
        path: path of a UTF-8 file.
        words: V str.

    Returns:
        list of V str.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a line is not of this form, a word occurs twice, or no word is known.
    """
    codes = {}
    for where, line in textio.lines(path):
        columns = line.split("\t")
        if len(columns) not in (2, 3) or not all(columns):
            raise ValueError(
                f"{where}: must be `code<TAB>word` or `code<TAB>word<TAB>count`. "
                f"Received: {line[:200]!r}"
            )
        if columns[1] in codes:
            raise ValueError(f"{where}: words must differ. Received: {columns[1]!r} again")
        codes[columns[1]] = columns[0]
    known = [codes.get(word) or codes.get(OTHER_SPELLINGS.get(word)) for word in words]
    if None not in known:
        return known
    if not any(known):
        raise ValueError(
            f"{os.fspath(path)}: must have words of the vocabulary. "
            f"Received: {len(codes)} words, none of them known"
        )
    return ["1" if code is None else "0" + code for code in known]


def write_codes(
    path: str | os.PathLike, codes: Sequence[str], words: Sequence[str], counts: ArrayLike
) -> None:
    """Writes lines `code<TAB>word<TAB>count`, the `paths` format, sorted by code and count."""
    rows = sorted(zip(codes, (-int(n) for n in counts), words))
    with whole_files.writing(path) as file:
        file.writelines(f"{code}\t{word}\t{-negative}\n" for code, negative, word in rows)


def read_nested(path: str | os.PathLike) -> list:
    """Nested lists of words, from a JSON file."""
    nested = textio.read_json(path)
    if not isinstance(nested, list):
        raise ValueError(f"{os.fspath(path)}: must be nested lists. Received: {repr(nested)[:200]}")
    return nested


def write_nested(path: str | os.PathLike, nested: list) -> None:
    """Writes nested lists of words as JSON."""
    with whole_files.writing(path) as file:
        json.dump(nested, file, ensure_ascii=False)


def check_exists(argument, path, names):
    """Raises FileNotFoundError if there is no such file; `names` are the option's other values."""
    if not os.path.isfile(path):
        others = "one of " * (len(names) > 1) + ", ".join(names)
        raise FileNotFoundError(
            f"`{argument}` must be {others}, or a file. "
            f"Received: {argument}={os.fspath(path)!r}, and there is no such file"
        )


def given(value, name, argument, spec):
    """The value of the argument that an option needs, or an error where it is None."""
    if value is None:
        raise ValueError(
            f"`{name}` must be given for {argument}={str(spec)!r}. Received: {name}=None"
        )
    return value
