"""Reads which users took which items, in the order of time, from files in public forms.

Nothing is filtered: every line counts, whatever its rating, and so does an item that a user took
twice.
"""

import csv
import dataclasses
import operator
import pathlib

import numpy as np

from experiments.inputs import movielens
from tfsoftmax.support.arguments import expect, refusal

FORMS = (
    "one NAME.txt in the order of time, with lines `user item item ...` (S3-Rec) or `user item` "
    "(SASRec); or one NAME.inter (RecBole); or ratings.csv or interactions.csv with a header; or "
    "MovieLens (u.data and u.item, ratings.dat and movies.dat, ratings.csv and movies.csv)"
)
TABLES = ("ratings.csv", "interactions.csv")
# How a header calls a column, in lower case and without the type that follows a colon.
COLUMNS = {
    "user": ("user_id", "userid", "user"),
    "item": ("item_id", "itemid", "item", "movieid", "movie_id"),
    "time": ("timestamp", "time"),
}


@dataclasses.dataclass(frozen=True)
class Interactions:
    """Users and their items.

    Attributes:
        users: U arrays int32, the items of each user in the order of time, in [0, count).
        count: V, the number of items. Where a file has ids, the largest one decides.
    """

    users: list[np.ndarray]
    count: int


def read(path: str) -> Interactions:
    """Reads a folder, whose files tell its form, or one file of it.

    Args:
        path: a folder with one of `FORMS`, or a .txt, .inter or .csv file.

    Raises:
        FileNotFoundError: if there is no such folder or file.
        ValueError: if the folder has none of the forms, or several files of one; if a line does
            not have its form, and then the message names it; if there are no interactions.
    """
    path = pathlib.Path(path)
    expect(path.exists(), "data", f"name a folder or file with {FORMS}",
           received=str(path), error=FileNotFoundError)
    if path.is_file() and path.suffix in READERS:
        return READERS[path.suffix](path)
    names = sorted(each.name for each in path.iterdir()) if path.is_dir() else [path.name]
    if any({*layout} <= {*names} for layout in movielens.LAYOUTS):
        return _movielens(path)
    for suffix, reader in READERS.items():
        found = [name for name in names if name.endswith(suffix) and path.is_dir()
                 and (suffix != ".csv" or name in TABLES)]
        expect(len(found) < 2, "data", f"name one of the files, if a folder has several {suffix}",
               received=f"{path} with {', '.join(found)}")
        if found:
            return reader(path / found[0])
    raise refusal("data", f"name a folder with {FORMS}",
                  received=f"{path} with {', '.join(names[:20]) or 'no files'}")


def _sequences(path):
    numbers, lengths = _numbers(path)
    if (lengths[lengths > 0] == 2).all():  # SASRec: an interaction a line
        users, items = numbers.reshape(-1, 2).T
        lists = _by_user(users, items)
    else:
        users, items, lengths = _lists(path)
        lists = _cut(items, lengths)
    expect(len(items), str(path), "hold items", received="users without items")
    first = min(1, int(items.min()))  # ids from 1 leave 0 to padding
    return Interactions([own - first for own in lists], 1 + int(items.max()) - first)


def _table(path):
    tabs = path.suffix == ".inter"
    how = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if tabs else {}
    with open(path, encoding="utf-8-sig", newline="") as lines:
        rows = csv.reader(lines, **how)
        header = [cell.partition(":")[0].strip().lower() for cell in next(rows, [])]
        places = [next((header.index(name) for name in names if name in header), None)
                  for names in COLUMNS.values()]
        expect(None not in places, f"{path}, line 1,", "name columns, among them one of "
               f"{', one of '.join(map(str, COLUMNS.values()))}", received=repr(header))
        try:
            cells = list(map(operator.itemgetter(*places), filter(None, rows)))
        except IndexError:
            raise refusal(f"{path}, line {rows.line_num},", "have a cell for each column of the "
                          "header", received=f"fewer than {max(places) + 1}") from None
    expect(cells, str(path), "hold interactions below its header", received="none")
    users, items, times = zip(*cells)
    users, items = _codes(users, path, "user"), _codes(items, path, "item")
    order = np.argsort(_times(times, path), kind="stable")
    return Interactions(_by_user(users[order], items[order]), 1 + int(items.max()))


def _movielens(folder):
    films = movielens.read(folder)
    return Interactions(_by_user(films.users, films.items), len(films.titles))


# In this order: other files may stand beside a table.
READERS = {".inter": _table, ".csv": _table, ".txt": _sequences}


def _numbers(path):
    """All numbers of a file (N,) int64, and how many stand on each line (L,)."""
    text = path.read_bytes()
    characters = np.frombuffer(text, np.uint8)
    starts = characters > 32
    starts[1:] &= characters[:-1] <= 32
    starts = np.flatnonzero(starts)
    expect(len(starts), str(path), "hold interactions", received="an empty file")
    if text.translate(None, b"0123456789 \t\r\n"):
        for place, line in enumerate(text.split(b"\n"), start=1):
            for word in line.split():
                expect(word.isdigit(), f"{path}, line {place},",
                       "hold whole numbers from 0, a user and items", received=repr(word)[1:])
    numbers = np.fromstring(text, np.int64, sep=" ")
    expect(numbers.max() < 2**31 - 1, str(path), "hold numbers below 2147483647", numbers.max())
    ends = np.append(np.flatnonzero(characters == 10), len(characters))
    return numbers, np.diff(np.searchsorted(starts, ends), prepend=0)


def _lists(path):
    """Users (L,) of a file with a user a line, their items (N,), and how many each has (L,)."""
    numbers, lengths = _numbers(path)
    lines = np.flatnonzero(lengths)
    places = np.cumsum(lengths[lines]) - lengths[lines]
    users = numbers[places]
    order = np.argsort(users, kind="stable")
    again = order[1:][users[order[1:]] == users[order[:-1]]]
    if len(again):
        line = again.min()
        raise refusal(f"{path}, line {1 + lines[line]},", "name a user that no line before it has",
                      received=f"user {users[line]}")
    return users, np.delete(numbers, places), lengths[lines] - 1


def _cut(items, lengths):
    """Items (N,) as arrays int32 of these lengths (L,), which sum to N."""
    return np.split(items.astype(np.int32), np.cumsum(lengths)[:-1])


def _by_user(users, items):
    """The items of each user, in the order in which they stand in `items`."""
    order = np.argsort(users, kind="stable")
    return _cut(items[order], np.unique(users, return_counts=True)[1])


def _codes(cells, path, column):
    """Numbers (N,) int32 of cells by their first occurrence."""
    known = {}
    codes = np.fromiter((known.setdefault(cell, len(known)) for cell in cells), np.int32)
    if "" in known:
        row = 1 + cells.index("")
        raise refusal(f"{path}, row {row} below the header,", f"name its {column}", received="''")
    return codes


def _times(cells, path):
    try:
        times = np.array(cells, np.float64)
        bad = np.flatnonzero(~np.isfinite(times))
    except ValueError:
        bad = [place for place, cell in enumerate(cells) if not _is_number(cell)]
    if len(bad):
        raise refusal(f"{path}, row {1 + bad[0]} below the header,",
                      "have a finite number as its time", received=repr(cells[bad[0]]))
    return times


def _is_number(cell):
    try:
        return np.isfinite(float(cell))
    except ValueError:
        return False
