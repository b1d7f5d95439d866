"""Brown clustering against brute force: costs of mergers, gains of moves, what it finds."""

import itertools

import numpy as np
import pytest

from tfsoftmax.ngrams.counts import Bigrams
from tfsoftmax.partitions import brown
from tfsoftmax.partitions.brown_window import Window

V, T = 9, 400


def text(vocab_size=V, length=T, seed=0):
    """Words of a random Markov chain."""
    rng = np.random.default_rng(seed)
    chances = rng.dirichlet(np.full(vocab_size, 0.5), vocab_size)
    words = [0]
    for _ in range(length):
        words.append(rng.choice(vocab_size, p=chances[words[-1]]))
    return np.array(words)


def bigrams_of(words, vocab_size=V):
    return Bigrams.count([(words[:-1], words[1:])], vocab_size)


def information(words, classes):
    """Average mutual information in nats, from the definition, pair by pair."""
    pairs = [(classes[v], classes[w]) for v, w in zip(words, words[1:])]
    total, result = len(pairs), 0.0
    for c, d in set(pairs):
        joint = pairs.count((c, d)) / total
        front = sum(p == c for p, _ in pairs) / total
        rear = sum(q == d for _, q in pairs) / total
        result += joint * np.log(joint / (front * rear))
    return result


def test_bigrams_are_counted_across_batches(monkeypatch):
    monkeypatch.setattr("tfsoftmax.ngrams.counts.MERGE_AT", 50)
    words = text()
    batches = [(words[i : i + 7], words[i + 1 : i + 8]) for i in range(0, T, 7)]
    bigrams = Bigrams.count([(a[: len(b)], b) for a, b in batches], V)
    table = np.zeros((V, V))
    np.add.at(table, (words[:-1], words[1:]), 1)
    np.testing.assert_array_equal(bigrams.between(np.arange(V), V), table)
    for word in range(V):
        (after, after_counts), (before, before_counts) = bigrams.row(word)
        np.testing.assert_array_equal(np.bincount(after, after_counts, V), table[word])
        np.testing.assert_array_equal(np.bincount(before, before_counts, V), table[:, word])
    np.testing.assert_array_equal(bigrams.totals(), [table.sum(1), table.sum(0)])


def test_every_merger_costs_what_mutual_information_loses():
    words = text()
    bigrams = bigrams_of(words)
    window = Window(5, bigrams)
    steps = 0
    for word in np.argsort(-sum(bigrams.totals()), kind="stable"):
        window.insert(word)
        before = information(words, window.slot_of)
        costs = {}
        for a, b in itertools.permutations(set(range(5)) - set(window.free), 2):
            merged = np.where(window.slot_of == b, a, window.slot_of)
            costs[a, b] = T * (before - information(words, merged))
            np.testing.assert_allclose((window.others - window.gains)[a, b], costs[a, b], atol=1e-9)
        if not window.free:
            a, b = window.cheapest()
            np.testing.assert_allclose(costs[a, b], min(costs.values()), atol=1e-9)
            window.merge(a, b)
            steps += 1
    assert steps == 5


def test_hierarchy_merges_the_cheapest_pair_at_every_step():
    words = text()
    codes = brown.hierarchy(bigrams_of(words).between(np.arange(V), V), lambda done: None)
    classes = np.arange(V)
    while len(set(classes)) > 1:
        costs = {}
        for a, b in itertools.combinations(sorted(set(classes)), 2):
            merged = np.where(classes == b, a, classes)
            costs[a, b] = information(words, classes) - information(words, merged)
        a, b = min(costs, key=costs.get)
        classes[classes == b] = a
        # What is merged is all that begins with one code.
        members = np.flatnonzero(classes == a)
        common = codes[members[0]]
        while not all(codes[m].startswith(common) for m in members):
            common = common[:-1]
        assert [m for m in range(V) if codes[m].startswith(common)] == members.tolist()


def test_exchange_makes_the_best_move_of_each_word_and_raises_information():
    words = text()
    bigrams, classes = bigrams_of(words), np.arange(V) % 3
    order = np.random.default_rng(0).permutation(V)
    moved = 0
    for word in order:
        before, old = information(words, classes), classes[word]
        options = [information(words, np.where(np.arange(V) == word, c, classes)) for c in range(3)]
        alone = np.sum(classes == old) == 1
        moved += brown.exchange(bigrams, [word], classes, 3, lambda done: None)
        expected = before if alone else max(options)
        np.testing.assert_allclose(information(words, classes), expected, atol=1e-12)
    assert moved > 0


def test_information_rises_from_pass_to_pass():
    words = text(60, 5000)
    result = brown.cluster(bigrams_of(words, 60), 6, passes=10)
    rises = np.diff(result.information)
    assert (rises[:-1] > 0).all() and abs(rises[-1]) < 1e-12 and len(rises) > 1
    np.testing.assert_allclose(result.information[-1], information(words, result.classes))


def test_words_that_stand_in_each_others_place_are_classed_together():
    """Sentences of determiner, noun, verb: three classes, three kinds of words."""
    rng = np.random.default_rng(0)
    words = np.stack([rng.integers(0, 4, 3000), rng.integers(4, 14, 3000),
                      rng.integers(14, 21, 3000)], 1).ravel()
    classes = brown.cluster(bigrams_of(words, 21), 3).classes
    kinds = [set(classes[:4]), set(classes[4:14]), set(classes[14:])]
    assert all(len(kind) == 1 for kind in kinds) and len(set.union(*kinds)) == 3


@pytest.mark.parametrize("num_classes", [1, 2, 5, V, 100])
def test_codes_lead_to_as_many_classes_as_were_asked_for(num_classes):
    result = brown.cluster(bigrams_of(text()), num_classes)
    assert set(result.classes) == set(range(min(num_classes, V)))
    codes = sorted(result.codes)
    assert len(set(codes)) == len(codes) == min(num_classes, V)
    assert all(not b.startswith(a) for a, b in zip(codes, codes[1:]))


def test_words_that_never_occur_have_a_class_too():
    result = brown.cluster(bigrams_of(text(), V + 3), 4)
    assert len(result.classes) == V + 3 and np.isfinite(result.information).all()


def test_a_penalty_makes_an_average_token_compute_fewer_scores():
    words = text(40, 6000)
    bigrams, counts = bigrams_of(words, 40), np.bincount(words, minlength=40)
    scores, informations = [], []
    for penalty in (0.0, 0.01, 1.0):
        result = brown.cluster(bigrams, 6, passes=20, speed_penalty=penalty)
        shares = np.bincount(result.classes, counts) / counts.sum()
        scores.append(shares @ np.bincount(result.classes))
        informations.append(information(words, result.classes))
    assert scores[0] > scores[1] > scores[2] and informations[0] > informations[1]


def test_every_move_under_a_penalty_raises_what_is_maximised():
    words, penalty = text(), 0.02
    bigrams = bigrams_of(words)
    firsts = np.bincount(words[:-1], minlength=V)

    def objective(classes):
        shares = np.bincount(classes, firsts, 3) / (len(words) - 1)
        return information(words, classes) - penalty * shares @ np.bincount(classes, minlength=3)

    classes = np.arange(V) % 3
    before = objective(classes)
    while brown.exchange(bigrams, np.arange(V), classes, 3, lambda done: None, penalty):
        assert objective(classes) > before
        before = objective(classes)
    for word in range(V):
        if np.sum(classes == classes[word]) > 1:
            others = [np.where(np.arange(V) == word, c, classes) for c in range(3)]
            assert max(map(objective, others)) <= before + 1e-9
