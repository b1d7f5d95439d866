"""Algorithm 1 of Shen et al. 2017 against a transcript of it; limits; nobody left out."""

import numpy as np
import pytest

from tfsoftmax.partitions import assignment


def transcript(preferences, frequencies, most_words, budget):
    """The algorithm as it is printed."""
    clusters = [[] for _ in preferences[0]]
    for w in sorted(range(len(preferences)), key=lambda w: -frequencies[w]):
        for c in sorted(range(len(clusters)), key=lambda c: -preferences[w][c]):
            if len(clusters[c]) < most_words and sum(frequencies[v] for v in clusters[c]) < budget:
                clusters[c].append(w)
                break
    return [next(c for c, members in enumerate(clusters) if w in members)
            for w in range(len(preferences))]


def data(vocab_size, num_clusters, seed):
    rng = np.random.default_rng(seed)
    frequencies = rng.permutation(1 / np.arange(1, vocab_size + 1))
    return rng.standard_normal((vocab_size, num_clusters)), frequencies / frequencies.sum()


@pytest.mark.parametrize("seed", range(5))
def test_words_choose_as_in_the_algorithm(seed):
    preferences, frequencies = data(60, 8, seed)
    result = assignment.assign(preferences, frequencies, 12, 0.2)
    assert result.tolist() == transcript(preferences, frequencies, 12, 0.2)


def test_a_budget_that_does_not_suffice_is_overdrawn():
    preferences, frequencies = data(100, 10, 0)
    result = assignment.assign(preferences, frequencies, 15, 0.01)
    assert np.bincount(result, minlength=10).max() <= 15


@pytest.mark.parametrize("vocab_size, num_clusters", [(1, 1), (10, 10), (60, 8)])
def test_no_cluster_is_empty(vocab_size, num_clusters):
    preferences = np.zeros((vocab_size, num_clusters))
    preferences[:, 0] = 1
    result = assignment.assign(preferences, np.full(vocab_size, 1 / vocab_size), vocab_size, 2.0)
    assert set(result) == set(range(num_clusters))


@pytest.mark.parametrize("vocab_size", [1, 2, 3, 5, 10, 1000, 10_007])
def test_limits_leave_room_for_all_words(vocab_size):
    num_clusters, most_words = assignment.limits(vocab_size, 1.0)
    assert num_clusters == int(np.ceil(np.sqrt(vocab_size)))
    assert num_clusters * most_words >= vocab_size


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="`most_words` must leave room for 10 words in 2 clusters"):
        assignment.assign(np.zeros((10, 2)), np.ones(10), 4, 1.0)
    with pytest.raises(ValueError, match="`gamma` must be at least 1. Received: gamma=0.5"):
        assignment.limits(10, 0.5)
