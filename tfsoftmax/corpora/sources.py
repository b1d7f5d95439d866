"""The corpora by name, each a function that makes its `Source` of sentences."""

import dataclasses
import functools
from collections.abc import Callable

from tfsoftmax.corpora.catalogue import DATASETS


@dataclasses.dataclass(frozen=True)
class Source:
    """Where the sentences of a corpus come from.

    Attributes:
        inputs: JSON value that identifies the input files, kept in the manifest.
        open: function of a scratch directory and of a function that reports progress in
            words; returns a dict from split to blocks: an iterable that can be iterated
            twice, of lists of lines (str), one sentence a line, words between blanks.
    """

    inputs: object
    open: Callable


def _docstrings(config):
    from tfsoftmax.corpora.docstrings import open_docstrings

    return Source(inputs=None, open=open_docstrings)


def _text(config):
    from tfsoftmax.corpora import text

    patterns = {"train": config.train, "valid": config.valid, "test": config.test}
    if not config.train:
        raise ValueError(f"`train` must name files for corpus text. Received: {config.train!r}")
    files = {split: text.expand(given, split) for split, given in patterns.items() if given}
    return Source(
        inputs={split: [text.fingerprint(path) for path in paths]
                for split, paths in files.items()},
        open=lambda scratch, report: {s: text.TextFiles(paths) for s, paths in files.items()},
    )


def _dataset(name):
    def open_dataset(config, scratch, report):
        from tfsoftmax.corpora import datasets

        return datasets.check(name, config.manual_dir)(scratch, report)

    return lambda config: Source(None, functools.partial(open_dataset, config))


CORPORA = {
    "docstrings": _docstrings,
    "text": _text,
    **{name: _dataset(name) for name in DATASETS},
}


def make_source(config):
    """Returns the `Source` that a `PrepareConfig` names.

    Raises:
        ValueError: no such corpus, or text files given for a corpus that brings its own.
    """
    if config.corpus not in CORPORA:
        raise ValueError(
            f"`corpus` must be one of {', '.join(CORPORA)}. Received: corpus={config.corpus!r}"
        )
    for name in ("train", "valid", "test"):
        if getattr(config, name) and config.corpus != "text":
            raise ValueError(
                f"`{name}` is for corpus text only. "
                f"Received: {name}={getattr(config, name)} with corpus={config.corpus!r}"
            )
    return CORPORA[config.corpus](config)
