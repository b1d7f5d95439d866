"""The folder of a training run: its configuration, its vocabulary and its metrics."""

import contextlib
import fcntl
import json
import math
import os
from collections.abc import Iterator

import keras

from tfsoftmax.lm.checkpoints import Checkpoints, weight_variables
from tfsoftmax.lm.config import ModelConfig, with_todays_names
from tfsoftmax.lm.description import differences
from tfsoftmax.lm.files import read_object, write_whole
from tfsoftmax.lm.model import language_model
from tfsoftmax.vocabulary import Vocabulary

CONFIG, METRICS, VOCABULARY, CHECKPOINTS, LOCK = (
    "config.json", "metrics.jsonl", "vocabulary.txt", "checkpoints", ".lock",
)
# Files that a run may have left if it was killed while it started.
_BEFORE_CONFIG = {CHECKPOINTS, VOCABULARY, VOCABULARY + ".partial", CONFIG + ".partial"}


class Run:
    """The folder of a run. A killed process leaves its files complete, except that the last line of
    the metrics may be cut; readers skip such a line.

    Args:
        directory: the folder, which need not exist yet.

    Attributes:
        checkpoints: the run's `Checkpoints`.

    Example:
        from tfsoftmax.lm.runs import Run
        run = Run("runs/first")
        print(run.config()["model"]["head"])
        print([line["perplexity"] for line in run.metrics() if line["event"] == "valid"])
    """

    def __init__(self, directory: str):
        if not directory or (os.path.lexists(directory) and not os.path.isdir(directory)):
            raise ValueError(f"`run` must name a directory. Received: run={directory!r}")
        self.directory = directory
        self.checkpoints = Checkpoints(self.path(CHECKPOINTS))

    def path(self, *names: str) -> str:
        """The path of something in the folder."""
        return os.path.join(self.directory, *names)

    def exists(self) -> bool:
        """Whether the folder holds a run that has begun."""
        return os.path.exists(self.path(CONFIG))

    def check(self, config: dict) -> None:
        """Raises ValueError if the folder holds anything but a run of this configuration."""
        if not self.exists():
            found = set(os.listdir(self.directory)) if os.path.lexists(self.directory) else set()
            if found and not {CHECKPOINTS} <= found <= _BEFORE_CONFIG:
                raise ValueError(
                    "`run` must be a new or empty directory, or one of an earlier run. "
                    f"Received: run={self.directory!r}, which holds other files"
                )
            return
        different = list(differences(self.config(), json.loads(json.dumps(config))))
        if different:
            raise ValueError(
                "`run` holds a run of another configuration; choose another directory, or the "
                f"same settings. Received: run={self.directory!r}, " + "; ".join(different)
            )

    def start(self, config: dict, vocabulary: Vocabulary) -> None:
        """Writes the vocabulary and, last, the configuration that makes the folder a run.

        If the run exists already, only its training configuration is replaced, which `check`
        allows to be an extension.
        """
        os.makedirs(self.checkpoints.directory, exist_ok=True)
        if self.exists():
            config = {**self.config(), "training": config["training"]}
        else:
            vocabulary.save(self.path(VOCABULARY))
        write_whole(self.path(CONFIG), json.dumps(config, indent=1) + "\n")

    def config(self) -> dict:
        """The configuration that the run was started with, under today's names."""
        if not self.exists():
            raise ValueError(
                f"`run` must be the directory of a training run. Received: run={self.directory!r}, "
                f"which has no {CONFIG}"
            )
        return with_todays_names(read_object(self.path(CONFIG), ("model", "training", "corpus")))

    def vocabulary(self) -> Vocabulary:
        """The vocabulary that the run was trained with."""
        vocabulary = Vocabulary.load(self.path(VOCABULARY))
        expected = self.config()["corpus"]["vocabulary_sha256"]
        if vocabulary.sha256 != expected:
            raise ValueError(
                f"{self.path(VOCABULARY)}: must be the vocabulary that the run was trained with, "
                f"whose SHA-256 is {expected}. Received: {vocabulary.sha256}"
            )
        return vocabulary

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other processes from training here. The lock ends with the process."""
        with open(self.path(LOCK), "a", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(
                    "`run` must not be in training by another process. "
                    f"Received: run={self.directory!r}, which is"
                ) from None
            yield

    def log(self, **values) -> None:
        """Appends a line to the metrics. A number that is not finite is written as null."""
        for key, value in values.items():
            if isinstance(value, float) and not math.isfinite(value):
                values[key] = None
        with open(self.path(METRICS), "a+b") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read() != b"\n":  # a killed process left half a line
                    file.write(b"\n")
            file.write(json.dumps(values, allow_nan=False).encode() + b"\n")

    def metrics(self) -> list[dict]:
        """The lines of the metrics, without one that a killed process left half written."""
        if not os.path.exists(self.path(METRICS)):
            return []
        with open(self.path(METRICS), encoding="utf-8") as file:
            lines = list(map(_parsed, file))
        return [line for line in lines if line is not None]

    def rewind_metrics(self, step: int) -> None:
        """Drops the lines that were logged after `step` was saved, and "finished" lines."""
        # Training will log these again, and words are reassigned before the step that follows.
        repeated = {"finished": 0, "reassigned": step}
        kept = [m for m in self.metrics() if m["step"] < repeated.get(m["event"], step + 1)]
        write_whole(self.path(METRICS), "".join(json.dumps(m) + "\n" for m in kept))


def load(
    directory: str, streams: int | None, time_steps: int | None = None, stateful: bool = True,
    backend: str = "auto",
) -> tuple[keras.Model, Vocabulary, dict]:
    """Builds the model of a run, with its best weights, for batches of any size.

    Args:
        directory: the folder of the run.
        streams, time_steps, stateful: arguments of `language_model`.
        backend: how the recurrent layers compute, as in `ModelConfig`. The weights do not depend
            on it, and the run's own choice may need another machine.

    Returns:
        The model, the vocabulary, and the configuration as a dictionary.

    Raises:
        ValueError: the folder holds no run, a damaged one, or one without a checkpoint.
    """
    run = Run(directory)
    config, vocabulary = run.config(), run.vocabulary()
    try:
        model_config = ModelConfig(**{**config["model"], "backend": backend})
    except TypeError as error:
        raise ValueError(f"{run.path(CONFIG)}: must describe a model. Received: {error}") from None
    model = language_model(model_config, vocabulary, streams, time_steps, stateful)
    if run.checkpoints.restore(weight_variables(model), "best") is None:
        raise ValueError(
            "`run` must have a checkpoint; it has trained too few steps for one. "
            f"Received: run={directory!r}"
        )
    return model, vocabulary, config


def _parsed(line):
    try:
        values = json.loads(line)
    except json.JSONDecodeError:
        return None
    return values if isinstance(values, dict) and {"event", "step"} <= values.keys() else None
