"""Checks arguments by their type hints: flags, whole numbers, and finite numbers."""

import functools
import inspect
import math
import numbers
import types
from collections.abc import Iterable, Mapping, Sequence

LARGEST = (2 - 2**-23) * 2.0**127  # of the numbers that float32 can hold
_EXPECTED = {
    bool: "True or False", int: "an integer", float: "a finite number", type(None): "None",
    str: "a string", dict: "a dictionary", Sequence[int]: "a list of whole numbers",
    Sequence[float]: "a list of finite numbers",
}


def check_at_least(least: int, **numbers: float | None) -> None:
    """Raises ValueError unless each of the numbers is None or at least `least`."""
    for name, number in numbers.items():
        if number is not None and not number >= least:  # NaN fails, too
            raise ValueError(f"`{name}` must be at least {least}. Received: {name}={number}")


def check_hint(name: str, value: object, hint: object) -> None:
    """Raises ValueError if a value is not of its type hint.

    A `bool` is no number here, and a float that float32 cannot hold is not finite. Anything
    passes for other hints than these types, their sequences, str, dict, None, and unions of them.

    Args:
        name: the name of the argument, for the message.
        value: its value.
        hint: its type hint.
    """
    kinds = hint.__args__ if isinstance(hint, types.UnionType) else (hint,)
    if all(kind in _EXPECTED for kind in kinds) and not any(_is(value, kind) for kind in kinds):
        expected = ", or ".join(_EXPECTED[kind] for kind in kinds)
        raise ValueError(f"`{name}` must be {expected}. Received: {name}={value!r}")


def check_positive(**integers: int | None) -> None:
    """Raises ValueError for the first of some integers that is not in [1, 2^31), or None."""
    for name, value in integers.items():
        if value is not None and not 1 <= value < 1 << 31:
            raise ValueError(f"`{name}` must lie in [1, 2**31). Received: {name}={value}")


def check_hints(cls: type, args: tuple, kwargs: dict) -> None:
    """Checks the arguments of a class, those too that it passes on to its bases.

    Arguments of the bases that the class decides itself are in its `decided_options`.
    """
    for name in getattr(cls, "decided_options", ()):
        if name in kwargs:
            raise TypeError(
                f"`{name}` is not an argument of {cls.__name__}. Received: {name}={kwargs[name]!r}"
            )
    hints = _hints(cls)
    positional = inspect.signature(cls.__init__).parameters.values()
    names = [p.name for p in positional if p.kind == p.POSITIONAL_OR_KEYWORD][1:]
    for name, value in [*zip(names, args), *kwargs.items()]:
        if name in hints:
            check_hint(name, value, hints[name])


def is_whole(value: object) -> bool:
    """Whether a value is an integer, of Python or NumPy, and no flag."""
    return _is(value, int)


@functools.cache
def _hints(cls):
    found = {}
    for base in reversed(cls.__mro__):
        found |= getattr(base.__dict__.get("__init__"), "__annotations__", {})
    return found


def _is(value, kind):
    boolean = isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")  # NumPy's
    if kind is bool:
        return boolean
    if kind is int:
        return isinstance(value, numbers.Integral) and not boolean
    if kind is float:
        number = isinstance(value, numbers.Real) and not boolean
        return number and math.isfinite(value) and abs(value) <= LARGEST
    if kind in (Sequence[int], Sequence[float]):
        listed = isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))
        return listed and all(_is(each, kind.__args__[0]) for each in value)
    return isinstance(value, kind)
