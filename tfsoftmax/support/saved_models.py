"""SavedModels of plain TensorFlow that take and return strings, served without tfsoftmax."""

import os
import typing
from collections.abc import Callable, Iterable

import tensorflow as tf

from tfsoftmax.support._compat import forget_custom_gradients
from tfsoftmax.support.arguments import expect
from tfsoftmax.support.replacing import alone, whole_or_nothing
from tfsoftmax.support.whole_files import errors_name

EXTRA = "assets.extra"  # where TensorFlow expects files of the user's own


class Words(typing.NamedTuple):
    """Strings with ids, in a file with one a line, perhaps before a tab and more.

    Attributes:
        save: writes the file to a path.
        oov_id: id of a string that is not among them.
        unknown: string of an id that is not among theirs.
        asset: name of the file.

    Example:
        import tfsoftmax.support.saved_models
        vocabulary = tfsoftmax.Vocabulary.build({"the": 9, "<eos>": 1})
        words = tfsoftmax.support.saved_models.Words(vocabulary.save, vocabulary.oov_id, "<unk>")
    """

    save: Callable[[str], None]
    oov_id: int
    unknown: str
    asset: str = "vocabulary.txt"


def export_functions(
    functions: Callable[..., dict], words: Words, out: str | os.PathLike,
    beside: dict[str, Callable[[str], None]] | None = None, layers: Iterable[object] = (),
    name: str = "out",
) -> None:
    """Saves functions of strings as the signatures of a SavedModel with the strings it knows.

    Args:
        functions: takes the tables from words to ids and from ids to words, and returns the
            functions: {name: (function, specification of each argument)}.
        words: the strings, whose file becomes an asset.
        out: a new or empty directory. It appears there when it is whole.
        beside: {name: function that writes a file to a path}: more files, which TensorFlow does
            not read, for the folder "assets.extra" of the SavedModel.
        layers: Keras layers that the functions call, whose tables, such as that of a
            `StringLookup`, the SavedModel keeps. Variables it finds by itself.
        name: what the caller calls `out`, for messages.

    Raises:
        ValueError: there are files in `out`.
    """
    expect(os.fspath(out), name, "name a directory", out)
    final = os.path.realpath(out)
    with alone(final):
        new = not os.path.lexists(out) or os.path.isdir(out) and not os.listdir(out)
        expect(new, name, "be a new or empty directory", os.fspath(out))
        with errors_name(out), whole_or_nothing(final, replace=False) as partial:
            _save(functions, words, partial, layers)
            for file, write in (beside or {}).items():
                os.makedirs(os.path.join(partial, EXTRA), exist_ok=True)
                write(os.path.join(partial, EXTRA, file))


def _save(functions, words, folder, layers):
    """Writes the SavedModel to an empty folder."""
    path = os.path.join(folder, words.asset)  # this is copied to the assets
    words.save(path)
    served, signatures = tf.Module(name="model"), {}
    served.tables = _tables(path, words)
    for name, (function, *specifications) in functions(*served.tables).items():
        traced = tf.function(function, autograph=False)
        setattr(served, name, traced)
        signatures[name] = traced.get_concrete_function(*specifications)
    # Some variables of a head, which hold its layout, are not in Keras's lists.
    # The order in which they are read is the same in every export; TensorFlow's is one of a set.
    variables = {id(v.handle): v for s in signatures.values() for v in s.graph.variables}
    handles = dict.fromkeys(id(h) for s in signatures.values() for h in s.captured_inputs)
    served.read = [variables[handle] for handle in handles if handle in variables]
    parts = [part for layer in layers for part in tf.train.TrackableView(layer).descendants()]
    table = tf.saved_model.experimental.TrackableResource
    served.read += [part for part in parts if isinstance(part, table)]
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    tf.saved_model.save(served, folder, signatures, options)
    os.unlink(path)
    forget_custom_gradients(folder)


def _tables(path, words):
    """Tables from words to ids and back. The id is the number of the word's line in the asset."""
    word, line = (tf.string, 0), (tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER)
    default = tf.constant(words.oov_id, tf.int64)
    return [
        tf.lookup.StaticHashTable(
            tf.lookup.TextFileInitializer(path, *key, *value, delimiter="\t"), other
        )
        for key, value, other in ((word, line, default), (line, word, tf.constant(words.unknown)))
    ]
