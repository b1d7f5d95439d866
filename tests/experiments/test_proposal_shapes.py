"""Facts about the picture of the proposal distributions."""

import numpy as np
import pytest

from experiments.measurements import proposal_shapes as shapes

V = 301


@pytest.fixture(scope="module")
def panels():
    counts = 1e6 // np.arange(1, V + 1)
    return shapes.probabilities(np.random.default_rng(0).permutation(counts))


def test_the_curves_are_the_distributions_of_the_thesis_by_rank(panels):
    plain, distorted, interpolated = panels.values()
    unigram = 1e6 // np.arange(1, V + 1)
    distortion = unigram**0.4
    unigram /= unigram.sum()
    ranks = np.arange(1, V + 1)
    for found, expected in (
        (plain["unigram"], unigram),
        (plain["log-uniform"], np.log((ranks + 1) / ranks) / np.log(V + 1)),
        (plain["uniform"], np.full(V, 1 / V)),
        (distorted["alpha = 0.4"], distortion / distortion.sum()),
        (interpolated["λ = 0.8"], 0.8 * unigram + 0.2 / V),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_the_table_has_the_shares_of_frequent_and_rare_words(panels):
    lines = shapes.table(panels).splitlines()
    assert len(lines) == 2 + sum(map(len, panels.values()))
    uniform = next(line for line in lines if line.startswith("| uniform"))
    assert uniform == "| uniform | 0.332 % | 33.2 % | 50.2 % | 0.332 % |"


def test_the_picture_has_a_curve_for_each_distribution(panels):
    pytest.importorskip("matplotlib")
    drawn = shapes.draw(panels, "a note").axes
    assert [len(axes.lines) for axes in drawn] == [len(curves) for curves in panels.values()]
    np.testing.assert_array_equal(drawn[0].lines[0].get_xdata()[:2], [1, 2])
