"""Flags that several commands share, and flags from the fields of configuration dataclasses."""

import dataclasses
import inspect
import json
import os
import re
import sys
import types

from absl import flags

from tfsoftmax.commands.program import load_tensorflow
from tfsoftmax.lm.local_workers import become_workers
from tfsoftmax.support.arguments import check_at_least
from tfsoftmax.support.textio import parsed_json

WIDEST_BEAM = 1000
WORKERS_OF_CORE = 16  # processes that may share a CPU core, each of them a TensorFlow
STRATEGIES = ("auto", "none", "mirrored", "multiworker")


def define(*configs: type) -> None:
    """Defines a flag for each field of dataclasses.

    The docstring of a dataclass explains its fields under `Attributes:`; that is the help of the
    flags. The dictionary `CHOICES` of the class limits the values of some, and its
    `READ_WITH` names those that only matter with certain values of another.
    """
    for config in configs:
        helps, choices = attribute_helps(config), getattr(config, "CHOICES", {})
        for field in dataclasses.fields(config):
            _define(field, helps.get(field.name), choices.get(field.name))


def attribute_helps(config: type) -> dict[str, str]:
    """What the docstrings of a class and of its bases say of each attribute, the bases first.

    Items of a list are lines of their own.
    """
    docs = "\n".join(inspect.cleandoc(each.__doc__ or "") for each in reversed(config.__mro__))
    sections = re.findall(r"\nAttributes:\n((?:    .*\n?)+)", docs)
    entries = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", "".join(sections), re.MULTILINE)
    return {name: re.sub(r"\n +(?![ -])", " ", text) for name, text in entries}


def define_data() -> None:
    """Defines --data, a prepared corpus."""
    flags.DEFINE_string(
        "data", None, "Directory of a corpus that `tfsoftmax prepare` made.", required=True
    )


def define_run() -> None:
    """Defines --run, a trained model."""
    flags.DEFINE_string("run", None, "Directory of a training run.", required=True)


def corpus_of(run):
    """The corpus of --data, or without it the one that the run was trained on.

    Raises:
        FileNotFoundError: it is no longer where it was.
        ValueError: it is of another kind, or has another vocabulary or tokenizer than the run.
    """
    from tfsoftmax.corpora.text import fingerprint

    words, trained_on = run.vocabulary(), run.config()["corpus"].get("directory", "")
    if not flags.FLAGS.data and not os.path.isdir(trained_on):
        raise FileNotFoundError(
            "`data` must say where the corpus is, since it is no longer in the folder on which the "
            f"run was trained. Received: no folder {trained_on!r}"
        )
    corpus = run.task.corpus.load(flags.FLAGS.data or trained_on)
    if corpus.vocabulary.sha256 != words.sha256:
        raise ValueError(
            f"`data` must have the vocabulary that the run was trained with, which has "
            f"{len(words):,} words. Received: {corpus.directory!r}, "
            f"with {len(corpus.vocabulary):,} words"
        )
    paths = run.tokenizer_path(), corpus.tokenizer
    ours, given = (path and fingerprint(path)["sha256"] for path in paths)
    if ours != given:
        raise ValueError(
            f"`data` must have the tokenizer that the run was trained with, of SHA-256 {ours}. "
            f"Received: {corpus.directory!r}, with {given}"
        )
    return corpus


def define_workers(of_streams: bool = True) -> None:
    """Defines --strategy and --workers, which say what shares the work.

    Args:
        of_streams: whether devices share the streams of a corpus, or processes the sentences.
    """
    if of_streams:
        flags.DEFINE_enum(
            "strategy", "auto", STRATEGIES,
            "Devices that share the streams: one (none), all of this machine (mirrored), or all of "
            "a cluster (multiworker) that TF_CONFIG or Slurm describes. auto: the cluster of "
            "TF_CONFIG, else as many GPUs as divide the number of streams, else one device."
        )
    else:
        flags.DEFINE_enum(
            "strategy", "none", ["none", "mirrored", "multiworker"],
            "What shares the sentences: one device (none), all devices of this machine (mirrored), "
            "or the processes of a cluster (multiworker) that TF_CONFIG or Slurm describes."
        )
    flags.DEFINE_integer(
        "workers", 1, "Number of processes to start on this machine, as a cluster."
    )


def fork_workers() -> None:
    """With --workers=N, forks the process; then this function returns in its N children only.

    It has to be called before TensorFlow is imported, and before files are opened.
    """
    strategy, count = flags.FLAGS["strategy"], flags.FLAGS.workers
    check_at_least(1, workers=count)
    if count > 1 and strategy.present and strategy.value not in ("auto", "multiworker"):
        raise ValueError(
            "`workers` above 1 needs --strategy=multiworker. "
            f"Received: workers={count}, strategy={strategy.value!r}"
        )
    most = WORKERS_OF_CORE * (os.cpu_count() or 1)
    if count > most:
        raise ValueError(
            f"`workers` must be at most {most}, {WORKERS_OF_CORE} for each CPU core of this "
            f"machine. Received: workers={count}"
        )
    if count > 1 and os.environ.get("TF_CONFIG"):
        raise ValueError(
            "`workers` must be 1 where TF_CONFIG in the environment describes the cluster: "
            "--workers=N is a cluster of its own, on this machine. "
            f"Received: workers={count}, TF_CONFIG={os.environ['TF_CONFIG'][:200]}"
        )
    if count > 1:
        become_workers(count)


def started_workers(streams: int | None = None):
    """Imports TensorFlow, and makes the `Workers` that the flags ask for, after `fork_workers`.

    Only the first worker prints to standard output.

    Args:
        streams: the number of streams of the corpus, if devices share them.
    """
    load_tensorflow()
    from tfsoftmax.lm.cluster import start_workers

    count = flags.FLAGS.workers
    strategy = "multiworker" if count > 1 else flags.FLAGS.strategy
    workers = start_workers(strategy, count, streams)
    if not workers.first:
        sys.stdout = open(os.devnull, "w")
    return workers


def define_overwrite() -> None:
    """Defines the flag of commands that write a file."""
    flags.DEFINE_bool("overwrite", False, "Replace files that exist.")


def check_beam(beam: int | None) -> None:
    """Raises ValueError if a beam is given and too wide."""
    if (beam or 0) > WIDEST_BEAM:
        raise ValueError(f"`beam` must be at most {WIDEST_BEAM}. Received: beam={beam}")


def define_words_of(words: int, group: str) -> None:
    """Defines --words and --words_of, which choose the classes or clusters to print."""
    flags.DEFINE_integer("words", words, f"Number of words to print of each {group}.")
    flags.DEFINE_string("words_of", None, f"Print only the {group} of this word.")


def checked_word_of(vocabulary) -> int | None:
    """The id of the word that --words_of gives, or None without it."""
    word = flags.FLAGS.words_of
    if word is not None and word not in vocabulary:
        raise ValueError(f"`words_of` must be a word of the vocabulary. Received: {word!r}")
    return None if word is None else int(vocabulary.encode([word])[0])


def define_scoring() -> None:
    """Defines the flags of commands that score sentences."""
    flags.DEFINE_bool("lowercase", False, "Turn all words into lower case first.")
    flags.DEFINE_enum(
        "oov", "unk", ["unk", "skip", "spread"], "Score of a word outside the vocabulary: unk, "
        "P(<unk>); skip, none; spread, P(<unk>) / unseen_words."
    )
    flags.DEFINE_integer(
        "unseen_words", None, "Number of words that share <unk>. Needs --oov=spread."
    )
    flags.DEFINE_enum(
        "normalisation", "exact", ["exact", "constant"],
        "With constant, the scores of a self-normalised head are taken as log-probabilities.",
    )


def parse(config: type, preset: dict | None = None):
    """Builds a configuration from the flags.

    Args:
        config: the dataclass.
        preset: values for fields whose flags are not given.

    Raises:
        ValueError: a field is out of its range, or a flag is given that another makes useless.
    """
    values = {}
    for field in dataclasses.fields(config):
        flag = flags.FLAGS[field.name]
        values[field.name] = _as_field(flag.value, field)
        if preset and field.name in preset and not flag.present:
            values[field.name] = preset[field.name]
    for name, (other, needed) in getattr(config, "READ_WITH", {}).items():
        flag, value = flags.FLAGS[name], (preset or {}).get(other)
        if value is None or flags.FLAGS[other].present:
            value = flags.FLAGS[other].value
        listed = isinstance(needed, tuple)
        if flag.present and not (value in needed if listed else value > needed):
            having = f"{other}={' or '.join(needed)}" if listed else f"{other} above {needed}"
            raise ValueError(
                f"`{name}` is read with {having} only. "
                f"Received: {name}={flag.value!r} with {other}={value}"
            )
    return config(**values)


class _Joined(flags.Flag):
    """A list that is joined from all that are given, as in --train=a.txt --train=b.txt."""

    def parse(self, argument):
        before = [] if self.using_default_value else self.value
        super().parse(argument)
        self.value = before + self.value


def _default(field):
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return None if field.default is dataclasses.MISSING else field.default


def _define(field, text, choices):
    default = _default(field)
    if choices:
        flags.DEFINE_enum(field.name, default, choices, text)
    elif isinstance(default, bool):
        flags.DEFINE_bool(field.name, default, text)
    elif isinstance(default, dict):
        flags.DEFINE_string(field.name, json.dumps(default), text)
    elif isinstance(default, tuple):
        parser, serializer = flags.ListParser(), flags.CsvListSerializer(",")
        flags.DEFINE_flag(_Joined(parser, serializer, field.name, list(default), text))
    elif isinstance(default, float):
        flags.DEFINE_float(field.name, default, text)
    elif isinstance(default, int) or int in _types(field):
        flags.DEFINE_integer(field.name, default, text)
    else:
        flags.DEFINE_string(field.name, default, text)


def _types(field):
    """The types in an annotation such as `int | None`."""
    if isinstance(field.type, types.UnionType):
        return field.type.__args__
    return (field.type,)


def _as_field(value, field):
    default = _default(field)
    if isinstance(default, tuple):
        return tuple(value)
    if isinstance(default, dict):
        options = parsed_json(value, f"`{field.name}`")
        if not isinstance(options, dict):
            raise ValueError(f"`{field.name}` must be a JSON object. Received: {value!r}")
        return options
    return value
