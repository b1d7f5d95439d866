"""N-best lists in SRILM's three formats: a file for each utterance, which is named after it.

Source: nbest-format(5) and the reader of SRILM 1.7.3.
"""

import math
import os
from collections.abc import Iterable, Iterator

from tfsoftmax.nbest.rows import Row, fields_of, is_number, number
from tfsoftmax.support import textio, whole_files
from tfsoftmax.support.arguments import expect, refusal

NO_WORDS = {"<s>", "</s>", "-pau-"}
DECIPHER = ("NBestList1.0", "NBestList2.0")
BYTELOG = 1024 * math.log(1.0001)  # a bytelog in natural logarithms
TOKEN = ("(", "st:", "et:", "g:", "a:", ")")  # what follows a word in NBestList2.0


def folder_rows(folder: str) -> Iterator[Row]:
    """Yields the hypotheses in a folder's files, in the order of the names.

    Raises:
        ValueError: a line does not have its format, two files have the same utterance, or the
            folder holds folders.
    """
    names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    for path in (os.path.join(folder, name) for name in names):
        expect(not os.path.isdir(path), f"{folder}:", "hold n-best lists, or jobs of them",
               received=f"the folder {path}, which must be given if the lists are in it")
    utterances = set()
    for name in names:
        path, utterance = os.path.join(folder, name), utterance_of(name)
        expect(utterance not in utterances, f"{path}: each utterance", "have one file",
               received=f"{utterance!r} again")
        utterances.add(utterance)
        yield from rows(textio.lines(path), utterance)


def utterance_of(path: str) -> str:
    """The utterance that a file is named after."""
    return os.path.basename(textio.plain_name(path))


def begins(fields: list[str]) -> bool:
    """Whether a list in one of the formats begins with these fields."""
    if fields[0] in DECIPHER:
        return True
    counted = len(fields) >= 3 and fields[2].isascii() and fields[2].isdigit()
    # Where no words are counted but some follow, 0 is the score that lines of other lists lack.
    return (
        counted and all(map(is_number, fields[:2]))
        and (int(fields[2]) > 0 or NO_WORDS.issuperset(fields[3:]))
    )


def rows(lines: Iterable[tuple[str, str]], utterance: str) -> Iterator[Row]:
    """Yields the hypotheses of the lines of one utterance, each given with its place.

    The first line says which format it is: NBestList1.0 (one score for all), NBestList2.0 (times
    and scores for each word), or, without such a line, `acoustic lm nwords word ...` in
    logarithms to base 10. The scores of the former two are bytelogs. <s>, </s> and -pau- do not
    count as words; nwords may count them or not.

    Raises:
        ValueError: a line does not have its format.
    """
    hypothesis = _plain
    for place, (where, fields) in enumerate(fields_of(lines)):
        if place == 0 and fields[0] in DECIPHER:
            hypothesis = (_decipher_1, _decipher_2)[DECIPHER.index(fields[0])]
            continue
        words, acoustic, old_lm = hypothesis(where, fields)
        said = tuple(word for word in words if word not in NO_WORDS)
        yield Row(utterance, said, acoustic, old_lm, where=where)


def names(rows: Iterable[Row]) -> set[str]:
    """The files that `write` writes."""
    return {row.utterance for row in rows}


def write(folder: str, rows: Iterable[Row]) -> None:
    """Writes files with lines `acoustic lm nwords word ...`; a score that is missing is 0."""
    lines = {}
    for row in rows:
        scores = [f"{(of or 0) / math.log(10):.15g}" for of in (row.acoustic, row.old_lm)]
        fields = [*scores, str(len(row.words)), *row.words]
        lines.setdefault(row.utterance, []).append(" ".join(fields) + "\n")
    os.makedirs(folder, exist_ok=True)
    for utterance, of_utterance in lines.items():
        with whole_files.writing(os.path.join(folder, utterance)) as file:
            file.writelines(of_utterance)


def _plain(where, fields):
    if fields[0].startswith("NBestList") or len(fields) < 3:
        raise refusal(f"{where}:", "be `acoustic lm nwords word ...`, or one of "
                      f"{', '.join(DECIPHER)} in the first line", " ".join(fields))
    acoustic, old_lm = (number(field, where) * math.log(10) for field in fields[:2])
    words = fields[2]
    if not (words.isascii() and words.isdigit()) or int(words) > len(fields) - 3:
        raise refusal(f"{where}: nwords", f"be the number of words in the line, {len(fields) - 3} "
                      f"with {', '.join(sorted(NO_WORDS))}, or less", words)
    return fields[3:], acoustic, old_lm



def _decipher_1(where, fields):
    return fields[1:], _total(where, fields, "word ..."), None


def _decipher_2(where, fields):
    """Adds up the scores of the words; the tokens within the time of a word are its phones."""
    expected = "word ( st: s et: e g: g a: a ) ..."
    _total(where, fields, expected)
    words, acoustic, old_lm, end = [], 0.0, 0.0, -1.0
    tokens = [fields[i : i + 11] for i in range(1, len(fields), 11)]
    for token in tokens:
        if (*token[1:3], *token[4::2]) != TOKEN:
            _refuse(where, expected, token)
        start, last, of_lm, of_acoustics = (number(field, where) for field in token[3:10:2])
        # Decipher gives some states, which end in -0 to -9, wrong times; SRILM skips them all.
        if start > end and not (token[0][-2:-1] == "-" and token[0][-1] in "0123456789"):
            words.append(token[0])
            acoustic, old_lm, end = acoustic + of_acoustics, old_lm + of_lm, last
    return words, acoustic * BYTELOG, old_lm * BYTELOG


def _total(where, fields, expected):
    score = fields[0]
    if len(score) < 3 or score[0] + score[-1] != "()":
        _refuse(where, expected, fields)
    return number(score[1:-1], where) * BYTELOG


def _refuse(where, expected, fields):
    raise refusal(f"{where}:", f"be `(score) {expected}`", ' '.join(fields))
