"""Facts about ROUGE, its intervals, and summaries that nothing was trained for."""

import collections
import math

import numpy as np
import pytest

from experiments.inputs.title_baselines import NearestTitles, first_words
from refusals import refused
from tfsoftmax.pairs.rouge import DUC_BYTES, first_bytes, rouge, rouge_scores
from tfsoftmax.pairs.stems import stem
from tfsoftmax.support.resampling import estimated_mean, resampled_ratios

REFERENCE = "police killed the gunman"  # Lin 2004, section 3
PERL = {  # recall, precision and F1 that ROUGE-1.5.5.pl printed, by the number of bytes
    None: {"rouge1": (0.30303, 0.38462, 0.33898), "rouge2": (0.03226, 0.04167, 0.03637),
           "rougeL": (0.21212, 0.26923, 0.23729)},
    75: {"rouge1": (0.35714, 0.38462, 0.37037), "rouge2": (0.03846, 0.04167, 0.04000),
         "rougeL": (0.25000, 0.26923, 0.25926)},
}
STEMS = (
    "rise drive wolf well bad testes is agreem agreem replac apolog accid happi yearli sai ski ti "
    "agre feed hop hope fall relat condit adopt nation 1980 control roll cement oed"
)


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
    """Ten words of six letters and blanks are 70 bytes; then five letters of the next one count, of
    the summary and of the reference."""
    words = [f"word{chr(97 + i)}x" for i in range(20)]
    cut = fractions(" ".join(words[:14]), [" ".join(words)], max_bytes=DUC_BYTES, stem=False)
    assert cut["rouge1"] == cut["rouge2"] == cut["rougeL"] == [1, 1, 1]
    later = " ".join(words[5:])
    cut = fractions(" ".join(words), [later], max_bytes=DUC_BYTES, stem=False)
    assert cut["rouge1"][:2] == [5 / 11, 5 / 11]
    found = rouge([" ".join(words)], [[later]], "recall", DUC_BYTES, stem=False)
    assert found["rouge1"].value == pytest.approx(100 * 5 / 11)


def test_scores_with_stems_are_those_of_the_perl_program():
    """ROUGE-1.5.5.pl -m -n 2, without and with -b 75, printed the expected values."""
    assert fractions("oil prices rose", ["oil prices rise"])["rouge2"] == [1, 1, 1]
    summary = "The children's agreement was better than the replaced wolves' policies of 1980s"
    references = [
        "A child agreed that good policy is to replace the wolf, the relation of nations agreeing",
        "the children were falling behind the worst feet and geese, which men drove or lost long "
        "ago",
    ]
    for max_bytes, expected in PERL.items():
        found = fractions(summary, references, max_bytes=max_bytes)
        for name, values in expected.items():
            assert found[name] == pytest.approx(values, abs=2e-5), (max_bytes, name)


def test_stems_are_those_of_the_perl_program():
    """Of the irregular forms the base forms; "better" is the adverb's, "is" has three letters."""
    words = (
        "rose driven wolves better worst testes is agreement agreements replacement apologize "
        "accidentally happiness yearly saying skies ties agreed feed hopping hoping falling "
        "relational conditional adoption national 1980s controlled rolling cement oed"
    )
    assert [stem(word) for word in words.split()] == STEMS.split()


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
    monkeypatch.setattr("tfsoftmax.support.resampling.CELLS", 1)
    assert len(resampled_ratios(values, weights, 9, seed=3)) == 9


@pytest.mark.parametrize("arguments, message", [
    ((["a"], []), "`references` must have a list for each summary.*Received: 0 lists for 1"),
    (([], []), "`references` must have a list for each summary"),
    ((["a"], ["a b"]), r"`references` must have a list of one or more .*references\[0\]='a b'"),
    ((["a"], [[]]), "`references` must have a list of one or more"),
    ((["a"], [["a"]], "fmeasure"), "`measure` must be one of recall, precision, f1"),
    ((["a"], [["a"]], "f1", 0), "`max_bytes` must be at least 1. Received: max_bytes=0"),
])
def test_wrong_arguments_are_refused(arguments, message):
    refused(message, rouge, *arguments)


def test_first_words():
    assert first_words(["the cat sat on it", "a dog", ""], 3) == ["the cat sat", "a dog", ""]
    refused("`count` must be at least 1. Received: count=0", first_words, ["a"], 0)


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
    refused("`titles` must have one title for each source", NearestTitles, ["a"], [])
