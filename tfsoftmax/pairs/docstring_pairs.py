"""Pairs that every installation has: what docstrings say, and the sentence that sums it up."""

import os
import zlib

from tfsoftmax.corpora.docstrings import docstrings, installed, python_files
from tfsoftmax.corpora.processes import on_all_cores
from tfsoftmax.corpora.prose import sentences

_HELD_OUT_SHARE = 0.05  # of all pairs, for valid and for test each
_BLOCK_PAIRS = 4096


def open_docstring_pairs(scratch, report, roots=None):
    """Reads the corpus into memory (about 10 MB of text).

    The target of a pair is the first sentence of a docstring, and its source is the rest, both as
    `prose.sentences` reads them. Nothing is imported or run. A pair that occurs several times is
    kept where it first occurs.

    A package is in one split only. In the order of a hash of their names, packages go to test until
    it has a twentieth of all pairs, then to valid until it has as many, and the others to train,
    together with each package that has more than a twentieth itself. Since packages copy from each
    other, a pair of valid is left out if its source or its target is in train, and a pair of test
    if one of them is in train or valid.

    Args:
        scratch: not used; `Source.open` has this argument.
        report: a function that is called with the number of words in each file.
        roots: directories to read; by default Python's own library and site-packages.

    Returns:
        Dictionary from split ("train", "valid", "test") to a list of blocks of pairs.

    Raises:
        ValueError: there are too few docstrings for all three splits.
    """
    packages, roots = {}, roots or installed()
    for root in roots:
        paths = list(python_files([root]))
        for path, found in zip(paths, on_all_cores(_pairs, paths), strict=True):
            package = os.path.relpath(path, root).split(os.sep)[0].removesuffix(".py")
            packages.setdefault(package, {}).update(dict.fromkeys(found))
            report(sum(text.count(" ") + 1 for pair in found for text in pair))
    splits, seen = _by_package(packages), set()
    for name, pairs in splits.items():
        kept = [pair for pair in pairs if not seen & set(pair)]
        if not kept:
            raise ValueError(
                f"`docstring_pairs` needs packages with English docstrings for the {name} split. "
                f"Received: {len(packages)} packages from {roots}"
            )
        seen.update(text for pair in kept for text in pair)
        kept = [(source, (target,)) for source, target in kept]
        splits[name] = [kept[i : i + _BLOCK_PAIRS] for i in range(0, len(kept), _BLOCK_PAIRS)]
    return splits


def _pairs(path):
    """The pairs of the docstrings of a source file."""
    return [pair for text in docstrings(path) if (pair := _pair(text))]


def _pair(docstring):
    """The source and the target in a docstring; None if one of them is missing."""
    summary, _, body = docstring.partition("\n\n")
    target, *rest = sentences(summary) or [None]
    source = [*rest, *sentences(body)]
    return (" ".join(source), target) if target and source else None


def _by_package(packages):
    """The pairs of each split, with those of a package all in one."""
    splits = {"train": {}, "valid": {}, "test": {}}
    enough = _HELD_OUT_SHARE * sum(map(len, packages.values()))
    hashes = {name: zlib.crc32(name.encode("utf-8", "surrogatepass")) for name in packages}
    for name in sorted(packages, key=hashes.get):
        small = len(packages[name]) <= enough
        held_out = [split for split in ("test", "valid") if small and len(splits[split]) < enough]
        splits[[*held_out, "train"][0]].update(packages[name])
    return splits
