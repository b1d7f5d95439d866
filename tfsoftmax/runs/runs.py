"""The folder of a training run: its configuration, its vocabulary and its metrics."""

import contextlib
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator

import keras

from tfsoftmax.corpora.tokenizers import Tokenizer, load_tokenizer
from tfsoftmax.lm.config import ModelConfig
from tfsoftmax.lm.tasks import LANGUAGE_MODEL, Task
from tfsoftmax.runs.checkpoints import POINTERS, Checkpoints, weight_variables
from tfsoftmax.runs.copies import FILES, TOKENIZER, checked_copy, with_copies
from tfsoftmax.runs.description import differences
from tfsoftmax.sharding.workers import Workers
from tfsoftmax.support import whole_files
from tfsoftmax.support.arguments import expect, refusal, refusing
from tfsoftmax.support.manifests import read_object, write_object
from tfsoftmax.support.textio import json_line, records_of
from tfsoftmax.support.vocabulary import Vocabulary

CONFIG, METRICS, VOCABULARY, CHECKPOINTS, TENSORBOARD, LOCK = (
    "config.json", "metrics.jsonl", "vocabulary.txt", "checkpoints", "tensorboard", ".lock",
)
# Files that a run may have left if it was killed while it started.
_BEFORE_CONFIG = {
    CHECKPOINTS, VOCABULARY, FILES, LOCK, *(f + whole_files.PARTIAL for f in (CONFIG, VOCABULARY)),
}


class Run:
    """The folder of a run. A killed process leaves its files complete, except that the last line of
    the metrics may be cut; readers skip such a line.

    Args:
        directory: the folder, which need not exist yet.
        task: what the run trains.

    Attributes:
        checkpoints: the run's `Checkpoints`.

    Example:
        from tfsoftmax.runs.runs import Run
        run = Run("runs/first")
        print(run.config()["model"]["head"])
        print([line["perplexity"] for line in run.metrics() if line["event"] == "valid"])
    """

    def __init__(self, directory: str, task: Task = LANGUAGE_MODEL):
        if not directory or (os.path.lexists(directory) and not os.path.isdir(directory)):
            raise refusal("run", "name a directory", directory)
        self.directory, self.task = directory, task
        self.checkpoints = Checkpoints(self.path(CHECKPOINTS), self._seal)

    def path(self, *names: str) -> str:
        """The path of something in the folder."""
        return os.path.join(self.directory, *names)

    def exists(self) -> bool:
        """Whether the folder holds a run that has begun."""
        return os.path.exists(self.path(CONFIG))

    def check_directory(self) -> None:
        """Raises ValueError if training must not write here: to foreign files, or along a link."""
        found = set(os.listdir(self.directory)) if os.path.lexists(self.directory) else set()
        for name in (CHECKPOINTS, TENSORBOARD, FILES, METRICS, LOCK):
            if os.path.islink(self.path(name)):
                raise refusal(f"{self.path(name)}:",
                              "not be a symbolic link, because training writes there",
                              received=f"a link to {os.readlink(self.path(name))!r}")
        known = _BEFORE_CONFIG | {name for name in found if name.endswith(whole_files.PARTIAL)}
        expect(not found or self.exists() or found & {CHECKPOINTS, LOCK} and found <= known, "run",
               "be a new or empty directory, or one of an earlier run",
               received=f"run={self.directory!r}, which holds other files")

    def check(self, config: dict) -> None:
        """Raises ValueError if the folder holds a run of another configuration."""
        if not self.exists():
            return
        different = list(differences(self.config(), json.loads(json.dumps(config)), self.task))
        expect(not different, "run", "be new or of the same configuration; choose another "
               "directory, or the same settings",
               received=f"run={self.directory!r}, " + "; ".join(different))

    def start(self, config: dict, vocabulary: Vocabulary) -> None:
        """Writes the vocabulary and, last, the configuration that makes the folder a run.

        Of the configuration of a run that exists already, only that of its training is replaced,
        which `check` allows to be an extension, and the folder of its corpus, which may have moved.
        """
        if self.exists():
            recorded = self.config()
            corpus = {**recorded["corpus"], "directory": config["corpus"]["directory"]}
            config = {**recorded, "training": config["training"], "corpus": corpus}
        else:
            config = {"id": secrets.token_hex(16), "files": {}, **config}
            self.checkpoints.begin()
        vocabulary.save(self.path(VOCABULARY))  # the file may be damaged
        write_object(self.path(CONFIG), config, indent=1)

    def config(self) -> dict:
        """The configuration that the run was started with."""
        expect(self.exists(), "run", "be the directory of a training run",
               received=f"run={self.directory!r}, which has no {CONFIG}")
        return read_object(self.path(CONFIG), {
            "id": str, "files": {...: {"name": str, "sha256": str}},
            "model": dict, "training": dict, "corpus": dict,
        })

    def _seal(self):
        """What ties a checkpoint to the run: its random name, and its model's description."""
        if not self.exists():
            return {}
        config = self.config()
        model = json.dumps(config["model"], sort_keys=True)
        return {"run": config["id"], "model_sha256": hashlib.sha256(model.encode()).hexdigest()}

    def model_config(self, **changes) -> ModelConfig:
        """The configuration of the model, with the run's own copies of files, and with changes."""
        config = self.config()
        with refusing((TypeError, ValueError), f"{self.path(CONFIG)}:", "describe a model"):
            asked = self.task.config(**{**config["model"], **changes})
        return with_copies(asked, self.path(FILES), config["files"])

    def check_task(self) -> None:
        """Raises ValueError if the run trains something else than its task."""
        name = self.config()["corpus"].get("task")
        expect(name == self.task.name, "run", f"be a run on a corpus of {self.task.name}; "
               "`tfsoftmax --help` lists the commands for others",
               received=f"run={self.directory!r}, on one of {name}")

    def vocabulary(self) -> Vocabulary:
        """The vocabulary that the run was trained with."""
        vocabulary = Vocabulary.load(self.path(VOCABULARY))
        expected = self.config()["corpus"].get("vocabulary_sha256")
        expect(vocabulary.sha256 == expected, f"{self.path(VOCABULARY)}:",
               f"be the vocabulary that the run was trained with, whose SHA-256 is {expected}",
               received=f"{vocabulary.sha256}")
        return vocabulary

    def tokenizer_path(self) -> str | None:
        """The run's copy of the file of its tokenizer, which is checked; None for words."""
        kept = self.config()["files"].get(TOKENIZER)
        return None if kept is None else checked_copy(self.path(FILES), kept)

    def tokenizer(self) -> Tokenizer:
        """What splits sentences as those that the run was trained on were split.

        Raises:
            RuntimeError: the package that reads the tokenizer is not installed.
            ValueError: the run's copy of it is missing or damaged.
        """
        return load_tokenizer(self.tokenizer_path())

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other processes from training here, and removes what killed ones have left.

        The lock ends with the process. If the run has not begun by the end, what it has written is
        removed.
        """
        made = not os.path.lexists(self.directory)
        os.makedirs(self.directory, exist_ok=True)
        rule = "not be in training by another process"
        received = f"run={self.directory!r}, which is"
        with refusing(BlockingIOError, "run", rule, received):
            lock = whole_files.locked_file(self.path(LOCK))
        with lock:
            with whole_files.errors_name(self.path(LOCK)):  # other workers know the folder by it
                lock.truncate()
                lock.write(secrets.token_hex(8).encode())
                os.fsync(lock.fileno())
            for name in (CONFIG, METRICS, VOCABULARY, os.path.join(CHECKPOINTS, POINTERS)):
                whole_files.remove_partial(self.path(name))
            if self.exists():
                self.checkpoints.prune()
            try:
                yield
            finally:
                if not self.exists():
                    self._remove(made)

    def lock_token(self) -> str:
        """What the process that trains here has written into its lock; empty if there is none."""
        try:
            with open(self.path(LOCK), encoding="utf-8", errors="replace") as file:
                return file.read(100)
        except FileNotFoundError:
            return ""

    def _remove(self, made):
        """Removes what `locked`, `keep_copies` and `start` have written, and the folder if new."""
        shutil.rmtree(self.path(FILES), ignore_errors=True)
        for name in (os.path.join(CHECKPOINTS, POINTERS), VOCABULARY, LOCK):
            with contextlib.suppress(OSError):
                os.unlink(self.path(name))
        for folder in (self.path(CHECKPOINTS), *([self.directory] if made else [])):
            with contextlib.suppress(OSError):
                os.rmdir(folder)

    def log(self, **values) -> None:
        """Appends a line to the metrics. A number that is not finite is written as null."""
        whole_files.append_line(self.path(METRICS), json_line(values))

    def metrics(self) -> list[dict]:
        """The lines of the metrics, without one that a killed process left half written."""
        return [
            line for line in records_of(self.path(METRICS))
            if isinstance(line.get("event"), str) and isinstance(line.get("step"), int)
        ]

    def rewind_metrics(self, step: int, validated: bool) -> None:
        """Drops the lines that were logged after `step` was saved, and "finished" lines.

        Training will log these again. Words are reassigned before the step that follows, and
        `validated` says whether what was saved at `step` is after its validation.
        """
        repeated = {"finished": 0, "reassigned": step, "valid": step + validated}
        kept = [m for m in self.metrics() if m["step"] < repeated.get(m["event"], step + 1)]
        whole_files.write_whole(self.path(METRICS), "".join(json.dumps(m) + "\n" for m in kept))


def load(
    directory: str, streams: int | None, time_steps: int | None = None, stateful: bool = True,
    backend: str = "auto", workers: Workers | None = None, task: Task = LANGUAGE_MODEL,
) -> tuple[keras.Model, Vocabulary, dict]:
    """Builds the model of a run, with its best weights, for batches of any size.

    Args:
        directory: the folder of the run.
        streams, time_steps, stateful: arguments of `language_model`; for another task, those of
            its `build`, with `streams` for the rows of a batch.
        backend: how the recurrent layers compute, as in `ModelConfig`. The weights do not depend
            on it, and the run's own choice may need another machine.
        workers: the `Workers` that load the run together; None for this process alone.
        task: what the run trains.

    Returns:
        The model, the vocabulary, and the configuration as a dictionary, which has the progress
        of the checkpoint, its "step" for example, under "progress".

    Raises:
        ValueError: the folder holds no run, a damaged one, one of another task or without a
            checkpoint, or workers have loaded different checkpoints, for example because the run
            is in training.
    """
    run = Run(directory, task)
    run.check_task()
    config, vocabulary = run.config(), run.vocabulary()
    model_config = run.model_config(backend=backend)
    model = task.build(model_config, vocabulary, streams, time_steps, stateful)
    progress = run.checkpoints.restore(weight_variables(model), "best")
    if progress is None:
        raise refusal("run", "have a checkpoint; it has trained too few steps for one", directory)
    if workers is not None:
        workers.check_same(lambda: {"run_id": config["id"], "progress": progress})
    return model, vocabulary, {**config, "progress": progress}
