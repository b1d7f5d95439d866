"""The checkpoints of a run, and which variables they hold."""

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable

import keras
import tensorflow as tf

from tfsoftmax.sharding.run_checkpoints import ShardedRows, read_sharded, without_rows
from tfsoftmax.sharding.shards import sharded_words
from tfsoftmax.sharding.workers import Workers
from tfsoftmax.support import manifests
from tfsoftmax.support.arguments import expect, refusal
from tfsoftmax.support.replacing import partial_of, remains_of, whole_or_nothing

POINTERS, MANIFEST, PROGRESS, VARIABLES = (
    "pointers.json", "manifest.json", "progress.json", "variables",
)
_NAME = re.compile(r"step-\d{9,}(-validated)?")
_POINTERS = {"last": ("be a string or null", lambda value: value is None or type(value) is str)}
_FILES = dict.fromkeys((PROGRESS, f"{VARIABLES}.index"), manifests.FILE)
_MANIFEST = {"files": {**_FILES, ...: {"bytes": manifests.COUNT}}}


class Checkpoints:
    """The last and the best checkpoint of a run. A killed process leaves both of them intact.

    Each checkpoint is a folder with the variables and, in `progress.json`, how far training had
    come. Its `manifest.json` names the run and these files with their sizes and SHA-256, so that
    nothing else is taken for them. The SHA-256 of the variables is left out, because their index
    holds a checksum of each, which TensorFlow compares when it reads them; hence the manifest
    costs under a millisecond at any size. `pointers.json` names the last and the best checkpoint.
    Variables in shards are in files of rows with a list of them, `rows.json`, which has their
    SHA-256; each worker writes its own. Any number of devices can read all of this.

    Args:
        directory: the folder of all checkpoints of the run.
        seal: a function that returns what each manifest of the run says of the run; nothing before
            the run has begun.

    Example:
        from tfsoftmax.runs.runs import Run
        checkpoints = Run("runs/first").checkpoints
        print(checkpoints.pointers())
        print(checkpoints.progress("best")["step"])
    """

    def __init__(self, directory: str, seal: Callable[[], dict]):
        self.directory = directory
        self._seal = seal

    def path(self, *names: str) -> str:
        """The path of something in the folder."""
        return os.path.join(self.directory, *names)

    def begin(self) -> None:
        """Makes the folder, with pointers to no checkpoint yet."""
        os.makedirs(self.directory, exist_ok=True)
        self._check_empty()
        self._point({"last": None, "best": None})

    def pointers(self) -> dict[str, str]:
        """Names of the last and of the best checkpoint: {"last": ..., "best": ...}."""
        path = self.path(POINTERS)
        if not os.path.exists(path):
            expect(not self._seal(), f"{path}:", "be there, because it says where training "
                   "resumes. Restore it, or start a new run", received="no such file")
            self._check_empty()
            return {}
        pointers = manifests.read_object(path, _POINTERS)
        digest = pointers.pop("sha256", None)
        if digest != _digest(pointers):
            raise refusal(f"{path}:", "be as the run wrote it", received="another SHA-256")
        for name in pointers.values():
            if name is not None and not (isinstance(name, str) and _NAME.fullmatch(name)):
                raise refusal(f"{path}:", "name checkpoints", name)
        return {which: name for which, name in pointers.items() if name is not None}

    def name(self, which: str = "last") -> str | None:
        """The name of the last or of the best checkpoint; None if nothing has been saved.

        Until the first validation the last checkpoint also counts as the best.
        """
        pointers = self.pointers()
        return pointers.get(which) or pointers.get("last")

    def progress(self, which: str = "last") -> dict:
        """What `save` was given as the progress of the last or of the best checkpoint."""
        return manifests.read_object(self.path(self.name(which), PROGRESS), {"step": int})

    def save(
        self, variables: dict, progress: dict, best: bool = False, workers: Workers | None = None
    ) -> None:
        """Writes a checkpoint, points to it, and deletes those that no pointer names any more.

        It deletes only what the run itself has written. If variables are in shards, all workers
        call this together.

        Args:
            variables: what `training_variables` returns.
            progress: JSON values that `restore` returns, "step" among them.
            best: whether the weights are the best so far.
            workers: the `Workers` that hold the variables; None for this process alone.

        Raises:
            ValueError: something else stands where the checkpoint has to be.
            RuntimeError: another worker cannot write its rows.
        """
        # A step is saved twice if training was interrupted there and validated it afterwards.
        validated = progress.get("validated_step") == progress["step"]
        name = f"step-{progress['step']:09d}" + ("-validated" if validated else "")
        rows = ShardedRows(variables, workers)
        with contextlib.ExitStack() as stack:
            partial = rows.from_first(lambda: self._begun(name, stack))
            if partial is not None:
                listed = rows.write(partial)  # with their SHA-256
                self._write(partial, variables, progress, listed)
        pointers = self.pointers()
        pointers = {"best": None, **pointers, "last": name, **({"best": name} if best else {})}
        self._point(pointers)
        self.prune()

    def prune(self) -> None:
        """Deletes what the run has written, whole or partly, and no pointer names."""
        pointers = self.pointers()
        for other in os.listdir(self.directory):
            with contextlib.suppress(OSError):
                if _NAME.fullmatch(remains_of(other) or ""):
                    shutil.rmtree(self.path(other))
                elif other not in pointers.values() and self._is_own(other):
                    self._delete(other)

    def restore(self, variables: dict, which: str = "last") -> dict | None:
        """Reads the last or the best checkpoint into variables.

        If training replaces the checkpoint meanwhile, the newer one is read.

        Returns:
            The progress that was saved with it; None if nothing has been saved.

        Raises:
            ValueError: the checkpoint is damaged, or belongs to another model.
        """
        name = self.name(which)
        while name is not None:
            try:
                self._verify(name)
                folder, path = self.path(name), self.path(name, VARIABLES)
                kept = tf.train.Checkpoint(**without_rows(variables, folder))
                kept.read(path).expect_partial().assert_existing_objects_matched()
                read_sharded(variables, folder, path)
                return manifests.read_object(self.path(name, PROGRESS), {"step": int})
            except (tf.errors.OpError, AssertionError, IndexError, ValueError, OSError) as error:
                replaced, name = name, self.name(which)
                if name == replaced:
                    raise refusal(
                        f"{self.path(name)}:",
                        "be an undamaged checkpoint of this run; the folder above it holds "
                        f"{', '.join(sorted(os.listdir(self.directory))) or 'nothing else'}",
                        received=f"{type(error).__name__}: {error}"
                    ) from error
        return None

    def _begun(self, name, stack):
        """A folder that becomes the checkpoint at the stack's end; None if it is pointed to."""
        if name in self.pointers().values():
            return None
        path = os.path.abspath(self.path(name))
        free = not os.path.lexists(path) or self._is_own(name)  # as where training was killed
        expect(free, f"{path}:", "not exist, because the run has to write a checkpoint there",
               received="something that the run did not write")
        return stack.enter_context(whole_or_nothing(path, replace=True))

    def _write(self, partial, variables, progress, listed):
        """Writes all but the rows of shards, which are in the files that are listed."""
        tf.train.Checkpoint(**without_rows(variables)).write(os.path.join(partial, VARIABLES))
        manifests.write_object(os.path.join(partial, PROGRESS), progress)
        names = sorted(set(os.listdir(partial)) - set(listed))
        files = {name: _described(os.path.join(partial, name)) for name in names}
        manifests.write_object(os.path.join(partial, MANIFEST), {**self._seal(), "files": files})

    def _delete(self, name):
        """Deletes a checkpoint, first of all its name, in case this is cut short."""
        partial = partial_of(self.path(name))
        shutil.rmtree(partial, ignore_errors=True)
        os.rename(self.path(name), partial)
        shutil.rmtree(partial)

    def _is_own(self, name):
        """Whether something in the folder is a checkpoint of this run."""
        folder, run = self.path(name), self._seal().get("run")
        if not _NAME.fullmatch(name) or os.path.islink(folder) or not os.path.isdir(folder):
            return False
        try:
            manifest = manifests.read_object(os.path.join(folder, MANIFEST), _MANIFEST)
            return manifest.get("run") == run
        except (ValueError, OSError):
            return False

    def _verify(self, name):
        path, seal = self.path(name, MANIFEST), self._seal()
        manifest = manifests.read_object(path, _MANIFEST)
        for key in {**manifest, **seal}:
            expect(key == "files" or manifest.get(key) == seal.get(key),
                   f"{path}:", f"be of this run, with {key}={seal.get(key)!r}",
                   received=f"{key}={manifest.get(key)!r}")
        for file, expected in manifest["files"].items():
            manifests.check_file(self.path(name, file), expected)

    def _point(self, pointers):
        manifests.write_object(self.path(POINTERS), {**pointers, "sha256": _digest(pointers)})

    def _check_empty(self):
        """Raises ValueError if there are checkpoints to which nothing points."""
        names = os.listdir(self.directory) if os.path.isdir(self.directory) else ()
        found = sorted(name for name in names if name.startswith("step-"))
        expect(not found, f"{self.path(POINTERS)}:",
               "say which checkpoint is the last. Restore it, or start a new run",
               received=f"no such file, but {', '.join(found)}")


def _described(path):
    """What a manifest says of a file; the index of the variables has checksums of their values."""
    values = ".data-" in os.path.basename(path)
    return {"bytes": os.path.getsize(path)} if values else manifests.described(path)


def _digest(values):
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def training_variables(model: keras.Model, states: list[tf.Variable]) -> dict:
    """All variables that a run's future depends on: {"weights", "optimizer", "states"}.

    Args:
        model: the compiled model.
        states: the recurrent states of all streams, as `StreamStates` has them.
    """
    return {
        **weight_variables(model),
        "optimizer": _variables(model.optimizer.variables),
        "states": states,
    }


def weight_variables(model: keras.Model) -> dict:
    """The weights of a model and the seeds of its dropout, without the recurrent states."""
    return {"weights": _variables(model.variables)}


def _variables(variables):
    return [v if sharded_words(v) else v.value for v in variables]
