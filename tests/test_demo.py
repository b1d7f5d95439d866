"""What `tfsoftmax demo` shows of a run, in data."""

import json
import math

import numpy as np
import pytest
import tensorflow as tf

from demo_helper import HEADS, VOCABULARY, WORDS, shown_runs
from tfsoftmax.lm.config import ModelConfig
from tfsoftmax.lm.word_groups import grouping_of, likeliest_below, path_of
from tfsoftmax.partitions import tree_builders
from tfsoftmax.runs import runs
from tfsoftmax.runs.shown_run import ShownRun, load_runs


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    return shown_runs(tmp_path_factory.mktemp("demo"))


@pytest.mark.parametrize("head", HEADS)
def test_next_words_are_those_of_the_exact_distribution(shown, head):
    run = shown[head]
    found = dict(run.next_words(["the", "cat"], 99))  # V is 10
    probabilities = run.probabilities(["the", "cat"])
    assert probabilities.sum() == pytest.approx(1, abs=1e-6) and len(found) == len(WORDS)
    for word, probability in found.items():
        assert probability == pytest.approx(probabilities[WORDS.index(word)], rel=1e-5)
    assert list(found.values()) == sorted(found.values(), reverse=True)
    again = dict(run.next_words(["on"], 99))
    assert again != found and dict(run.next_words(["the", "cat"], 99)) == found


@pytest.mark.parametrize("head", HEADS)
def test_a_score_is_the_product_of_the_next_words_probabilities(shown, head):
    run, words = shown[head], ["the", "zebra", "sat"]
    score = run.score(words)
    assert [word for word, _, _ in score] == [*words, "<eos>"]
    assert [unknown for _, _, unknown in score] == [False, True, False, False]
    expected = [
        math.log(dict(run.next_words(words[:i], 99))[word])
        for i, word in enumerate(["the", "<unk>", "sat", "<eos>"])
    ]
    np.testing.assert_allclose([p for _, p, _ in score], expected, rtol=1e-4)
    assert run.unknown([*words, "zebra"]) == ["zebra"]
    assert run.added(words, ["on", "mat"]) == " on mat" and run.added([], ["on"]) == "on"


@pytest.mark.parametrize("search", ["greedy", "beam", "draw"])
def test_continuations_have_the_score_of_their_words(shown, search):
    run, given = shown["tree"], ["the", "zebra"]
    found = run.continuations(given, search, max_words=3, seed=5)
    assert len(found) == (1 if search == "greedy" else 4)
    assert len({each.ended for each in found}) == 2 or search != "beam"
    for each in found:
        log_probs = [p for _, p, _ in run.score([*given, *each.words])][len(given) :]
        expected = sum(log_probs if each.ended else log_probs[:-1])
        assert each.log_prob == pytest.approx(expected, rel=1e-4)
        assert "<unk>" not in each.words


@pytest.mark.parametrize("head", HEADS)
def test_probabilities_of_groups_are_sums_over_their_words(shown, head):
    run, words = shown[head], ["a", "dog"]
    if head in ("full", "tree"):
        assert run.grouping is None
        return
    groups, p = run.groups(words, shown=99), run.probabilities(words)
    assert sorted(word for *_, members in groups for word in members) == sorted(WORDS)
    assert sum(token_share for _, _, token_share, _, _ in groups) == pytest.approx(1)
    for group in groups:
        _, probability, _, count, members = group
        ids = [WORDS.index(word) for word in members]
        assert probability == pytest.approx(p[ids].sum())
        assert ids == sorted(ids) and len(ids) == count  # counts fall with the ids
        assert group in run.groups(words, shown=99, word=members[-1])
    falling = [group[1] for group in groups]
    assert falling == sorted(falling, reverse=True) and len(falling) > 1


def test_the_grouping_is_that_of_the_head(shown):
    kinds = {head: run.grouping and run.grouping.kind for head, run in shown.items()}
    assert kinds == {"full": None, "tree": None, "adaptive": "band", "shortlist": "part",
                     "class": "class", "self_organised": "cluster"}
    assert grouping_of(shown["adaptive"].head).of_word.tolist() == [0] * 3 + [1] * 3 + [2] * 4
    assert shown["full"].tree is None
    own = shown["self_organised"]
    assert grouping_of(own.head).of_word.tolist() == own.head.clusters.tolist()
    assert shown["class"].grouping.of_word.tolist() == shown["class"].head.classes.tolist()


def test_a_path_multiplies_the_decisions_of_a_binary_tree(shown):
    run, words = shown["tree"], ["the", "cat"]
    head, hidden = run.head, run._generator.hidden(words)
    scores = tf.linalg.matvec(head.kernel.value, hidden) + head.bias.value
    for word, path in enumerate(head.tree.paths()):
        edges = path[path >= 0]
        decisions = tf.sigmoid(tf.gather(scores, edges // 2) * (1 - 2.0 * (edges % 2))).numpy()
        steps = run.path(words, WORDS[word])
        taken = [next(b for b in branches if b.taken) for branches in steps]
        np.testing.assert_allclose([b.probability for b in taken], decisions, rtol=1e-4)
        assert math.prod(b.probability for b in taken) == pytest.approx(
            run.probabilities(words)[word], rel=1e-5
        )
        assert taken[-1].likeliest == [word] and taken[-1].words == 1
        assert [sum(b.words for b in branches) for branches in steps] == [
            10, *(b.words for b in taken[:-1])
        ]


def test_of_many_branches_the_likeliest_are_shown_and_the_one_that_is_taken():
    tree = tree_builders.from_nested([["a", "b", "c", "d"], "e"], dict(zip("abcde", range(5))))
    p = np.array([0.1, 0.3, 0.2, 0.05, 0.35])
    np.testing.assert_allclose(np.sort(tree_builders.edge_sums(tree, p)), np.sort([0.65, *p]))
    for word, expected in ((3, [1, 3]), (1, [1, 2])):
        first, second = path_of(tree, word, p, shown=2)
        assert [b.likeliest for b in first] == [[1, 2], [4]] and first[0].taken
        assert [b.probability for b in first] == pytest.approx([0.65, 0.35])
        assert [b.likeliest[0] for b in second] == expected
        assert [b.taken for b in second] == [b.likeliest[0] == word for b in second]
    root = int(np.flatnonzero(tree.words < 0)[0])
    assert likeliest_below(tree, root, p, 9) == [1, 2, 0, 3]


def test_deep_trees_sum_as_loops_do():
    tree = tree_builders.build("random", 37)
    values = np.random.default_rng(0).random(37)
    expected = np.zeros(len(tree.words))
    for word, path in enumerate(tree.paths()):
        expected[path[path >= 0]] += values[word]
    np.testing.assert_allclose(tree_builders.edge_sums(tree, values), expected)


def test_runs_that_cannot_be_read_say_why(tmp_path, generating_run, corpus):
    folder = tmp_path / "young"
    config = ModelConfig("full", embedding_units=6, hidden_units=6)
    described = {"model": {**vars(config)}, "training": {}}
    described["corpus"] = {"task": "sentences", "vocabulary_sha256": VOCABULARY.sha256}
    runs.Run(str(folder)).start(json.loads(json.dumps(described)), VOCABULARY)
    names = [str(folder), generating_run, str(tmp_path / "none"), generating_run]
    loaded = load_runs(names)
    assert list(loaded) == ["young", "run", "none"] and isinstance(loaded["run"], ShownRun)
    assert "too few steps" in loaded["young"] and "must be the directory of a" in loaded["none"]
    with pytest.raises(ValueError, match="too few steps"):
        load_runs([str(folder)])
    with pytest.raises(ValueError, match="must name runs"):
        load_runs([])


def test_runs_of_the_same_name_are_told_apart(generating_run, shown, tmp_path):
    (tmp_path / "run").symlink_to(generating_run)
    given = [generating_run, str(tmp_path / "run")]
    assert list(load_runs(given)) == given
