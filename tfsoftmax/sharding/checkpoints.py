"""Checkpoints by ranges of rows, which models in any number of shards can read.

A checkpoint is a folder of the files of `sharding.row_files` and their `manifest.json`. Each worker
writes the shards that it holds, and the first worker everything else, so that no process holds a
whole vocabulary. Variables are known by their place among the model's weights or the optimiser's
variables, so that `ShardedSoftmax` under any strategy and `FullSoftmax` read each other's
checkpoints. All workers must see the same disk.
"""

import contextlib
import os

import keras

from tfsoftmax.sharding.row_files import (
    by_key,
    of_groups,
    plan_to_read,
    read_manifest,
    read_rows,
    write_manifest,
    write_rows,
)
from tfsoftmax.sharding.workers import Workers
from tfsoftmax.support.arguments import expect
from tfsoftmax.support.replacing import alone, partial_of, whole_or_nothing

MANIFEST = "manifest.json"


def save(model: keras.Model, folder: str) -> None:
    """Writes the weights of a model, and its optimiser's variables if there are any.

    The folder is replaced as a whole, or stays as it was. All workers call this together.

    Args:
        model: a built Keras model.
        folder: the folder to write, which may be new, empty, or an older checkpoint.

    Raises:
        ValueError: `folder` holds anything else.
        OSError: a file cannot be written.
        RuntimeError: that happened to another worker.

    Example:
        model = keras.Sequential([keras.Input((16,)), tfsoftmax.ShardedSoftmax(1000)])
        model.compile(tfsoftmax.optimizers.Adagrad(0.2), tfsoftmax.SoftmaxLoss())
        tfsoftmax.sharded_checkpoints.save(model, "checkpoint")
        tfsoftmax.sharded_checkpoints.restore(model, "checkpoint")
    """
    folder, workers = os.path.abspath(folder), Workers(model.distribute_strategy)
    partial = partial_of(folder)
    with contextlib.ExitStack() as stack:

        def begin():
            _check_replaceable(folder)
            stack.enter_context(alone(folder))
            stack.enter_context(whole_or_nothing(folder, replace=True))

        def complete():
            write_manifest(os.path.join(partial, MANIFEST), _variables(model), sum(written, []))
            stack.close()

        workers.from_first(begin)
        written = workers.of_all(lambda: write_rows(partial, _variables(model), workers.first))
        workers.from_first(complete)


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
    workers, variables, plans = Workers(model.distribute_strategy), _variables(model), []
    workers.of_all(lambda: plans.append(_checked_plan(variables, folder)))
    workers.of_all(lambda: read_rows(folder, *plans))


def _check_replaceable(folder):
    found = os.listdir(folder) if os.path.isdir(folder) else []
    expect(not found or MANIFEST in found, "folder",
           "be new, empty, or a checkpoint that `save` wrote, because it is replaced",
           received=f"folder={folder!r}, which has files but no {MANIFEST}")


def _checked_plan(variables, folder):
    """What to read of a checkpoint, from files that are whole."""
    path = os.path.join(folder, MANIFEST)
    manifest = read_manifest(path)
    both = (_groups(variables) & _groups(manifest["variables"])) | {"weights"}
    manifest["variables"] = of_groups(manifest["variables"], both)
    return plan_to_read(folder, manifest, path, of_groups(variables, both))


def _variables(model):
    """{key: variable} of all that a checkpoint holds."""
    optimizer = getattr(model, "optimizer", None)
    if optimizer and not optimizer.built:
        with model.distribute_strategy.scope():
            optimizer.build(model.trainable_variables)
    of_optimizer = optimizer.variables if optimizer else []
    return by_key({"weights": model.variables, "optimizer": of_optimizer})


def _groups(variables):
    return {key.partition("/")[0] for key in variables}
