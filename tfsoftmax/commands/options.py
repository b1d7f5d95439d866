"""Flags from dataclasses: one for each group of options that a command's `main` takes.

The docstring of a dataclass explains its fields under `Attributes:`, which is the help of the
flags. A field without a default, or in `REQUIRED` of the class, must be given. `CHOICES` limits the
values of some fields, and `NEEDS` has the `support.conditions` under which others are read.
"""

import dataclasses
import inspect
import json
import re
import types
import typing
from collections.abc import Callable, Sequence

from absl import flags

from tfsoftmax.support.arguments import expect, refusing
from tfsoftmax.support.conditions import check_conditions
from tfsoftmax.support.textio import parsed_json

_NUMBERS = {int: "whole numbers", float: "numbers"}
GROUPS: dict[str, list[str]] = {}  # {title of a group: its flags}, in the order of the help


def groups_of(main: Callable) -> list[type]:
    """The dataclasses that the main function of a command takes, by its annotations."""
    return [parameter.annotation for parameter in inspect.signature(main).parameters.values()]


def define(*groups: type) -> None:
    """Defines a flag for each field of dataclasses, which the help lists together."""
    for group in groups:
        helps, choices = attribute_helps(group), getattr(group, "CHOICES", {})
        names = GROUPS.setdefault(_title(group), [])
        for field in dataclasses.fields(group):
            required = field.name in getattr(group, "REQUIRED", ())
            _define(field, helps.get(field.name), choices.get(field.name), required)
            names.append(field.name)


def given(name: str) -> bool:
    """Whether a flag is on the command line."""
    return flags.FLAGS[name].present > 0


def parse(groups: Sequence[type]) -> list:
    """Builds dataclasses from the flags that `define` made of them.

    The flag `preset`, if there is one, names a row of `PRESETS` of a group, {name: {field: value}}:
    values of fields, of any group, whose flags are not given.

    Raises:
        ValueError: a field is out of its range, or a flag is given where it is not read.
    """
    presets = {k: v for group in groups for k, v in getattr(group, "PRESETS", {}).items()}
    named = presets.get(flags.FLAGS.preset, {}) if presets else {}
    preset = {name: value for name, value in named.items() if not given(name)}
    return [_parsed(group, preset) for group in groups]


def _parsed(group, preset):
    fields = dataclasses.fields(group)
    values = {field.name: as_field(flags.FLAGS[field.name].value, field) for field in fields}
    values |= {name: value for name, value in preset.items() if name in values}
    here = {name: values[name] for name in values if given(name)}
    others = preset | values
    check_conditions(
        _all(group, "NEEDS"), here, lambda name: others.get(name, flags.FLAGS[name].value)
    )
    return group(**values)


def attribute_helps(group: type) -> dict[str, str]:
    """What the docstrings of a class and of its bases say of each attribute, the bases first.

    Items of a list are lines of their own.
    """
    docs = "\n".join(inspect.cleandoc(each.__doc__ or "") for each in reversed(group.__mro__))
    sections = re.findall(r"\nAttributes:\n((?:    .*\n?)+)", docs)
    entries = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", "".join(sections), re.MULTILINE)
    return {name: re.sub(r"\n +(?![ -])", " ", text) for name, text in entries}


def as_field(value, field: dataclasses.Field):
    """The value of a flag as that of its field.

    Raises:
        ValueError: it is no JSON object, or a list has what is no number.
    """
    kind = _inner(field.type)
    if kind is dict:
        options = parsed_json(value, f"`{field.name}`")
        expect(isinstance(options, dict), field.name, "be a JSON object", value)
        return options
    if kind is not tuple:
        return value
    (item, *_) = typing.get_args(field.type) or (str,)
    received = {field.name: ",".join(value)}
    with refusing(ValueError, field.name, f"be {_NUMBERS.get(item)}", received):
        return tuple(map(item, value))


def _title(group):
    return inspect.cleandoc(group.__doc__).partition("\n")[0].rstrip(".")


def _all(group, name):
    """A table of a class and of its bases."""
    return {k: v for each in reversed(group.__mro__) for k, v in vars(each).get(name, {}).items()}


def _inner(kind):
    """The type in an annotation such as `int | None` or `tuple[int, ...]`."""
    if isinstance(kind, types.UnionType):
        kind = next(each for each in kind.__args__ if each is not type(None))
    return typing.get_origin(kind) or kind


class _Joined(flags.Flag):
    """A list that is joined from all that are given, as in --train=a.txt --train=b.txt."""

    def parse(self, argument):
        before = [] if self.using_default_value else self.value
        super().parse(argument)
        self.value = before + self.value


def _define(field, text, choices, required):
    missing = required or field.default is dataclasses.MISSING
    if field.default_factory is not dataclasses.MISSING:
        default, missing = field.default_factory(), False
    else:
        default = None if missing else field.default
    kind, name = _inner(field.type), field.name
    if choices:
        flags.DEFINE_enum(name, default, list(choices), text)
    elif kind is dict:
        flags.DEFINE_string(name, json.dumps(default), text)
    elif kind is tuple:
        parser, serializer = flags.ListParser(), flags.CsvListSerializer(",")
        values = None if missing else [*map(str, default)]
        flags.DEFINE_flag(_Joined(parser, serializer, name, values, text))
    else:
        make = {bool: flags.DEFINE_bool, int: flags.DEFINE_integer, float: flags.DEFINE_float}
        make.get(kind, flags.DEFINE_string)(name, default, text)
    if missing:
        flags.mark_flag_as_required(name)
