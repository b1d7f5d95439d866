"""N-best lists as Kaldi's nbest-to-linear and the scripts around it write them.

Source: steps/rnnlmrescore.sh and rnnlm/lmrescore_nbest.sh, of whose archives these are the names.
"""

import os
from collections.abc import Iterable, Iterator

from tfsoftmax.nbest import archives
from tfsoftmax.nbest.rows import Row, number
from tfsoftmax.support import textio, whole_files
from tfsoftmax.support.arguments import expect, refusal

WORDS_TEXT, WORDS = "words_text", "words"  # the words, and their ids
# The costs of the acoustics, of the language model, and of the rest of the graph (pronunciations,
# transitions, silence). WITH_LM are the latter two in one.
COSTS, WITH_LM = ("acwt", "lmwt.lmonly", "lmwt.nolm"), "lmwt.withlm"
ENDINGS = ("", ".txt", ".ark", ".scp")  # and compressed


def is_archive(path: str) -> bool:
    """Whether a file has the name of an archive or a table of Kaldi."""
    return textio.plain_name(path).endswith((".ark", ".scp"))


def has_words(folder: str) -> bool:
    """Whether a folder holds an archive of words, or of their ids."""
    return bool(_found(folder, WORDS_TEXT) or _found(folder, WORDS))


def rows(folder: str, ids: bool, words: str | None = None) -> Iterator[Row]:
    """Yields the hypotheses in a folder of archives, the ranks of each utterance in order.

    The archives are words_text (entries `utterance-RANK word ...`), or words (ids), and optionally
    acwt, lmwt.lmonly and lmwt.nolm, or lmwt.withlm, their sum, in the place of one of the latter
    two or of both (entries `utterance-RANK cost`, costs being negative natural logarithms). Their
    names may end as in `ENDINGS`.

    Args:
        folder: the folder.
        ids: whether the ids of words are wanted.
        words: another file with the words, or their ids.

    Raises:
        ValueError: an entry does not have its format, lacks a cost, or occurs twice.
    """
    words = words or _words_of(folder, ids)
    paths = {name: _found(folder, name) for name in (*COSTS, WITH_LM)}
    if paths[COSTS[1]] and paths[COSTS[2]]:
        del paths[WITH_LM]  # their sum
    costs = {name: _costs(path) for name, path in paths.items() if path}
    found, order, seen = [], {}, set()
    for where, key, said in archives.words(words, ids):
        utterance, _, rank = key.rpartition("-")
        if not utterance or not (rank.isascii() and rank.isdigit()):
            raise refusal(f"{where}:", "begin with `utterance-RANK`", key)
        for name in (name for name, of in costs.items() if key not in of):
            raise refusal(f"{where}:", f"have a cost in {name}", received=f"none for {key!r}")
        scores = _scores({name: -of[key] for name, of in costs.items()})
        place = order.setdefault(utterance, len(order)), int(rank)
        expect(place not in seen, f"{where}: each rank", "have one line", received=f"{key!r} again")
        seen.add(place)
        found.append((place, Row(utterance, tuple(said), *scores, rank, where)))
    # A sorted archive has rank 10 before rank 2.
    for _, row in sorted(found, key=lambda pair: pair[0]):
        yield row


def names(rows: Iterable[Row]) -> set[str]:
    """The files that `write` writes when the hypotheses have a language model's scores."""
    return {WORDS_TEXT, *_score_files(next(iter(rows))._replace(old_lm=0.0))}


def write(folder: str, rows: Iterable[Row]) -> None:
    """Writes words_text and an archive of costs for each kind of score, with the keys as read."""
    rows = list(rows)
    os.makedirs(folder, exist_ok=True)
    keys = [f"{row.utterance}-{row.rank}" for row in rows]
    texts = {WORDS_TEXT: [" ".join(row.words) for row in rows]}
    for name, field in _score_files(rows[0]).items():
        texts[name] = [f"{-getattr(row, field):.15g}" for row in rows]
    for name, values in texts.items():
        with whole_files.writing(os.path.join(folder, name)) as file:
            file.writelines(f"{key} {value}\n" for key, value in zip(keys, values, strict=True))


def _scores(scores):
    """The scores of the acoustics, of the language model and of the graph, from those of archives.

    The sum of the latter two stands for the first of them where both are missing.
    """
    acoustic, lm, graph = (scores.get(name) for name in COSTS)
    if WITH_LM in scores and lm is None:
        lm = scores[WITH_LM] - (graph or 0)
    elif WITH_LM in scores and graph is None:
        graph = scores[WITH_LM] - lm
    return acoustic, lm, graph


def _score_files(row):
    """The names of the archives of costs, and the fields of `Row` that they hold."""
    files = dict(zip(COSTS, ("acoustic", "old_lm", "graph"), strict=True))
    return {name: field for name, field in files.items() if getattr(row, field) is not None}


def _found(folder, name):
    endings = (plain + packed for packed in ("", *textio.COMPRESSED) for plain in ENDINGS)
    paths = (os.path.join(folder, name + ending) for ending in endings)
    return next(filter(os.path.isfile, paths), None)


def _words_of(folder, ids):
    text, numbers = (_found(folder, name) for name in (WORDS_TEXT, WORDS))
    if text is None and not ids:
        raise ValueError(f"{numbers}: `words` must be given, with the words of its ids")
    return (numbers or text) if ids else text


def _costs(path):
    """The costs in an archive by `utterance-RANK`."""
    costs = {}
    for where, key, fields in archives.costs(path):
        if len(fields) != 1:
            received = " ".join([key, *fields])
            raise refusal(f"{where}:", "be `key cost`", received)
        expect(key not in costs, f"{where}: keys", "differ", received=f"{key!r} again")
        costs[key] = number(fields[0], where)
    return costs
