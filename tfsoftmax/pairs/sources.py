"""The corpora of pairs by name: for each, a function that makes its source."""

from tfsoftmax.corpora import sources, text
from tfsoftmax.corpora.sources import Source
from tfsoftmax.pairs import gigaword, reading
from tfsoftmax.pairs.config import PairsConfig
from tfsoftmax.pairs.docstring_pairs import open_docstring_pairs
from tfsoftmax.support.arguments import expect


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
    files = gigaword.find_gigaword(config.manual_dir)
    return Source(
        inputs=gigaword.fingerprints(files),
        open=lambda scratch, report: {s: reading.FilePairs([both]) for s, both in files.items()},
    )


CORPORA = {"docstring_pairs": _docstring_pairs, "text": _text_pairs, "gigaword": _gigaword}
