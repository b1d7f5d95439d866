"""Facts about `Summariser`: what its beam search finds, and what it attends to."""

import itertools

import keras
import numpy as np
import pytest
from test_encoder_decoder import CONFIG, HEADS_TO_TEST, VOCABULARY, WORDS, logits_of, make_model

from cases import required
from tfsoftmax import Vocabulary, encoder_decoder
from tfsoftmax.pairs.summaries import Summariser, Summary

SOURCES = [["the", "cat"], ["on", "zebra", "mat", "sat", "the"], ["mat"]]
EOS = VOCABULARY.eos_id


def log_probs_after(model, source, prefixes):
    """ln P of the next word after each of some prefixes of equal length, (prefixes, V)."""
    words = np.array([[EOS, *prefix] for prefix in prefixes])
    ids = np.tile([*VOCABULARY.encode(source), EOS], (len(words), 1))
    logits = logits_of(model, ids.astype(np.int32), words)[:, -1].astype(float)
    return logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)


def all_summaries(model, source, max_words, min_words=0):
    """(words, ln P, words with the end, ended) of every summary."""
    usual = [i for i in range(len(WORDS)) if i != EOS]
    totals = {(): 0.0}
    for length in range(max_words + 1):
        prefixes = list(itertools.product(usual, repeat=length))
        if length == max_words:
            yield from ((p, totals[p], length, False) for p in prefixes)
            return
        for prefix, row in zip(prefixes, log_probs_after(model, source, prefixes)):
            if length >= min_words:
                yield prefix, totals[prefix] + row[EOS], length + 1, True
            totals |= {(*prefix, i): totals[prefix] + row[i] for i in usual}


@pytest.mark.parametrize("head", HEADS_TO_TEST)
def test_a_beam_that_holds_all_summaries_finds_the_best_for_every_head(head):
    model = make_model(head=head, head_options=required(head, len(WORDS)))
    many = Summariser(model, VOCABULARY).summarise(SOURCES, 43, 2, length_power=0.7, nbest=43)
    for source, found in zip(SOURCES, many, strict=True):
        expected = sorted(all_summaries(model, source, 2), key=lambda s: -s[1] / s[2] ** 0.7)
        assert len(found) == len(expected) == 43
        assert [h.words for h in found] == [VOCABULARY.decode(s[0]) for s in expected]
        assert [h.ended for h in found] == [s[3] for s in expected]
        np.testing.assert_allclose([h.log_prob for h in found], [s[1] for s in expected], rtol=1e-4)
        scores = [s[1] / s[2] ** 0.7 for s in expected]
        np.testing.assert_allclose([h.score for h in found], scores, rtol=1e-4)


@pytest.mark.parametrize("min_words, max_words", [(2, 2), (1, 3)])
def test_no_summary_has_fewer_words_than_it_must(min_words, max_words):
    model = make_model(seed=4)
    width = sum(6**n for n in range(min_words, max_words + 1))
    (found,) = Summariser(model, VOCABULARY).summarise(
        SOURCES[:1], width, max_words, min_words, nbest=width
    )
    every = list(all_summaries(model, SOURCES[0], max_words, min_words))
    expected = sorted(every, key=lambda s: -s[1] / s[2] ** 0.7)
    assert [h.words for h in found] == [VOCABULARY.decode(s[0]) for s in expected]
    assert {len(h.words) for h in found} == set(range(min_words, max_words + 1))


@pytest.mark.parametrize("beam, attention, cell", [(3, "luong", "lstm"), (1, "bahdanau", "gru")])
def test_sources_side_by_side_are_as_each_alone(beam, attention, cell):
    model = make_model(attention=attention, cell=cell, layers=2, seed=2)
    summariser = Summariser(model, VOCABULARY)
    together = summariser.summarise(SOURCES, beam, max_words=6, nbest=beam)
    for source, found in zip(SOURCES, together, strict=True):
        (alone,) = summariser.summarise([source], beam, max_words=6, nbest=beam)
        assert [h.words for h in alone] == [h.words for h in found]
        for one, other in zip(alone, found):
            assert one.log_prob == pytest.approx(other.log_prob, rel=1e-5)
            assert one.attention.shape == (len(one.words), len(source))
            np.testing.assert_allclose(one.attention, other.attention, atol=1e-5)


def test_a_narrow_beam_states_log_probabilities_of_its_summaries():
    model = make_model(seed=2)
    found = Summariser(model, VOCABULARY).summarise(SOURCES, 3, 5, nbest=3)
    for source, summaries in zip(SOURCES, found, strict=True):
        assert len({tuple(h.words) for h in summaries}) == len(summaries) == 3
        for h in summaries:
            ids = [*VOCABULARY.encode(h.words), *[EOS] * h.ended]
            total = sum(
                log_probs_after(model, source, [ids[:i]])[0, word] for i, word in enumerate(ids)
            )
            assert h.log_prob == pytest.approx(total, rel=1e-4)


@pytest.mark.parametrize("length_power", [0.0, 1.0])
def test_a_beam_of_one_takes_the_likeliest_word_each_time(length_power):
    model = make_model(seed=9)
    summariser = Summariser(model, VOCABULARY)
    found = summariser.summarise(SOURCES, 1, 5, length_power=length_power)
    for source, [summary] in zip(SOURCES, found, strict=True):
        words, total = [], 0.0
        while len(words) < 5:
            row = log_probs_after(model, source, [words])[0]
            total += row.max()
            if row.argmax() == EOS:
                break
            words.append(int(row.argmax()))
        assert summary.words == VOCABULARY.decode(words)
        assert summary.log_prob == pytest.approx(total, rel=1e-5)
    assert all(summary.ended for [summary] in found)


def test_attention_is_that_of_the_step_that_chose_the_word():
    model = make_model(seed=3)
    [[summary]] = Summariser(model, VOCABULARY).summarise(SOURCES[1:2], max_words=4, min_words=4)
    attend = keras.Model(model.inputs, model.get_layer("attention").output[1])
    source = np.array([[*VOCABULARY.encode(SOURCES[1]), EOS]], np.int32)
    words = np.array([[EOS, *VOCABULARY.encode(summary.words)[:-1]]], np.int32)
    expected = attend((source, words), training=False).numpy()[0, :, :-1]
    np.testing.assert_allclose(summary.attention, expected, rtol=1e-5)


def test_unknown_words_are_replaced_by_the_source_word_of_most_attention():
    attention = np.array([[0.1, 0.6, 0.2], [0.5, 0.2, 0.1], [0.0, 0.1, 0.4]], np.float32)
    summary = Summary(["<unk>", "the", "<unk>"], -1.0, -1.0, True, attention)
    assert summary.copied(["on", "zebra", "qué"]) == ["zebra", "the", "qué"]
    assert summary._replace(attention=attention[:, :0]).copied([]) == ["<unk>", "the", "<unk>"]


@pytest.mark.parametrize("options, message", [
    ({"beam": 0}, "`beam` must be at least 1. Received: beam=0"),
    ({"max_words": 0}, "`max_words` must be at least 1"),
    ({"nbest": 6}, r"`nbest` must lie in \[1, 5\], the beam. Received: nbest=6"),
    ({"min_words": 31}, r"`min_words` must lie in \[0, 30\], up to `max_words`. Received: .*31"),
    ({"length_power": -1.0}, "`length_power` must be finite and not negative. Received: .*-1.0"),
])
def test_arguments_out_of_range_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        Summariser(make_model(), VOCABULARY).summarise(SOURCES, **options)
    with pytest.raises(ValueError, match=message):
        list(Summariser(make_model(), VOCABULARY).stream(SOURCES, **options))


def test_models_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="any number of pairs: pairs=None. Received: 2 pairs"):
        Summariser(encoder_decoder(CONFIG, VOCABULARY, pairs=2), VOCABULARY)
    other = Vocabulary(WORDS[1:5], [1, 1, 1, 1])
    with pytest.raises(ValueError, match="as many words as the model, 7. Received: <Vocab.* of 4"):
        Summariser(make_model(), other)
    assert Summariser(make_model(), VOCABULARY).summarise([]) == []
