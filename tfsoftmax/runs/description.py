"""Describes a run for its `config.json`, and compares two such descriptions."""

import dataclasses
import importlib.metadata
import os
from collections.abc import Iterator

import keras

from tfsoftmax.corpora.records import Corpus
from tfsoftmax.lm.config import ModelConfig, TrainingConfig
from tfsoftmax.lm.head_options import known_of
from tfsoftmax.lm.tasks import Task
from tfsoftmax.support.hardware import hardware


def description(corpus: Corpus, model_config: ModelConfig, config: TrainingConfig) -> dict:
    """The contents of a run's `config.json`."""
    return {
        "model": dataclasses.asdict(model_config),
        "training": dataclasses.asdict(config),
        "corpus": {
            "name": corpus.name,
            "directory": os.path.abspath(corpus.directory),
            "vocab_size": len(corpus.vocabulary),
            "vocabulary_sha256": corpus.vocabulary.sha256,
            "records_sha256": [file.sha256 for file in corpus.split("train").files],
            "valid_sha256": [file.sha256 for file in corpus.split("valid").files],
            "task": corpus.TASK,
            **{name: corpus.settings[name] for name in corpus.CHOICES},
            **corpus.shape,
            "splits": {
                name: {k: getattr(split, k) for k in ("tokens", "words", "oov", "sentences")}
                for name, split in corpus.splits.items()
            },
        },
        "hardware": hardware(),
        "versions": {
            name: importlib.metadata.version(name) for name in ("tensorflow", "keras", "numpy")
        },
    }


def differences(old: dict, new: dict, task: Task) -> Iterator[str]:
    """Yields the differences between descriptions that a run must not have when it continues."""
    before, now = old.get("files", {}), new.get("files", {})
    for option in before.keys() & now.keys():
        if before[option]["sha256"] != now[option]["sha256"]:
            yield (
                f"a file for {option} with the SHA-256 {before[option]['sha256']} there, "
                f"{now[option]['sha256']} now"
            )
    old, new = (_without_paths(each, before.keys() & now.keys()) for each in (old, new))
    for part, kind in (("model", task.config), ("training", TrainingConfig)):
        defaults = dataclasses.asdict(kind())  # for options that are newer than the run
        for name in {**old[part], **new[part]}:
            if part == "training" and name in TrainingConfig.EXTENSIBLE:
                continue
            before, now = old[part].get(name, defaults.get(name)), new[part].get(name)
            if before != now:
                yield f"{name}={before!r} there, {now!r} now"
    names = "vocabulary_sha256", *sorted(task.corpus.SHAPE), "records_sha256", "valid_sha256"
    for name in names:
        now = new["corpus"].get(name)
        before = old["corpus"].get(name, now)  # older runs lack "valid_sha256"
        if before != now:
            yield f"corpus {name}={before!r} there, {now!r} now"


def _without_paths(described, options):
    """The description without the paths of files, which have been compared by their SHA-256."""
    model, training = described["model"], described["training"]
    head_options = {k: v for k, v in model.get("head_options", {}).items() if k not in options}
    training = {k: v for k, v in training.items() if k not in options}
    return {**described, "model": {**model, "head_options": head_options}, "training": training}


def with_settled_options(model_config: ModelConfig, described: dict | None) -> ModelConfig:
    """The configuration with what an earlier start of the run chose by measuring its machine.

    Args:
        model_config: the configuration that was asked for.
        described: the run's `config.json`; None if the run has not begun.
    """
    names = known_of(model_config.head).machine
    if described is None:
        return model_config
    chosen, asked = described["model"].get("head_options", {}), model_config.head_options
    return model_config.with_head_options({
        name: chosen[name] for name in names
        if name in chosen and asked.get(name, "auto") == "auto"
    })


def needs_machine(model_config: ModelConfig) -> bool:
    """Whether the head will choose an option by measuring the machine."""
    names = known_of(model_config.head).machine
    return any(model_config.head_options.get(name, "auto") == "auto" for name in names)


def with_chosen_options(model_config: ModelConfig, model: keras.Model) -> ModelConfig:
    """The configuration with what the built head chose by measuring the machine."""
    head = model.get_layer("head")
    names = known_of(model_config.head).machine
    return model_config.with_head_options({name: head.get_config()[name] for name in names})
