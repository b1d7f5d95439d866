"""Variables in shards in the checkpoints of a run, which all workers write and read together.

Only here do several processes write a checkpoint: the first makes its folder, each adds files with
the rows that it holds, and the first completes it. `runs.checkpoints` says what a checkpoint has
besides. Where no variable is in shards, the other workers have nothing to do.
"""

import os
from collections.abc import Callable, Mapping

import keras
import tensorflow as tf

from tfsoftmax.sharding.row_files import (
    assign_rows,
    by_key,
    described,
    of_groups,
    plan_to_read,
    read_manifest,
    read_rows,
    write_manifest,
    write_rows,
)
from tfsoftmax.sharding.shards import sharded_words
from tfsoftmax.sharding.weights import shards_of
from tfsoftmax.sharding.workers import Workers
from tfsoftmax.support.arguments import refusal

ROWS = "rows.json"  # says which file of a checkpoint has which rows
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"  # with which TensorFlow ends the names of variables


class ShardedRows:
    """The rows that lie in shards of the variables of a checkpoint.

    Args:
        variables: {group: [variable]}, as `training_variables` returns.
        workers: the `Workers` whose variables these are; None for this process alone.

    Example:
        from tfsoftmax.sharding.run_checkpoints import ShardedRows
        rows = ShardedRows({"weights": [keras.Variable([1.0, 2.0])]})
        assert rows.from_first(lambda: "folder") == "folder"
        assert rows.write("folder") == []
    """

    def __init__(self, variables: Mapping[str, list], workers: Workers | None = None):
        self._variables = {k: v for k, v in by_key(variables).items() if sharded_words(v)}
        self._workers = workers or Workers()

    def from_first(self, function: Callable[[], object]) -> object:
        """What a function returns that only the first worker calls; None if there is no need."""
        if self._variables:
            return self._workers.from_first(function)
        return function() if self._workers.first else None

    def write(self, folder: str) -> list[str]:
        """Writes the rows that this worker holds, in the first worker also the list of all files.

        Raises:
            OSError: a file cannot be written.
            RuntimeError: that happened to another worker.
        """
        if not self._variables:
            return []
        own = self._workers.of_all(lambda: write_rows(folder, self._variables, is_first=False))
        if not self._workers.first:
            return []
        files = sum(own, [])
        write_manifest(os.path.join(folder, ROWS), self._variables, files)
        return [entry["file"] for entry in files]


def without_rows(variables: Mapping[str, list], folder: str | None = None) -> dict:
    """The variables that a `tf.train.Checkpoint` has: those that are not in shards.

    Args:
        variables: {group: [variable]}.
        folder: a checkpoint to read; what was in shards when it was written is left out as well.

    Returns:
        {group: [variable]}, or {group: {"0": variable}} for a group with gaps; TensorFlow gives the
        variables the same names for both.
    """
    saved = _rows(folder)["variables"] if folder else {}
    kept = {}
    for group, members in variables.items():
        whole = {
            str(i): v for i, v in enumerate(members)
            if not sharded_words(v) and f"{group}/{i}" not in saved
        }
        kept[group] = whole if len(whole) < len(members) else members
    return kept


def read_sharded(variables: Mapping[str, list], folder: str, whole: str) -> None:
    """Reads what is in shards, in the model or in the checkpoint or in both.

    Args:
        variables: {group: [variable]}.
        folder: the checkpoint.
        whole: the path of the `tf.train.Checkpoint` in it.

    Raises:
        ValueError: the checkpoint is of other variables, or a file that this process needs is
            damaged.
    """
    keyed, rows = by_key(variables), _rows(folder)
    rows["variables"] = of_groups(rows["variables"], variables)
    in_files = {key: keyed[key] for key in rows["variables"] if key in keyed}
    read_rows(folder, plan_to_read(folder, rows, os.path.join(folder, ROWS), in_files))
    others = {k: v for k, v in keyed.items() if sharded_words(v) and k not in in_files}
    reader = tf.train.load_checkpoint(whole) if others else None
    for (key, variable), (shape, _) in zip(others.items(), described(others).values()):
        found = reader.get_variable_to_shape_map().get(key + _VALUE)
        if found != shape:
            raise refusal(f"{whole}: {key}", f"have the shape {shape}", found)
        assign_rows(variable, reader.get_tensor(key + _VALUE))


def not_finite(variables: list[keras.Variable], workers: Workers) -> list[str]:
    """The paths of the variables that are not finite, in any worker; all call this together."""
    counts = workers.sum([sum(not _is_finite(part) for part in _parts(v)) for v in variables])
    return [variable.path for variable, count in zip(variables, counts, strict=True) if count]


def _is_finite(value):
    return bool(tf.reduce_all(tf.math.is_finite(value)))


def _parts(variable):
    if sharded_words(variable):
        return [part for _, part in shards_of(variable)]
    return [variable.value]


def _rows(folder):
    """What the list of the files with rows says; it names none if there is no list."""
    path = os.path.join(folder, ROWS)
    if not os.path.exists(path):
        return {"variables": {}, "files": []}
    return read_manifest(path)
