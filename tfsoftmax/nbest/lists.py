"""N-best lists of a recogniser or translator, in the formats that Kaldi and SRILM write."""

import dataclasses
import gzip
import math
import os

import numpy as np

# What Kaldi's scripts call the files of an n-best archive: words, and costs of the acoustics, the
# language model, and the rest of the graph (pronunciations, transitions, silence).
KALDI_WORDS, KALDI_COSTS = "words_text", ("acwt", "lmwt.lmonly", "lmwt.nolm")
SRILM_NO_WORDS = {"<s>", "</s>", "-pau-"}


@dataclasses.dataclass(frozen=True, eq=False)
class NBest:
    """Lists of U utterances, N hypotheses in all, the recogniser's best first.

    Attributes:
        utterances: tuple of U str, their ids.
        starts: int (U + 1,): hypotheses starts[u] ... starts[u + 1] are of utterance u.
        sentences: N tuples of words.
        acoustic: float64 (N,), natural logarithms, or None if there are none.
        old_lm: float64 (N,), of the language model that made the lists, or None.
        graph: float64 (N,), of the decoding graph without its language model, or None.
    """

    utterances: tuple
    starts: np.ndarray
    sentences: tuple
    acoustic: np.ndarray | None
    old_lm: np.ndarray | None
    graph: np.ndarray | None = None

    def best(self, scores):
        """The highest score of each utterance, of equals the first.

        Args:
            scores: float (N, M), M systems.

        Returns:
            Numbers of hypotheses, int (U, M).
        """
        sizes = np.diff(self.starts)
        ranks = np.arange(sizes.max())
        places = np.minimum(self.starts[:-1, None] + ranks, self.starts[1:, None] - 1)
        # Beyond the end of a list stands its last hypothesis again, of which the first counts.
        return self.starts[:-1, None] + np.argmax(scores[places], axis=1)

    def expect(self, transcripts, argument):
        """The transcripts of the utterances, in their order: list of U lists of words.

        Raises:
            ValueError: an utterance has none.
        """
        missing = [u for u in self.utterances if u not in transcripts]
        if missing:
            raise ValueError(
                f"`{argument}` must have a line for each utterance of the lists. "
                f"Received: none for {missing[0]!r}, and {len(missing) - 1} more missing"
            )
        return [transcripts[u] for u in self.utterances]


def read(path):
    """Reads n-best lists.

    Args:
        path: one of
            a file (plain or .gz) of lines `utterance acoustic lm word word ...`, natural
                logarithms, each utterance's best hypothesis first;
            a directory as Kaldi's n-best scripts write it, with `words_text` (lines
                `utterance-RANK word ...`), and, if it has them, `acwt`, `lmwt.lmonly` and
                `lmwt.nolm` (lines `utterance-RANK cost`, costs being negative natural logarithms);
            a directory of SRILM's n-best files (plain or .gz), one an utterance, named after
                it, of lines `acoustic lm nwords word ...`, logarithms to base 10; <s>, </s>
                and -pau- are no words.

    Returns:
        `NBest`, utterances in the order of the file, of SRILM's by name.

    Raises:
        FileNotFoundError: there is no such file or directory.
        ValueError: a line is not as described; the message names file and line.
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


def read_transcripts(path):
    """Reads `utterance word ...` lines, or `word ... (utterance)` of a file named *.trn.

    Returns:
        dict from utterance to its words, a tuple of str.

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
        transcripts[utterance] = tuple(fields)
    return transcripts


def trn(utterances, sentences):
    """Lines `word ... (utterance)`, as sclite reads them: str."""
    return "".join(f"{' '.join([*s, f'({u})'])}\n" for u, s in zip(utterances, sentences))


def text(utterances, sentences):
    """Lines `utterance word ...`, as Kaldi reads them: str."""
    return "".join(f"{' '.join([u, *s])}\n" for u, s in zip(utterances, sentences))


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
    rows, order = [], {}
    for where, (key, *words) in _lines(os.path.join(directory, KALDI_WORDS)):
        utterance, _, rank = key.rpartition("-")
        if not utterance or not (rank.isascii() and rank.isdigit()):
            raise ValueError(f"{where}: must begin with `utterance-RANK`. Received: {key!r}")
        of_key = [None if of is None else of.get(key, math.nan) for of in costs]
        for name, cost in zip(KALDI_COSTS, of_key):
            if cost is not None and math.isnan(cost):
                raise ValueError(f"{where}: must have a cost in {name}. Received: none for {key!r}")
        scores = [None if cost is None else -cost for cost in of_key]
        place = order.setdefault(utterance, len(order))
        rows.append((place, int(rank), (utterance, tuple(words), *scores)))
    # A sorted archive has rank 10 before rank 2.
    return [row for _, _, row in sorted(rows, key=lambda row: row[:2])]


def _costs(path):
    """{utterance-RANK: cost}, or None without the file."""
    if not os.path.exists(path):
        return None
    costs = {}
    for where, fields in _lines(path):
        if len(fields) != 2:
            raise ValueError(f"{where}: must be `key cost`. Received: {' '.join(fields)!r}")
        costs[fields[0]] = _number(fields[1], where)
    return costs


def _srilm(directory):
    names = sorted(name for name in os.listdir(directory) if not name.startswith("."))
    for name in names:
        for where, fields in _lines(os.path.join(directory, name)):
            if fields[0].startswith("NBestList") or len(fields) < 3:
                raise ValueError(
                    f"{where}: must be `acoustic lm nwords word ...`. "
                    f"Received: {' '.join(fields)!r}"
                )
            acoustic, old_lm, _ = (_number(f, where) * math.log(10) for f in fields[:3])
            words = tuple(word for word in fields[3:] if word not in SRILM_NO_WORDS)
            yield name.removesuffix(".gz"), words, acoustic, old_lm


def _lines(path):
    """(where it stands, fields) of each line that is not blank."""
    opener = gzip.open if str(path).endswith(".gz") else open
    try:
        with opener(path, "rt", encoding="utf-8", newline="\n") as file:
            for number, line in enumerate(file, start=1):
                if fields := line.split():
                    yield f"{path}, line {number}", fields
    except (UnicodeDecodeError, gzip.BadGzipFile, EOFError) as error:
        raise ValueError(f"{path}: must be UTF-8 text. Received: {error}") from error


def _number(field, where):
    try:
        number = float(field)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{where}: scores must be finite numbers. Received: {field!r}")
    return number
