"""The parts of a language model and of its training step, and whose the variables are."""

import keras
import numpy as np
import tensorflow as tf

from tfsoftmax.layers.adaptive_embedding import AdaptiveEmbedding
from tfsoftmax.heads import SoftmaxHead

PARTS = ("embedding", "recurrent", "dropout", "head", "loss", "gradients", "optimizer", "other")
_KINDS = {
    SoftmaxHead: "head", keras.layers.Embedding: "embedding", AdaptiveEmbedding: "embedding",
    keras.layers.RNN: "recurrent", keras.layers.Dropout: "dropout",
}


def part_of_layer(layer):
    """The part that a Keras layer is: the first of `PARTS` by its type, or "other"."""
    return next((part for kind, part in _KINDS.items() if isinstance(layer, kind)), "other")


def variables_by_part(model):
    """Every variable of a model, states included, and of its optimiser if it is compiled.

    Args:
        model: built `keras.Model`.

    Returns:
        Dictionary from each of `PARTS` to a list of Keras variables. A variable that layers
        share belongs to the first of them.
    """
    found, seen = {part: [] for part in PARTS}, set()
    owned = [
        (part_of_layer(layer), v) for layer in model.layers
        for v in (*layer.variables, *(getattr(layer, "states", None) or ()))
    ]
    optimizer = getattr(model, "optimizer", None)
    owned += [("optimizer", v) for v in (optimizer.variables if optimizer else ())]
    for part, variable in owned:
        if id(variable) not in seen:
            seen.add(id(variable))
            found[part].append(variable)
    return found


def parameters_and_bytes(variables, slots=False):
    """Trainable numbers among Keras variables, and the bytes that all of them take.

    Args:
        variables: list of Keras variables.
        slots: whether they are an optimiser's, of which none is a parameter.
    """
    sizes = [int(np.prod(v.shape)) for v in variables]
    trainable = sum(s for s, v in zip(sizes, variables) if v.trainable and not slots)
    return trainable, sum(s * tf.as_dtype(v.dtype).size for s, v in zip(sizes, variables))
