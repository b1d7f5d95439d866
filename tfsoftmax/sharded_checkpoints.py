"""Checkpoints by ranges of rows, which models in any number of shards can read.

A checkpoint is a folder of the files of `layers.row_files` and their `manifest.json`. Each worker
writes the shards that it holds, and the first worker everything else, so that no process holds a
whole vocabulary. Variables are known by their place among the model's weights or the optimiser's
variables, so that `ShardedSoftmax` under any strategy and `FullSoftmax` read each other's
checkpoints. All workers must see the same disk.
"""

import contextlib
import json
import os

import keras
import tensorflow as tf

from tfsoftmax import textio, whole_files
from tfsoftmax.corpora.replacing import alone, partial_of, whole_or_nothing
from tfsoftmax.layers.row_files import described, plan_to_read, read_rows, write_rows
from tfsoftmax.ops.replicas import local_replicas

MANIFEST = "manifest.json"


def save(model: keras.Model, folder: str) -> None:
    """Writes the weights of a model, and its optimiser's variables if there are any.

    The folder is replaced as a whole, or stays as it was. All workers call this together.

    Args:
        model: a built Keras model.
        folder: the folder to write.

    Raises:
        OSError: a file cannot be written.
        RuntimeError: that happened to another worker.

    Example:
        model = keras.Sequential([keras.Input((16,)), tfsoftmax.ShardedSoftmax(1000)])
        model.compile(tfsoftmax.optimizers.Adagrad(0.2), tfsoftmax.SoftmaxLoss())
        tfsoftmax.sharded_checkpoints.save(model, "checkpoint")
        tfsoftmax.sharded_checkpoints.restore(model, "checkpoint")
    """
    folder, workers = os.path.abspath(folder), _Workers(model)
    with contextlib.ExitStack() as stack:
        with workers.together():
            if workers.first:
                stack.enter_context(alone(folder))
                stack.enter_context(whole_or_nothing(folder, replace=True))
        partial = partial_of(folder)
        with workers.together():
            entries = write_rows(partial, _variables(model), workers.first)
            _write_json(os.path.join(partial, f"worker-{workers.task}.json"), entries)
        with workers.together():  # the folder is complete when any worker goes on
            if workers.first:
                _write_manifest(partial, model)
            stack.close()


def restore(model: keras.Model, folder: str) -> None:
    """Reads a checkpoint of `save` into a model with the same variables, whole or in shards.

    Nothing changes in any worker if a file that one of them needs is damaged. All workers call
    this together. The model reads its optimiser's variables too if it is compiled and the
    checkpoint has them.

    Args:
        model: a built Keras model.
        folder: the folder that `save` wrote.

    Raises:
        FileNotFoundError: there is no checkpoint.
        ValueError: it is damaged, or of a model with other variables.
        RuntimeError: another worker found that.
    """
    workers, variables = _Workers(model), _variables(model)
    with workers.together():
        plan = _checked_plan(variables, folder)
    with workers.together():
        read_rows(folder, plan)


def _checked_plan(variables, folder):
    """What to read of a checkpoint, from files that are whole."""
    path = os.path.join(folder, MANIFEST)
    manifest = textio.read_json(path)
    both = _groups(variables) & _groups(manifest["variables"])
    manifest["variables"] = _of_groups(manifest["variables"], both)
    return plan_to_read(folder, manifest, path, _of_groups(variables, both))


class _Workers:
    """The workers that hold a model, which do each thing together."""

    def __init__(self, model):
        self._strategy = model.distribute_strategy
        resolver = getattr(self._strategy, "cluster_resolver", None)
        self._several = resolver is not None and len(resolver.cluster_spec().as_dict()) > 0
        self.task = local_replicas(self._strategy)[0]  # there may be a chief 0 and a worker 0
        self.first = self.task == 0

    @contextlib.contextmanager
    def together(self):
        """Ends when all workers have come to its end; an error in one is an error in all."""
        try:
            yield
        except BaseException:
            self._count(1)
            raise
        if self._count(0):
            raise RuntimeError("all workers must write or read their files. Received: an "
                               "error in another")

    def _count(self, failed):
        """How many replicas' workers have failed."""
        if not self._several:
            return 0

        def count():
            replica = tf.distribute.get_replica_context()
            return replica.all_reduce("SUM", tf.constant(failed))

        return int(self._strategy.experimental_local_results(self._strategy.run(count))[0])


def _variables(model):
    """{key: variable} of all that a checkpoint holds."""
    optimizer = getattr(model, "optimizer", None)
    if optimizer and not optimizer.built:
        with model.distribute_strategy.scope():
            optimizer.build(model.trainable_variables)
    groups = {"weights": model.variables, "optimizer": optimizer.variables if optimizer else []}
    return {
        f"{group}/{i}": v for group, variables in groups.items() for i, v in enumerate(variables)
    }


def _groups(variables):
    return {key.partition("/")[0] for key in variables}


def _of_groups(variables, groups):
    return {key: value for key, value in variables.items() if key.partition("/")[0] in groups}


def _write_json(path, content):
    with whole_files.written_whole(path) as file:
        file.write(json.dumps(content).encode())


def _write_manifest(folder, model):
    """Joins what the workers say that they wrote."""
    files = []
    for name in sorted(os.listdir(folder)):
        if name.startswith("worker-"):
            files += textio.read_json(os.path.join(folder, name))
            os.unlink(os.path.join(folder, name))
    manifest = {"variables": described(_variables(model)), "files": files}
    _write_json(os.path.join(folder, MANIFEST), manifest)
