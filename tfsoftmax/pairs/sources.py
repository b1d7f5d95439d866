"""The corpora of pairs by name: for each, a function that makes its source."""

import glob
import os

from tfsoftmax.corpora import sources, text
from tfsoftmax.corpora.sources import Source
from tfsoftmax.pairs import reading
from tfsoftmax.pairs.config import PairsConfig
from tfsoftmax.pairs.docstring_pairs import open_docstring_pairs
from tfsoftmax.support import textio
from tfsoftmax.support.arguments import expect

# For each split of gigaword, as Rush et al. (2015) gave it away: the names of the files of sources
# and of targets. Only those of the first two must be there.
GIGAWORD = {
    "train": ("train.article.txt", "train.title.txt"),
    "valid": ("valid.article.filter.txt", "valid.title.filter.txt"),
    "test": ("Giga/input.txt", "Giga/task1_ref*.txt"),
    "duc2003": ("DUC2003/input.txt", "DUC2003/task1_ref*.txt"),
    "duc2004": ("DUC2004/input.txt", "DUC2004/task1_ref*.txt"),
}


def make_source(config: PairsConfig) -> Source:
    """Makes the source of the corpus of pairs that the settings name.

    Raises:
        ValueError: there is no such corpus, or files or a folder are given for a corpus that does
            not read them.
    """
    return sources.make_source(config, CORPORA, public=("gigaword",))


def _text_pairs(config):
    expect(config.train, "train", "name files for corpus='text'", config.train)
    readers, inputs = {}, {}
    for split in ("train", "valid", "test"):
        given, targets = getattr(config, split), getattr(config, f"{split}_targets")
        expect(not targets or given, f"{split}_targets", f"be given with `{split}` only",
               received=f"{split}_targets={targets!r} alone")
        files = text.expand(given, split)
        other = text.expand(targets, f"{split}_targets")
        expect(not targets or len(files) == len(other), f"{split}_targets",
               f"name a file for each file of `{split}`",
               received=f"{len(other)} files for {len(files)}")
        if given:
            inputs[split] = [[text.fingerprint(path) for path in paths] for paths in (files, other)]
            readers[split] = (
                reading.FilePairs(zip(files, [[path] for path in other]), f"{split}_targets")
                if targets
                else reading.TsvPairs(files, references=split != "train")
            )
    return Source(inputs, lambda scratch, report: readers)


def _docstring_pairs(config):
    return Source(inputs=None, open=open_docstring_pairs)


def _gigaword(config):
    files = _gigaword_files(config.manual_dir)
    return Source(
        inputs={
            split: [text.fingerprint(path) for path in (source, *targets)]
            for split, (source, targets) in files.items()
        },
        open=lambda scratch, report: {s: reading.FilePairs([both]) for s, both in files.items()},
    )


def _gigaword_files(folder):
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
    for split, (source, target) in GIGAWORD.items():
        found_sources, targets = _matches(folder, source), _matches(folder, target)
        expect(split not in ("train", "valid") or found_sources, "manual_dir",
               f"have {source} and {target}, plain or compressed, in it or below", folder,
               error=FileNotFoundError)
        once = 0 < len(targets) == len({os.path.basename(textio.plain_name(t)) for t in targets})
        expect(not found_sources or len(found_sources) == 1 and once, "manual_dir",
               f"have one {source} and {target} for it, each once",
               received=f"{', '.join(found_sources + targets)}")
        if found_sources:
            found[split] = (found_sources[0], targets)
    return found


def _matches(folder, name):
    start, ends = os.path.join(glob.escape(folder), "**", name), ("", *textio.COMPRESSED)
    return sorted(path for end in ends for path in glob.glob(start + end, recursive=True))


CORPORA = {"docstring_pairs": _docstring_pairs, "text": _text_pairs, "gigaword": _gigaword}
