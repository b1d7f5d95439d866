"""N-best rescoring: scores of several models, weighed against each other in the log domain."""

import dataclasses
import itertools
import math

import numpy as np

from tfsoftmax.nbest.word_errors import bootstrap, word_errors

CELLS = 1 << 22  # of the table of scores at a time
WINDOW = 1 << 15  # sentences that the language model is given at a time
_POWERS = tuple(round(2 ** (k / 2), 4) for k in range(-4, 10))
# What is tried where the user gives no values: nothing, and 1/4 to 22.6 by steps of sqrt(2).
GRID = {
    "lm_weight": (0.0, *_POWERS),
    "old_lm_weight": (0.0, *_POWERS),
    "arpa_weight": (0.0, *_POWERS),
    "word_penalty": (-8.0, -6.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0),
}


@dataclasses.dataclass(frozen=True)
class Weights:
    """How a hypothesis's scores, natural logarithms, are added up.

        acoustic + lm_weight · lm + old_lm_weight · old_lm + arpa_weight · arpa
                 - word_penalty · words
    """

    lm_weight: float = 1.0
    old_lm_weight: float = 0.0
    arpa_weight: float = 0.0
    word_penalty: float = 0.0


def features(nbest, lm, arpa=None):
    """The scores of the hypotheses, a column for each term of `Weights`.

    Scores of the decoding graph go with each language model, which they have the weight of.

    Args:
        nbest: `NBest` of N hypotheses.
        lm: (N,), ln P by the language model.
        arpa: (N,), ln P by an n-gram model, or None.

    Returns:
        float64 (N, 5): acoustic, lm, old_lm, arpa, -words; zeros for what is not given.
    """
    none = np.zeros(len(nbest.sentences))
    graph = none if nbest.graph is None else nbest.graph
    models = [None if of is None else of + graph for of in (lm, nbest.old_lm, arpa)]
    columns = [nbest.acoustic, *models]
    lengths = [-len(words) for words in nbest.sentences]
    return np.stack([none if c is None else c for c in columns] + [lengths], axis=1)


def choose(nbest, scores, weights):
    """The best hypothesis of each utterance: int (U,).

    Args:
        nbest: `NBest` of N hypotheses.
        scores: (N, 5), as `features` returns them.
        weights: `Weights`.
    """
    return nbest.best(scores @ _columns([weights]))[:, 0]


def tune(nbest, scores, errors, grid):
    """The weights of a grid with the fewest word errors, of equals the nearest to the defaults.

    Args:
        nbest: `NBest` of N hypotheses.
        scores: (N, 5), as `features` returns them.
        errors: (N,), word errors of each hypothesis.
        grid: dict from each field of `Weights` to the values to try.

    Returns:
        `Weights`, and the number of errors with them.
    """
    candidates = [Weights(**dict(zip(grid, v))) for v in itertools.product(*grid.values())]
    totals = []
    part = max(1, CELLS // (len(nbest.utterances) * int(np.diff(nbest.starts).max())))
    for start in range(0, len(candidates), part):
        best = nbest.best(scores @ _columns(candidates[start : start + part]))
        totals.append(np.asarray(errors)[best].sum(axis=0))
    totals = np.concatenate(totals)
    fewest = [candidates[i] for i in np.flatnonzero(totals == totals.min())]
    return min(fewest, key=_distance), int(totals.min())


def _distance(weights):
    """From the defaults."""
    plain, own = dataclasses.astuple(Weights()), dataclasses.astuple(weights)
    return sum(abs(a - b) for a, b in zip(own, plain))


def oracle(nbest, errors):
    """The hypothesis of each utterance with the fewest errors (N,): int (U,)."""
    return nbest.best(-np.asarray(errors, np.float64)[:, None])[:, 0]


def hypothesis_errors(nbest, references):
    """Word errors of each hypothesis, int (N,), for what was said in U utterances."""
    sizes = np.diff(nbest.starts)
    repeated = [said for said, size in zip(references, sizes, strict=True) for _ in range(size)]
    return word_errors(repeated, nbest.sentences).sum(axis=1)


def compare(nbest, references, chosen, against=None, seed=1):
    """Word errors before and after rescoring, and of the best choice there is.

    Args:
        nbest: `NBest` of U utterances.
        references: U sequences of words, what was said.
        chosen: int (U,), the hypotheses that rescoring took.
        against: U sequences of words, the output of another system to compare with; None: the
            first hypotheses.
        seed: of the bootstrap.

    Returns:
        dict of JSON values: `utterances`, `words`; `systems`, for each of "1-best", "against" if
        given, "rescored" and "oracle" the numbers of substitutions, deletions and insertions;
        `compared_with`, a system's name; and of rescored against that, per word,
        `difference`, `low`, `high`, `better` (see `word_errors.Difference`).
    """
    best = oracle(nbest, hypothesis_errors(nbest, references))
    systems = {
        "1-best": [nbest.sentences[i] for i in nbest.starts[:-1]],
        **({} if against is None else {"against": against}),
        "rescored": [nbest.sentences[i] for i in chosen],
        "oracle": [nbest.sentences[i] for i in best],
    }
    errors = {name: word_errors(references, said) for name, said in systems.items()}
    words = np.array([len(reference) for reference in references])
    other = "1-best" if against is None else "against"
    difference = bootstrap(errors["rescored"].sum(1), errors[other].sum(1), words, seed=seed)
    counts = {
        name: dict(zip(("substitutions", "deletions", "insertions"), of.sum(0).tolist()))
        for name, of in errors.items()
    }
    return {
        "utterances": len(references), "words": int(words.sum()), "systems": counts,
        "compared_with": other, **dataclasses.asdict(difference),
    }


def lm_scores(scorer, sentences):
    """ln P of N sentences by a `Scorer`, `<eos>` included: float64 (N,)."""
    parts = (sentences[i : i + WINDOW] for i in range(0, len(sentences), WINDOW))
    return np.array([s.sum() for part in parts for s in scorer.sentences(part)])


def arpa_scorer(path):
    """Returns a function from N sequences of words to ln P by an n-gram model, float64 (N,).

    </s> is part of each sentence; words that the model lacks count as its <unk>.

    Args:
        path: of an ARPA file, or of kenlm's own format.

    Raises:
        RuntimeError: kenlm is not installed.
        OSError: the file cannot be read.
    """
    try:
        import kenlm
    except ModuleNotFoundError as error:
        raise RuntimeError("ARPA models need kenlm: pip install 'tfsoftmax[arpa]'") from error
    settings = kenlm.Config()
    settings.show_progress, settings.arpa_complain = False, kenlm.ARPALoadComplain.NONE
    model = kenlm.Model(str(path), settings)

    def scores(sentences):
        return math.log(10) * np.array([model.score(" ".join(words)) for words in sentences])

    return scores


def _columns(candidates):
    """The factors of `features`' columns, (5, M)."""
    return np.array([
        (1.0, w.lm_weight, w.old_lm_weight, w.arpa_weight, w.word_penalty) for w in candidates
    ]).T
