"""The corpora by name, each a function that makes its `Source` of sentences."""

import dataclasses
import functools
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Source:
    """Where the sentences of a corpus come from.

    Attributes:
        min_count: default of `min_count`.
        inputs: JSON value that identifies the input files, kept in the manifest.
        open: function of a scratch directory and of a function that reports progress in
            words; returns a dict from split to blocks: an iterable that can be iterated
            twice, of lists of lines (str), one sentence a line, words between blanks.
    """

    min_count: int
    inputs: object
    open: Callable


def _docstrings(config):
    from tfsoftmax.corpora.docstrings import open_docstrings

    return Source(min_count=2, inputs=None, open=open_docstrings)


def _text(config):
    from tfsoftmax.corpora import text

    patterns = {"train": config.train, "valid": config.valid, "test": config.test}
    if not config.train:
        raise ValueError(f"`train` must name files for corpus text. Received: {config.train!r}")
    files = {split: text.expand(given, split) for split, given in patterns.items() if given}
    return Source(
        min_count=1,
        inputs={split: [text.fingerprint(path) for path in paths]
                for split, paths in files.items()},
        open=lambda scratch, report: {s: text.TextFiles(paths) for s, paths in files.items()},
    )


def _dataset(name, min_count):
    def open_dataset(config, scratch, report):
        from tfsoftmax.corpora import datasets

        return datasets.check(name, config.manual_dir)(scratch, report)

    return lambda config: Source(min_count, None, functools.partial(open_dataset, config))


CORPORA = {
    "docstrings": _docstrings,
    "text": _text,
    "text8": _dataset("text8", min_count=10),
    "ptb": _dataset("ptb", min_count=1),
    "wikitext2": _dataset("wikitext2", min_count=1),
    "wikitext103": _dataset("wikitext103", min_count=1),
    "lm1b": _dataset("lm1b", min_count=3),
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
