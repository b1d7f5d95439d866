"""Where to cut the vocabulary of an adaptive softmax so that a training step costs least."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from tfsoftmax.partitions.bands import frequency_order
from tfsoftmax.partitions.calibration import machine_constants
from tfsoftmax.partitions.cost_model import CostModel, MachineCosts
from tfsoftmax.support.arguments import ArrayLike, checks_arguments, expect
from tfsoftmax.support.counts import checked_counts

MOST_TAILS = 5
# Narrower tails are chosen only on request: the model counts seconds, not what a word needs.
LEAST_UNITS = 8
GRID = 1000
WINDOW = 64


@checks_arguments
def auto_cutoffs(
    counts: ArrayLike, hidden_units: int, positions: int = 2560,
    projection_factor: float | None = 4.0, tails: int | None = None,
    constants: MachineCosts | Mapping | None = None,
) -> list[int]:
    """The cutoffs that cost least on this machine.

    Args:
        counts: (V,) numbers >= 0, occurrences of each word, in any order.
        hidden_units: D, units of the hidden state.
        positions: N, labels in a training step.
        projection_factor: tail t has D / factor^t units; None for tails without projections.
        tails: number of tails, or None for the number that costs least, of at most `MOST_TAILS`
            tails, none of them narrower than `LEAST_UNITS`.
        constants: `MachineCosts` or a mapping of its fields; None for those of this machine,
            which are measured once, in a few seconds, and kept in a file.

    Returns:
        List of int: the frequency rank at which each tail begins, rising, below V.

    Raises:
        ValueError: if an argument does not fit, or there are not more words than tails.

    Example:
        counts = [1_000_000 // rank for rank in range(1, 20_001)]
        costs = {"overhead_seconds": 1e-4, "multiply_seconds": 2e-11}
        cutoffs = tfsoftmax.partitions.cutoffs.auto_cutoffs(counts, 512, constants=costs)
        head = tfsoftmax.AdaptiveSoftmax(20_000, cutoffs)
    """
    if constants is None:
        constants = machine_constants()
    model = CostModel(counts, hidden_units, positions, projection_factor, constants)
    numbers = sensible_tails(model) if tails is None else [tails]
    return min((best_cutoffs(model, number) for number in numbers), key=model.seconds)


def are_automatic(
    cutoffs: Sequence[int] | str, counts: ArrayLike | None, vocab_size: int
) -> bool:
    """Whether an option `cutoffs` asks for the cheapest cutoffs, for which it needs counts.

    Raises:
        ValueError: `cutoffs` is another string than "auto", or it is "auto" and `counts` are not
            one number for each of the words.
    """
    if not isinstance(cutoffs, str):
        return False
    expect(
        cutoffs == "auto" and counts is not None, "cutoffs",
        'be a list of ranks, or "auto" together with `counts`',
        received={"cutoffs": cutoffs, "counts": counts},
    )
    checked_counts(counts, vocab_size)
    return True


def automatic_cutoffs(counts, permutation, units, projection_factor, tails=None):
    """The cutoffs of least expected cost for (V,) counts and D units, the same in all workers.

    The machine is that of the first worker of the strategy in scope.
    """
    from tfsoftmax.ops.replicas import of_first_worker

    costs = dataclasses.astuple(machine_constants())
    constants = MachineCosts(*of_first_worker(np.float64(costs)).tolist())
    order = frequency_order(len(counts), counts, permutation)
    falling = np.asarray(counts)[order.ids]
    return auto_cutoffs(
        falling, units, projection_factor=projection_factor, tails=tails, constants=constants
    )


def sensible_tails(model: CostModel) -> list[int]:
    """Numbers of tails to choose from, unless the user says how many."""
    least = min(LEAST_UNITS, model.units(1))
    numbers = range(1, min(MOST_TAILS, model.vocab_size - 1) + 1)
    return [tails for tails in numbers if model.units(tails) >= least]


def best_cutoffs(model: CostModel, tails: int) -> list[int]:
    """The cheapest cutoffs for a number of tails, by dynamic programming.

    The result is exact for vocabularies of up to `GRID` words. For larger ones it is the best
    among `GRID` geometrically spaced ranks, refined until no neighbouring rank is better.

    Args:
        model: `CostModel`.
        tails: number of tails, from 1 to V - 1.

    Returns:
        List of `tails` int.

    Source: Grave et al. 2017, section 4.2, who propose the dynamic programme.
    """
    expect(1 <= tails < model.vocab_size, "tails",
           f"lie in [1, {model.vocab_size}), so that each cluster has a word", tails)
    ranks = np.unique(np.geomspace(1, model.vocab_size - 1, GRID).round().astype(np.int64))
    ranks = np.union1d(ranks, np.arange(1, min(GRID, model.vocab_size)))
    while True:
        cutoffs = _cheapest_among(ranks, model, tails)
        finer = np.union1d(ranks, np.concatenate([_window(ranks, c) for c in cutoffs]))
        if len(finer) == len(ranks):
            return cutoffs
        ranks = finer


def one_tail_seconds(model: CostModel, shortlists: ArrayLike) -> np.ndarray:
    """Cost with a single tail for each size of the shortlist: (S,) seconds for (S,) integers.

    Source: Müller 2017, figure 5.2.
    """
    shortlists = np.asarray(shortlists)
    return model.head_seconds(shortlists, 1) + model.tail_seconds(1, shortlists, model.vocab_size)


def _cheapest_among(ranks, model, tails):
    """The dynamic programme: best[j], the least cost of all clusters before ranks[j]."""
    best, choices = model.head_seconds(ranks, tails), []
    begin, end = ranks[:, None], ranks[None, :]
    later = begin < end
    for tail in range(1, tails):
        costs = np.where(later, best[:, None] + model.tail_seconds(tail, begin, end), np.inf)
        choices.append(costs.argmin(axis=0))
        best = np.take_along_axis(costs, choices[-1][None], axis=0)[0]
    j = int(np.argmin(best + model.tail_seconds(tails, ranks, model.vocab_size)))
    path = [j]
    for choice in reversed(choices):
        path.append(int(choice[path[-1]]))
    return [int(ranks[j]) for j in reversed(path)]


def _window(ranks, cutoff):
    """At most about `WINDOW` evenly spaced ranks between the neighbours of a cutoff."""
    j = np.searchsorted(ranks, cutoff)
    low, high = ranks[max(j - 1, 0)], ranks[min(j + 1, len(ranks) - 1)]
    return np.unique(np.linspace(low, high, WINDOW).round().astype(np.int64))
