"""The corpora by name: for each, a function that makes its source of sentences."""

import dataclasses
import itertools
from collections.abc import Callable

from tfsoftmax.corpora.catalogue import DATASETS
from tfsoftmax.corpora.config import CorpusConfig
from tfsoftmax.support.arguments import expect, refusal


@dataclasses.dataclass(frozen=True)
class Source:
    """Where the sentences of a corpus come from.

    Attributes:
        inputs: a JSON value that identifies the input files. The manifest keeps it.
        open: a function of a scratch folder and of a function to report the number of words read.
            It returns a dictionary from split to blocks, in an iterable that can be iterated twice.
            A block is a list of lines, one sentence a line with words between blanks; of a corpus
            of pairs, a list of a source and a tuple of its targets each.

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
    expect(config.train, "train", "name files for corpus='text'", config.train)
    files = {split: text.expand(given, split) for split, given in patterns.items() if given}
    has_fields = any(map(text.has_fields, itertools.chain(*files.values())))
    expect(config.field == "text" or has_fields, "field",
           "be given where a file has fields, such as one that ends in .jsonl", config.field)
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


def _dataset(config):
    def open_dataset(scratch, report):
        from tfsoftmax.corpora import datasets

        return datasets.check(config.kind, config.manual_dir)(scratch, report)

    return Source(None, open_dataset)


CORPORA = {
    "docstrings": _docstrings, "text": _text, "hf": _hub, **dict.fromkeys(DATASETS, _dataset),
}


def make_source(
    config: CorpusConfig, corpora: dict = CORPORA, public: tuple = tuple(DATASETS)
) -> Source:
    """Makes the source of the corpus that the settings name.

    Args:
        config: the settings.
        corpora: {name of a corpus: function from the settings to its `Source`}.
        public: the names of those that others publish, which may be in `manual_dir`.

    Raises:
        ValueError: there is no such corpus, or files, a field or a folder are given for a corpus
            that does not read them.
    """
    has_name = config.kind == "hf"  # as in hf:NAME
    named = config.corpus.removeprefix("hf:").strip(":") != ""
    if config.kind not in corpora or not named or has_name == (config.kind == config.corpus):
        raise refusal("corpus", f"be one of {', '.join(map(_spelt, corpora))}", config.corpus)
    readers = {**dict.fromkeys(config.FILES, ("text",)), "field": ("text", "hf"),
               "manual_dir": public}
    for field in dataclasses.fields(config):
        kinds, value = readers.get(field.name, corpora), getattr(config, field.name)
        expect(value == field.default or config.kind in kinds, field.name,
               f"be given with corpus={', '.join(map(_spelt, kinds))} only",
               received={field.name: value, "corpus": config.corpus})
    return corpora[config.kind](config)


def _spelt(kind):
    return "hf:NAME" if kind == "hf" else kind
