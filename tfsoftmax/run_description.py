"""What a run's `config.json` says, and what in it the machine decided."""

import dataclasses
import importlib.metadata
import os

from tfsoftmax.heads import HEADS
from tfsoftmax.hardware import hardware


def settled(model_config, run):
    """The configuration with what the run, if it has begun, decided by measuring its machine."""
    names = HEADS[model_config.head].machine_options if model_config.head in HEADS else ()
    if not names or not run.exists():
        return model_config
    decided = run.config()["model"].get("head_options", {})
    options = {
        name: decided[name] for name in names
        if name in decided and model_config.head_options.get(name, "auto") == "auto"
    }
    return dataclasses.replace(
        model_config, head_options={**model_config.head_options, **options}
    )


def decided(model_config, model):
    """The configuration with what the built head decided by measuring the machine."""
    head = model.get_layer("head")
    options = {name: head.get_config()[name] for name in head.machine_options}
    return dataclasses.replace(
        model_config, head_options={**model_config.head_options, **options}
    )


def description(corpus, model_config, config):
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
            "streams": corpus.streams,
            "steps": corpus.steps,
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
