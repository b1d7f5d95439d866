"""N-best lists of the translator Moses, with lines `number ||| text ||| features ||| score`.

Source: the section "Generating n-Best Lists" of the manual of Moses.
"""

from collections.abc import Iterable, Iterator

from tfsoftmax.nbest.rows import Row, number
from tfsoftmax.support.arguments import refusal

SEPARATOR = "|||"
LEAST = 4  # fields; alignments may follow


def begins(line: str) -> bool:
    """Whether a list begins with this line."""
    return line.count(f" {SEPARATOR} ") >= LEAST - 1


def rows(lines: Iterable[tuple[str, str]]) -> Iterator[Row]:
    """Yields the hypotheses of lines, each given with its place.

    The score is the weighted total of all features, a natural logarithm. The features, of which the
    total is made, are not read.

    Raises:
        ValueError: a line does not have this format.
    """
    for where, line in lines:
        if not line.strip():
            continue
        fields = [field.strip() for field in line.split(SEPARATOR)]
        if len(fields) < LEAST or len(fields[0].split()) != 1:
            raise refusal(f"{where}:", "be `number ||| text ||| features ||| score`", line[:200])
        yield Row(fields[0], tuple(fields[1].split()), number(fields[3], where), where=where)
