"""Rescores n-best lists by a weighted sum of the log-probabilities of several models."""

import dataclasses
import itertools
import math
import os
from collections.abc import Callable, Sequence

import numpy as np

from tfsoftmax.nbest.alternatives import nearest
from tfsoftmax.nbest.lists import NBest
from tfsoftmax.nbest.word_errors import bootstrap, word_errors
from tfsoftmax.support.arguments import check_positive, expect
from tfsoftmax.support.extras import kenlm_model

CELLS = 1 << 22  # the most scores that tuning computes at a time
WINDOW = 1 << 15  # the most sentences that the language model gets at a time
STATES = ("sentence", "carried", "speaker")
_POWERS = tuple(round(2 ** (k / 2), 4) for k in range(-4, 10))
# The values to try if the user gives none: 0, and 1/4 to 22.6 in steps of sqrt(2).
GRID = {
    "lm_weight": (0.0, *_POWERS),
    "old_lm_weight": (0.0, *_POWERS),
    "arpa_weight": (0.0, *_POWERS),
    "word_penalty": (-8.0, -6.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0),
}


@dataclasses.dataclass(frozen=True)
class Weights:
    """The weights of the scores of a hypothesis. Its total, in natural logarithms, is

        acoustic + lm_weight · lm + old_lm_weight · old_lm + arpa_weight · arpa
                 - word_penalty · words

    Raises:
        ValueError: a weight is not finite.

    Example:
        from tfsoftmax.nbest import lists, rescoring
        nbest = lists.read("test.nbest")
        scores = rescoring.features(nbest, lm=nbest.old_lm)
        chosen = rescoring.choose(nbest, scores, rescoring.Weights(lm_weight=8.0))
    """

    lm_weight: float = 1.0
    old_lm_weight: float = 0.0
    arpa_weight: float = 0.0
    word_penalty: float = 0.0

    def __post_init__(self):
        for name, value in dataclasses.asdict(self).items():
            expect(math.isfinite(value), name, "be finite", value)


def first_hypotheses(nbest: NBest, count: int) -> NBest:
    """The same lists with at most `count` hypotheses of each utterance, the first ones.

    Source: Müller 2017, section 5.3.3.1, where `count` is ten.
    """
    check_positive(count=count)
    sizes = np.diff(nbest.starts)
    ranks = np.arange(len(nbest.sentences)) - np.repeat(nbest.starts[:-1], sizes)
    return nbest.select(np.flatnonzero(ranks < count))


def features(nbest: NBest, lm: np.ndarray, arpa: np.ndarray | None = None) -> np.ndarray:
    """The scores of the hypotheses, with a column for each term of `Weights`.

    The scores of the decoding graph are added to those of each language model.

    Args:
        nbest: lists of N hypotheses.
        lm: (N,), ln P by the language model.
        arpa: (N,), ln P by an n-gram model, or None.

    Returns:
        float64 (N, 5): acoustic, lm, old_lm, arpa and -words, with zeros for missing scores.
    """
    none = np.zeros(len(nbest.sentences))
    graph = none if nbest.graph is None else nbest.graph
    models = [None if of is None else of + graph for of in (lm, nbest.old_lm, arpa)]
    columns = [nbest.acoustic, *models]
    lengths = [-len(words) for words in nbest.sentences]
    return np.stack([none if c is None else c for c in columns] + [lengths], axis=1)


def choose(nbest: NBest, scores: np.ndarray, weights: Weights) -> np.ndarray:
    """Finds the best hypothesis of each utterance.

    Args:
        nbest: lists of N hypotheses.
        scores: (N, 5), from `features`.
        weights: the weights of the scores.

    Returns:
        The numbers of the hypotheses, int (U,).
    """
    return nbest.best(scores @ _columns([weights]))[:, 0]


def tune(
    nbest: NBest, scores: np.ndarray, errors: np.ndarray, grid: dict[str, Sequence[float]]
) -> tuple[Weights, int]:
    """Finds the weights in a grid that make the fewest word errors.

    Args:
        nbest: lists of N hypotheses.
        scores: (N, 5), from `features`.
        errors: (N,), the word errors of each hypothesis.
        grid: dictionary from each field of `Weights` to the values to try.

    Returns:
        The weights, and the number of errors with them. Of several equally good weights, those
        nearest to the defaults are taken.
    """
    candidates = [
        Weights(**dict(zip(grid, values, strict=True)))
        for values in itertools.product(*grid.values())
    ]
    totals = []
    part = max(1, CELLS // (len(nbest.utterances) * int(np.diff(nbest.starts).max())))
    for start in range(0, len(candidates), part):
        best = nbest.best(scores @ _columns(candidates[start : start + part]))
        totals.append(np.asarray(errors)[best].sum(axis=0))
    totals = np.concatenate(totals)
    fewest = [candidates[i] for i in np.flatnonzero(totals == totals.min())]
    return min(fewest, key=_distance), int(totals.min())


def _distance(weights):
    """The distance of weights from the defaults."""
    pairs = zip(dataclasses.astuple(Weights()), dataclasses.astuple(weights), strict=True)
    return sum(abs(a - b) for a, b in pairs)


def oracle(nbest: NBest, errors: np.ndarray) -> np.ndarray:
    """Finds the hypothesis of each utterance with the fewest errors (N,): int (U,)."""
    return nbest.best(-np.asarray(errors, np.float64)[:, None])[:, 0]


def hypothesis_errors(nbest: NBest, references: Sequence[Sequence]) -> np.ndarray:
    """Counts the word errors of each hypothesis, int (N,), against U references.

    References are transcripts of `alternatives`; the reading with the fewest errors counts.
    """
    sizes = np.diff(nbest.starts)
    repeated = [said for said, size in zip(references, sizes, strict=True) for _ in range(size)]
    return word_errors(list(map(nearest, repeated, nbest.sentences)), nbest.sentences).sum(axis=1)


def compare(
    nbest: NBest, references: Sequence[Sequence], chosen: np.ndarray,
    against: Sequence[Sequence[str]] | None = None, seed: int = 1,
) -> dict:
    """Compares the word errors before and after rescoring with those of the best possible choice.

    Args:
        nbest: lists of U utterances.
        references: what was said, U transcripts of `alternatives`. Of those with several readings,
            the one with the fewest errors counts for each system, with its number of words.
        chosen: int (U,), the hypotheses that rescoring chose.
        against: the output of another system to compare with, U sequences of words; None to
            compare with the first hypotheses.
        seed: the seed of the bootstrap.

    Returns:
        Dictionary of JSON values: `utterances`, their number; `systems`, a dictionary from
        "1-best", "against" (if given), "rescored" and "oracle" to the numbers of substitutions,
        deletions and insertions; `system_words`, from the same names to the numbers of words in
        the references; `words`, that of "rescored"; `compared_with`, the name of the system that
        the rescored one is compared with; and the fields of `word_errors.Difference` between them.
    """
    best = oracle(nbest, hypothesis_errors(nbest, references))
    systems = {
        "1-best": [nbest.sentences[i] for i in nbest.starts[:-1]],
        **({} if against is None else {"against": against}),
        "rescored": [nbest.sentences[i] for i in chosen],
        "oracle": [nbest.sentences[i] for i in best],
    }
    readings = {name: list(map(nearest, references, said)) for name, said in systems.items()}
    errors = {name: word_errors(readings[name], said) for name, said in systems.items()}
    words = {name: np.array(list(map(len, of))) for name, of in readings.items()}
    other = "1-best" if against is None else "against"
    difference = bootstrap(
        errors["rescored"].sum(1), errors[other].sum(1), words["rescored"], words[other], seed=seed
    )
    kinds = "substitutions", "deletions", "insertions"
    counts = {
        name: dict(zip(kinds, of.sum(0).tolist(), strict=True)) for name, of in errors.items()
    }
    return {
        "utterances": len(references), "words": int(words["rescored"].sum()), "systems": counts,
        "system_words": {name: int(of.sum()) for name, of in words.items()},
        "compared_with": other, **dataclasses.asdict(difference),
    }


def lm_scores(
    scorer, sentences: Sequence[Sequence[str]], state: str = "sentence",
    speakers: Sequence[str] | None = None, progress: Callable[[int], object] | None = None,
) -> np.ndarray:
    """Scores N sentences with a `Scorer`: ln P, with `<eos>`, float64 (N,).

    Args:
        scorer: a `Scorer`, whose model has one stream for "carried": a model of B streams cuts
            the text into B.
        sentences: sequences of words.
        state: "sentence" scores each sentence by itself. "carried" scores all of them as a
            continuous stream (`Scorer.stream`), in which each hypothesis begins with the state
            that the one before it left, be it another hypothesis of the same utterance. "speaker"
            does so with the sentences of each speaker, B speakers side by side.
        speakers: the speaker of each sentence, for "speaker" only.
        progress: a function that is called with the number of sentences that have been scored
            since it was called last.

    Source: Müller 2017, section 5.3.3.1, for "carried". Departure: "sentence", since what a
    hypothesis gets then does not depend on its place in the lists.
    """
    expect(state in STATES, "state", f"be one of {STATES}", state)
    if state == "speaker":
        return _speaker_scores(scorer, sentences, speakers, progress)
    score = scorer.stream if state == "carried" else scorer.sentences
    scores = []
    scorer.restart()
    for start in range(0, len(sentences), WINDOW):
        part = sentences[start : start + WINDOW]
        scores += [s.sum() for s in score(part)]
        if progress is not None:
            progress(len(part))
    scorer.restart()
    return np.array(scores)


def _speaker_scores(scorer, sentences, speakers, progress):
    given = None if speakers is None else len(speakers)
    expect(given == len(sentences), "speakers", f"name one for each of {len(sentences)} sentences",
           received=f"{given}")
    places = {}
    for i, speaker in enumerate(speakers):
        places.setdefault(speaker, []).append(i)
    texts = [([sentences[i] for i in of_speaker], of_speaker) for of_speaker in places.values()]
    # Texts of similar length are read side by side, and the shortest where few are left.
    texts.sort(key=lambda pair: sum(map(len, pair[0])) + len(pair[0]), reverse=True)
    scores = np.zeros(len(sentences))
    of_texts = scorer.texts(text for text, _ in texts)
    for (_, of_speaker), log_probs in zip(texts, of_texts, strict=True):
        scores[of_speaker] = [s.sum() for s in log_probs]
        if progress is not None:
            progress(len(of_speaker))
    return scores


def arpa_scorer(path: str | os.PathLike) -> Callable[[Sequence[Sequence[str]]], np.ndarray]:
    """Makes a function from N sequences of words to ln P by an n-gram model, float64 (N,).

    </s> is part of each sentence. Words that the model lacks are scored as its <unk>.

    Args:
        path: an ARPA file, or a file in kenlm's own format.

    Raises:
        RuntimeError: kenlm is not installed.
        OSError: the file cannot be read.
    """
    model = kenlm_model(path, "arpa")

    def scores(sentences):
        return math.log(10) * np.array([model.score(" ".join(words)) for words in sentences])

    return scores


def _columns(candidates):
    """The factors of the columns of `features` for M weights: (5, M)."""
    return np.array([
        (1.0, w.lm_weight, w.old_lm_weight, w.arpa_weight, w.word_penalty) for w in candidates
    ]).T
