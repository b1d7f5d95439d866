"""The measurement of first steps: its page, and bounds as ratios."""

import pytest

from experiments.benchmarks import measure
from experiments.measurements import first_steps


def test_the_page_has_a_row_for_each_head_and_size(tmp_path):
    results = {
        (name, words): first_steps.measured(name, words, 8, 4, str(tmp_path))
        for name in ("full", "tree") for words in (300, 600)
    }
    page = "\n\n".join(first_steps.page_of(results, 8, 4, "a machine"))
    for name in ("full", "tree"):
        assert page.count(f"| {name} | 300 |") == page.count(f"| {name} | 600 |") == 2
    full = results["full", 600]
    assert full["written"] == 2 * full["weights"] + 12  # slots, iterations and learning rate
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("name", first_steps.HEADS)
def test_ten_times_the_words_need_the_tracing_of_few_and_saving_takes_the_weights_once(
    name, tmp_path
):
    few, many = (
        measure.in_a_process(first_steps.measured, name, words, 64, 16, str(tmp_path))
        for words in (200_000, 2_000_000)
    )
    # Blocks of a kernel are few at any V; what is left is the work, which has ten times the words.
    assert many["operations"] < 4 * few["operations"]
    assert many["first"] - many["second"] < 6 * (few["first"] - few["second"])
    assert many["file"] < 1.3 * many["written"]
    if many["written"] > 1 << 28:  # else what Python holds besides is not small
        assert many["saving"] < 1.3 * many["weights"]
