"""Rescoring of n-best lists, word errors and their intervals."""

import dataclasses
import importlib.util
import itertools
import math

import numpy as np
import pytest

from refusals import refused
from tfsoftmax.commands import rescore_inputs
from tfsoftmax.lm.scoring import Scorer
from tfsoftmax.nbest import lists as nbest
from tfsoftmax.nbest import rescoring
from tfsoftmax.nbest.rescoring import Weights
from tfsoftmax.nbest.word_errors import bootstrap, word_errors
from tfsoftmax.runs import runs

KENLM = importlib.util.find_spec("kenlm")
ARPA = """\\data\\
ngram 1=4
ngram 2=1

\\1-grams:
-1.0\t<unk>
-99\t<s>\t-0.5
-0.7\t</s>
-0.3\tcat\t-0.2

\\2-grams:
-0.1\t<s> cat

\\end\\
"""


def random_lists(seed=0, utterances=9, words=("the", "cat", "sat", "on", "a", "mat")):
    rng = np.random.default_rng(seed)
    starts = np.concatenate([[0], np.cumsum(rng.integers(1, 6, utterances))])
    sentences = tuple(tuple(rng.choice(words, rng.integers(0, 6))) for _ in range(starts[-1]))
    names = tuple(f"u{i}" for i in range(utterances))
    scores = rng.normal(size=(2, starts[-1]), scale=3)
    return nbest.NBest(names, starts, sentences, *scores)


def edit_distance(reference, hypothesis):
    """Fewest substitutions, deletions and insertions, by the recursion."""
    table = np.zeros((len(reference) + 1, len(hypothesis) + 1), int)
    table[:, 0], table[0] = range(len(reference) + 1), range(len(hypothesis) + 1)
    for i, j in itertools.product(range(len(reference)), range(len(hypothesis))):
        table[i + 1, j + 1] = min(
            table[i, j + 1] + 1, table[i + 1, j] + 1,
            table[i, j] + (reference[i] != hypothesis[j]),
        )
    return table[-1, -1]


def test_word_errors_are_edit_distances_and_know_their_kinds():
    pytest.importorskip("jiwer")
    pairs = [("a b c", "a b c"), ("a b c", "a x c"), ("a b c", "a c"), ("a c", "a b c"),
             ("", "a b"), ("a b", ""), ("", "")]
    split = [[side.split() for side in pair] for pair in pairs]
    counts = word_errors(*zip(*split))
    np.testing.assert_array_equal(
        counts, [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 2], [0, 2, 0], [0, 0, 0]]
    )
    lists = random_lists(utterances=40)
    references = random_lists(seed=1, utterances=40).sentences[:40]
    expected = [
        edit_distance(references[u], lists.sentences[i])
        for u in range(40) for i in range(*lists.starts[u : u + 2])
    ]
    np.testing.assert_array_equal(rescoring.hypothesis_errors(lists, references), expected)


def test_intervals_cover_the_difference_as_often_as_they_say():
    rng, inside = np.random.default_rng(2), 0
    for trial in range(200):
        words = rng.integers(1, 30, 150)
        hard = rng.poisson(0.1 * words)  # what is hard for both systems
        errors, other = hard + rng.poisson(0.05 * words), hard + rng.poisson(0.08 * words)
        result = bootstrap(errors, other, words, resamples=400, seed=trial)
        inside += result.low <= -0.03 <= result.high
    assert 0.89 <= inside / 200 <= 0.99


def test_the_bootstrap_is_seeded_and_paired():
    rng = np.random.default_rng(0)
    words, errors = rng.integers(1, 30, 50), rng.integers(0, 9, 50)
    other = rng.integers(0, 9, 50)
    first = bootstrap(errors, other, words)
    assert first == bootstrap(errors, other, words) != bootstrap(errors, other, words, seed=2)
    assert first.difference == pytest.approx((errors.sum() - other.sum()) / words.sum())
    assert first.low < first.difference < first.high
    same = bootstrap(errors, errors, words)
    assert (same.low, same.high, same.better) == (0, 0, 0.5)
    assert bootstrap(errors, errors + 1, words).better == 1
    refused("`words` must not all be zero", bootstrap, [1], [0], [0])


def test_the_weighted_sum_of_scores_decides():
    lists = random_lists()
    rng = np.random.default_rng(3)
    lm, arpa = rng.normal(size=(2, len(lists.sentences)))
    weights = Weights(1.7, 0.6, 0.4, 0.3)
    scores = rescoring.features(lists, lm, arpa)
    chosen = rescoring.choose(lists, scores, weights)
    for u, index in enumerate(chosen):
        totals = [
            lists.acoustic[i] + 1.7 * lm[i] + 0.6 * lists.old_lm[i] + 0.4 * arpa[i]
            - 0.3 * len(lists.sentences[i])
            for i in range(*lists.starts[u : u + 2])
        ]
        assert index == lists.starts[u] + np.argmax(totals)


def test_graph_scores_have_the_weight_of_each_language_model():
    lists = random_lists()
    rng = np.random.default_rng(3)
    lm, arpa, graph = rng.normal(size=(3, len(lists.sentences)))
    plain = rescoring.features(lists, lm, arpa)
    scores = rescoring.features(dataclasses.replace(lists, graph=graph), lm, arpa)
    np.testing.assert_allclose(scores - plain, graph[:, None] * [0, 1, 1, 1, 0], atol=1e-12)


@pytest.mark.parametrize("cells", [1, 1 << 22])
def test_tuning_finds_the_weights_with_the_fewest_errors(cells, monkeypatch):
    monkeypatch.setattr(rescoring, "CELLS", cells)
    lists, rng = random_lists(), np.random.default_rng(4)
    scores = rescoring.features(lists, rng.normal(size=len(lists.sentences)))
    errors = rng.integers(0, 5, len(lists.sentences))
    grid = {"lm_weight": (0, 1, 4), "old_lm_weight": (0, 2), "arpa_weight": (0,),
            "word_penalty": (-1, 0, 1)}
    weights, fewest = rescoring.tune(lists, scores, errors, grid)
    by_hand = {
        values: errors[rescoring.choose(lists, scores, Weights(*values))].sum()
        for values in itertools.product(*grid.values())
    }
    assert fewest == min(by_hand.values())
    assert by_hand[dataclasses.astuple(weights)] == fewest


def test_of_equal_weights_those_nearest_to_the_defaults_are_taken():
    lists = random_lists()
    scores, errors = np.zeros((len(lists.sentences), 5)), np.ones(len(lists.sentences), int)
    weights, _ = rescoring.tune(lists, scores, errors, rescoring.GRID)
    assert weights == Weights()


def test_the_first_hypotheses_of_each_utterance_are_kept_with_their_scores():
    lists = random_lists()
    lists = dataclasses.replace(lists, graph=np.arange(len(lists.sentences)))
    for count in (1, 2, 99):
        kept = [
            i for u in range(len(lists.utterances))
            for i in range(*lists.starts[u : u + 2]) if i < lists.starts[u] + count
        ]
        first = rescoring.first_hypotheses(lists, count)
        assert first.sentences == tuple(lists.sentences[i] for i in kept)
        np.testing.assert_array_equal(first.graph, kept)
        np.testing.assert_array_equal(first.acoustic, lists.acoustic[kept])
        assert first.best(-first.acoustic[:, None]).shape == (len(lists.utterances), 1)
    assert rescoring.first_hypotheses(dataclasses.replace(lists, old_lm=None), 1).old_lm is None
    refused("`count` must lie .*Received: count=0", rescoring.first_hypotheses, lists, 0)


def test_carried_states_make_one_text_of_the_hypotheses(finished_run):
    sentences = random_lists(words=finished_run.vocabulary().words[3:9]).sentences
    model, vocabulary, _ = runs.load(finished_run.directory, 1)
    scorer = Scorer(model, vocabulary)
    scorer.stream([("w1", "w2")])  # what was read before does not matter
    carried = rescoring.lm_scores(scorer, sentences, "carried")
    apart = rescoring.lm_scores(scorer, sentences)
    text = [scorer.stream([words])[0].sum() for words in sentences]
    np.testing.assert_allclose(carried, text, rtol=1e-5)
    np.testing.assert_allclose(carried[0], apart[0], rtol=1e-5)
    assert np.abs(carried[1:] - apart[1:]).min() > 1e-3
    with pytest.raises(ValueError, match="`state` must be one of .*Received: state='kept'"):
        rescoring.lm_scores(scorer, sentences, "kept")


def test_the_hypotheses_of_a_speaker_are_one_text(finished_run):
    sentences = random_lists(words=finished_run.vocabulary().words[3:9]).sentences
    speakers = [("a", "b", "c")[i % 3] for i in range(len(sentences) - 1)] + ["d"]
    model, vocabulary, _ = runs.load(finished_run.directory, 2)  # fewer streams than speakers
    scores = rescoring.lm_scores(Scorer(model, vocabulary), sentences, "speaker", speakers)
    scorer = Scorer(*runs.load(finished_run.directory, 1)[:2])
    for speaker in "abcd":
        of_speaker = [i for i, name in enumerate(speakers) if name == speaker]
        alone = rescoring.lm_scores(scorer, [sentences[i] for i in of_speaker], "carried")
        np.testing.assert_allclose(scores[of_speaker], alone, rtol=1e-5)
    one = rescoring.lm_scores(scorer, sentences, "speaker", ["x"] * len(sentences))
    np.testing.assert_allclose(one, rescoring.lm_scores(scorer, sentences, "carried"), rtol=1e-5)
    with pytest.raises(ValueError, match="`speakers` must name one for each of .*Received: None"):
        rescoring.lm_scores(scorer, sentences, "speaker")


def test_speakers_who_say_as_much_are_read_side_by_side():
    class Scorer:
        def texts(self, texts):
            for text in texts:
                given.append(sum(len(words) + 1 for words in text))
                yield [np.full(len(words) + 1, len(given)) for words in text]

    given, done, sentences = [], [], [("a",) * n for n in (1, 1, 9, 0, 2, 1)]
    scores = rescoring.lm_scores(Scorer(), sentences, "speaker", [*"xxyzzx"], done.append)
    assert (given, done) == ([10, 6, 4], [1, 3, 2])
    assert scores.tolist() == [2 * 2, 2 * 2, 10, 3, 3 * 3, 2 * 2]


def test_the_oracle_is_the_least_wrong_of_each_list():
    lists = random_lists()
    errors = np.random.default_rng(5).integers(0, 5, len(lists.sentences))
    for u, index in enumerate(rescoring.oracle(lists, errors)):
        of_list = errors[slice(*lists.starts[u : u + 2])]
        assert errors[index] == of_list.min() and lists.starts[u] <= index < lists.starts[u + 1]


def test_arpa_scores_are_natural_logarithms_of_the_whole_sentence(tmp_path):
    pytest.importorskip("kenlm")
    (tmp_path / "arpa").write_text(ARPA)
    # <s> cat, cat backs off to </s>; <s> backs off to <unk>, then </s>.
    expected = math.log(10) * np.array([-0.1 - 0.2 - 0.7, -0.5 - 1.0 - 0.7])
    scores = rescoring.arpa_scorer(tmp_path / "arpa")([("cat",), ("dog",)])
    np.testing.assert_allclose(scores, expected, rtol=1e-5)


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "kenlm", None)
    monkeypatch.setitem(__import__("sys").modules, "jiwer", None)
    refused(r"needs kenlm: pip install kenlm", rescoring.arpa_scorer, "x", error=RuntimeError)
    refused(r"needs jiwer: pip install jiwer", word_errors, [["a"]], [["a"]], error=RuntimeError)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Weights)])
def test_weights_are_finite(name, value):
    refused(f"`{name}` must be finite. Received: {name}={value}", Weights, **{name: value})


@pytest.mark.parametrize("name, value", [("acoustic", "none"), ("graph", "acoustic, graph, old_lm"),
                                         ("old_lm", "acoustic")])
def test_weights_are_not_tuned_with_other_scores(name, value):
    lists, grid = random_lists(), {"old_lm_weight": (0.0, 1.0)}
    if name == "acoustic":
        lists = dataclasses.replace(lists, old_lm=None)
    other = None if getattr(lists, name) is not None else np.zeros(len(lists.sentences))
    tuning = dataclasses.replace(lists, **{name: other})
    advice = r" \(or --old_lm_weight=0\)" if name == "old_lm" else ""
    message = f"`tune` must have the scores that `nbest` has, .*{advice}. Received: {value}$"
    refused(message, rescore_inputs.check_scores, lists, tuning, grid)
    grid["old_lm_weight"] = (0.0,)
    if name == "old_lm":
        rescore_inputs.check_scores(lists, tuning, grid)
    else:
        with pytest.raises(ValueError, match="`tune` must have the scores that `nbest` has"):
            rescore_inputs.check_scores(lists, tuning, grid)
