"""Checkpoints by ranges of rows, which models in any number of shards can read.

A checkpoint is a folder of `.npy` files and a `manifest.json`. Each worker writes the shards that
it holds, and the first worker everything else, so that no process holds a whole vocabulary. The
manifest says which rows of which variable each file has, with its SHA-256. Variables are known by
their place among the model's weights or the optimiser's variables, so that `ShardedSoftmax` under
any strategy and `FullSoftmax` read each other's checkpoints. All workers must see the same disk.
"""

import contextlib
import hashlib
import json
import os

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax import textio
from tfsoftmax.corpora.replacing import alone, partial_of, whole_or_nothing
from tfsoftmax.layers.sharded_weights import shards_of
from tfsoftmax.ops.replicas import local_replicas
from tfsoftmax.ops.shards import sharded_words

MANIFEST = "manifest.json"
BLOCK_BYTES = 1 << 26


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
            entries = [
                _written(partial, key, variable, workers.first)
                for key, variable in _variables(model).items()
            ]
            _write_json(os.path.join(partial, f"worker-{workers.task}.json"), sum(entries, []))
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
        for variable, first, part, pieces in plan:
            _read(variable, first, part, pieces, folder)


def _checked_plan(variables, folder):
    """[(variable, first row, tf.Variable or None, pieces)] to read, from files that are whole."""
    path = os.path.join(folder, MANIFEST)
    manifest = textio.read_json(path)
    saved = manifest["variables"]
    both = {key.partition("/")[0] for key in variables} & {key.partition("/")[0] for key in saved}
    variables = {k: v for k, v in variables.items() if k.partition("/")[0] in both}
    wanted = {key: [list(_whole_shape(v)), v.dtype] for key, v in variables.items()}
    for key in {**wanted, **saved}:
        if key.partition("/")[0] in both and wanted.get(key) != saved.get(key):
            raise ValueError(
                f"{path}: {key} must have the shape and dtype of the model's variable, "
                f"{wanted.get(key)}. Received: {saved.get(key)}"
            )
    plan, checked = [], set()
    for key, variable in variables.items():
        for first, rows, part in _parts(variable):
            pieces = _pieces(manifest["files"], key, first, rows)
            if sum(stop - start for start, stop, _ in pieces) != rows:
                raise ValueError(f"{path}: must name files with all rows of {key}. Received: fewer")
            plan.append((variable, first, part, pieces))
            checked |= {entry["file"] for *_, entry in pieces}
    for entry in manifest["files"]:
        if entry["file"] in checked:
            _check_file(os.path.join(folder, entry["file"]), entry)
    return plan


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


def _whole_shape(variable):
    """The shape with the rows of all shards."""
    shape = variable.shape
    return (sharded_words(variable), *shape[1:]) if sharded_words(variable) else tuple(shape)


def _parts(variable):
    """[(first row, rows, tf.Variable or None)] of what this process holds of a variable."""
    if sharded_words(variable):
        return [(shard.first, shard.words, part) for shard, part in shards_of(variable)]
    return [(0, *(_whole_shape(variable)[:1] or [1]), None)]


def _blocks(rows, array):
    """Ranges of rows with about BLOCK_BYTES."""
    size = max(1, array.dtype.size * int(np.prod(array.shape[1:])))
    step = max(1, BLOCK_BYTES // size)
    return [(start, min(start + step, rows)) for start in range(0, rows, step)]


def _written(folder, key, variable, is_first):
    """Writes what this worker has to write of a variable, and says what it wrote."""
    entries = []
    for first, rows, part in _parts(variable):
        if part is None and not is_first:
            continue
        name = f"{key.replace('/', '-')}.rows-{first}.npy"
        path = os.path.join(folder, name)
        with textio.errors_name(path), open(path, "wb") as file:
            if part is None:
                np.save(file, variable.numpy())
            else:
                kind = np.lib.format.dtype_to_descr(np.dtype(part.dtype.as_numpy_dtype))
                np.lib.format.write_array_header_1_0(file, {
                    "descr": kind, "fortran_order": False, "shape": (rows, *part.shape[1:])
                })
                for start, stop in _blocks(rows, part):
                    file.write(part[start:stop].numpy().tobytes())
            file.flush()
            os.fsync(file.fileno())
        entries.append({"key": key, "first": first, "rows": rows, **_described(path)})
    return entries


def _described(path):
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"file": os.path.basename(path), "sha256": digest}


def _write_json(path, content):
    with textio.written_whole(path) as file:
        file.write(json.dumps(content).encode())


def _write_manifest(folder, model):
    """Joins what the workers say that they wrote."""
    files = []
    for name in sorted(os.listdir(folder)):
        if name.startswith("worker-"):
            files += textio.read_json(os.path.join(folder, name))
            os.unlink(os.path.join(folder, name))
    variables = {key: [list(_whole_shape(v)), v.dtype] for key, v in _variables(model).items()}
    _write_json(os.path.join(folder, MANIFEST), {"variables": variables, "files": files})


def _pieces(files, key, first, rows):
    """[(start, stop, entry)] of the files with rows of [first, first + rows)."""
    pieces = [
        (max(first, e["first"]), min(first + rows, e["first"] + e["rows"]), e)
        for e in files if e["key"] == key
    ]
    return [piece for piece in pieces if piece[0] < piece[1]]


def _check_file(path, entry):
    expected = entry["sha256"]
    with textio.errors_name(path):
        found = _described(path)["sha256"]
    if found != expected:
        raise ValueError(f"{path}: must be as it was written, with SHA-256 {expected}. "
                         f"Received: {found}")


def _read(variable, first, part, pieces, folder):
    """Assigns rows of files to a variable, or to a shard of it a block at a time."""
    kind = tf.as_dtype(variable.dtype).as_numpy_dtype
    arrays = []
    for start, stop, entry in pieces:
        array = np.load(os.path.join(folder, entry["file"]), mmap_mode="r").view(kind)
        rows = array[start - entry["first"] : stop - entry["first"]] if array.ndim else array
        if part is None:
            arrays.append(rows)
            continue
        for begin, end in _blocks(len(rows), part):
            at = start - first
            part[at + begin : at + end].assign(rows[begin:end])
    if part is None:
        variable.assign(np.concatenate(arrays) if arrays[0].ndim else arrays[0])
