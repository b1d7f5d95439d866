"""Facts about ROUGE, its intervals, and summaries that nothing was trained for."""

import collections
import math
import sys

import numpy as np
import pytest

from tfsoftmax.resampling import estimated_mean, resampled_ratios
from tfsoftmax.seq2seq import rouge as rouge_module
from tfsoftmax.seq2seq.baselines import NearestTitles, first_words
from tfsoftmax.seq2seq.rouge import DUC_BYTES, first_bytes, rouge, rouge_scores

REFERENCE = "police killed the gunman"  # Lin 2004, section 3


def fractions(summary, references, **options):
    """Recall, precision and F1 of one summary, by type."""
    found = rouge_scores([summary], [references], **options)
    return {name: rows[0].tolist() for name, rows in found.items()}


def test_the_example_of_the_paper():
    """Of both summaries three words match; only of the first one bigram and the order of three."""
    first = fractions("police kill the gunman", [REFERENCE], stem=False)
    assert first["rouge1"] == first["rougeL"] == [3 / 4, 3 / 4, 3 / 4]
    assert first["rouge2"] == [1 / 3, 1 / 3, 1 / 3]
    second = fractions("the gunman kill police", [REFERENCE], stem=False)
    assert second["rouge1"] == [3 / 4, 3 / 4, 3 / 4]
    assert second["rougeL"] == [2 / 4, 2 / 4, 2 / 4]
    assert fractions("police kill the gunman", [REFERENCE])["rouge1"] == [1, 1, 1]  # stems


def test_recall_and_precision_divide_by_their_own_words():
    """Of 5 words 3 match the 6 of the reference; of 4 bigrams 1 matches the 5. A word counts as
    often as it occurs in both: "the" twice, not three times."""
    found = fractions("the the the cat dog", ["the cat on the mat sat"], stem=False)
    assert found["rouge1"] == [3 / 6, 3 / 5, 6 / 11]
    assert found["rouge2"] == [1 / 5, 1 / 4, 2 / 9]
    assert found["rougeL"] == [2 / 6, 2 / 5, 4 / 11]  # the cat


def test_matches_of_several_references_are_summed():
    """Words: 2 of 3 and 1 of 5 match, so 3 of 8, and 3 of twice 4. Bigrams: 1 of 2 + 4."""
    references = ["a b c", "a x y z q"]
    found = fractions("a b u v", references, stem=False)
    assert found["rouge1"] == [3 / 8, 3 / 8, 3 / 8]
    assert found["rouge2"] == [1 / 6, 1 / 6, 1 / 6]
    assert found["rougeL"] == [3 / 8, 3 / 8, 3 / 8]


def test_recall_of_the_first_75_bytes():
    """Ten words of six letters and blanks are 70 bytes; then five letters of the next one count."""
    words = [f"word{chr(97 + i)}x" for i in range(15)]
    cut = fractions(" ".join(words), [" ".join(words)], max_bytes=DUC_BYTES, stem=False)
    assert cut["rouge1"][:2] == [10 / 15, 10 / 11]
    assert cut["rouge2"][0] == 9 / 14
    found = rouge([" ".join(words)], [[" ".join(words)]], "recall", DUC_BYTES, stem=False)
    assert found["rouge1"].value == pytest.approx(100 * 10 / 15)


def test_bytes_do_not_end_inside_a_letter():
    assert first_bytes("naïve", 3) == "na" and first_bytes("naïve", 4) == "naï"
    assert first_bytes("naïve", None) == "naïve"


def test_scores_equal_loops_over_n_grams():
    rng = np.random.default_rng(5)

    def text(most):
        return " ".join(rng.choice(list("abcdefg"), rng.integers(1, most)))

    summaries = [text(9) for _ in range(40)]
    references = [[text(9) for _ in range(3)] for _ in summaries]
    found = rouge_scores(summaries, references, stem=False)
    for row, (summary, texts) in enumerate(zip(summaries, references)):
        for n in (1, 2):
            grams = [collections.Counter(zip(*(t.split()[i:] for i in range(n))))
                     for t in (summary, *texts)]
            matches = sum((grams[0] & other).total() for other in grams[1:])
            recall = matches / max(1, sum(other.total() for other in grams[1:]))
            precision = matches / max(1, 3 * grams[0].total())
            np.testing.assert_allclose(found[f"rouge{n}"][row, :2], [recall, precision])


def test_an_empty_summary_scores_zero_and_identity_one_hundred():
    found = rouge(["", "the cat sat"], [["the cat"], ["the cat sat"]])
    for name, value in found.items():
        assert value.value == 50, name
        assert (value.low, value.high) == (0, 100)


def test_intervals_contain_the_mean_as_often_as_they_say():
    rng, hits = np.random.default_rng(0), 0
    for seed in range(200):
        found = estimated_mean(rng.exponential(2.0, 60), level=0.8, resamples=300, seed=seed)
        hits += found.low < 2.0 < found.high
    assert 0.68 < hits / 200 < 0.88


def test_intervals_are_those_of_a_loop(monkeypatch):
    values, weights = np.array([1.0, 5.0, 0.0, 2.0]), np.array([0.1, 0.2, 0.0, 0.3])
    drawn = np.random.default_rng(3).integers(0, 4, (9, 4))
    loop = [values[d].sum() / weights[d].sum() if weights[d].any() else 0 for d in drawn]
    np.testing.assert_allclose(resampled_ratios(values, weights, 9, seed=3), loop)
    monkeypatch.setattr("tfsoftmax.resampling.CELLS", 1)
    assert len(resampled_ratios(values, weights, 9, seed=3)) == 9


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((["a"], []), "`references` must have a list for each summary.*Received: 0 lists for 1"),
        (([], []), "`references` must have a list for each summary"),
        ((["a"], ["a b"]), r"`references` must have a list of one or more .*references\[0\]='a b'"),
        ((["a"], [[]]), "`references` must have a list of one or more"),
        ((["a"], [["a"]], "fmeasure"), "`measure` must be one of recall, precision, f1"),
        ((["a"], [["a"]], "f1", 0), "`max_bytes` must be at least 1. Received: max_bytes=0"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        rouge(*arguments)


def test_without_rouge_score_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    with pytest.raises(RuntimeError, match=r"pip install 'tfsoftmax\[summaries\]'"):
        rouge_module.rouge(["a"], [["a"]])


def test_first_words():
    assert first_words(["the cat sat on it", "a dog", ""], 3) == ["the cat sat", "a dog", ""]
    with pytest.raises(ValueError, match="`count` must be at least 1. Received: count=0"):
        first_words(["a"], 0)


def test_nearest_titles_are_those_of_the_greatest_cosine():
    rng = np.random.default_rng(1)
    words = [f"w{i}" for i in range(12)]
    sources = [" ".join(rng.choice(words, rng.integers(1, 9))) for _ in range(30)] + ["", "w1 w1"]
    nearest = NearestTitles(sources, [f"title {i}" for i in range(len(sources))])
    texts = [set(source.split()) for source in sources]

    def vector(text):
        counts = collections.Counter(text.split())
        return np.array([
            counts[w] * math.log(len(sources) / sum(w in text for text in texts)) for w in words
        ])

    def cosine(a, b):
        norms = np.linalg.norm(a) * np.linalg.norm(b)
        return a @ b / norms if norms else 0.0

    for _ in range(40):
        asked = " ".join(rng.choice([*words, "unseen"], rng.integers(1, 9)))
        cosines = [cosine(vector(asked), vector(source)) for source in sources]
        found = int(nearest.titles([asked])[0].split()[1])
        assert cosines[found] == pytest.approx(max(cosines))
    assert nearest.titles(["unseen", ""]) == ["title 0"] * 2
    with pytest.raises(ValueError, match="`titles` must have one title for each source"):
        NearestTitles(["a"], [])
