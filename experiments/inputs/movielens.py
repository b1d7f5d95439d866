"""Reads MovieLens data in the layouts of ml-100k, ml-1m and ml-25m (also ml-latest, ml-32m).

The archives are at https://grouplens.org/datasets/movielens; their licences forbid passing them on.
"""

import csv
import dataclasses
import pathlib
import re

import numpy as np

YEAR = re.compile(r"\((\d{4})\)\s*$")
GENRES_OF_100K = (
    "unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary",
    "Drama", "Fantasy", "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi",
    "Thriller", "War", "Western",
)


@dataclasses.dataclass(frozen=True)
class MovieLens:
    """Films, and which user rated which of them, in the order of time.

    Attributes:
        titles: V str, without the year.
        genres: V lists of str.
        years: (V,) float32, of release; the mean where a title has none.
        users: (R,) int64 in [0, U), of each rating, in the order of time.
        items: (R,) int64 in [0, V).
    """

    titles: list[str]
    genres: list[list[str]]
    years: np.ndarray
    users: np.ndarray
    items: np.ndarray

    def histories(self, length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each rating but a user's first ones, the films before it and the film.

        Args:
            length: the number of films before; ratings with fewer are left out.

        Returns:
            histories: (R', length) int32, the latest last.
            items: (R',) int32, the films rated then.
            is_last: (R',), whether the rating is the user's last one.
        """
        order = np.argsort(self.users, kind="stable")
        users, items = self.users[order], self.items[order].astype(np.int32)
        windows = np.lib.stride_tricks.sliding_window_view(items, length + 1)
        same = users[:-length] == users[length:]
        is_last = np.append(users[1:] != users[:-1], True)[length:]
        return windows[same, :-1], windows[same, -1], is_last[same]


def read(folder: str) -> MovieLens:
    """Reads a folder with the files of one of the data sets.

    Raises:
        FileNotFoundError: if the folder has none of the layouts.
        ValueError: if a line does not have the fields of its layout; the message names it.
    """
    folder = pathlib.Path(folder)
    for (ratings, films), layout in LAYOUTS.items():
        if (folder / ratings).is_file() and (folder / films).is_file():
            return _read(folder / ratings, folder / films, *layout)
    wanted = ", or ".join(" and ".join(names) for names in LAYOUTS)
    raise FileNotFoundError(
        f"`manual_dir` must have {wanted}, from an archive of "
        f"https://grouplens.org/datasets/movielens. Received: {folder}"
    )


def _read(ratings, films, rows_of, film_of, encoding):
    numbers, titles, genres, years = {}, [], [], []
    for place, row in _rows(films, rows_of, encoding):
        try:
            key, title, of_film = film_of(row)
        except (IndexError, ValueError):
            raise ValueError(f"{films}, line {place}, must be a film. Received: {row}") from None
        found = YEAR.search(title)
        numbers[key] = len(titles)
        titles.append(YEAR.sub("", title).strip())
        genres.append(of_film)
        years.append(float(found[1]) if found else np.nan)
    events = []
    for place, row in _rows(ratings, rows_of, encoding):
        try:
            events.append((int(row[3]), int(row[0]), numbers[int(row[1])]))
        except (IndexError, ValueError, KeyError):
            raise ValueError(
                f"{ratings}, line {place}, must be a user, one of the films, a rating and a time. "
                f"Received: {row}"
            ) from None
    times, users, items = np.array(events, np.int64).reshape(-1, 3).T
    order = np.argsort(times, kind="stable")
    years = np.array(years, np.float32)
    known = years[~np.isnan(years)]
    years[np.isnan(years)] = known.mean() if known.size else 0.0
    return MovieLens(titles, genres, years, np.unique(users, return_inverse=True)[1][order],
                     items[order])


def _rows(path, rows_of, encoding):
    """(line number, fields) of each line that is not empty."""
    with open(path, encoding=encoding, newline="") as lines:
        yield from ((place, row) for place, row in enumerate(rows_of(lines), start=1) if row)


def _split(by):
    return lambda lines: (line.rstrip("\r\n").split(by) if line.strip() else [] for line in lines)


def _comma(lines):
    """The rows of a CSV file; its header counts as an empty one."""
    return (row if i else [] for i, row in enumerate(csv.reader(lines)))


def _fields_of_100k(lines):
    return (re.split(r"[|\t]", line.rstrip("\r\n")) if line.strip() else [] for line in lines)


def _film_of_100k(row):
    flags = zip(GENRES_OF_100K, row[5:24], strict=True)
    return int(row[0]), row[1], [genre for genre, flag in flags if int(flag)]


def _film(row):
    return int(row[0]), row[1], [g for g in row[2].split("|") if g and g[0] != "("]


# {(ratings, films): (function of lines to rows, function of a row to a film, encoding)}
LAYOUTS = {
    ("ratings.csv", "movies.csv"): (_comma, _film, "utf-8"),
    ("ratings.dat", "movies.dat"): (_split("::"), _film, "latin-1"),
    ("u.data", "u.item"): (_fields_of_100k, _film_of_100k, "latin-1"),
}
