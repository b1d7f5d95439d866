"""What a run of an experiment is. An experiment is a module with a docstring and a list `RUNS`."""

import dataclasses
import json
import os
import re
import types

from tfsoftmax.lm import presets
from tfsoftmax.lm.config import ModelConfig, TrainingConfig
from tfsoftmax.pairs import presets as pair_presets
from tfsoftmax.pairs.config import Seq2SeqConfig

DATA = "{data}"  # stands for the folder of the corpus
MEASURES = ("perplexity", "test_perplexity", "words_per_second", "peak_memory_gib")


@dataclasses.dataclass(frozen=True)
class Run:
    """One training run.

    Args:
        name: name of the run, which is also the name of its folder and of its row in the table.
        model: fields of `ModelConfig`, or of `Seq2SeqConfig` for pairs of texts, that differ from
            the preset. "{data}" in an option of the head stands for the folder of the corpus.
        training: fields of `TrainingConfig` that differ from the preset.
        preset: the name of a preset; empty for the defaults of the configurations.
        paper: the paper's values by the names in `MEASURES`, where `perplexity` is that of the
            validation split.
        scale: in a few words, how this run is smaller than the paper's.
        pairs: whether it trains on pairs of texts.

    Raises:
        ValueError: if a name or a value is not allowed.
    """

    name: str
    model: dict = dataclasses.field(default_factory=dict)
    training: dict = dataclasses.field(default_factory=dict)
    preset: str = ""
    paper: dict = dataclasses.field(default_factory=dict)
    scale: str = ""
    pairs: bool = False

    def __post_init__(self):
        _check(re.fullmatch(r"[\w.=-]+", self.name), "name", "must be letters, digits, _ . = -",
               self.name, self.name)
        _check(self.preset in ("", *self._presets), "preset",
               f"must be one of {', '.join(self._presets)}", self.preset, self.name)
        known = {"model": _fields(self._model_class), "training": _fields(TrainingConfig),
                 "paper": MEASURES}
        for argument, names in known.items():
            value = getattr(self, argument)
            for name in value:
                _check(name in names, argument, f"must have names among {', '.join(names)}",
                       name, self.name)
            object.__setattr__(self, argument, types.MappingProxyType(dict(value)))
        try:
            self.configs()
        except (TypeError, ValueError) as error:
            raise ValueError(f"Run {self.name!r}: {error}") from None

    @property
    def _model_class(self):
        return Seq2SeqConfig if self.pairs else ModelConfig

    @property
    def _presets(self):
        return pair_presets.PRESETS if self.pairs else presets.PRESETS

    @property
    def commands(self):
        """The commands of `tfsoftmax` that train and that evaluate it."""
        return ("train_pairs", "evaluate_pairs") if self.pairs else ("train", "evaluate")

    @property
    def task(self):
        """The `Task`, whose import takes TensorFlow."""
        if self.pairs:
            from tfsoftmax.pairs.task import PAIRS

            return PAIRS
        from tfsoftmax.lm.tasks import LANGUAGE_MODEL

        return LANGUAGE_MODEL

    def configs(self):
        """The `ModelConfig` and the `TrainingConfig` that `tfsoftmax train` makes of `flags()`."""
        preset = self._presets.get(self.preset, {})
        return tuple(
            config(**{k: v for k, v in preset.items() if k in _fields(config)} | dict(own))
            for config, own in ((self._model_class, self.model), (TrainingConfig, self.training))
        )

    def of_corpus(self, directory):
        """The same run with a directory in the place of "{data}"."""
        folder = directory if directory == DATA else os.path.abspath(directory)
        options = {
            name: value.replace(DATA, folder) if isinstance(value, str) else value
            for name, value in self.model.get("head_options", {}).items()
        }
        if not options:
            return self
        return dataclasses.replace(self, model={**self.model, "head_options": options})

    def flags(self):
        """The flags that `tfsoftmax train` needs for this run besides --data and --run."""
        preset = [f"--preset={self.preset}"] if self.preset else []
        values = {**self.model, **self.training}
        return preset + [f"--{name}={_as_flag(value)}" for name, value in values.items()]


def _fields(config):
    return tuple(field.name for field in dataclasses.fields(config))


def _as_flag(value):
    if isinstance(value, dict):
        return json.dumps(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check(condition, argument, expectation, value, run):
    if not condition:
        raise ValueError(f"Run {run!r}: `{argument}` {expectation}. Received: {value!r}")
