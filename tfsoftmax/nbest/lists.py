"""The n-best lists of recognisers and translators; finds the format of those that it reads."""

import dataclasses
import itertools
import os
from collections.abc import Collection, Iterator, Mapping

import numpy as np

from tfsoftmax.nbest import formats
from tfsoftmax.nbest.rows import Row
from tfsoftmax.nbest.spelling import Spelling
from tfsoftmax.support import textio
from tfsoftmax.support.arguments import expect, refusal

KALDI_NO_WORDS = {"<eps>", "<s>", "</s>"}
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
            raise refusal("scores", "not be NaN", received="NaN, from scores too large")
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
                raise refusal("words", "have a word for every id in the lists",
                              received=f"none for {key!r}")
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
            raise refusal(argument, "have a line for each utterance of the lists",
                          received=f"none for {missing[0]!r}{others}")
        return [transcripts[u] for u in self.utterances]


def read(
    path: str | os.PathLike, ids: bool = False, ignore_keys: Collection[str] = (),
    join_pieces: bool | None = None, beam_size: int | None = None,
) -> NBest:
    """Reads n-best lists, with the best hypothesis of each utterance first.

    Args:
        path: one of, all files plain or compressed (.gz, .xz, .bz2),
            - a file with lines `utterance acoustic lm word word ...`, scores being
              natural logarithms, or "-" for standard input;
            - a file of JSON (`json_lists`): lines, one for each utterance, also from standard
              input, or a document *.json;
            - a file of Moses (`moses`), with lines `number ||| text ||| features ||| score`;
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
        beam_size: reads a file with lines `text<TAB>score`, as NeMo writes them (`nemo`), of which
            each utterance has so many.

    Returns:
        The lists, in the order of the file; those of SRILM in the order of the names, those of
        jobs in the order of their numbers.

    Raises:
        FileNotFoundError: there is no such file or directory.
        ValueError: a line does not have its format, or what it says is no words (`Spelling`); the
            message names the file and the line.
    """
    path = os.fspath(path)
    kind, found = formats.rows(path, ids, ignore_keys, beam_size)
    expect(not ignore_keys or kind == "json", "ignore_keys", "be given for lists of JSON only",
           received=", ".join(ignore_keys))
    lists, words, spelling = {}, {}, Spelling(join_pieces)
    for row in found:
        said = row.words if ids else spelling.words(row.words, row.where)
        # Each word is kept once.
        row = row._replace(words=tuple(words.setdefault(word, word) for word in said), where="")
        lists.setdefault(row.utterance, []).append(row)
    expect(lists, f"{textio.name_of(path)}:", "hold n-best lists", received="none")
    rows = [row for of_utterance in lists.values() for row in of_utterance]
    columns = {name: _column(rows, name, path) for name in (*SCORES, "rank")}
    sizes = [len(of_utterance) for of_utterance in lists.values()]
    return NBest(
        tuple(lists), np.concatenate([[0], np.cumsum(sizes)]), tuple(row.words for row in rows),
        kind=kind, spelling=spelling, **columns,
    )


def _column(rows, name, path):
    """An attribute of all rows as an array, or None if they have none."""
    values = [getattr(row, name) for row in rows]
    without = [row.utterance for row, value in zip(rows, values, strict=True) if value is None]
    if without and len(without) < len(rows):
        raise refusal(f"{textio.name_of(path)}: all hypotheses", f"have a score {name!r}, or none",
                      received=f"none for one of {without[0]!r}")
    return None if without else np.array(values)
