"""Pairs of texts as files, for tests of what reads them."""

import gzip

import pytest
from pair_files import make_pairs


@pytest.fixture
def pairs(tmp_path):
    """Compressed files of pairs with tabs; returns a dict from split to pairs."""
    pairs = {"train": make_pairs(200, 0), "valid": make_pairs(31, 1), "test": make_pairs(12, 2)}
    for split, rows in pairs.items():
        with gzip.open(tmp_path / f"{split}.tsv.gz", "wt", encoding="utf-8") as file:
            file.writelines(f"{source}\t{target}\n" for source, target in rows)
    return pairs
