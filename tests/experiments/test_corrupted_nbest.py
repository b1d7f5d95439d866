import itertools

import numpy as np
import pytest

from experiments.inputs import corrupted_nbest as corrupted
from tfsoftmax.nbest.rescoring import arpa_scorer
from tfsoftmax.support.vocabulary import Vocabulary

WORDS = ("<eos>", "the", "cat", "cart", "<unk>", "act", "mat", "zoo", "unheard")
VOCABULARY = Vocabulary(WORDS, [50, 40, 30, 20, 10, 8, 6, 4, 2])


@pytest.fixture(scope="module")
def bigram():
    mass = np.array([6, 5, 4, 3, 2, 2, 2, 1, 0]) / 25
    ids = np.random.default_rng(0).choice(len(WORDS), 300, p=mass)
    text = np.concatenate([[0], ids, [0]])
    return corrupted.bigram_model([(text[:-1], text[1:])], VOCABULARY)


def test_the_discount_follows_from_the_rare_bigrams():
    """One bigram was seen once, two were seen twice: δ = 1/5."""
    text = np.array([0, 1, 0, 1, 0, 2])
    model = corrupted.bigram_model([(text[:-1], text[1:])], VOCABULARY)
    assert np.exp(model.log_backoff[0]) == pytest.approx(0.2 * 2 / 3)


def test_the_arpa_file_scores_as_the_model_does(bigram, tmp_path):
    pytest.importorskip("kenlm")
    bigram.write_arpa(tmp_path / "arpa", WORDS)
    sentences = [("the", "cat"), (), ("unheard", "zoo", "the"), ("dog", "mat")]
    expected = []
    for words in sentences:
        ids = [0, *VOCABULARY.encode(words).tolist(), 0]
        expected.append(sum(bigram.log_prob(v, w) for v, w in itertools.pairwise(ids)))
    np.testing.assert_allclose(arpa_scorer(tmp_path / "arpa")(sentences), expected, rtol=1e-4)


def test_alternatives_come_at_the_stated_rates_and_scores():
    corruption = corrupted.Corruption(VOCABULARY, 0.6, 0.2, 0.1, margin=2.0, seed=0)
    words = ["cat", "the", "zebra", "mat"]
    slots = [slot for _ in range(2000) for slot in corruption.slots(words)]
    gaps = [slot for slot in slots if slot[0][0] is None and len(slot) == 2]
    assert len(gaps) / (2000 * 5) == pytest.approx(0.1, abs=0.02)
    of_mat = [slot for slot in slots if slot[0] == ("mat", 0.0)]
    assert len(of_mat) == 2000
    missed = [slot for slot in of_mat if any(word is None for word, _ in slot)]
    assert len(missed) / 2000 == pytest.approx(0.2, abs=0.04)
    assert all(word in WORDS for slot in slots for word, _ in slot if word not in (None, "zebra"))
    assert not any(word == "zebra" for slot in slots for word, _ in slot)
    losses = np.array([loss for slot in of_mat for _, loss in slot[1:]])
    assert losses.mean() == pytest.approx(-2, abs=0.15)
    assert losses.var() == pytest.approx(4, rel=0.15)


def test_similar_spelling_competes_more_often_than_the_unigram():
    corruption = corrupted.Corruption(VOCABULARY, 1.0, 0.0, 0.0, margin=2.0, seed=0)
    rivals = [word for _ in range(500) for word, _ in corruption.slots(["cat"])[0][1:]]
    similar = sum(word in ("cart", "act", "mat") for word in rivals) / len(rivals)
    assert similar > 0.7
    assert "the" in rivals and not {"<unk>", "<eos>", "cat"} & set(rivals)


def test_lists_are_the_best_of_all_paths(bigram):
    slots = [
        [("the", 0.0), ("cat", -0.5)], [(None, 0.0), ("zoo", 0.7)], [("mat", 0.0), (None, -3.0)],
    ]
    by_words = {}
    for path in itertools.product(*slots):
        words = tuple(word for word, _ in path if word)
        ids = [0, *VOCABULARY.encode(words).tolist(), 0]
        lm = sum(bigram.log_prob(v, w) for v, w in itertools.pairwise(ids))
        by_words[words] = sum(loss for _, loss in path), lm
    ranked = sorted(by_words, key=lambda w: -(by_words[w][0] + 0.5 * by_words[w][1] + 2 * len(w)))
    lattice = corrupted.Lattice.of_slots(slots)
    log_p = corrupted.neighbour_scores(bigram, VOCABULARY, lattice.words())
    hypotheses = corrupted.nbest(lattice, log_p, 5, lm_scale=0.5, word_reward=2.0)
    assert [words for words, _, _ in hypotheses] == ranked[:5]
    for words, acoustic, lm in hypotheses:
        assert (acoustic, lm) == pytest.approx(by_words[words])
