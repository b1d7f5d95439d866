"""N-best lists in one text file, with lines `utterance acoustic lm word word ...`."""

from collections.abc import Iterable, Iterator

from tfsoftmax.nbest.rows import Row, fields_of, number
from tfsoftmax.support import whole_files
from tfsoftmax.support.arguments import refusal


def rows(lines: Iterable[tuple[str, str]]) -> Iterator[Row]:
    """Yields the hypotheses of lines, each given with its place; scores are natural logarithms.

    Raises:
        ValueError: a line does not have this format.
    """
    for where, fields in fields_of(lines):
        if len(fields) < 3:
            raise refusal(f"{where}:", "be `utterance acoustic lm word ...`", ' '.join(fields))
        acoustic, old_lm = (number(field, where) for field in fields[1:3])
        yield Row(fields[0], tuple(fields[3:]), acoustic, old_lm, where=where)


def write(path: str, rows: Iterable[Row]) -> None:
    """Writes hypotheses to a file; a score that they do not have is 0."""
    with whole_files.writing(path) as file:
        for row in rows:
            scores = f"{row.acoustic or 0:.15g} {row.old_lm or 0:.15g}"
            file.write(" ".join([row.utterance, scores, *row.words]) + "\n")
