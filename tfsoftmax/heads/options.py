"""The arguments that heads pass on to their bases, for tools that read the source: editors.

A constructor with `**kwargs: Unpack[TiedOptions]` takes them by name. `SoftmaxHead`, `TiedHead`
and `Shards` say what they mean and have their defaults, which `help` shows
(`support.arguments.CheckedArguments`).
"""

from collections.abc import Callable, Sequence
from typing import TypedDict

import keras

from tfsoftmax.layers.initializers import Initializer


class CommonOptions(TypedDict, total=False):
    """Arguments whose defaults no head changes, and those of `keras.layers.Layer`."""

    kernel_regularizer: str | Callable | None
    bias_regularizer: str | Callable | None
    kernel_constraint: str | Callable | None
    bias_constraint: str | Callable | None
    name: str | None
    dtype: str | keras.DTypePolicy | None
    trainable: bool


class WeightOptions(CommonOptions, total=False):
    """Arguments of heads that decide on `use_bias` themselves."""

    kernel_initializer: Initializer
    bias_initializer: Initializer


class HeadOptions(WeightOptions, total=False):
    """Arguments of `SoftmaxHead`."""

    use_bias: bool


class ItemOptions(HeadOptions, total=False):
    """Arguments of `Items` with a kernel of its own."""

    not_items: Sequence[int]


class TiedOptions(HeadOptions, total=False):
    """Arguments of `TiedHead` and `LinearHead`."""

    tied_to: keras.layers.Layer | None


class TiedItemOptions(TiedOptions, ItemOptions, total=False):
    """Arguments of `items.Items`: those of the weights, `tied_to`, `not_items`."""


class ShardOptions(TiedItemOptions, total=False):
    """Arguments of `shards.Shards`: those of the weights, `tied_to`, `not_items`, `shard`."""

    shard: bool
