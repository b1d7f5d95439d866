"""Files of ranges of rows of variables, which any number of shards can read.

A file `.npy` holds some rows of a variable. A manifest, {"variables": {key: [shape, dtype]},
"files": [entry]}, says which rows of which variable each file has, and its SHA-256. The reader may
hold the variable whole or in any number of shards, whatever the writers had. Nothing here holds
more of a shard than a block of rows.
"""

import os
from collections.abc import Iterable, Mapping

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.sharding.shards import assign_range, sharded_words
from tfsoftmax.sharding.weights import shards_of
from tfsoftmax.support import budgets, whole_files
from tfsoftmax.support.arguments import expect
from tfsoftmax.support.manifests import COUNT, check_file, read_object, write_object

ENTRY = {"key": str, "first": COUNT, "rows": COUNT, "file": str, "sha256": str}


def write_rows(
    folder: str, variables: Mapping[str, keras.Variable], is_first: bool
) -> list[dict]:
    """Writes the rows of variables that this process has to write.

    Args:
        folder: an existing folder.
        variables: {key: variable}; a key is a name with slashes.
        is_first: whether this process also writes what is not in shards.

    Returns:
        An entry of the manifest for each file.
    """
    return sum((_written(folder, *item, is_first) for item in variables.items()), [])


def described(variables: Mapping[str, keras.Variable]) -> dict:
    """{key: [shape with the rows of all shards, dtype]} of variables, as in a manifest."""
    return {
        key: [list(_whole_shape(v)), tf.as_dtype(v.dtype).name] for key, v in variables.items()
    }


def by_key(groups: Mapping[str, list]) -> dict:
    """{"group/number": variable} for {group: [variable]}."""
    return {f"{group}/{i}": v for group, members in groups.items() for i, v in enumerate(members)}


def of_groups(keyed: Mapping, groups: Iterable[str]) -> dict:
    """What belongs to some of the groups, by keys as those of `by_key`."""
    return {key: value for key, value in keyed.items() if key.partition("/")[0] in groups}


def write_manifest(path: str, variables: Mapping[str, keras.Variable], files: list[dict]) -> None:
    """Writes a manifest of variables, {key: variable}, and the entries of their files."""
    write_object(path, {"variables": described(variables), "files": files})


def read_manifest(path: str) -> dict:
    """Reads a manifest.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is damaged, or holds something else.
    """
    return read_object(path, {"variables": {...: list}, "files": [ENTRY]})


def plan_to_read(
    folder: str, manifest: Mapping, path: str, variables: Mapping[str, keras.Variable]
) -> list:
    """What `read_rows` has to read, from files that are whole.

    Args:
        folder: the folder of the files.
        manifest: what their manifest holds.
        path: its path, for errors.
        variables: {key: variable} to read. They must be all of the manifest, and no others.

    Raises:
        ValueError: the files are of other variables, or this process needs a damaged one.
    """
    wanted, saved = described(variables), manifest["variables"]
    for key in {**wanted, **saved}:
        expect(
            wanted.get(key) == saved.get(key), f"{path}: {key}",
            f"have the shape and dtype of the model's variable, {wanted.get(key)}", saved.get(key),
        )
    plan, checked = [], set()
    for key, variable in variables.items():
        for first, rows, part in _parts(variable):
            pieces = _pieces(manifest["files"], key, first, rows)
            ends = [first, *(stop for _, stop, _ in pieces)]
            starts = [*(start for start, *_ in pieces), first + rows]
            expect(starts == ends, f"{path}:",
                   f"name files with each of the rows [{first}, {first + rows}) of {key} once",
                   [piece[:2] for piece in pieces])
            plan.append((variable, first, part, pieces))
            checked |= {entry["file"] for *_, entry in pieces}
    for entry in manifest["files"]:
        if entry["file"] in checked:
            check_file(os.path.join(folder, entry["file"]), entry)
    return plan


def read_rows(folder: str, plan: list) -> None:
    """Assigns to variables what `plan_to_read` has found."""
    for variable, first, part, pieces in plan:
        _read(variable, first, part, pieces, folder)


def assign_rows(variable: keras.Variable, rows: np.ndarray) -> None:
    """Assigns to the shards of a variable that this process holds their part of (V, ...) rows."""
    for shard, part in shards_of(variable):
        for start, stop in _blocks(shard.words, part):
            assign_range(part, start, rows[shard.first + start : shard.first + stop])


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
    """Ranges of rows with about `FILE_BYTES`."""
    size = max(1, array.dtype.size * int(np.prod(array.shape[1:])))
    step = max(1, budgets.FILE_BYTES // size)
    return [(start, min(start + step, rows)) for start in range(0, rows, step)]


def _written(folder, key, variable, is_first):
    """Writes what this worker has to write of a variable, and says what it wrote."""
    entries = []
    for first, rows, part in _parts(variable):
        if part is None and not is_first:
            continue
        name = f"{key.replace('/', '-')}.rows-{first}.npy"
        path = os.path.join(folder, name)
        with whole_files.errors_name(path), open(path, "wb") as file:
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
        digest = whole_files.sha256_of(path)
        entries.append({"key": key, "first": first, "rows": rows, "file": name, "sha256": digest})
    return entries


def _pieces(files, key, first, rows):
    """[(start, stop, entry)] of the files with rows of [first, first + rows), in their order."""
    pieces = [
        (max(first, e["first"]), min(first + rows, e["first"] + e["rows"]), e)
        for e in files if e["key"] == key
    ]
    return sorted((p for p in pieces if p[0] < p[1]), key=lambda piece: piece[:2])


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
            assign_range(part, at + begin, rows[begin:end])
    if part is None:
        variable.assign(np.concatenate(arrays) if arrays[0].ndim else arrays[0])
