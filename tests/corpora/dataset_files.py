"""Tiny archives of the layout of public corpora."""

import dataclasses
import io
import tarfile
import zipfile

import pytest

from tfsoftmax.corpora import datasets
from tfsoftmax.corpora.catalogue import DATASETS
from tfsoftmax.corpora.datasets import check

TEXTS = {
    "train": " the cat sat \n \n = A Heading = \n the <unk> sat \n",
    "valid": " the cat \n",
    "test": " a naïve cat \n",
}
needs_tfds = pytest.mark.skipif(
    not datasets.importlib.util.find_spec("importlib_resources"),
    reason="tensorflow-datasets needs importlib_resources",
)
EXPECTED = {
    "train": ["the cat sat", "= A Heading =", "the <unk> sat"],
    "valid": ["the cat"],
    "test": ["a naïve cat"],
}


def use_tiny_archives(home, monkeypatch):
    """Downloads go to the folder `home`, and archives and files may have any digest."""
    monkeypatch.setenv("TFDS_DATA_DIR", str(home))
    for name, dataset in DATASETS.items():
        unknown = dataclasses.replace(dataset, digest=None, digests={})
        monkeypatch.setitem(DATASETS, name, unknown)


def write_archive(folder, name, texts):
    """Writes the archive of a dataset into a folder."""
    folder.mkdir(exist_ok=True)
    path = folder / DATASETS[name].archive
    members = {DATASETS[name].members[split]: text.encode() for split, text in texts.items()}
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for member, data in members.items():
                archive.writestr(member, data)
    else:
        with tarfile.open(path, "w:gz") as archive:
            for member, data in members.items():
                info = tarfile.TarInfo(f"./{member}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))


def read(name, manual_dir, scratch):
    """Opens a dataset; returns a dict from split to its sentences."""
    opened = check(name, str(manual_dir) if manual_dir else None)(str(scratch), lambda words: None)
    return {split: [line for block in blocks for line in block] for split, blocks in opened.items()}
