"""Reads data sets of Hugging Face's package `datasets`, from the hub or from a folder."""

import glob
import itertools
import os
from collections.abc import Iterator

from tfsoftmax.corpora.datasets import is_reachable
from tfsoftmax.corpora.text import ROWS, blocks_of, checked_text, fingerprint
from tfsoftmax.support.arguments import expect, refusing
from tfsoftmax.support.extras import imported
from tfsoftmax.support.textio import split_lines

HUB = "https://huggingface.co"
SPLITS = {  # what data sets call their splits
    "train": ("train",), "valid": ("validation", "valid", "val", "dev"), "test": ("test",),
}
SAVED = ("dataset_dict.json", "state.json")  # of `save_to_disk`, for several splits or for one


def fingerprints(name: str) -> list | None:
    """The names and digests of the files of a local data set; None for one on the hub."""
    if not os.path.isdir(name):
        return None
    paths = sorted(glob.glob(os.path.join(glob.escape(name), "**"), recursive=True))
    return [
        fingerprint(path) | {"name": os.path.relpath(path, name)}
        for path in paths if os.path.isfile(path)
    ]


def open_dataset(name: str, field: str) -> dict:
    """Opens a data set.

    Args:
        name: a folder of text, JSON, CSV or Parquet files, or one that `save_to_disk` wrote, where
            a single split is that of training; or NAME or NAME:SUBSET of the hub.
        field: the column of the texts.

    Returns:
        Dictionary from split to lists of lines, in an iterable that can be iterated several times.

    Raises:
        RuntimeError: the package `datasets` is not installed.
        ConnectionError: the data set must be downloaded, and the hub does not answer.
        ValueError: there is no such data set, no training split in it, or no such column.
    """
    local = os.path.isdir(name)
    if not (local or is_reachable(HUB)):
        os.environ["HF_HUB_OFFLINE"] = "1"  # take what was downloaded before, or fail at once
    datasets = imported("datasets", "`corpus`")
    datasets.disable_progress_bars()
    path, _, subset = (name, "", "") if local else name.partition(":")
    received = f"corpus='hf:{name}', "
    rule = f"name a folder or a data set that can be downloaded from {HUB}"
    wrong = (ValueError, FileNotFoundError, datasets.exceptions.DatasetsError)
    with (
        refusing(wrong, "corpus", "name a data set", before=received),
        refusing(ConnectionError, "corpus", rule, before=received, error=ConnectionError),
    ):
        if local and any(os.path.isfile(os.path.join(name, file)) for file in SAVED):
            found = datasets.load_from_disk(name)
            found = {"train": found} if isinstance(found, datasets.Dataset) else found
        else:
            found = datasets.load_dataset(path, subset or None)
    splits = {}
    for ours, names in SPLITS.items():
        for theirs in [split for split in names if split in found][:1]:
            splits[ours] = _Lines(found[theirs], field, name)
    expect("train" in splits, "corpus", "have a split train",
           received=f"corpus='hf:{name}', with {', '.join(map(str, found))}")
    return splits


class _Lines:
    """The texts of a split as blocks of lines, which can be iterated several times."""

    def __init__(self, dataset, field, name):
        kinds = dict(dataset.features)
        expect(getattr(kinds.get(field), "dtype", "") in ("string", "large_string"), "field",
               f"be a column of strings in hf:{name}, which has {', '.join(kinds)}", field)
        self._rows = dataset.select_columns([field])
        self._field, self._name = field, name

    def __iter__(self) -> Iterator[list[str]]:
        return blocks_of(text for _, text in self._texts())

    def place(self, number: int) -> str:
        """Names the row of the line with a number from 0 on."""
        places = (where for where, text in self._texts() for _ in split_lines(text))
        return next(itertools.islice(places, number, None))

    def _texts(self):
        values = (value for rows in self._rows.iter(ROWS) for value in rows[self._field])
        for number, value in enumerate(values, start=1):
            place = f"hf:{self._name}, row {number}"
            yield place, checked_text(value, f"{place}:", self._field)
