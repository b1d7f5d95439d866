"""The n-best lists of recognisers and translators; finds the format of those that it reads."""

import dataclasses
import itertools
import os
import re
from collections.abc import Collection, Iterator, Mapping

import numpy as np

from tfsoftmax import textio
from tfsoftmax.nbest import columns, espnet, json_lists, kaldi, srilm
from tfsoftmax.nbest.rows import Row
from tfsoftmax.nbest.spelling import Spelling

KALDI_NO_WORDS = {"<eps>", "<s>", "</s>"}
MOST_SILENT = 1000  # hypotheses without a word at the start of a file, in search of one with
SCORES = ("acoustic", "old_lm", "graph")


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
        rank: str (N,), the numbers of the hypotheses as they are in Kaldi's keys, or None.
        kind: the format, one of `writing.WRITERS`.
        spelling: the `Spelling` by which the words were read, which counts marks; None if the lists
            were not read.

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
    rank: np.ndarray | None = None
    kind: str = "columns"
    spelling: Spelling | None = None

    @property
    def sizes(self) -> np.ndarray:
        """The number of hypotheses of each utterance, int (U,)."""
        return np.diff(self.starts)

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
        first = self.starts[:-1]
        highest = np.repeat(np.maximum.reduceat(scores, first, axis=0), self.sizes, axis=0)
        numbers = np.arange(len(scores))[:, None]
        return np.minimum.reduceat(np.where(scores == highest, numbers, len(scores)), first, axis=0)

    def with_words(self, symbols: Mapping[str, str] | None, lowercase: bool) -> "NBest":
        """The same lists, in the spelling of a language model.

        Args:
            symbols: the words that stand for what the lists hold, from `read_symbols`, of which
                <eps>, <s> and </s> are left out; None if the lists hold words.
            lowercase: whether to turn the words into lower case.

        Raises:
            ValueError: something in the lists is not in `symbols`, or stands for pieces of words
                or for a mark inside a sentence (`Spelling`).
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
            spelling = self.spelling or Spelling()
            places = np.repeat(np.array(self.utterances, object), self.sizes)
            sentences = [spelling.words(*pair) for pair in zip(sentences, places, strict=True)]
        if lowercase:
            lower = {word: word.lower() for words in sentences for word in words}
            sentences = [tuple(map(lower.get, words)) for words in sentences]
        return dataclasses.replace(self, sentences=tuple(sentences))

    def select(self, kept: np.ndarray) -> "NBest":
        """The same utterances with some of their hypotheses.

        Args:
            kept: int (M,), the numbers of the hypotheses, in order; one or more of each utterance.
        """
        of = {name: getattr(self, name) for name in (*SCORES, "rank")}
        return dataclasses.replace(
            self, starts=np.searchsorted(kept, self.starts),
            sentences=tuple(self.sentences[i] for i in kept),
            **{name: values if values is None else values[kept] for name, values in of.items()},
        )

    def rows(self) -> Iterator[Row]:
        """Yields the hypotheses as the readers do."""
        none = itertools.repeat(None)
        columns = [getattr(self, name) for name in (*SCORES, "rank")]
        values = [none if column is None else column.tolist() for column in columns]
        names = np.repeat(np.array(self.utterances, object), self.sizes)
        for row in zip(names, self.sentences, *values):
            yield Row(*row)

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
            others = f", and {len(missing) - 1} more missing" if len(missing) > 1 else ""
            raise ValueError(
                f"`{argument}` must have a line for each utterance of the lists. "
                f"Received: none for {missing[0]!r}{others}"
            )
        return [transcripts[u] for u in self.utterances]


def read(
    path: str | os.PathLike, ids: bool = False, ignore_keys: Collection[str] = (),
    join_pieces: bool | None = None,
) -> NBest:
    """Reads n-best lists, with the best hypothesis of each utterance first.

    Args:
        path: one of
            - a file (plain or .gz) with lines `utterance acoustic lm word word ...`, scores being
              natural logarithms, or "-" for standard input;
            - a file of JSON (`json_lists`): lines, one for each utterance, also from standard
              input, or a document *.json;
            - a folder of Kaldi's archives (`kaldi`), or one file *.ark or *.scp with words, beside
              which costs are found;
            - a folder of ESPnet2 (`espnet`), with 1best_recog, 2best_recog and so on;
            - a folder of SRILM's files (`srilm`), one for each utterance, in any of the three
              formats; or one such file;
            - a folder of jobs: folders of Kaldi or ESPnet2 such as archives.1 to archives.8, or
              files nbest.1.gz to nbest.8.gz of the first two kinds.
        ids: whether the hypotheses are wanted as Kaldi's ids of words.
        ignore_keys: keys of JSON that are not read (`json_lists.rows`).
        join_pieces: what pieces of words are (`Spelling`).

    Returns:
        The lists, in the order of the file; those of SRILM in the order of the names, those of
        jobs in the order of their numbers.

    Raises:
        FileNotFoundError: there is no such file or directory.
        ValueError: a line does not have its format, or what it says is no words (`Spelling`); the
            message names the file and the line.
    """
    path = os.fspath(path)
    kind, found = _rows(path, ids, ignore_keys)
    if ignore_keys and kind != "json":
        raise ValueError(
            f"`ignore_keys` may be given for lists of JSON only. Received: {', '.join(ignore_keys)}"
        )
    lists, words, spelling = {}, {}, Spelling(join_pieces)
    for row in found:
        said = row.words if ids else spelling.words(row.words, row.where)
        # Each word is kept once.
        row = row._replace(words=tuple(words.setdefault(word, word) for word in said), where="")
        lists.setdefault(row.utterance, []).append(row)
    if not lists:
        raise ValueError(f"{textio.name_of(path)}: must hold n-best lists. Received: none")
    rows = [row for of_utterance in lists.values() for row in of_utterance]
    columns = {name: _column(rows, name, path) for name in (*SCORES, "rank")}
    sizes = [len(of_utterance) for of_utterance in lists.values()]
    return NBest(
        tuple(lists), np.concatenate([[0], np.cumsum(sizes)]), tuple(row.words for row in rows),
        kind=kind, spelling=spelling, **columns,
    )


def _rows(path, ids, ignore_keys):
    """The kind of the lists at a path, and an iterator of their rows."""
    if path == textio.STANDARD_INPUT or not os.path.isdir(path):
        return _rows_of_file(path, ids, ignore_keys)
    if kaldi.has_words(path):
        return "kaldi", kaldi.rows(path, ids)
    if espnet.has_ranks(path):
        return "json", espnet.rows(path)
    jobs = _jobs(path)
    if not jobs:
        return "srilm", srilm.folder_rows(path)
    parts = [(job, *_rows(job, ids, ignore_keys)) for job in jobs]
    kinds = sorted({kind for _, kind, _ in parts})
    if len(kinds) > 1:
        raise ValueError(f"{path}: must have jobs of one format. Received: {', '.join(kinds)}")
    return kinds[0], _joined(parts)


def _rows_of_file(path, ids, ignore_keys):
    if kaldi.is_archive(path):
        return "kaldi", kaldi.rows(os.path.dirname(path), ids, path)
    if _is_document(path):
        return "json", json_lists.document_rows(path, ignore_keys)
    lines = textio.lines(path, json_lists.LINE_BYTES)
    read = _with_a_word(lines)
    lines, telling = itertools.chain(read, lines), read[-1][1] if read else ""
    if telling.lstrip().startswith("{"):
        return "json", json_lists.rows(lines, ignore_keys)
    if telling and srilm.begins(telling.split()):
        if path == textio.STANDARD_INPUT:
            raise ValueError(
                "SRILM's lists must be in files, which are named after their utterances. "
                f"Received: standard input, which begins with {read[0][1][:80]!r}"
            )
        return "srilm", srilm.rows(lines, srilm.utterance_of(textio.name_of(path)))
    return "columns", columns.rows(lines)


def _with_a_word(lines):
    """The first lines of a file, up to one that has a word, or tells its format otherwise.

    Hypotheses of silence may come first, of which `1 -5.0 0` has numbers only in any format.
    """
    read = []
    for where, line in lines:
        if fields := line.split():
            read.append((where, line))
            words = set(fields[3:]) - srilm.NO_WORDS
            if words or len(fields) < 3 or fields[0].startswith("{") or len(read) == MOST_SILENT:
                break
    return read


def _is_document(path):
    return path.removesuffix(".gz").endswith(".json")


def _jobs(folder):
    """The paths of the jobs in a folder, in the order of their numbers."""
    jobs = {}
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        is_folder = os.path.isdir(path) and (kaldi.has_words(path) or espnet.has_ranks(path))
        if found := re.fullmatch(r"(.+)\.(\d+)" if is_folder else r"(nbest)\.(\d+)(\.\w+)*", name):
            jobs.setdefault(found[1], []).append((int(found[2]), path))
    # SRILM's files may have such names, which are those of utterances.
    if jobs.keys() == {"nbest"} and _all_of_srilm([path for _, path in jobs["nbest"]]):
        return []
    if len(jobs) > 1:
        raise ValueError(f"{folder}: must have one kind of jobs. Received: {', '.join(jobs)}")
    for kind, of_kind in jobs.items():
        numbers = sorted(number for number, _ in of_kind)
        wrong = [n for n, m in enumerate(numbers, start=1) if n != m]
        if wrong:
            raise ValueError(
                f"{folder}: must have {kind}.1 to {kind}.{numbers[-1]} once each. "
                f"Received: none or several of {kind}.{wrong[0]}"
            )
        return [path for _, path in sorted(of_kind)]
    return []


def _all_of_srilm(paths):
    """Whether all files that are not empty begin as SRILM's do, and not all are empty."""
    if any(os.path.isdir(path) or _is_document(path) for path in paths):
        return False
    files = (textio.lines(path, json_lists.LINE_BYTES) for path in paths)
    first = [next((line.split() for _, line in of if line.strip()), None) for of in files]
    return any(first) and all(srilm.begins(fields) for fields in first if fields)


def _joined(parts):
    """Yields the rows of jobs, none of which has an utterance of another."""
    job_of = {}
    for job, _, rows in parts:
        for row in rows:
            if job_of.setdefault(row.utterance, job) != job:
                raise ValueError(
                    f"{job}: each utterance must be in one job. Received: {row.utterance!r}, "
                    f"which {job_of[row.utterance]} has too"
                )
            yield row


def _column(rows, name, path):
    """An attribute of all rows as an array, or None if they have none."""
    values = [getattr(row, name) for row in rows]
    without = [row.utterance for row, value in zip(rows, values, strict=True) if value is None]
    if without and len(without) < len(rows):
        raise ValueError(
            f"{textio.name_of(path)}: all hypotheses must have a score {name!r}, or none. "
            f"Received: none for one of {without[0]!r}"
        )
    return None if without else np.array(values)
