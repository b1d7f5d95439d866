"""Classes of words: sizes, shares of frequency, codes, and their tree."""

from fractions import Fraction

import numpy as np
import pytest

from refusals import refuses
from tfsoftmax.heads import ClassSoftmax
from tfsoftmax.partitions import classes, code_files


def zipf(vocab_size, seed=0):
    counts = 1_000_000 // np.arange(1, vocab_size + 1)
    return np.random.default_rng(seed).permutation(counts)


@pytest.mark.parametrize("vocab_size, num_classes", [(1, 1), (2, 2), (13, 4), (1000, 32)])
def test_equal_classes_differ_in_size_by_at_most_one(vocab_size, num_classes):
    sizes = np.bincount(classes.equal_size(np.arange(vocab_size)[::-1], num_classes))
    assert len(sizes) == num_classes and np.ptp(sizes) <= 1


def test_frequency_classes_are_those_of_the_rnnlm_toolkit():
    counts = [50, 20, 10, 10, 5, 3, 1, 1]
    # Shares .50 .70 .80 .90 .95 .98 .99 1.0 against 1/4, 2/4, 3/4.
    assert classes.by_frequency(counts, 4).tolist() == [0, 1, 2, 3, 3, 3, 3, 3]


def binned(counts, num_classes, power, binning):
    """The rules word by word, in exact fractions where the power is 1."""
    mass = [Fraction(int(c)) if power == 1 else c**power for c in counts]
    result, current, of_class, of_all = [None] * len(counts), 0, 0, 0
    for word in sorted(range(len(counts)), key=lambda w: (-counts[w], w)):
        result[word] = current
        of_class, of_all = of_class + mass[word], of_all + mass[word]
        share, limit = (of_class, 1) if binning == "separate" else (of_all, current + 1)
        if share > sum(mass) * limit / num_classes and current < num_classes - 1:
            current, of_class = current + 1, 0
    return result


@pytest.mark.parametrize("binning", classes.BINNINGS)
@pytest.mark.parametrize("power", [1, 0.5])
@pytest.mark.parametrize("counts", [zipf(300), np.full(12, 9), np.array([90, 5, 5]), [4]])
def test_frequency_classes_follow_their_rule_word_by_word(binning, power, counts):
    counts = np.asarray(counts)
    for num_classes in {1, min(3, len(counts)), len(counts) // 4 + 1}:
        found = classes.by_frequency(counts, num_classes, power, binning)
        assert found.tolist() == binned(counts, num_classes, power, binning)


def test_separate_classes_each_exceed_their_share_and_so_are_fewer():
    counts = zipf(1000)
    cumulative, separate = (classes.by_frequency(counts, 40, binning=b) for b in classes.BINNINGS)
    shares = np.bincount(separate, counts) / counts.sum()
    assert (shares[:-1] > 1 / 40).all() and separate.max() < cumulative.max()
    options = {"counts": counts, "num_classes": 40, "classes": "frequency"}
    assert ClassSoftmax(1000, **options).classes.tolist() == cumulative.tolist()
    assert ClassSoftmax(1000, **options, binning="separate").classes.tolist() == separate.tolist()


def test_codes_make_classes_of_words_that_begin_alike():
    codes = ["0000", "0001", "001", "1", "0000"]
    assert classes.from_codes(codes).tolist() == [0, 1, 2, 3, 0]
    assert classes.from_codes(codes, 3).tolist() == [0, 0, 1, 2, 0]


def test_class_tree_holds_the_words_of_each_class():
    tree = classes.class_tree(np.array([1, 0, 1, 2, 1]))
    assert tree.sizes.tolist() == [3, 1, 3, 1]
    assert tree.words.tolist() == [-1, -1, -1, 1, 0, 2, 4, 3]


def scores_of(found, counts):
    """C + Σ P(c) |c|, the scores that an average word needs."""
    sizes = np.bincount(found)
    return len(sizes) + np.bincount(found, counts / counts.sum()) @ sizes


def test_scores_of_classes_are_those_of_the_map():
    """docs/map.md: R = C + Σ P(c) |c| is 2 √V for equal sizes and equal frequency, and
    C + (Σ √P(w))² / C for equal sums of square roots."""
    counts = np.round(1e7 / np.arange(1, 10_001)).astype(int)
    names = ("equal", "frequency", "sqrt_frequency", "fastest")
    found = {name: scores_of(classes.build(name, len(counts), counts=counts), counts)
             for name in names}
    assert found["equal"] == pytest.approx(200) == pytest.approx(found["frequency"], rel=1e-3)
    roots = np.sqrt(counts / counts.sum()).sum()
    assert found["sqrt_frequency"] == pytest.approx(100 + roots**2 / 100, rel=1e-3)
    assert found["fastest"] < found["sqrt_frequency"] < 150


def test_build_from_a_file(tmp_path):
    words = [f"w{i}" for i in range(5)]
    code_files.write_codes(tmp_path / "paths", ["000", "001", "01", "1", "000"], words, range(5))
    assert classes.build(tmp_path / "paths", 5, words=words).tolist() == [0, 1, 2, 3, 0]
    assert classes.build(tmp_path / "paths", 5, 3, words=words).tolist() == [0, 0, 1, 2, 0]


def test_build_defaults_to_the_square_root_of_the_vocabulary():
    assert classes.build("equal", 10_000).max() == 99
    assert classes.build("equal", 10_001).max() == 100


@pytest.mark.parametrize("name, rule, call", [
    ("num_classes", "lie in [1, 5]", lambda: classes.equal_size(np.arange(5), 6)),
    ("classes", "from 0 on without gaps. Received: 2 classes from 0 to 2",
     lambda: classes.class_tree(np.array([0, 2, 2]))),
    ("counts", "be given for classes='frequency'", lambda: classes.build("frequency", 5)),
    ("classes", "have one number for each word, shape (5,)",
     lambda: classes.build(np.zeros(4, int), 5)),
    ("binning", "be one of",
     lambda: ClassSoftmax(9, "frequency", num_classes=4, counts=zipf(9), binning="bins")),
    ("num_classes", "be unset for classes='fastest'",
     lambda: ClassSoftmax(10, "fastest", num_classes=3, counts=zipf(10))),
])
def test_mistakes_are_named(name, rule, call):
    with refuses(name, rule):
        call()


def least_scores(counts):
    """The least C + Σ P(c) |c| of all classes of neighbours by falling counts, by trying all."""
    share = np.cumsum([0, *sorted(counts / counts.sum(), reverse=True)])
    least = [0.0]
    for end in range(1, len(counts) + 1):
        least.append(min(
            least[start] + 1 + (share[end] - share[start]) * (end - start) for start in range(end)
        ))
    return least[-1]


@pytest.mark.parametrize("vocab_size", [1, 2, 3, 13, 60, 151])
def test_fastest_classes_compute_the_fewest_scores(vocab_size):
    rng = np.random.default_rng(vocab_size)
    for counts in (
        zipf(vocab_size), rng.integers(1, 1000, vocab_size), np.full(vocab_size, 7),
        np.append(np.zeros(vocab_size - 1, int), 5),
    ):
        scores = scores_of(classes.build("fastest", vocab_size, counts=counts), counts)
        assert scores == pytest.approx(least_scores(counts), rel=1e-9)
