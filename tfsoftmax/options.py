"""Checks of the switches and numbers that a constructor takes, by their annotations."""

import functools
import inspect
import math
import numbers
import types
import typing
from collections.abc import Callable

import numpy as np

_LARGEST = 2**31 - 1  # ids of words and shapes are int32
_GREATEST = float(np.finfo(np.float32).max)


def _is_integer(value):
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _is_number(value):
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return real and math.isfinite(value) and abs(value) <= _GREATEST


_KINDS = {
    bool: ("True or False", lambda value: isinstance(value, (bool, np.bool_))),
    int: ("an integer below 2**31", lambda value: _is_integer(value) and abs(value) <= _LARGEST),
    float: ("a finite number in float32", _is_number),
}


def check_option(name: str, value: object, kind: type, optional: bool = False) -> None:
    """Raises a ValueError that names an option unless it is of its kind.

    Args:
        name: name of the option.
        value: its value.
        kind: bool, int, or float, which takes any finite real number.
        optional: whether it may be None.
    """
    wanted, fits = _KINDS[kind]
    if not ((optional and value is None) or fits(value)):
        raise ValueError(
            f"`{name}` must be {wanted}{' or None' if optional else ''}. Received: {name}={value!r}"
        )


def check_positive(**integers: int | None) -> None:
    """Raises a ValueError that names the first of some integers that is below one."""
    for name, value in integers.items():
        if value is not None and value < 1:
            raise ValueError(f"`{name}` must be positive. Received: {name}={value}")


def checked_arguments(function: Callable) -> Callable:
    """Decorates a function whose arguments that are annotated as bool, int or float are checked.

    `seed` may be an integer of any size. Other annotations, such as `float | str`, are left to the
    function.
    """
    signature = inspect.signature(function)
    kinds = {name: _kind_of(p.annotation) for name, p in signature.parameters.items()}

    @functools.wraps(function)
    def checked(*args, **kwargs):
        given = dict(zip(signature.parameters, args)) | kwargs
        for name, value in given.items():
            kind, optional = kinds.get(name) or (None, False)
            if kind is not None and not (name == "seed" and _is_integer(value)):
                check_option(name, value, kind, optional)
        return function(*args, **kwargs)

    checked.__signature__ = signature  # Keras looks at it for the arguments of a layer
    return checked


class CheckedArguments:
    """Mixin of classes that check the arguments of their constructors, and of their subclasses'."""

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = checked_arguments(cls.__init__)


def _kind_of(annotation):
    """(bool, int or float, whether None is allowed too), or None for other annotations."""
    optional, kind = False, annotation
    if isinstance(annotation, types.UnionType):
        members = set(typing.get_args(annotation))
        optional = types.NoneType in members
        rest = members - {types.NoneType}
        kind = rest.pop() if len(rest) == 1 else None
    return (kind, optional) if kind in _KINDS else None
