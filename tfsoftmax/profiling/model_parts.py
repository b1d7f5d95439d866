"""Names the parts of a language model and its training step, and tells which owns a variable."""

from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.heads import SoftmaxHead
from tfsoftmax.layers.adaptive_embedding import AdaptiveEmbedding
from tfsoftmax.layers.character_embedding import CharacterEmbedding

PARTS = ("embedding", "recurrent", "dropout", "head", "loss", "gradients", "optimizer", "other")
_KINDS = {
    SoftmaxHead: "head", keras.layers.Embedding: "embedding", AdaptiveEmbedding: "embedding",
    CharacterEmbedding: "embedding",
    keras.layers.RNN: "recurrent", keras.layers.Dropout: "dropout",
}


def part_of_layer(layer: keras.layers.Layer) -> str:
    """The part of the model that a layer is, by its type: one of `PARTS`."""
    return next((part for kind, part in _KINDS.items() if isinstance(layer, kind)), "other")


def flat_layers(model: keras.Model) -> Iterator[keras.layers.Layer]:
    """The layers of a model, with those of a nested model in its place."""
    for layer in model.layers:
        yield from flat_layers(layer) if isinstance(layer, keras.Model) else [layer]


def variables_by_part(model: keras.Model) -> dict[str, list[keras.Variable]]:
    """All variables of a model, including its states, and of its optimiser if it is compiled.

    Args:
        model: a built model.

    Returns:
        Dictionary from each of `PARTS` to its variables. A variable that several layers share
        belongs to the first of them.
    """
    found, seen = {part: [] for part in PARTS}, set()
    owned = [
        (part_of_layer(layer), v) for layer in flat_layers(model)
        for v in (*layer.variables, *(getattr(layer, "states", None) or ()))
    ]
    owned += [("other", v) for v in model.variables]  # those that no layer has
    optimizer = getattr(model, "optimizer", None)
    owned += [("optimizer", v) for v in (optimizer.variables if optimizer else ())]
    for part, variable in owned:
        if id(variable) not in seen:
            seen.add(id(variable))
            found[part].append(variable)
    return found


def parameters_and_bytes(variables: list[keras.Variable], slots: bool = False) -> tuple[int, int]:
    """Counts the trainable numbers in variables, and the bytes that the variables take.

    Args:
        variables: Keras variables.
        slots: whether they belong to an optimiser, so that none of them is trainable.
    """
    sizes = [(int(np.prod(v.shape)), v) for v in variables]
    trainable = sum(size for size, v in sizes if v.trainable and not slots)
    return trainable, sum(size * tf.as_dtype(v.dtype).size for size, v in sizes)
