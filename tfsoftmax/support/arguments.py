"""Refuses wrong arguments: by a condition, or by their type hints. All refusals read alike."""

import contextlib
import functools
import inspect
import math
import numbers
import os
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

if typing.TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike
else:

    class ArrayLike:
        """What NumPy can make an array of. Type checkers see `numpy.typing.ArrayLike`.

        That is a union of many types, which `help` would print in full in each signature.
        """

        __module__ = "numpy.typing"


LONGEST = 200  # characters of a value in a message
LARGEST = (2 - 2**-23) * 2.0**127  # of the numbers that float32 can hold
_EXPECTED = {
    bool: "True or False", int: "an integer", float: "a finite number", type(None): "None",
    str: "a string", dict: "a dictionary", Sequence[int]: "a list of whole numbers",
    Sequence[float]: "a list of finite numbers", Sequence[str]: "a list of strings",
    Iterable[str]: "a list of strings",
}
_Function = typing.TypeVar("_Function", bound=Callable)


def expect(
    ok: object, name: str, rule: str, value: object = None, received: str | Mapping | None = None,
    error: type[Exception] = ValueError,
) -> None:
    """Raises an error unless a condition holds: "`name` must rule. Received: name=value".

    Args:
        ok: the condition.
        name: the name of the argument; anything but an identifier stands in the message as it is.
        rule: what is expected, after "must".
        value: the value of the argument. It is rendered only for the message, and shortened.
        received: the text, or the names and their values, to state instead of name and value.
        error: the class of the error.

    Example:
        tfsoftmax.support.arguments.expect(0 < 0.5 <= 1, "decay", "lie in (0, 1]", 0.5)
    """
    if not ok:
        raise refusal(name, rule, value, received, error)


def refusal(
    name: str, rule: str, value: object = None, received: str | Mapping | None = None,
    error: type[Exception] = ValueError,
) -> Exception:
    """The error that `expect` raises, for where it follows another or is costly to describe.

    The error has the name of the argument as `argument`, or None for another subject.
    """
    subject, of_value = (f"`{name}`", f"{name}=") if name.isidentifier() else (name, "")
    if received is None:
        received = of_value + _shown(value)
    elif not isinstance(received, str):
        received = ", ".join(f"{key}={_shown(each)}" for key, each in received.items())
    refused = error(f"{subject} must {rule}. Received: {received}")
    refused.argument = name if name.isidentifier() else None
    return refused


@contextlib.contextmanager
def refusing(
    errors: type[Exception] | tuple[type[Exception], ...], name: str, rule: str,
    received: str | Mapping | None = None, before: str = "", error: type[Exception] = ValueError,
) -> Iterator[None]:
    """Turns errors of other code, where they mean a wrong argument, into the one of `expect`.

    Args:
        errors: the types of the errors.
        name: as in `expect`, and so are `rule` and `error`.
        rule: what the argument must do.
        received: as in `expect`; by default what the error says.
        before: what stands before the words of the error.
        error: the type of the new error.
    """
    try:
        yield
    except errors as caught:
        told = f"{before}{caught}" if received is None else received
        raise refusal(name, rule, received=told, error=error) from caught


class _Signature:
    """The signature of a class, whose instances have that of their `__call__`."""

    def __get__(self, instance, cls):
        if instance is not None:
            raise AttributeError("__signature__")
        return _signature(cls)


class CheckedArguments:
    """Mixin for classes whose constructors check their arguments against their type hints.

    It stands before the other bases. `check_hints` says what is checked. Where a constructor has
    `**kwargs`, `help` and `inspect.signature` show the arguments of the bases that they stand for.
    Those that a class decides itself, it names in `decided_options`: they are no arguments of it.

    Example:
        class Layer(tfsoftmax.support.arguments.CheckedArguments, keras.layers.Layer):
            def __init__(self, units: int):
                super().__init__()
                self.units = units
        layer = Layer(3)  # Layer(3.5): `units` must be an integer. Received: units=3.5
    """

    __signature__ = _Signature()

    def __new__(cls, *args, **kwargs):
        check_hints(cls, args, kwargs)
        new = super().__new__
        return new(cls) if new is object.__new__ else new(cls, *args, **kwargs)


def checks_arguments(function: _Function) -> _Function:
    """A function that checks its arguments against their type hints when it is called."""
    signature, hints = inspect.signature(function), function.__annotations__

    @functools.wraps(function)
    def checked(*args, **kwargs):
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            if name in hints:
                check_hint(name, value, hints[name])
        return function(*args, **kwargs)

    return checked


def check_at_least(least: int, **numbers: float | None) -> None:
    """Raises ValueError unless each of the numbers is None or at least `least`."""
    for name, number in numbers.items():
        # NaN fails, too.
        expect(number is None or number >= least, name, f"be at least {least}", number)


def check_hint(name: str, value: object, hint: object) -> None:
    """Raises ValueError if a value is not of its type hint.

    A `bool` is no number here, and a float that float32 cannot hold is not finite. Checked are
    these types, their sequences, str, dict, other classes, None, and unions of them. Anything
    passes for other hints.

    Args:
        name: the name of the argument, for the message.
        value: its value.
        hint: its type hint.
    """
    kinds = hint.__args__ if isinstance(hint, types.UnionType) else (hint,)
    expected = [_expected(kind) for kind in kinds]
    if all(expected):
        right = any(_is(value, kind) for kind in kinds)
        expect(right, name, f"be {', or '.join(expected)}", value)


def check_exists(name: str, path: str | os.PathLike, others: Sequence[str]) -> None:
    """Raises FileNotFoundError if there is no such file; `others` are the option's other values."""
    others = "one of " * (len(others) > 1) + ", ".join(others)
    expect(os.path.isfile(path), name, f"be {others}, or a file", error=FileNotFoundError,
           received=f"{name}={os.fspath(path)!r}, and there is no such file")


def needed(name: str, value: object, argument: str, spec: object) -> object:
    """The value of an argument that another one needs, or ValueError where it is None."""
    expect(value is not None, name, f"be given for {argument}={str(spec)!r}")
    return value


def check_positive(**integers: int | None) -> None:
    """Raises ValueError for the first of some values that is no integer in [1, 2^31), nor None."""
    for name, value in integers.items():
        right = value is None or is_whole(value) and 1 <= value < 1 << 31
        expect(right, name, "lie in [1, 2**31) and be an integer", value)


def check_hints(cls: type, args: tuple, kwargs: dict) -> None:
    """Checks the arguments of a class, those too that it passes on to its bases."""
    for name in getattr(cls, "decided_options", ()):
        if name in kwargs:
            raise TypeError(
                f"`{name}` is not an argument of {cls.__name__}. Received: {name}={kwargs[name]!r}"
            )
    known = inspect.signature(cls).parameters
    names = [p.name for p in known.values() if p.kind == p.POSITIONAL_OR_KEYWORD]
    for name, value in [*zip(names, args), *kwargs.items()]:
        if name in known and known[name].annotation is not inspect.Parameter.empty:
            check_hint(name, value, known[name].annotation)


def array_of(name: str, values: ArrayLike, kinds: str, rule: str) -> "np.ndarray":
    """Values as an array, whose `dtype.kind` must be one of some letters; the rule says so."""
    import numpy as np  # here, as `--help` does not wait for it

    try:
        array = np.asarray(values)
    except ValueError:  # lists of several lengths
        array = np.array("")
    expect(array.dtype.kind in kinds, name, rule, values)
    return array


def whole_numbers(name: str, values: ArrayLike, dtype: str = "int64") -> "np.ndarray":
    """Values as an array of integers, (...), without a change of any.

    Args:
        name: the name of the argument, for the message.
        values: (...) integers, or floats that are whole.
        dtype: that of the result.

    Raises:
        ValueError: if they are not, or the type cannot hold one of them.
    """
    import numpy as np

    array = array_of(name, values, "iuf", "be whole numbers")
    with np.errstate(invalid="ignore"):
        whole = array.astype(dtype)
    wrong = whole != array  # of int64 and uint64, float64 may hold neither exactly
    if array.dtype.kind == "u":
        wrong |= whole < 0
    if wrong.any():
        raise refusal(name, f"be whole numbers of {dtype}", received=str(array[wrong][0]))
    return whole


def is_whole(value: object) -> bool:
    """Whether a value is an integer, of Python or NumPy, and no flag."""
    return _is(value, int)


def _expected(kind):
    """What a value of a hint is, or None for a hint that is not checked.

    Abstract collections are not: where one stands for what Keras reads, configurations do too. Nor
    is `ArrayLike`, which is many types.
    """
    if kind in _EXPECTED:
        return _EXPECTED[kind]
    if isinstance(kind, type) and kind.__module__ not in ("collections.abc", "numpy.typing"):
        return f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"
    return {
        Callable: "a function", Iterable: "an iterable", Mapping: "a dictionary",
    }.get(typing.get_origin(kind))


def is_number(value: object) -> bool:
    """Whether a value is a real number that float32 can hold, and no flag."""
    return _is(value, float)


def brief(text: str, most: int = 80) -> str:
    """A text of at most so many characters, the last of which says that there were more."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _shown(value):
    text = str(value) if isinstance(value, numbers.Number) else repr(value)  # no np.int64(3)
    return brief(text, LONGEST)


@functools.cache
def _signature(cls):
    """The arguments of a class, and those of its bases, by name, that its `**kwargs` stand for."""
    nearest, *bases = (base for base in cls.__mro__ if "__init__" in vars(base))
    _, *shown = inspect.signature(nearest.__init__).parameters.values()
    for base in bases:
        passes_on = shown and shown[-1].kind == shown[-1].VAR_KEYWORD
        if not passes_on or not issubclass(base, CheckedArguments):
            break
        shown.pop()
        known = {*getattr(cls, "decided_options", ()), *(p.name for p in shown)}
        _, *more = inspect.signature(base.__init__).parameters.values()
        more = [p for p in more if p.name not in known and p.kind != p.VAR_POSITIONAL]
        shown += [p.replace(kind=max(p.kind, p.KEYWORD_ONLY)) for p in more]
    return inspect.Signature(shown)


def _is(value, kind):
    boolean = isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")  # NumPy's
    if kind is bool:
        return boolean
    if kind is int:
        return isinstance(value, numbers.Integral) and not boolean
    if kind is float:
        number = isinstance(value, numbers.Real) and not boolean
        return number and math.isfinite(value) and abs(value) <= LARGEST
    if kind in (Sequence[int], Sequence[float], Sequence[str], Iterable[str]):
        listed = isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))
        (of,) = kind.__args__  # strings may come from a generator
        return listed and (of is str or all(_is(each, of) for each in value))
    return isinstance(value, typing.get_origin(kind) or kind)
