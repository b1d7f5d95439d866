"""Transcripts with alternatives, such as `i { um / uh / @ } see`, as NIST's sclite reads them.

A transcript is a tuple whose elements are words, str, or tuples of alternatives, each of which is
again a transcript. @ is no word.

Source: the format trn of SCTK, whose grammar is ALTERNATE := "{" TEXT ALT+ "}", ALT := "/" TEXT.
"""

import operator
import re
from collections.abc import Iterable, Iterator, Sequence

from tfsoftmax.support.arguments import refusal

NO_WORD = "@"
_BRACES = re.compile(r"[{}]|[^\s{}]+")
_PARTS = re.compile(r"/|[^/]+")


def parsed(text: str, where: str) -> tuple:
    """The transcript in a text; ValueError names the place if braces do not match."""
    levels = [[[]]]  # for each open brace, and for the whole: alternatives, each a list of parts
    for token in _BRACES.findall(text):
        if token == "{":
            levels.append([[]])
        elif token == "}":
            found = levels.pop()
            if not levels or [] in found:
                _refuse(where, text)
            levels[-1][-1].append(tuple(map(_without_null, found)))
        elif len(levels) == 1:
            levels[-1][-1].append(token)
        else:
            for part in _PARTS.findall(token):
                levels[-1].append([]) if part == "/" else levels[-1][-1].append(part)
    if len(levels) > 1:
        _refuse(where, text)
    return _without_null(levels[0][0])


def written(transcript: Sequence) -> Iterator[str]:
    """Yields the words of a transcript with the marks around alternatives, for sclite."""
    for part in transcript:
        if isinstance(part, str):
            yield part
            continue
        for number, alternative in enumerate(part):
            yield "/" if number else "{"
            yield from written(alternative) if alternative else [NO_WORD]
        yield "}"


def lowered(transcript: Sequence) -> tuple:
    """The same transcript in lower case."""
    return tuple(
        part.lower() if isinstance(part, str) else tuple(map(lowered, part)) for part in transcript
    )


def has_alternatives(transcript: Sequence) -> bool:
    """Whether a transcript has any."""
    return not all(isinstance(part, str) for part in transcript)


def nearest(transcript: Sequence, words: Sequence[str]) -> Sequence[str]:
    """The words of the reading of a transcript with the fewest errors against other words."""
    if not has_alternatives(transcript):
        return transcript
    # For each number of the other words: the fewest errors, and the reading so far as a chain.
    row = _extended([(errors, None) for errors in range(len(words) + 1)], transcript, words)
    reading, chain = [], row[-1][1]
    while chain is not None:
        chain, word = chain
        reading.append(word)
    return tuple(reversed(reading))


def check_markless(sentences: Iterable[Sequence], name: str) -> None:
    """Raises ValueError if a word, outside of alternatives, would begin some for sclite.

    Args:
        sentences: transcripts.
        name: the argument that they come from.
    """
    for part in (part for sentence in sentences for part in sentence):
        if isinstance(part, str) and ("{" in part or part == NO_WORD):
            raise refusal(name, f"have no words with {{, and no {NO_WORD}, where trn files are "
                          "written to `out`, since sclite reads them as alternatives",
                          received=repr(part))


def _extended(row, transcript, words):
    for part in transcript:
        if isinstance(part, str):
            row = _with_word(row, part, words)
        else:
            ends = (_extended(row, alternative, words) for alternative in part)
            row = [min(cells, key=operator.itemgetter(0)) for cells in zip(*ends, strict=True)]
    return row


def _with_word(row, word, words):
    """A row of the edit distance from the one before it."""
    errors, chain = row[0]
    extended = [(errors + 1, (chain, word))]
    for before, above, other in zip(row, row[1:], words, strict=False):
        cells = [
            (before[0] + (word != other), (before[1], word)), (above[0] + 1, (above[1], word)),
            (extended[-1][0] + 1, extended[-1][1]),
        ]
        extended.append(min(cells, key=operator.itemgetter(0)))
    return extended


def _without_null(parts):
    return tuple(part for part in parts if part != NO_WORD)


def _refuse(where, text):
    raise refusal(f"{where}:",
                  "have alternatives between braces, as in { um / uh / @ }, of which none is empty",
                  text)
