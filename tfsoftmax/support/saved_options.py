"""Configurations of Keras objects, which follow from the names of the arguments to save."""

from typing import ClassVar

import keras
import numpy as np

from tfsoftmax.support.arguments import CheckedArguments
from tfsoftmax.support.packing import packed, unpacked


class SavedOptions(CheckedArguments):
    """Mixin for Keras objects: `get_config` has the arguments that their classes name.

    It stands before the other bases. What a class and its bases name in `saved_options` are
    arguments that are attributes of the same names: numbers, strings, lists, arrays, objects that
    Keras serialises, or what has a `to_config` of its own. A class overrides `get_config` for
    arguments that it holds otherwise. Those that it decides itself, `decided_options`, are left
    out.

    Example:
        class Scale(tfsoftmax.support.saved_options.SavedOptions, keras.layers.Layer):
            saved_options = ("factor",)

            def __init__(self, factor: float = 2.0, **kwargs):
                super().__init__(**kwargs)
                self.factor = factor
        print(Scale(3.0).get_config()["factor"])  # 3.0
    """

    saved_options: ClassVar[tuple[str, ...]] = ()

    def get_config(self):
        config = super().get_config()
        config |= {name: _saved(getattr(self, name)) for name in _saved_options(type(self))}
        decided = getattr(self, "decided_options", ())
        return {name: value for name, value in config.items() if name not in decided}

    @classmethod
    def from_config(cls, config):
        saved = _saved_options(cls)
        return super().from_config({
            name: _restored(value) if name in saved else unpacked(value)
            for name, value in config.items()
        })


def _saved_options(cls):
    return [n for base in reversed(cls.__mro__) for n in vars(base).get("saved_options", ())]


def _saved(value):
    """A value in a form that JSON can hold."""
    if isinstance(value, np.ndarray):
        return packed(value)
    if hasattr(value, "to_config"):
        return value.to_config()
    if callable(value):  # as layers, initializers, regularizers, constraints and schedules are
        return keras.saving.serialize_keras_object(value)
    return list(value) if isinstance(value, (list, tuple)) else value


def _restored(value):
    if isinstance(value, dict) and "registered_name" in value:  # as Keras writes its objects
        return keras.saving.deserialize_keras_object(value)
    return unpacked(value)
