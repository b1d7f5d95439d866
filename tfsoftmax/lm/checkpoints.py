"""The checkpoints of a run, and which variables they hold."""

import json
import os
import shutil

import keras
import tensorflow as tf

from tfsoftmax.lm.files import read_object, write_whole
from tfsoftmax.lm.model import recurrent_states


class Checkpoints:
    """The last and the best checkpoint of a run. A killed process leaves both of them intact.

    Each checkpoint is a folder with the variables and, in `progress.json`, how far training had
    come. `pointers.json` names the last and the best one.

    Args:
        directory: the folder of all checkpoints of the run.

    Example:
        from tfsoftmax.lm.checkpoints import Checkpoints
        checkpoints = Checkpoints("runs/first/checkpoints")
        print(checkpoints.pointers())
        print(checkpoints.progress("best")["step"])
    """

    def __init__(self, directory: str):
        self.directory = directory

    def path(self, *names: str) -> str:
        """The path of something in the folder."""
        return os.path.join(self.directory, *names)

    def pointers(self) -> dict[str, str]:
        """Names of the last and of the best checkpoint: {"last": ..., "best": ...}."""
        path = self.path("pointers.json")
        return read_object(path, ("last",)) if os.path.exists(path) else {}

    def name(self, which: str = "last") -> str | None:
        """The name of the last or of the best checkpoint; None if nothing has been saved.

        Until the first validation the last checkpoint also counts as the best.
        """
        pointers = self.pointers()
        return pointers.get(which) or pointers.get("last")

    def progress(self, which: str = "last") -> dict:
        """What `save` was given as the progress of the last or of the best checkpoint."""
        return read_object(self.path(self.name(which), "progress.json"), ("step",))

    def save(self, variables: dict, progress: dict, best: bool = False) -> None:
        """Writes a checkpoint, points to it, and deletes those that no pointer names any more.

        Args:
            variables: what `training_variables` returns.
            progress: JSON values that `restore` returns, "step" among them.
            best: whether the weights are the best so far.
        """
        # A step is saved twice if training was interrupted there and validated it afterwards.
        validated = progress.get("validated_step") == progress["step"]
        name = f"step-{progress['step']:09d}" + ("-validated" if validated else "")
        final, partial = self.path(name), self.path(name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        os.makedirs(partial)
        tf.train.Checkpoint(**variables).write(os.path.join(partial, "variables"))
        write_whole(os.path.join(partial, "progress.json"), json.dumps(progress))
        if os.path.isdir(final):  # a resumed run has come here again, with the same state
            shutil.rmtree(partial)
        else:
            os.rename(partial, final)
        pointers = {**self.pointers(), "last": name}
        if best:
            pointers["best"] = name
        write_whole(self.path("pointers.json"), json.dumps(pointers))
        for other in os.listdir(self.directory):
            if other.startswith("step-") and other not in pointers.values():
                shutil.rmtree(self.path(other), ignore_errors=True)

    def restore(self, variables: dict, which: str = "last") -> dict | None:
        """Reads the last or the best checkpoint into variables.

        Returns:
            The progress that was saved with it; None if nothing has been saved.

        Raises:
            ValueError: the checkpoint is damaged, or belongs to another model.
        """
        name = self.name(which)
        if name is None:
            return None
        folder = self.path(name)
        try:
            status = tf.train.Checkpoint(**variables).read(os.path.join(folder, "variables"))
            status.expect_partial()
            status.assert_existing_objects_matched()
            return self.progress(which)
        except (tf.errors.OpError, AssertionError, IndexError, ValueError, OSError) as error:
            raise ValueError(
                f"{folder}: must be an undamaged checkpoint of this run; the folder above it "
                f"holds {', '.join(sorted(os.listdir(self.directory))) or 'nothing else'}. "
                f"Received: {type(error).__name__}: {error}"
            ) from error


def training_variables(model: keras.Model) -> dict:
    """All variables that a run's future depends on: {"weights", "optimizer", "states"}."""
    return {
        **weight_variables(model),
        "optimizer": [v.value for v in model.optimizer.variables],
        "states": [v.value for v in recurrent_states(model)],
    }


def weight_variables(model: keras.Model) -> dict:
    """The weights of a model and the seeds of its dropout, without the recurrent states."""
    return {"weights": [v.value for v in model.variables]}
