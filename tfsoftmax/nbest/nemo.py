"""N-best lists as NeMo's eval_beamsearch_ngram scripts write them: lines `text<TAB>score`.

A line does not tell its utterance. As for NeMo's own rescorer, each utterance has equally many.
"""

from collections.abc import Iterable, Iterator

from tfsoftmax.nbest.rows import Row, is_number, number
from tfsoftmax.support.arguments import check_positive, expect


def has(line: str) -> bool:
    """Whether a list has this line, which is none of `columns`."""
    _, tab, score = line.partition("\t")
    fields = line.split()
    of_columns = len(fields) >= 3 and all(map(is_number, fields[1:3]))
    return bool(tab) and is_number(score) and not of_columns


def rows(lines: Iterable[tuple[str, str]], beam_size: int) -> Iterator[Row]:
    """Yields the hypotheses of lines, each given with its place.

    Args:
        lines: the lines.
        beam_size: how many of them each utterance has. The utterances are called 0, 1, 2, ...

    Raises:
        ValueError: a line does not have this format, or the last utterance has fewer lines.
    """
    check_positive(beam_size=beam_size)
    count, where = 0, ""
    for count, (where, line) in enumerate(lines, start=1):
        text, tab, score = line.partition("\t")
        expect(tab, f"{where}:", "be `text<TAB>score`", line[:200])
        utterance = str((count - 1) // beam_size)
        yield Row(utterance, tuple(text.split()), number(score, where), where=where)
    expect(count % beam_size == 0, f"{where}:",
           f"be the last of the {beam_size} lines of an utterance that `beam_size` states",
           received=f"{count:,} lines in all")
