"""Clusters of limited size and frequency, chosen greedily by the words' preferences."""

import math

import numpy as np

from tfsoftmax.support.arguments import check_at_least, expect


def limits(vocab_size: int, gamma: float = 1.5) -> tuple[int, int]:
    """C = ceil(√V), and the most words of a cluster, γ√V or as many as C clusters need."""
    check_at_least(1, gamma=gamma)
    num_clusters = math.isqrt(vocab_size - 1) + 1
    return num_clusters, max(int(gamma * math.sqrt(vocab_size)), -(-vocab_size // num_clusters))


def assign(
    preferences: np.ndarray, frequencies: np.ndarray, most_words: int, budget: float
) -> np.ndarray:
    """The cluster of each word: the most frequent words choose first, among clusters with room.

    Args:
        preferences: (V, C), larger is better.
        frequencies: (V,), shares of the tokens.
        most_words: number of words at which a cluster is full.
        budget: sum of its words' shares at which a cluster is full. Once all clusters have
            reached it, it no longer counts.

    Returns:
        int32 (V,). No cluster is empty where there are enough words: the rarest words of the
        largest clusters fill those that no word chose.

    Source: Shen et al. 2017, algorithm 1. The last two rules are additions: a cluster without
    words would keep a probability that no word has.
    """
    vocab_size, num_clusters = preferences.shape
    expect(
        num_clusters * most_words >= vocab_size, "most_words",
        f"leave room for {vocab_size} words in {num_clusters} clusters", most_words,
    )
    order = np.argsort(-np.asarray(frequencies), kind="stable")
    sizes, shares = np.zeros(num_clusters, np.int64), np.zeros(num_clusters)
    full, result = np.zeros(num_clusters), np.empty(vocab_size, np.int32)
    for word in order.tolist():
        cluster = int((preferences[word] + full).argmax())
        if full[cluster]:  # none has budget left
            roomy = np.where(sizes < most_words, preferences[word], -np.inf)
            cluster = int(roomy.argmax())
        result[word] = cluster
        sizes[cluster] += 1
        shares[cluster] += frequencies[word]
        if sizes[cluster] >= most_words or shares[cluster] >= budget:
            full[cluster] = -np.inf
    _fill_empty(result, sizes, order)
    return result


def _fill_empty(clusters, sizes, order):
    empty = np.flatnonzero(sizes == 0).tolist()
    for word in order[::-1].tolist():
        if not empty:
            return
        if sizes[clusters[word]] == sizes.max() and sizes.max() > 1:
            sizes[clusters[word]] -= 1
            clusters[word] = empty.pop()
            sizes[clusters[word]] += 1
    if empty and sizes.max() > 1:
        _fill_empty(clusters, sizes, order)
