"""When an option may be given: with which values of another option, or without it."""

import dataclasses
from collections.abc import Callable, Mapping

from tfsoftmax.support.arguments import refusal


@dataclasses.dataclass(frozen=True)
class Condition:
    """What one option says of another, beside which it may be given.

    Attributes:
        other: the name of the other option.
        holds: whether a value of the other allows it.
        rule: what the option may do, such as "be given with --cell=lstm only".

    Example:
        from tfsoftmax.support.conditions import needs
        assert needs("cell", "transformer").holds("transformer")
    """

    other: str
    holds: Callable[[object], bool]
    rule: str


def needs(other: str, *values: object) -> Condition:
    """The option is read where another has one of some values, or is given at all."""
    if not values:
        return Condition(other, bool, f"be given with --{other} only")
    rule = f"be given with --{other}={' or '.join(map(str, values))} only"
    return Condition(other, lambda value: value in values, rule)


def needs_above(other: str, least: float) -> Condition:
    """The option is read where another is above a number."""
    rule = f"be given with --{other} above {least} only"
    return Condition(other, lambda value: value > least, rule)


def excludes(other: str) -> Condition:
    """The option is read where another is not given."""
    return Condition(other, lambda value: not value, f"not be given with --{other}")


def check_conditions(
    conditions: Mapping[str, Condition | tuple[Condition, ...]], given: Mapping[str, object],
    value_of: Callable[[str], object],
) -> None:
    """Raises ValueError if an option is given where it is not read.

    Args:
        conditions: {option: its condition, or several}.
        given: the options that are given, and their values.
        value_of: the value of any option, given or not.
    """
    for name, value in given.items():
        if value is None or value is False or value == "":
            continue
        found = conditions.get(name, ())
        for condition in found if isinstance(found, tuple) else (found,):
            other = value_of(condition.other)
            if not condition.holds(other):
                raise refusal(name, condition.rule, received={name: value, condition.other: other})
