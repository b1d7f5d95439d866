"""What workers other than the first have in place of the things that only the first may write."""

import keras
import tensorflow as tf

from tfsoftmax.lm.tasks import LANGUAGE_MODEL, Task
from tfsoftmax.runs.checkpoints import Checkpoints
from tfsoftmax.runs.runs import CHECKPOINTS, Run
from tfsoftmax.sharding.run_checkpoints import ShardedRows


class FollowedRun(Run):
    """A run that the first worker writes, and that this worker only reads.

    Of a checkpoint it writes the rows that it holds, if variables are in shards.

    Args:
        directory: the folder of the run, which all workers see.
        task: what the run trains.

    Example:
        from tfsoftmax.runs.followers import FollowedRun
        run = FollowedRun("runs/first")
        before = run.metrics()
        run.log(event="test", step=1)
        assert run.metrics() == before
    """

    def __init__(self, directory: str, task: Task = LANGUAGE_MODEL):
        super().__init__(directory, task)
        self.checkpoints = _FollowedCheckpoints(self.path(CHECKPOINTS), self._seal)

    def _left_to_the_first(self, *_, **__):
        pass

    start = log = rewind_metrics = _left_to_the_first


class _FollowedCheckpoints(Checkpoints):
    def save(self, variables, progress, best=False, workers=None):
        rows = ShardedRows(variables, workers)
        partial = rows.from_first(lambda: None)
        if partial is not None:
            rows.write(partial)


class NoMonitor(keras.callbacks.Callback):
    """A `TrainingMonitor` that records nothing.

    Example:
        from tfsoftmax.runs.followers import NoMonitor
        monitor = NoMonitor()
        monitor.on_train_begin()
        monitor.close()
    """

    profile_batch = None

    def __init__(self):
        super().__init__()
        self.writer = tf.summary.create_noop_writer()

    def close(self) -> None:
        """Does nothing."""
