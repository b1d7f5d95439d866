"""Rows of items that a model computes from the items' features: the item tower of retrieval."""

import os
from collections.abc import Mapping

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.layers.computed_rows import ComputedRows
from tfsoftmax.ops.graphs import held
from tfsoftmax.ops.inputs import dense
from tfsoftmax.support._compat import in_archive
from tfsoftmax.support.arguments import ArrayLike, check_positive, expect, refusing
from tfsoftmax.support.packing import packed, unpacked

ASSET = "features"  # the name of the table's files in a `.keras` file
Features = ArrayLike | Mapping[str, ArrayLike] | list[ArrayLike]


@keras.saving.register_keras_serializable(package="tfsoftmax")
class ItemTower(ComputedRows):
    """The rows of V items, computed by any Keras model from a table of the items' features.

    A head that is `tied_to` the tower scores items with the tower's vectors. A step of
    `SampledSoftmax`, `NCE`, `NegativeSampling` or `BlackOut` runs the model on the labels and
    the sampled items, each once. Evaluation, prediction and `top_k` are exact, over all V
    items: the model runs on `rows_at_once` items at a time, and its (V, D) vectors are kept until
    a weight changes. Called with ids of items, the tower is their embedding, so the user tower can
    read a user's previous items.

    For the cosine instead of the inner product, end both towers with
    `keras.layers.UnitNormalization()`, and for a temperature, add
    `keras.layers.Rescaling(1 / temperature)` to the query tower after it. Each item has its own
    bias unless the head has `use_bias=False`. The biases of new items are not trained, so leave
    biases out if the catalogue changes.

    In training steps of heads that sample, the model runs in training mode on the items of the
    step. If it drops out the ids' vectors, `keras.layers.Dropout(0.5, noise_shape=(None, 1))`, it
    learns to do without them, so that features alone can represent new items. Everywhere else it
    runs in inference mode, including in training steps of `FullSoftmax`. `adapt` its preprocessing
    layers before the tower is first evaluated. Its embeddings should be `tfsoftmax.Embedding`,
    whose updates touch only the rows of a step.

    Args:
        model: a Keras model or layer that maps features (n, ...) to vectors (n, D). Preprocessing
            layers (`StringLookup`, `Hashing`, `Normalization`, `TextVectorization`) may be parts.
        features: what the model takes, one row for each item: an array (V, ...) of numbers or
            strings, or a dict or a list of them. A `.keras` file has them outside the
            configuration, and `get_config` includes them.
        rows_at_once: the largest number of items that the model computes at once for all V.
        **kwargs: arguments of `keras.layers.Layer`.

    Raises:
        ValueError: if `features` do not all have V > 0 rows, or if the model's results are not
            vectors.

    Example:
        model = keras.Sequential([tfsoftmax.Embedding(20, 32), keras.layers.Dense(64)])
        tower = tfsoftmax.ItemTower(model, keras.random.randint((1000,), 0, 20))
        head = tfsoftmax.SampledSoftmax(1000, 50, "uniform", tied_to=tower, use_bias=False)
        ids, log_probs = head.top_k(keras.random.normal((8, 64)), k=10)

    Source: Yi et al. 2019 (two towers). Departure: items are ids of a table of features, so that
    evaluation knows all of them, and an item that a batch has twice is computed once.
    """

    decided_options = ("input_dim", "output_dim")  # by the features and by the model

    def __init__(
        self, model: keras.layers.Layer, features: Features, rows_at_once: int = 4096, **kwargs
    ):
        features = as_tensors(features)
        sizes = {x.shape[0] if x.shape.rank else 0 for x in tf.nest.flatten(features)}
        expect(len(sizes) == 1 and 0 not in sizes, "features",
               "have one row for each item, as many in each array",
               received=f"arrays of {sorted(sizes)} rows")
        super().__init__(sizes.pop(), **kwargs)
        check_positive(rows_at_once=rows_at_once)
        self.model, self.rows_at_once = model, rows_at_once
        self._features = _Table(features)  # Keras tracks what is assigned, but not inside of this
        shapes = [(*x.shape, x.dtype.name) for x in tf.nest.flatten(features)]
        rule = f"take the features, of shapes and types {shapes}"
        received = f"model={model!r}, which says: "
        with refusing((ValueError, TypeError), "model", rule, before=received):
            vectors = model(tf.nest.map_structure(_placeholder, features))
        shape = getattr(vectors, "shape", ())
        expect(len(shape) == 2 and shape[1] is not None, "model",
               "map features (n, ...) to vectors (n, D)",
               received=f"a model with results of shape {tuple(shape)}")
        self.output_dim = shape[1]
        self.built = True

    @property
    def features(self) -> Features:
        """The table of features: tensors (V, ...), as they were given."""
        expect(self._has_features(), "features", "be loaded from the assets of a `.keras` file",
               received=f"{self.name!r} from a file without them, or only its configuration")
        return self._features.tensors

    def _has_features(self):
        return all(tf.is_tensor(x) for x in tf.nest.flatten(self._features.tensors))

    def rows(self, ids):
        return self._vectors(ids, training=False)

    def rows_in_training(self, ids):
        return self._vectors(ids, training=True)

    def _vectors(self, ids, training):
        features = tf.nest.map_structure(lambda x: tf.gather(x, ids), held(self.features))
        return tf.ensure_shape(self.model(features, training=training), [None, self.output_dim])

    def get_config(self):
        return {
            **super().get_config(),
            "model": keras.saving.serialize_keras_object(self.model),
            "features": tf.nest.map_structure(_stored, self._features.tensors),
            "rows_at_once": self.rows_at_once,
        }

    @classmethod
    def from_config(cls, config):
        model = keras.saving.deserialize_keras_object(config["model"])
        features = map_stored(_restored, config["features"])
        return cls(**{**config, "model": model, "features": features})

    def move_from(self, old, renumbering):
        for weight, other in zip(self.weights, old.weights, strict=True):
            renumbering.copy(weight, other)  # whole if it can be: its rows belong to features
        if not self._has_features():
            known = len(renumbering.kept) == len(renumbering)
            expect(known, "features", "be given, a row for each item, if there are new ones", None)
            self._features.tensors = tf.nest.map_structure(
                lambda x: tf.gather(x, renumbering.before), old.features)

    def save_assets(self, folder):
        tensors = tf.nest.flatten(self.features)
        names = [str(i) for i in range(len(tensors))]
        tf.raw_ops.SaveV2(
            prefix=os.path.join(folder, ASSET), tensor_names=names,
            shape_and_slices=[""] * len(names), tensors=tensors,
        )

    def load_assets(self, folder):
        path, specs = os.path.join(folder or "", ASSET), tf.nest.flatten(self._features.tensors)
        if not tf.io.gfile.exists(f"{path}.index"):
            return  # an error says so if they are needed
        names, dtypes = [str(i) for i in range(len(specs))], [x.dtype for x in specs]
        tensors = tf.raw_ops.RestoreV2(
            prefix=path, tensor_names=names, shape_and_slices=[""] * len(names), dtypes=dtypes)
        tensors = [tf.ensure_shape(x, spec.shape) for x, spec in zip(tensors, specs, strict=True)]
        self._features.tensors = tf.nest.pack_sequence_as(self._features.tensors, tensors)


class _Table:
    """Holds a structure that Keras shall neither track nor wrap."""

    def __init__(self, tensors):
        self.tensors = tensors


def as_tensors(features):
    """Features as a tensor, or a dict or a list of them. ValueError for what is not an array."""
    if isinstance(features, Mapping):
        return {name: _tensor(values) for name, values in features.items()}
    if isinstance(features, (list, tuple)) and getattr(next(iter(features), None), "shape", ()):
        return [_tensor(values) for values in features]
    return _tensor(features)


def _tensor(values):
    if isinstance(values, tf.TensorSpec):
        return values
    try:
        tensor = dense(values, "features")
    except TypeError:
        tensor = None
    expect(
        tensor is not None and not tensor.dtype.is_complex, "features",
        "be dense arrays of numbers or strings, or a dict or a list of them", values,
    )
    return tf.cast(tensor, keras.config.floatx()) if tensor.dtype.is_floating else tensor


def _placeholder(tensor):
    return keras.KerasTensor((None, *tensor.shape[1:]), tensor.dtype.name)


def _stored(tensor):
    """A feature in a form that JSON can hold; of strings the bytes, one after the other.

    A `.keras` file has the values elsewhere, see `save_assets`.
    """
    stored = {"dtype": tensor.dtype.name, "shape": tensor.shape.as_list()}
    if in_archive() or isinstance(tensor, tf.TensorSpec):
        return stored
    array = tensor.numpy()
    if array.dtype.kind == "O":
        strings = array.ravel().tolist()
        stored["lengths"] = packed(np.array([len(string) for string in strings], np.int64))
        array = np.frombuffer(b"".join(strings), np.uint8)
    return {**stored, "values": packed(array)}


def map_stored(function, features):
    """A function of what `_stored` made of each array, in a structure of them."""
    if isinstance(features, list):
        return [map_stored(function, each) for each in features]
    if not isinstance(features, Mapping) or isinstance(features.get("dtype"), str):
        return function(features)
    return {name: map_stored(function, each) for name, each in features.items()}


def _restored(config):
    if not isinstance(config, Mapping):
        return config
    if "values" not in config:
        return tf.TensorSpec(config["shape"], config["dtype"])
    array = np.asarray(unpacked(config["values"]))
    if config["dtype"] != "string":
        return array.astype(config["dtype"])
    text, ends = array.astype(np.uint8).tobytes(), np.cumsum(unpacked(config["lengths"]), dtype=int)
    strings = np.empty(len(ends), object)
    strings[:] = [text[start:end] for start, end in zip([0, *ends], ends)]
    return strings.reshape(config["shape"])
