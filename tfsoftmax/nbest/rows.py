"""What the readers of n-best lists share: a hypothesis, the fields of lines, and numbers."""

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tfsoftmax.support import textio
from tfsoftmax.support.arguments import refusal


class Row(NamedTuple):
    """A hypothesis as a reader finds it, with scores in natural logarithms.

    Attributes:
        utterance: the id of the utterance.
        words: its words, a tuple of str.
        acoustic, old_lm, graph: scores as in `lists.NBest`, or None.
        rank: the number of the hypothesis as it is in its key, such as "01", or None.
        where: its place, for messages.

    Example:
        from tfsoftmax.nbest.rows import Row
        row = Row("u1", ("the", "cat"), acoustic=-10.5)
        print(row.utterance, row.old_lm)
    """

    utterance: str
    words: tuple
    acoustic: float | None = None
    old_lm: float | None = None
    graph: float | None = None
    rank: str | None = None
    where: str = ""


def fields_of(lines: Iterable[tuple[str, str]]) -> Iterator[tuple[str, list[str]]]:
    """Yields the place (for messages) and the fields of each line that is not blank."""
    for where, line in lines:
        if fields := line.split():
            yield where, fields


def read_fields(path: str) -> Iterator[tuple[str, list[str]]]:
    """`fields_of` the lines of a file."""
    return fields_of(textio.lines(path))


def number(field: str | float, where: str) -> float:
    """The finite number that a field holds; ValueError names the place and the field otherwise."""
    try:
        # Python takes 1_0 for 10.
        value = math.nan if "_" in str(field) else float(field)
    except (ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        raise refusal(f"{where}: scores", "be finite numbers", field)
    return value


def is_number(field: str | float) -> bool:
    """Whether a field holds a finite number."""
    try:
        number(field, "")
    except ValueError:
        return False
    return True
