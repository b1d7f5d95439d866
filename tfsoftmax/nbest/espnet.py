"""N-best lists as ESPnet2's asr_inference writes them: folders 1best_recog, 2best_recog, ..."""

import os
import re
from collections.abc import Iterator

from tfsoftmax.nbest.rows import Row, number, read_fields
from tfsoftmax.support.arguments import expect, refusal

_RANK = re.compile(r"(\d+)best_recog")
_TENSOR = re.compile(r"tensor\(([^,)]*).*\)")  # how PyTorch prints a number


def has_ranks(folder: str) -> bool:
    """Whether a folder is one of ESPnet2's."""
    return os.path.isdir(os.path.join(folder, "1best_recog"))


def rows(folder: str) -> Iterator[Row]:
    """Yields the hypotheses of Nbest_recog/text and Nbest_recog/score, by utterance and rank.

    The scores are those of the whole search, whatever models it had.

    Raises:
        FileNotFoundError: one of the files is missing.
        ValueError: a hypothesis has no score or occurs twice, a score is none, or a rank is
            missing, of all utterances or of one.
    """
    ranks = {int(found[1]) for found in map(_RANK.fullmatch, os.listdir(folder)) if found}
    missing = set(range(1, max(ranks) + 1)) - ranks
    if missing:
        raise refusal(f"{folder}:", f"have 1best_recog to {max(ranks)}best_recog",
                      received=f"no {min(missing)}best_recog")
    lists = {}
    for rank in sorted(ranks):
        texts, scores = (
            _entries(os.path.join(folder, f"{rank}best_recog", name)) for name in ("text", "score")
        )
        for utterance, (where, words) in texts.items():
            before = len(lists.get(utterance, ()))
            expect(before >= rank - 1, f"{where}: each utterance",
                   f"also be in {before + 1}best_recog", received=f"{utterance!r}, which is not")
            expect(utterance in scores, f"{where}:", "have a line in the file score",
                   received=f"none for {utterance!r}")
            place, fields = scores[utterance]
            printed = " ".join(fields)
            found = _TENSOR.fullmatch(printed)
            score = number(found[1] if found else printed, place)
            row = Row(utterance, tuple(words), score, where=where)
            lists.setdefault(utterance, []).append(row)
    for of_utterance in lists.values():
        yield from of_utterance


def _entries(path):
    """{utterance: place and fields} of the lines of a file."""
    found = {}
    for where, (utterance, *fields) in read_fields(path):
        expect(utterance not in found, f"{where}: each utterance", "have one line", utterance)
        found[utterance] = where, fields
    return found
