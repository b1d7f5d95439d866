"""Reads the n-best lists of recognisers and translators, in the formats of Kaldi and SRILM."""

import dataclasses
import math
import os
from collections.abc import Iterable, Mapping

import numpy as np

from tfsoftmax import textio

# The files of an n-best archive as Kaldi's scripts name them: the words, and the costs of the
# acoustics, of the language model, and of the rest of the graph (pronunciations, transitions,
# silence).
KALDI_WORDS, KALDI_COSTS = "words_text", ("acwt", "lmwt.lmonly", "lmwt.nolm")
SRILM_NO_WORDS = {"<s>", "</s>", "-pau-"}
KALDI_NO_WORDS = {"<eps>", "<s>", "</s>"}


@dataclasses.dataclass(frozen=True, eq=False)
class NBest:
    """The n-best lists of U utterances, with N hypotheses in all, the recogniser's best first.

    All scores are natural logarithms.

    Attributes:
        utterances: the ids of the utterances, a tuple of U str.
        starts: int (U + 1,). The hypotheses of utterance u are starts[u] to starts[u + 1] - 1.
        sentences: the words of each hypothesis, N tuples.
        acoustic: float64 (N,), the acoustic scores; None if the lists have none.
        old_lm: float64 (N,), the scores of the recogniser's language model, or None.
        graph: float64 (N,), the scores of the decoding graph without its language model, or None.

    Example:
        import numpy as np
        from tfsoftmax.nbest.lists import NBest
        scores = np.array([-10.0, -11.0, -7.0])
        lists = NBest(("u1", "u2"), np.array([0, 2, 3]), (("a",), ("b",), ("a",)), scores, None)
        print(lists.best(lists.acoustic[:, None]))
    """

    utterances: tuple
    starts: np.ndarray
    sentences: tuple
    acoustic: np.ndarray | None
    old_lm: np.ndarray | None
    graph: np.ndarray | None = None

    def best(self, scores: np.ndarray) -> np.ndarray:
        """Finds the hypothesis of each utterance with the highest score, the first of equal ones.

        Args:
            scores: float (N, M), the scores by M systems.

        Returns:
            The numbers of the hypotheses, int (U, M).

        Raises:
            ValueError: a score is NaN.
        """
        if np.isnan(scores).any():
            raise ValueError("`scores` must not be NaN. Received: NaN, from scores too large")
        sizes = np.diff(self.starts)
        ranks = np.arange(sizes.max())
        places = np.minimum(self.starts[:-1, None] + ranks, self.starts[1:, None] - 1)
        # A list that is too short repeats its last hypothesis, which argmax finds where it is.
        return self.starts[:-1, None] + np.argmax(scores[places], axis=1)

    def with_words(self, symbols: Mapping[str, str] | None, lowercase: bool) -> "NBest":
        """The same lists, in the spelling of a language model.

        Args:
            symbols: the words that stand for what the lists hold, from `read_symbols`, of which
                <eps>, <s> and </s> are left out; None if the lists hold words.
            lowercase: whether to turn the words into lower case.

        Raises:
            ValueError: something in the lists is not in `symbols`.
        """
        sentences = self.sentences
        if symbols is not None:
            for key in (key for words in sentences for key in words if key not in symbols):
                raise ValueError(
                    f"`words` must have a word for everything in the lists. Received: none for "
                    f"{key!r}"
                )
            spelt = {key: () if w in KALDI_NO_WORDS else (w,) for key, w in symbols.items()}
            sentences = [tuple(w for key in words for w in spelt[key]) for words in sentences]
        if lowercase:
            sentences = [tuple(map(str.lower, words)) for words in sentences]
        return dataclasses.replace(self, sentences=tuple(sentences))

    def expect(self, transcripts: dict, argument: str) -> list:
        """Looks up the transcript of each utterance.

        Args:
            transcripts: dictionary from an utterance to its words.
            argument: the name of the argument that they come from, for messages.

        Returns:
            The words of the U utterances, in the order of the lists.

        Raises:
            ValueError: an utterance has no transcript.
        """
        missing = [u for u in self.utterances if u not in transcripts]
        if missing:
            raise ValueError(
                f"`{argument}` must have a line for each utterance of the lists. "
                f"Received: none for {missing[0]!r}, and {len(missing) - 1} more missing"
            )
        return [transcripts[u] for u in self.utterances]


def read(path: str | os.PathLike) -> NBest:
    """Reads n-best lists.

    Args:
        path: one of
            - a file (plain or .gz) with lines `utterance acoustic lm word word ...`, scores being
              natural logarithms, with the best hypothesis of each utterance first;
            - a directory that Kaldi's n-best scripts have written, with `words_text` (lines
              `utterance-RANK word ...`) and optionally `acwt`, `lmwt.lmonly` and `lmwt.nolm`
              (lines `utterance-RANK cost`, costs being negative natural logarithms);
            - a directory of SRILM's n-best files (plain or .gz), a file for each utterance, named
              after it, with lines `acoustic lm nwords word ...`, scores being logarithms to base
              10; <s>, </s> and -pau- do not count as words.

    Returns:
        The lists, in the order of the file; those of SRILM in the order of the names.

    Raises:
        FileNotFoundError: there is no such file or directory.
        ValueError: a line does not have its format; the message names the file and the line.
    """
    if not os.path.isdir(path):
        rows = list(_columns(path))
    elif os.path.exists(os.path.join(path, KALDI_WORDS)):
        rows = list(_kaldi(path))
    else:
        rows = list(_srilm(path))
    if not rows:
        raise ValueError(f"{path}: must hold n-best lists. Received: none")
    lists = {}
    for utterance, *hypothesis in rows:
        lists.setdefault(utterance, []).append(hypothesis)
    hypotheses = [hypothesis for of_utterance in lists.values() for hypothesis in of_utterance]
    sentences, *scores = zip(*hypotheses)
    sizes = [len(of_utterance) for of_utterance in lists.values()]
    return NBest(
        tuple(lists), np.concatenate([[0], np.cumsum(sizes)]), sentences,
        *(None if of[0] is None else np.array(of) for of in scores),
    )


def read_symbols(path: str | os.PathLike) -> dict[str, str]:
    """Reads Kaldi's `words.txt`, with lines `word id`.

    Returns:
        Dictionary from an id, as it is written, to its word.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a line does not have this format, or an id occurs twice.
    """
    symbols = {}
    for where, fields in _lines(path):
        if len(fields) != 2 or not (fields[1].isascii() and fields[1].isdigit()):
            raise ValueError(f"{where}: must be `word id`. Received: {' '.join(fields)!r}")
        if fields[1] in symbols:
            raise ValueError(f"{where}: ids must differ. Received: {fields[1]!r} again")
        symbols[fields[1]] = fields[0]
    return symbols


def read_transcripts(
    path: str | os.PathLike, lowercase: bool = False
) -> dict[str, tuple[str, ...]]:
    """Reads lines `utterance word ...`, or `word ... (utterance)` if the file is named *.trn.

    Args:
        path: a file, plain or .gz.
        lowercase: whether to turn the words into lower case.

    Returns:
        Dictionary from an utterance to its words.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: an utterance has two lines, or a line has no utterance.
    """
    transcripts, trn = {}, str(path).removesuffix(".gz").endswith(".trn")
    for where, fields in _lines(path):
        if trn:
            utterance, fields = fields[-1], fields[:-1]
            if len(utterance) < 3 or utterance[0] + utterance[-1] != "()":
                raise ValueError(f"{where}: must end in `(utterance)`. Received: {utterance!r}")
            utterance = utterance[1:-1]
        else:
            utterance, fields = fields[0], fields[1:]
        if utterance in transcripts:
            raise ValueError(f"{where}: each utterance must have one line. Received: {utterance!r}")
        transcripts[utterance] = tuple(map(str.lower, fields) if lowercase else fields)
    return transcripts


def trn(utterances: Iterable[str], sentences: Iterable[Iterable[str]]) -> str:
    """Lines `word ... (utterance)`, which sclite reads."""
    rows = zip(utterances, sentences, strict=True)
    return "".join(f"{' '.join([*words, f'({name})'])}\n" for name, words in rows)


def text(utterances: Iterable[str], sentences: Iterable[Iterable[str]]) -> str:
    """Lines `utterance word ...`, which Kaldi reads."""
    rows = zip(utterances, sentences, strict=True)
    return "".join(f"{' '.join([name, *words])}\n" for name, words in rows)


def _columns(path):
    for where, fields in _lines(path):
        if len(fields) < 3:
            raise ValueError(
                f"{where}: must be `utterance acoustic lm word ...`. "
                f"Received: {' '.join(fields)!r}"
            )
        acoustic, old_lm = (_number(field, where) for field in fields[1:3])
        yield fields[0], tuple(fields[3:]), acoustic, old_lm


def _kaldi(directory):
    costs = [_costs(os.path.join(directory, name)) for name in KALDI_COSTS]
    rows, order, ranks = [], {}, set()
    for where, (key, *words) in _lines(os.path.join(directory, KALDI_WORDS)):
        utterance, _, rank = key.rpartition("-")
        if not utterance or not (rank.isascii() and rank.isdigit()):
            raise ValueError(f"{where}: must begin with `utterance-RANK`. Received: {key!r}")
        of_key = [None if of is None else of.get(key, math.nan) for of in costs]
        for name, cost in zip(KALDI_COSTS, of_key, strict=True):
            if cost is not None and math.isnan(cost):
                raise ValueError(f"{where}: must have a cost in {name}. Received: none for {key!r}")
        scores = [None if cost is None else -cost for cost in of_key]
        place = order.setdefault(utterance, len(order))
        if (place, int(rank)) in ranks:
            raise ValueError(f"{where}: each rank must have one line. Received: {key!r} again")
        ranks.add((place, int(rank)))
        rows.append((place, int(rank), (utterance, tuple(words), *scores)))
    # A sorted archive has rank 10 before rank 2.
    return [row for _, _, row in sorted(rows, key=lambda row: row[:2])]


def _costs(path):
    """The costs in a file by `utterance-RANK`; None if there is no such file."""
    if not os.path.exists(path):
        return None
    costs = {}
    for where, fields in _lines(path):
        if len(fields) != 2:
            raise ValueError(f"{where}: must be `key cost`. Received: {' '.join(fields)!r}")
        if fields[0] in costs:
            raise ValueError(f"{where}: keys must differ. Received: {fields[0]!r} again")
        costs[fields[0]] = _number(fields[1], where)
    return costs


def _srilm(directory):
    names = sorted(name for name in os.listdir(directory) if not name.startswith("."))
    utterances = set()
    for name in names:
        utterance = name.removesuffix(".gz")
        if utterance in utterances:
            raise ValueError(
                f"{os.path.join(directory, name)}: each utterance must have one file. "
                f"Received: {utterance!r} again"
            )
        utterances.add(utterance)
        for where, fields in _lines(os.path.join(directory, name)):
            if fields[0].startswith("NBestList") or len(fields) < 3:
                raise ValueError(
                    f"{where}: must be `acoustic lm nwords word ...`. "
                    f"Received: {' '.join(fields)!r}"
                )
            acoustic, old_lm, _ = (_number(f, where) * math.log(10) for f in fields[:3])
            words = tuple(word for word in fields[3:] if word not in SRILM_NO_WORDS)
            yield utterance, words, acoustic, old_lm


def _lines(path):
    """Yields the place (for messages) and the fields of each line that is not blank."""
    for where, line in textio.lines(path):
        if fields := line.split():
            yield where, fields


def _number(field, where):
    try:
        number = float(field)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{where}: scores must be finite numbers. Received: {field!r}")
    return number
