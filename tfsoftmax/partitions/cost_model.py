"""What the clusters of an adaptive softmax cost: seconds of a training step's matrix products.

A matrix product of N rows with a cluster of k words and d units costs, with the gradients,

    g(N, d, k) = o + max(λ₀, λ N d k + ε N k + μ d k)   seconds,

and an adaptive softmax with shortlist V_h and tails V_1 ... V_K, of mass p_t and d_t units,

    C = g(N, D, V_h + K) + Σ_t g(p_t N, d_t, V_t) + λ p_t N D d_t + μ D d_t.

Source: Müller 2017, eq. 2.17-2.19, and Grave et al. 2017, section 4.1, from whom the rows p_t N are
taken. The thesis multiplies all of g(V_t) by p_t, as though part of an overhead could be paid (eq.
2.18), and eq. 2.19 counts it twice, which is right for one tail. Departures: units, without which
projections would save nothing; ε, the exponential of a logit, which costs as much as a hundred
units on a CPU; μ, a weight, whose gradient is written even if no row needs it; the projections
themselves.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from tfsoftmax.partitions.bands import band_units, checked_cutoffs
from tfsoftmax.support.arguments import ArrayLike, check_at_least, expect, is_number
from tfsoftmax.support.counts import checked_counts


@dataclasses.dataclass(frozen=True)
class MachineCosts:
    """What products cost on one machine, forward and both gradients.

    Attributes:
        overhead_seconds: o, the time that each product takes in addition, at any size.
        multiply_seconds: λ, the time for each combination of a row, a unit and a word.
        logit_seconds: ε, the time for each combination of a row and a word.
        weight_seconds: μ, the time for each combination of a unit and a word.
        least_seconds: λ₀, the least time of a product besides its overhead: λ k₀ of eq. 2.17.

    Example:
        from tfsoftmax.partitions.cost_model import MachineCosts
        costs = MachineCosts(overhead_seconds=1e-4, multiply_seconds=2e-11)
        print(costs.product_seconds(rows=2560, units=512, words=4000))  # 0.105
        cutoffs = tfsoftmax.partitions.cutoffs.auto_cutoffs(range(9000, 0, -1), 64, constants=costs)
    """

    overhead_seconds: float
    multiply_seconds: float
    logit_seconds: float = 0.0
    weight_seconds: float = 0.0
    least_seconds: float = 0.0

    def __post_init__(self):
        for name, value in dataclasses.asdict(self).items():
            right = is_number(value) and value >= 0
            expect(right, name, "be a finite number, not negative", value)
        expect(self.multiply_seconds, "multiply_seconds", "be positive", self.multiply_seconds)

    def product_seconds(self, rows: ArrayLike, units: ArrayLike, words: ArrayLike) -> np.ndarray:
        """g(rows, units, words); numbers or arrays that broadcast."""
        work = words * (self.multiply_seconds * rows * units + self.logit_seconds * rows)
        work = work + self.weight_seconds * units * words
        return self.overhead_seconds + np.maximum(self.least_seconds, work)


class CostModel:
    """Expected seconds of one training step of an adaptive softmax's clusters.

    Args:
        counts: (V,) numbers >= 0 in any order, V at least 2.
        hidden_units: D, units of the hidden state.
        positions: N, labels in a step.
        projection_factor: tail t has D / factor^t units; None for tails without projections.
        constants: `MachineCosts`, or a mapping of its fields.

    Example:
        from tfsoftmax.partitions.cost_model import CostModel, MachineCosts, zipf
        costs = MachineCosts(overhead_seconds=1e-4, multiply_seconds=2e-11)
        model = CostModel(zipf(9000, 1.0), 512, 2560, projection_factor=4.0, constants=costs)
        print(model.seconds([1000, 4000]), model.full_seconds())
    """

    def __init__(
        self, counts: ArrayLike, hidden_units: int, positions: int, projection_factor: float | None,
        constants: MachineCosts | Mapping,
    ):
        self.constants = MachineCosts(**constants) if isinstance(constants, Mapping) else constants
        check_at_least(
            1, hidden_units=hidden_units, positions=positions, projection_factor=projection_factor
        )
        self.hidden_units, self.positions = hidden_units, positions
        self.projection_factor = projection_factor
        self.mass = np.concatenate([[0.0], np.cumsum(_falling(counts))])
        self.mass /= self.mass[-1]
        self.vocab_size = len(self.mass) - 1

    def units(self, tail: int) -> int:
        """Units of tail 1, 2, ..."""
        return band_units(self.hidden_units, tail, self.projection_factor)[tail]

    def full_seconds(self) -> float:
        """Seconds of a softmax without clusters."""
        return float(self.head_seconds(self.vocab_size, 0))

    def head_seconds(self, shortlist: ArrayLike, tails: int) -> np.ndarray:
        """Seconds of the head cluster: `shortlist` words and a logit for each tail."""
        return self.constants.product_seconds(self.positions, self.hidden_units, shortlist + tails)

    def tail_seconds(self, tail: int, begin: ArrayLike, end: ArrayLike) -> np.ndarray:
        """Seconds of tail 1, 2, ... with the words of ranks [begin, end); numbers or arrays."""
        rows = self.positions * (self.mass[end] - self.mass[begin])
        units, costs = self.units(tail), self.constants
        seconds = costs.product_seconds(rows, units, end - begin)
        if self.projection_factor is None:
            return seconds
        return seconds + self.hidden_units * units * (
            costs.multiply_seconds * rows + costs.weight_seconds
        )

    def cluster_seconds(self, cutoffs: Sequence[int]) -> tuple[float, ...]:
        """Seconds of the head and of each tail, a tuple of floats."""
        if not cutoffs:
            return (self.full_seconds(),)
        cutoffs = checked_cutoffs(cutoffs, self.vocab_size)
        pairs = enumerate(zip(cutoffs, [*cutoffs[1:], self.vocab_size]), start=1)
        tails = [self.tail_seconds(t, begin, end) for t, (begin, end) in pairs]
        return tuple(map(float, [self.head_seconds(cutoffs[0], len(cutoffs)), *tails]))

    def seconds(self, cutoffs: Sequence[int]) -> float:
        """C, the seconds of all clusters together."""
        return sum(self.cluster_seconds(cutoffs))


def zipf(vocab_size: int, exponent: float) -> np.ndarray:
    """Unigram probabilities (V,) that fall as 1 / rank^exponent."""
    weights = np.arange(1, vocab_size + 1, dtype=np.float64) ** -float(exponent)
    return weights / weights.sum()


def _falling(counts):
    counts = checked_counts(counts)
    expect(counts.size >= 2, "counts", "be of two words at least", received=f"{counts.size} words")
    return np.sort(counts.astype(np.float64))[::-1]
