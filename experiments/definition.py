"""What an experiment is: a module with a docstring and a list `RUNS` of `Run` values."""

import ast
import collections
import dataclasses
import importlib.util
import json
import os
import re
import types
from pathlib import Path

from tfsoftmax.lm.config import PRESETS, ModelConfig, TrainingConfig

FOLDER = Path(__file__).resolve().parent
MEASURES = ("perplexity", "test_perplexity", "words_per_second", "peak_memory_gib")


@dataclasses.dataclass(frozen=True)
class Run:
    """One training run.

    Args:
        name: its folder below the experiment's, and its row in the table.
        model: fields of `ModelConfig` that differ from the preset. "{data}" in an option of the
            head stands for the folder of the corpus.
        training: fields of `TrainingConfig` that differ from the preset.
        preset: a name in `PRESETS`; empty for the configurations' own defaults.
        paper: the paper's values, by the names in `MEASURES`; perplexity is the validation's.
        scale: how this run is smaller than the paper's, in a few words.

    Raises:
        ValueError: if a name or a value is not one of these.
    """

    name: str
    model: dict = dataclasses.field(default_factory=dict)
    training: dict = dataclasses.field(default_factory=dict)
    preset: str = ""
    paper: dict = dataclasses.field(default_factory=dict)
    scale: str = ""

    def __post_init__(self):
        _check(re.fullmatch(r"[\w.=-]+", self.name), "name", "must be letters, digits, _ . = -",
               self.name, self.name)
        _check(self.preset in ("", *PRESETS), "preset", f"must be one of {', '.join(PRESETS)}",
               self.preset, self.name)
        known = {"model": _fields(ModelConfig), "training": _fields(TrainingConfig),
                 "paper": MEASURES}
        for argument, names in known.items():
            value = getattr(self, argument)
            for name in value:
                _check(name in names, argument, f"has names among {', '.join(names)}",
                       name, self.name)
            object.__setattr__(self, argument, types.MappingProxyType(dict(value)))
        try:
            self.configs()
        except (TypeError, ValueError) as error:
            raise ValueError(f"Run {self.name!r}: {error}") from None

    def configs(self):
        """The `ModelConfig` and the `TrainingConfig` that train.py makes of the flags."""
        preset = PRESETS.get(self.preset, {})
        return tuple(
            config(**{k: v for k, v in preset.items() if k in _fields(config)} | dict(own))
            for config, own in ((ModelConfig, self.model), (TrainingConfig, self.training))
        )

    def of_corpus(self, directory):
        """The same run, in which "{data}" has become a directory."""
        folder = os.path.abspath(directory)
        options = {
            name: value.replace("{data}", folder) if isinstance(value, str) else value
            for name, value in self.model.get("head_options", {}).items()
        }
        if not options:
            return self
        return dataclasses.replace(self, model={**self.model, "head_options": options})

    def flags(self):
        """The flags of train.py that this run needs, besides --data and --run."""
        preset = [f"--preset={self.preset}"] if self.preset else []
        values = {**self.model, **self.training}
        return preset + [f"--{name}={_as_flag(value)}" for name, value in values.items()]


def listing(folder=FOLDER):
    """The experiments of a folder, none of them imported: {name: first line of its docstring}."""
    modules = {path.stem: ast.parse(path.read_bytes()) for path in sorted(folder.glob("*.py"))}
    return {
        name: (ast.get_docstring(module) or "").partition("\n")[0]
        for name, module in modules.items()
        if any(_assigns(statement, "RUNS") for statement in module.body)
    }


def load(name, folder=FOLDER):
    """The module of an experiment, whose runs have names of their own.

    Raises:
        ValueError: if there is no such experiment, or a run of it is not valid.
    """
    names = listing(folder)
    if name not in names:
        raise ValueError(f"NAME must be one of {', '.join(names)}. Received: {name!r}")
    spec = importlib.util.spec_from_file_location(f"experiments.{name}", folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for run, count in collections.Counter(run.name for run in module.RUNS).items():
        _check(count == 1, "name", "must be of one run only", run, run)
    return module


def _fields(config):
    return tuple(field.name for field in dataclasses.fields(config))


def _as_flag(value):
    if isinstance(value, dict):
        return json.dumps(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _assigns(statement, name):
    return isinstance(statement, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == name for target in statement.targets
    )


def _check(condition, argument, expectation, value, run):
    if not condition:
        raise ValueError(f"Run {run!r}: `{argument}` {expectation}. Received: {value!r}")
