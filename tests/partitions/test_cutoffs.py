"""The cost model against loops, and the dynamic programme against every possible cut."""

import itertools

import numpy as np
import pytest

from refusals import refuses
from tfsoftmax.partitions import cutoffs as module
from tfsoftmax.partitions.cost_model import CostModel, MachineCosts, zipf
from tfsoftmax.partitions.cutoffs import auto_cutoffs, best_cutoffs

CONSTANTS = MachineCosts(1e-4, 1.5e-11, 9e-10, 5e-10, 3e-5)
LINEAR = MachineCosts(1e-4, 1.5e-11)


def random_counts(vocab_size, seed=0):
    """Zipf-like counts, in no order, some of them zero."""
    rng = np.random.default_rng(seed)
    return rng.permutation(rng.poisson(1e4 * zipf(vocab_size, 1.1)))


def cost(counts, cutoffs, hidden, positions, factor, k):
    """C of the module's docstring, term by term."""
    p = np.sort(counts)[::-1] / np.sum(counts)

    def g(rows, units, words):
        work = (k.multiply_seconds * rows * units * words + k.logit_seconds * rows * words
                + k.weight_seconds * units * words)
        return k.overhead_seconds + max(k.least_seconds, work)

    total = g(positions, hidden, cutoffs[0] + len(cutoffs))
    ends = [*cutoffs[1:], len(counts)]
    for t, (begin, end) in enumerate(zip(cutoffs, ends), start=1):
        rows = positions * sum(p[begin:end])
        units = hidden if factor is None else max(1, int(hidden // factor**t))
        total += g(rows, units, end - begin)
        if factor is not None:
            total += k.multiply_seconds * rows * hidden * units + k.weight_seconds * hidden * units
    return total


@pytest.mark.parametrize("factor", [None, 1.0, 2.5, 4.0])
@pytest.mark.parametrize("cutoffs", [[1], [30], [3, 17], [2, 9, 36]])
def test_cost_equals_the_equation(factor, cutoffs):
    counts = random_counts(37)
    model = CostModel(counts, 20, 64, factor, CONSTANTS)
    expected = cost(counts, cutoffs, 20, 64, factor, CONSTANTS)
    np.testing.assert_allclose(model.seconds(cutoffs), expected, rtol=1e-12)
    assert len(model.cluster_seconds(cutoffs)) == len(cutoffs) + 1


def test_linear_cost_is_that_of_the_thesis():
    """Eq. 2.19 as Grave et al. have it: an overhead for each cluster."""
    p, positions, hidden = zipf(1000, 1.0), 100, 50
    model = CostModel(p, hidden, positions, None, LINEAR)
    slope = LINEAR.multiply_seconds * positions * hidden
    expected = 2 * LINEAR.overhead_seconds + slope * (200 + 1 + p[200:].sum() * 800)
    np.testing.assert_allclose(model.seconds([200]), expected, rtol=1e-12)


@pytest.mark.parametrize(
    "constants", [CONSTANTS, LINEAR, MachineCosts(1e-9, 1e-12, least_seconds=1e-6)]
)
@pytest.mark.parametrize("factor", [None, 4.0])
@pytest.mark.parametrize("tails", [1, 2, 3])
def test_the_programme_finds_the_cheapest_of_all_cuts(tails, factor, constants):
    counts = random_counts(24, seed=tails)
    model = CostModel(counts, 64, 2560, factor, constants)
    cuts = itertools.combinations(range(1, 24), tails)
    best = min(cost(counts, c, 64, 2560, factor, constants) for c in cuts)
    found = best_cutoffs(model, tails)
    assert len(found) == tails
    np.testing.assert_allclose(model.seconds(found), best, rtol=1e-12)


@pytest.mark.parametrize("factor", [None, 4.0])
@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.5])
def test_a_coarse_grid_loses_nothing_that_counts(factor, exponent, monkeypatch):
    model = CostModel(zipf(2500, exponent), 256, 2560, factor, CONSTANTS)
    monkeypatch.setattr(module, "GRID", 2500)
    exact = model.seconds(best_cutoffs(model, 3))
    monkeypatch.setattr(module, "GRID", 60)
    coarse = best_cutoffs(model, 3)
    assert model.seconds(coarse) <= exact * (1 + 1e-6)


def test_no_neighbouring_rank_is_better_in_a_large_vocabulary():
    model = CostModel(zipf(100_000, 1.0), 512, 2560, 4.0, CONSTANTS)
    found = best_cutoffs(model, 2)
    for i, step in itertools.product(range(2), (-1, 1)):
        moved = list(found)
        moved[i] += step
        assert model.seconds(moved) >= model.seconds(found)


def test_costs_by_shortlist_are_those_of_the_model():
    model = CostModel(random_counts(50), 64, 2560, 4.0, CONSTANTS)
    costs = module.one_tail_seconds(model, np.arange(1, 50))
    np.testing.assert_allclose(costs, [model.seconds([s]) for s in range(1, 50)], rtol=1e-12)
    assert best_cutoffs(model, 1) == [1 + costs.argmin()]


def test_best_number_of_tails_is_the_cheapest_that_is_not_too_narrow():
    counts = random_counts(5000)
    options = {"hidden_units": 512, "projection_factor": 4.0, "constants": CONSTANTS}
    model = CostModel(counts, 512, 2560, 4.0, CONSTANTS)
    costs = {n: model.seconds(auto_cutoffs(counts, tails=n, **options)) for n in (1, 2, 3)}
    best = auto_cutoffs(counts, **options)
    np.testing.assert_allclose(model.seconds(best), min(costs.values()), rtol=1e-12)
    assert model.units(len(best)) >= module.LEAST_UNITS
    dear = MachineCosts(1.0, 1.5e-11)  # each product costs a second: one tail
    assert len(auto_cutoffs(counts, 512, constants=dear)) == 1


def test_order_of_counts_and_form_of_constants_do_not_matter():
    counts = random_counts(3000)
    found = auto_cutoffs(counts, 128, constants=CONSTANTS, tails=2)
    mapping = {"overhead_seconds": 1e-4, "multiply_seconds": 1.5e-11, "logit_seconds": 9e-10,
               "weight_seconds": 5e-10, "least_seconds": 3e-5}
    assert auto_cutoffs(np.sort(counts), 128, constants=mapping, tails=2) == found
    assert all(type(c) is int for c in found)


def test_uniform_words_are_cut_in_the_middle_and_skewed_ones_early():
    """Müller 2017, section 5.1.1.2 and figure 5.2."""
    constants = MachineCosts(0.0, 1.5e-11)
    cuts = [auto_cutoffs(zipf(10_000, n), 512, projection_factor=None, tails=1, constants=constants)
            for n in (0.0, 0.5, 1.0, 1.5)]
    assert cuts[0] == [5000]
    assert cuts == sorted(cuts, reverse=True) and cuts[-1][0] < 300


@pytest.mark.parametrize("vocab_size", [2, 3])
def test_smallest_vocabularies_have_a_cut(vocab_size):
    assert auto_cutoffs(np.ones(vocab_size), 7, constants=CONSTANTS) in ([1], [2], [1, 2])


@pytest.mark.slow
def test_cutoffs_of_eight_hundred_thousand_words_are_found():
    found = auto_cutoffs(zipf(800_000, 1.0), 512, projection_factor=None, constants=CONSTANTS)
    assert len(found) == 5


@pytest.mark.parametrize("name, rule, arguments", [
    ("counts", "be of two words at least. Received: 1 words", {"counts": [3]}),
    ("counts", "Received: -1 for word 1", {"counts": [3, -1]}),
    ("counts", "Received: all zero", {"counts": [0, 0]}),
    ("hidden_units", "be at least 1", {"hidden_units": 0}),
    ("hidden_units", "be an integer", {"hidden_units": "8"}),
    ("positions", "be at least 1", {"positions": 0}),
    ("projection_factor", "be at least 1", {"projection_factor": 0.5}),
    ("tails", "lie in [1, 3), ", {"tails": 3}),
    ("tails", "be an integer", {"tails": 1.5}),
    ("multiply_seconds", "", {"constants": {"overhead_seconds": 1.0, "multiply_seconds": 0.0}}),
    ("overhead_seconds", "", {"constants": {"overhead_seconds": "x", "multiply_seconds": 1.0}}),
    ("overhead_seconds", "", {"constants": {"overhead_seconds": -1.0, "multiply_seconds": 1.0}}),
])
def test_bad_arguments_are_named(name, rule, arguments):
    defaults = {"counts": [3, 2, 1], "hidden_units": 8, "constants": CONSTANTS}
    with refuses(name, rule):
        auto_cutoffs(**{**defaults, **arguments})


@pytest.mark.parametrize("cutoffs", [[0], [2, 2], [3], [2, 1]])
def test_impossible_cutoffs_are_named(cutoffs):
    with refuses("cutoffs", "below 3"):
        CostModel([3, 2, 1], 8, 2560, None, CONSTANTS).seconds(cutoffs)
