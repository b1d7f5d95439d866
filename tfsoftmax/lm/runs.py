"""The folder of a run: configuration, metrics, checkpoints; each file whole or the one before."""

import contextlib
import dataclasses
import fcntl
import importlib.metadata
import json
import math
import os
import shutil

import tensorflow as tf

from tfsoftmax.hardware import hardware
from tfsoftmax.heads import HEADS
from tfsoftmax.lm.config import ModelConfig, TrainingConfig, with_todays_names
from tfsoftmax.lm.model import language_model, recurrent_states
from tfsoftmax.vocabulary import Vocabulary

CONFIG, METRICS, VOCABULARY, CHECKPOINTS, LOCK = (
    "config.json", "metrics.jsonl", "vocabulary.txt", "checkpoints", ".lock",
)
# What a run that was killed while it started may have left.
_BEFORE_CONFIG = {CHECKPOINTS, VOCABULARY, VOCABULARY + ".partial", CONFIG + ".partial"}


class Run:
    """A run's folder. Nothing in it is ever half written, whenever the process is killed.

    Args:
        directory: of the run.
    """

    def __init__(self, directory):
        if not directory or (os.path.lexists(directory) and not os.path.isdir(directory)):
            raise ValueError(f"`run` must name a directory. Received: run={directory!r}")
        self.directory = directory

    def path(self, *names):
        return os.path.join(self.directory, *names)

    def exists(self):
        return os.path.exists(self.path(CONFIG))

    def check(self, config):
        """Raises ValueError if the folder holds anything but a run of this configuration."""
        if not self.exists():
            found = set(os.listdir(self.directory)) if os.path.lexists(self.directory) else set()
            if found and not {CHECKPOINTS} <= found <= _BEFORE_CONFIG:
                raise ValueError(
                    "`run` must be a new or empty directory, or one of an earlier run. "
                    f"Received: run={self.directory!r}, which holds other files"
                )
            return
        differences = list(_differences(self.config(), json.loads(json.dumps(config))))
        if differences:
            raise ValueError(
                "`run` holds a run of another configuration; choose another directory, or the "
                f"same settings. Received: run={self.directory!r}, " + "; ".join(differences)
            )

    def start(self, config, vocabulary):
        """Writes the vocabulary and, last, the configuration that makes the folder a run.

        Of a run that exists already only the training's configuration is replaced, in which
        `check` allows an extension.
        """
        os.makedirs(self.path(CHECKPOINTS), exist_ok=True)
        if self.exists():
            config = {**self.config(), "training": config["training"]}
        else:
            vocabulary.save(self.path(VOCABULARY))
        write_whole(self.path(CONFIG), json.dumps(config, indent=1) + "\n")

    def config(self):
        """The configuration that the run was started with."""
        if not self.exists():
            raise ValueError(
                f"`run` must be the directory of a training run. Received: run={self.directory!r}, "
                f"which has no {CONFIG}"
            )
        return with_todays_names(_read_object(self.path(CONFIG), ("model", "training", "corpus")))

    def vocabulary(self):
        """The vocabulary that the run was trained with."""
        vocabulary = Vocabulary.load(self.path(VOCABULARY))
        expected = self.config()["corpus"]["vocabulary_sha256"]
        if vocabulary.sha256 != expected:
            raise ValueError(
                f"{self.path(VOCABULARY)}: must be the vocabulary that the run was trained with, "
                f"of SHA-256 {expected}. Received: {vocabulary.sha256}"
            )
        return vocabulary

    @contextlib.contextmanager
    def locked(self):
        """Keeps other processes from training here; the lock goes with the process."""
        with open(self.path(LOCK), "a", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(
                    "`run` must not be in training by another process. "
                    f"Received: run={self.directory!r}, which is"
                ) from None
            yield

    def log(self, **values):
        """Appends a line to the metrics; what is not finite becomes null."""
        for key, value in values.items():
            if isinstance(value, float) and not math.isfinite(value):
                values[key] = None
        with open(self.path(METRICS), "a+b") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read() != b"\n":  # a line that a kill cut short
                    file.write(b"\n")
            file.write(json.dumps(values, allow_nan=False).encode() + b"\n")

    def metrics(self):
        """The metrics' lines; one that a kill cut short is left out."""
        if not os.path.exists(self.path(METRICS)):
            return []
        with open(self.path(METRICS), encoding="utf-8") as file:
            lines = list(map(_parsed, file))
        return [line for line in lines if line is not None]

    def rewind_metrics(self, step):
        """Drops what was logged after `step` was saved, and the claim to have finished."""
        repeated = {"finished": 0, "reassigned": step}  # the latter comes before the next step
        kept = [m for m in self.metrics() if m["step"] < repeated.get(m["event"], step + 1)]
        write_whole(self.path(METRICS), "".join(json.dumps(m) + "\n" for m in kept))

    def pointers(self):
        """Names of the last and the best checkpoint: {"last": ..., "best": ...}."""
        path = self.path(CHECKPOINTS, "pointers.json")
        return _read_object(path, ("last",)) if os.path.exists(path) else {}

    def save(self, variables, progress, best=False):
        """Writes a checkpoint, then points to it, then deletes what nothing points to.

        Args:
            variables: as `training_variables` returns them.
            progress: JSON values, for `restore`.
            best: whether the weights are the best so far.
        """
        # The same step is saved twice if it was interrupted and then validated.
        validated = progress.get("validated_step") == progress["step"]
        name = f"step-{progress['step']:09d}" + ("-validated" if validated else "")
        final, partial = self.path(CHECKPOINTS, name), self.path(CHECKPOINTS, name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        os.makedirs(partial)
        tf.train.Checkpoint(**variables).write(os.path.join(partial, "variables"))
        write_whole(os.path.join(partial, "progress.json"), json.dumps(progress))
        if os.path.isdir(final):  # a resumed run came here again: the same state
            shutil.rmtree(partial)
        else:
            os.rename(partial, final)
        pointers = {**self.pointers(), "last": name}
        if best:
            pointers["best"] = name
        write_whole(self.path(CHECKPOINTS, "pointers.json"), json.dumps(pointers))
        for other in os.listdir(self.path(CHECKPOINTS)):
            if other.startswith("step-") and other not in pointers.values():
                shutil.rmtree(self.path(CHECKPOINTS, other), ignore_errors=True)

    def restore(self, variables, which="last"):
        """Reads a checkpoint into variables and returns its progress, or None without one."""
        pointers = self.pointers()
        name = pointers.get(which) or pointers.get("last")
        if name is None:
            return None
        folder = self.path(CHECKPOINTS, name)
        try:
            status = tf.train.Checkpoint(**variables).read(os.path.join(folder, "variables"))
            status.expect_partial()
            status.assert_existing_objects_matched()
            return _read_object(os.path.join(folder, "progress.json"), ("step",))
        except (tf.errors.OpError, AssertionError, IndexError, ValueError, OSError) as error:
            raise ValueError(
                f"{folder}: must be an undamaged checkpoint of this run; {CHECKPOINTS} has "
                f"{', '.join(sorted(os.listdir(self.path(CHECKPOINTS)))) or 'nothing else'}. "
                f"Received: {type(error).__name__}: {error}"
            ) from error


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
            "time_steps": corpus.time_steps,
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


def training_variables(model):
    """All that a run's future depends on: {"weights": ..., "optimizer": ..., "states": ...}."""
    return {
        **weight_variables(model),
        "optimizer": [v.value for v in model.optimizer.variables],
        "states": [v.value for v in recurrent_states(model)],
    }


def weight_variables(model):
    """The model's weights and the seeds of its dropout, without the recurrent states."""
    return {"weights": [v.value for v in model.variables]}


def load(directory, streams, time_steps=None, stateful=True, backend="auto"):
    """The model of a run with its best weights, for batches of any size.

    Args:
        directory: of the run.
        streams, time_steps, stateful: as for `language_model`.
        backend: of the recurrent layers, as in `ModelConfig`. The weights do not depend on it,
            and the run's own may need another machine.

    Returns:
        model, vocabulary, configuration as a dictionary.
    """
    run = Run(directory)
    config, vocabulary = run.config(), run.vocabulary()
    try:
        model_config = ModelConfig(**{**config["model"], "backend": backend})
    except TypeError as error:
        raise ValueError(f"{run.path(CONFIG)}: must describe a model. Received: {error}") from None
    model = language_model(model_config, vocabulary, streams, time_steps, stateful)
    if run.restore(weight_variables(model), "best") is None:
        raise ValueError(
            "`run` must have a checkpoint; it has trained too few steps for one. "
            f"Received: run={directory!r}"
        )
    return model, vocabulary, config


def write_whole(path, text):
    """Writes a text file so that a reader, or a crash, finds the old one or the new one."""
    partial = path + ".partial"
    with open(partial, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def _read_object(path, keys):
    """The JSON object in a file, which must have these keys."""
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except ValueError as error:
        raise ValueError(f"{path}: must be JSON. Received: {error}") from None
    missing = [key for key in keys if not isinstance(value, dict) or key not in value]
    if missing:
        raise ValueError(f"{path}: must be a JSON object with {missing[0]!r}. Received: none")
    return value


def _parsed(line):
    try:
        values = json.loads(line)
    except json.JSONDecodeError:
        return None
    return values if isinstance(values, dict) and {"event", "step"} <= values.keys() else None


def _differences(old, new):
    for part, kind in (("model", ModelConfig), ("training", TrainingConfig)):
        defaults = dataclasses.asdict(kind())  # of options that the run is older than
        for name in {**old[part], **new[part]}:
            if part == "training" and name in TrainingConfig.EXTENSIBLE:
                continue
            before, now = old[part].get(name, defaults.get(name)), new[part].get(name)
            if before != now:
                yield f"{name}={before!r} there, {now!r} now"
    for name in ("vocabulary_sha256", "streams", "time_steps", "records_sha256"):
        before, now = old["corpus"].get(name), new["corpus"].get(name)
        if before != now:
            yield f"corpus {name}={before!r} there, {now!r} now"
