"""Finds the files in which Rush et al. (2015) gave away Gigaword's pairs and those of DUC."""

import glob
import os

from tfsoftmax.corpora.text import fingerprint
from tfsoftmax.support import textio
from tfsoftmax.support.arguments import expect

# For each split: the names of its sources and of its targets. Only the first two must be there.
FILES = {
    "train": ("train.article.txt", "train.title.txt"),
    "valid": ("valid.article.filter.txt", "valid.title.filter.txt"),
    "test": ("Giga/input.txt", "Giga/task1_ref*.txt"),
    "duc2003": ("DUC2003/input.txt", "DUC2003/task1_ref*.txt"),
    "duc2004": ("DUC2004/input.txt", "DUC2004/task1_ref*.txt"),
}


def find_gigaword(folder: str | None) -> dict[str, tuple[str, list[str]]]:
    """Finds the files of each split, in a folder or below it, plain or compressed.

    Args:
        folder: the folder, such as the unpacked `sumdata`.

    Returns:
        Dictionary from split to the path of its sources and the paths of its targets, of which the
        splits of DUC have four. It has the splits train and valid, and those of test, duc2003 and
        duc2004 that are there.

    Raises:
        FileNotFoundError: train or valid is not there.
        ValueError: a split has several files of sources, or sources and no targets, or the same
            targets twice, such as plain and compressed.
    """
    expect(folder is not None and os.path.isdir(folder), "manual_dir",
           "be the folder with the files of Rush et al., from which `corpus` gigaword is read",
           folder, error=FileNotFoundError)
    found = {}
    for split, (source, target) in FILES.items():
        sources, targets = _matches(folder, source), _matches(folder, target)
        expect(split not in ("train", "valid") or sources, "manual_dir",
               f"have {source} and {target}, plain or compressed, in it or below", folder,
               error=FileNotFoundError)
        once = 0 < len(targets) == len({os.path.basename(textio.plain_name(t)) for t in targets})
        expect(not sources or len(sources) == 1 and once, "manual_dir",
               f"have one {source} and {target} for it, each once",
               received=f"{', '.join(sources + targets)}")
        if sources:
            found[split] = (sources[0], targets)
    return found


def fingerprints(files: dict) -> dict:
    """What the manifest says of the files: a JSON value."""
    return {
        split: [fingerprint(path) for path in (source, *targets)]
        for split, (source, targets) in files.items()
    }


def _matches(folder, name):
    start, ends = os.path.join(glob.escape(folder), "**", name), ("", *textio.COMPRESSED)
    return sorted(path for end in ends for path in glob.glob(start + end, recursive=True))
