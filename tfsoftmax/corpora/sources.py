"""The corpora by name: for each, a function that makes its source of sentences."""

import dataclasses
import functools
import itertools
from collections.abc import Callable

from tfsoftmax.corpora.catalogue import DATASETS
from tfsoftmax.corpora.config import PrepareConfig


@dataclasses.dataclass(frozen=True)
class Source:
    """Where the sentences of a corpus come from.

    Attributes:
        inputs: a JSON value that identifies the input files. The manifest keeps it.
        open: a function of a scratch folder and of a function to report the number of words read.
            It returns a dictionary from split to blocks, in an iterable that can be iterated twice.
            A block is a list of lines, one sentence a line with words between blanks; with
            task="pairs", a list of a source and a tuple of its targets each.

    Example:
        from tfsoftmax.corpora import config, sources
        source = sources.make_source(config.PrepareConfig("text", "out", train="train.txt"))
        for block in source.open("scratch", print)["train"]:
            print(block)
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
        raise ValueError(
            f"`train` must name files for corpus='text'. Received: train={config.train!r}"
        )
    files = {split: text.expand(given, split) for split, given in patterns.items() if given}
    if config.field != "text" and not any(map(text.has_fields, itertools.chain(*files.values()))):
        raise ValueError(
            "`field` may be given where a file has fields, such as one that ends in .jsonl. "
            f"Received: field={config.field!r}"
        )
    return Source(
        inputs={split: [text.fingerprint(path) for path in paths]
                for split, paths in files.items()},
        open=lambda scratch, report: {
            s: text.TextFiles(paths, field=config.field) for s, paths in files.items()
        },
    )


def _hub(config):
    from tfsoftmax.corpora import hub_datasets

    name = config.corpus.removeprefix("hf:")
    return Source(
        hub_datasets.fingerprints(name),
        lambda scratch, report: hub_datasets.open_dataset(name, config.field),
    )


def _text_pairs(config):
    from tfsoftmax.corpora import pairs, text

    if not config.train:
        raise ValueError(
            f"`train` must name files for corpus='text'. Received: train={config.train!r}"
        )
    readers, inputs = {}, {}
    for split in ("train", "valid", "test"):
        given, targets = getattr(config, split), getattr(config, f"{split}_targets")
        if targets and not given:
            raise ValueError(
                f"`{split}_targets` may be given with `{split}` only. Received: "
                f"{split}_targets={targets!r} alone"
            )
        files = text.expand(given, split)
        other = text.expand(targets, f"{split}_targets")
        if targets and len(files) != len(other):
            raise ValueError(
                f"`{split}_targets` must name a file for each file of `{split}`. "
                f"Received: {len(other)} files for {len(files)}"
            )
        if given:
            inputs[split] = [[text.fingerprint(path) for path in paths] for paths in (files, other)]
            readers[split] = (
                pairs.FilePairs(zip(files, [[path] for path in other])) if targets
                else pairs.TsvPairs(files, references=split != "train")
            )
    return Source(inputs, lambda scratch, report: readers)


def _docstring_pairs(config):
    from tfsoftmax.corpora.docstring_pairs import open_docstring_pairs

    return Source(inputs=None, open=open_docstring_pairs)


def _gigaword(config):
    from tfsoftmax.corpora import gigaword, pairs

    files = gigaword.find_gigaword(config.manual_dir)
    return Source(
        inputs=gigaword.fingerprints(files),
        open=lambda scratch, report: {s: pairs.FilePairs([both]) for s, both in files.items()},
    )


def _dataset(name):
    def open_dataset(config, scratch, report):
        from tfsoftmax.corpora import datasets

        return datasets.check(name, config.manual_dir)(scratch, report)

    return lambda config: Source(None, functools.partial(open_dataset, config))


CORPORA = {
    "sentences": {
        "docstrings": _docstrings,
        "text": _text,
        "hf": _hub,
        **{name: _dataset(name) for name in DATASETS},
    },
    "pairs": {"text": _text_pairs, "docstring_pairs": _docstring_pairs, "gigaword": _gigaword},
}


def make_source(config: PrepareConfig) -> Source:
    """Makes the source of the corpus that the settings name.

    Raises:
        ValueError: there is no such corpus, or files, a field or a folder are given for a corpus
            that does not read them.
    """
    corpora = CORPORA[config.task]
    names = ", ".join("hf:NAME" if name == "hf" else name for name in corpora)
    named = bool(config.corpus.removeprefix("hf:").strip(":"))
    if config.kind not in corpora or not named or (
        (config.kind == "hf") == (config.kind == config.corpus)
    ):
        raise ValueError(
            f"`corpus` must be one of {names} for task={config.task!r}. "
            f"Received: corpus={config.corpus!r}"
        )
    for name in config.FILES:
        if getattr(config, name) and config.corpus != "text":
            raise ValueError(
                f"`{name}` may be given with corpus='text' only. "
                f"Received: {name}={getattr(config, name)} with corpus={config.corpus!r}"
            )
    if config.field != "text" and config.kind not in ("text", "hf"):
        raise ValueError(
            "`field` may be given with corpus='text' or hf:NAME only. "
            f"Received: field={config.field!r} with corpus={config.corpus!r}"
        )
    public = (*DATASETS, "gigaword")
    if config.manual_dir is not None and config.kind not in public:
        raise ValueError(
            f"`manual_dir` may be given with corpus={', '.join(public)} only. "
            f"Received: manual_dir={config.manual_dir!r} with corpus={config.corpus!r}"
        )
    return corpora[config.kind](config)
