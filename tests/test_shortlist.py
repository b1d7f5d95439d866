"""Shortlist against float64 loops from eq. 2.8-2.10, with words in any order."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from cases import UNITS, assert_all_close, chosen, positions, prepared, with_gradients
from graph_helper import largest_tensor
from references import full_log_probs
from refusals import refuses
from tfsoftmax import Shortlist
from tfsoftmax.ngrams.backoff import BackoffBigrams
from tfsoftmax.ngrams.counts import Bigrams
from tfsoftmax.ngrams.previous_word import PreviousWord, without_word
from tfsoftmax.partitions.ranks import frequency_ranks

V, S = 13, 4
COUNTS = np.array([3, 50, 0, 7, 7, 120, 1, 2, 33, 0, 5, 80, 1])


def built(**options):
    return prepared(Shortlist(V, S, **{"counts": COUNTS, **options}))


def unigram():
    """Counts, those of zero raised to the least that was seen."""
    seen = [max(c, 1) for c in COUNTS]
    return [c / sum(seen) for c in seen]


def reference(head, hidden, u, oos_node):
    """ln P(w | h), word by word."""
    ranks = {w: r for r, w in enumerate(sorted(range(V), key=lambda w: (-COUNTS[w], w)))}
    words = [w for w in range(V) if ranks[w] < S]
    nodes = full_log_probs(hidden, *head.get_weights())
    result = np.zeros((len(hidden), V))
    for i in range(len(hidden)):
        for w in range(V):
            if oos_node and w in words:
                p = np.exp(nodes[i, ranks[w]])
            elif oos_node:
                p = u[w] / sum(u[v] for v in range(V) if v not in words) * np.exp(nodes[i, S])
            elif w in words:
                p = np.exp(nodes[i, ranks[w]]) * sum(u[v] for v in words) / sum(u)
            else:
                p = u[w] / sum(u)
            result[i, w] = np.log(p)
    return result


@pytest.mark.parametrize("oos_node", [True, False])
@pytest.mark.parametrize("own", [False, True])
def test_log_probs_equal_the_equation(oos_node, own):
    u, options = unigram(), {}
    if own:
        u = np.random.default_rng(1).uniform(size=V)
        options = {"tail_log_probs": np.log(u) + 3}
    head, (hidden, _) = built(oos_node=oos_node, **options), positions(V, 5)
    expected = reference(head, hidden, u, oos_node)
    np.testing.assert_allclose(head.log_probs(hidden), expected, rtol=1e-5, atol=1e-5)


def bigrams(vocab_size=V, length=60):
    """A bigram model of a random text in which some words are never seen."""
    text = np.random.default_rng(7).integers(0, vocab_size - 2, length)
    counted = Bigrams.count([(text[:-1], text[1:])], vocab_size)
    return BackoffBigrams.from_counts(counted, np.bincount(text, minlength=vocab_size))


def carried(hidden, words, dtype="float32"):
    return PreviousWord(dtype=dtype)([tf.constant(hidden), tf.constant(words)])


@pytest.mark.parametrize("oos_node", [True, False])
def test_with_bigrams_each_history_has_shares_of_its_own(oos_node):
    """Equations 2.8 and 2.9, and 2.10 with the node."""
    model = bigrams()
    head = prepared(Shortlist(V, S, counts=COUNTS, oos_node=oos_node, ngram=model), units=UNITS + 4)
    hidden, labels = positions(V, 2 * V)
    before = np.arange(2 * V) % V
    assert head.kernel.shape == (S + oos_node, UNITS)
    expected = np.concatenate([
        reference(head, hidden[[i]], np.exp(model.log_prob(v, np.arange(V))), oos_node)
        for i, v in enumerate(before)
    ])
    with_words = carried(hidden, before)
    np.testing.assert_allclose(head.log_probs(with_words), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(np.exp(head.log_probs(with_words)).sum(1), 1, rtol=1e-5)
    ids, values = head.top_k(with_words, 5)
    _, nats = head.loss_and_nats(with_words, labels, np.ones(2 * V, np.float32))
    of_labels = chosen(expected, labels)
    assert_all_close(
        [head.log_prob(with_words, labels), -nats, values, values],
        [of_labels, of_labels, -np.sort(-expected)[:, :5],
         np.take_along_axis(expected, ids.numpy(), 1)], rtol=1e-4, atol=1e-4,
    )


def test_a_saved_model_has_its_bigrams(tmp_path):
    size = 60  # more than a thousand bigrams, which are packed
    words = keras.Input((5,), dtype="int32")
    hidden = PreviousWord()([keras.layers.Embedding(size, UNITS)(words), words])
    head = Shortlist(size, 9, counts=np.arange(size) + 1, ngram=bigrams(size, 3000))
    model = keras.Model(words, head(hidden))
    model.save(tmp_path / "model.keras")
    text = np.random.default_rng(1).integers(0, size, (3, 5))
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(text), model(text))


def test_bigrams_do_not_change_what_is_learnt():
    hidden, labels = positions(V, 20)
    gradients = []
    for ngram in (None, bigrams()):
        units = UNITS if ngram is None else UNITS + 4
        head = prepared(Shortlist(V, S, counts=COUNTS, ngram=ngram), units=units)
        states = hidden if ngram is None else carried(hidden, labels[::-1])
        _, found = with_gradients(head.training_loss, [head.kernel], states, labels)
        gradients += found
    np.testing.assert_allclose(*gradients, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_words_are_carried_exactly(dtype):
    words = np.array([0, 1, 255, 256, 65_535, 10**6 + 7, 2**30 - 1])
    hidden, found = without_word(carried(np.ones((7, 3)), words, dtype))
    np.testing.assert_array_equal(found, words)
    assert hidden.shape == (7, 3) and hidden.dtype.name == dtype


def test_there_is_a_row_for_each_word_of_the_shortlist_and_one_for_the_others():
    assert [w.shape for w in built().weights] == [(S + 1, UNITS), (S + 1,)]
    assert [w.shape for w in built(oos_node=False, use_bias=False).weights] == [(S, UNITS)]


def test_shares_of_an_ngram_model_keep_the_sum_at_one():
    head, (hidden, _) = built(), positions(V, 6)
    tail = np.argsort(-COUNTS, kind="stable")[S:]
    shares = np.random.default_rng(2).uniform(size=(6, V))  # a history of its own each
    shares[:, np.setdiff1d(np.arange(V), tail)] = np.nan  # never looked at
    shares /= np.nansum(shares, axis=1, keepdims=True)
    total = np.zeros(6)
    for w in range(V):
        labels = np.full(6, w, np.uint16)
        log_p = head.log_prob(hidden, labels, tail_log_prob=np.log(shares[:, w])).numpy()
        total += np.exp(log_p)
        if w in tail:
            mass = np.exp(reference(head, hidden, unigram(), True)[:, tail]).sum(axis=1)
            np.testing.assert_allclose(np.exp(log_p), mass * shares[:, w], rtol=1e-4)
    np.testing.assert_allclose(total, 1.0, rtol=1e-5)


def test_words_outside_the_shortlist_do_not_teach_without_the_node():
    head, (hidden, _) = built(oos_node=False), positions(V, 3)
    labels = frequency_ranks(COUNTS).ids[[S, V - 1, 0]]
    source = tf.constant(hidden)
    _, (gradient,) = with_gradients(
        head.loss_and_nats, [source], source, labels, np.ones(3, np.float32)
    )
    assert not np.any(gradient[:2]) and np.all(gradient[2])


@pytest.mark.parametrize("permutation", ["ids", np.arange(V)])
def test_words_may_be_told_in_order(permutation):
    head = Shortlist(V, S, tail_log_probs=np.zeros(V), permutation=permutation)
    again = Shortlist.from_config(head.get_config())
    assert again.get_config() == head.get_config()
    hidden, _ = positions(V, 2)
    log_probs = head.log_probs(hidden).numpy()
    np.testing.assert_allclose(log_probs[:, S:], log_probs[:, S:S + 1].repeat(V - S, 1), rtol=1e-6)


@pytest.mark.parametrize("name, rule, options", [
    ("ngram", "be a model of 13 words. Received: 9 words", {"ngram": bigrams(9)}),
    ("tail_log_probs", "be None with `ngram`",
     {"tail_log_probs": np.zeros(V), "ngram": bigrams(), "counts": None}),
    ("words", "be given for ngram=", {"ngram": __file__}),
    ("hidden", "have more than 4 units with `ngram`", {"ngram": bigrams()}),
    ("shortlist", "lie in [1, 13)", {"shortlist": 0}),
    ("shortlist", "lie in [1, 13)", {"shortlist": V}),
    (None, "`counts` or `tail_log_probs` must be given", {"counts": None}),
    ("counts", "be finite, not negative, and not all zero", {"counts": np.zeros(V)}),
    ("counts", "each of 13 words", {"counts": [1, 2]}),
    ("tail_log_probs", "be one finite number for each", {"tail_log_probs": [0.0] * (V - 1)}),
    ("tail_log_probs", "of which 0 finite", {"tail_log_probs": [-np.inf] * V}),
])
def test_bad_arguments_are_named(name, rule, options):
    with refuses(name, rule):
        Shortlist(**{"vocab_size": V, "shortlist": S, "counts": COUNTS, **options}).build((None, 4))


def test_a_missing_file_of_bigrams_is_named():
    with refuses("ngram", "or a file", error=FileNotFoundError):
        Shortlist(V, S, counts=COUNTS, ngram="nowhere")


def test_top_k_never_forms_all_logits():
    head = Shortlist(50_021, 11, counts=np.arange(50_021))
    hidden, _ = positions(50_021, 3)
    head.build(hidden.shape)
    top_k = tf.function(head.top_k).get_concrete_function(tf.TensorSpec(hidden.shape), 5)
    assert largest_tensor(top_k) <= 50_021  # the order of the words, once


def test_shares_need_the_node():
    head, (hidden, labels) = built(oos_node=False), positions(V, 2)
    with refuses("tail_log_prob", "be None with oos_node=False"):
        head.log_prob(hidden, labels, tail_log_prob=np.zeros(2))


def test_hidden_states_without_the_word_before_are_refused():
    with pytest.raises(tf.errors.InvalidArgumentError, match="previous_word.PreviousWord"):
        without_word(tf.constant([[0.3, -1.2, 0.5, 2.0, 0.1]]))
    hidden, words = without_word(PreviousWord()([tf.ones([2, 3]), tf.constant([0, 70_000])]))
    assert hidden.shape == (2, 3) and words.numpy().tolist() == [0, 70_000]
