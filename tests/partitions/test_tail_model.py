import numpy as np
import pytest

from cases import UNITS, positions, randomise
from tfsoftmax.heads.shortlist import Shortlist
from tfsoftmax.partitions.ngram_counts import Bigrams
from tfsoftmax.partitions.tail_model import TailBigrams

V, S = 11, 3


def text(length=400, seed=0):
    """Words that each depend on the one before; word 10 is never seen."""
    rng = np.random.default_rng(seed)
    words = [0]
    for _ in range(length):
        words.append(int((2 * words[-1] + rng.integers(3)) % 10))
    return np.array(words)


def built(discount=0.75):
    words = text()
    counts = np.bincount(words, minlength=V)
    head = Shortlist(V, S, counts=counts)
    bigrams = Bigrams.count([(words[:-1], words[1:])], V)
    return TailBigrams(bigrams, counts, head.tail, discount), head, words, counts


@pytest.mark.parametrize("discount", [0.3, 1.0])
def test_shares_equal_the_equation(discount):
    model, head, words, counts = built(discount)
    tail = sorted(range(V), key=lambda w: (-counts[w], w))[S:]
    assert sorted(head.tail) == sorted(tail)
    pairs = list(zip(words[:-1].tolist(), words[1:].tolist()))
    rarest = min(c for c in counts if c)
    raised = {w: max(counts[w], rarest) for w in tail}
    unigram = {w: count / sum(raised.values()) for w, count in raised.items()}
    for v in range(V):
        total = sum(1 for a, b in pairs if a == v and b in tail)
        kinds = len({b for a, b in pairs if a == v and b in tail})
        for w in tail:
            expected = unigram[w]
            if total:
                seen = max(pairs.count((v, w)) - discount, 0)
                expected = (seen + discount * kinds * unigram[w]) / total
            np.testing.assert_allclose(np.exp(model.log_prob(v, w)), expected, rtol=1e-5)


def test_shares_sum_to_one_after_every_word_and_leave_the_shortlist_alone():
    model, head, _, counts = built()
    before = np.repeat(np.arange(V)[:, None], len(head.tail), 1)
    shares = np.exp(model.log_prob(before, np.broadcast_to(head.tail, before.shape)))
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-5)
    frequent = np.setdiff1d(np.arange(V), head.tail)
    assert not model.log_prob(np.zeros(S, int), frequent).any()


def test_perplexity_with_bigrams_is_exact_and_lower_where_words_lean_on_each_other():
    model, head, words, _ = built()
    hidden, _ = positions(V, len(words) - 1)
    head.build((None, UNITS))
    randomise(head)
    total = np.zeros(len(hidden))
    for w in range(V):
        labels = np.full(len(hidden), w, np.int32)
        shares = model.log_prob(words[:-1], labels)
        total += np.exp(head.log_prob(hidden, labels, tail_log_prob=shares))
    np.testing.assert_allclose(total, 1, rtol=1e-5)
    labels = words[1:].astype(np.int32)
    by_bigrams = head.log_prob(hidden, labels, model.log_prob(words[:-1], labels))
    assert np.mean(by_bigrams) > np.mean(head.log_prob(hidden, labels)) + 0.1


def test_an_empty_tail_of_bigrams_is_the_unigram():
    counts = np.array([5, 4, 2, 1])
    empty = Bigrams.count([(np.array([0]), np.array([0]))], 4)
    model = TailBigrams(empty, counts, [2, 3])
    np.testing.assert_allclose(np.exp(model.log_prob([0, 3], [2, 3])), [2 / 3, 1 / 3], rtol=1e-6)


def test_a_bad_discount_is_named():
    with pytest.raises(ValueError, match=r"`discount` must lie in \(0, 1\]. Received: discount=0"):
        built(discount=0)
