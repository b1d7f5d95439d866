"""Facts about `Scorer` and `Totals`."""

import math
import tracemalloc
import types

import numpy as np
import pytest

from cases import assert_all_close, randomise
from refusals import refused
from runs_helper import MODEL, small_corpus
from scoring_helper import SENTENCES, VOCABULARY, WORDS, make_model, reference
from tfsoftmax.corpora.pipeline import batches
from tfsoftmax.lm import model as building
from tfsoftmax.lm.evaluation import Totals, exact_evaluator
from tfsoftmax.lm.model import language_model, recurrent_states
from tfsoftmax.lm.scoring import Scorer
from tfsoftmax.lm.sentences import windows
from tfsoftmax.support.vocabulary import Vocabulary


def assert_close(scores, sentences):
    """Scores are those of each sentence read alone."""
    one = make_model(1)
    assert_all_close(scores, [reference(words, one) for words in sentences], rtol=1e-4)


@pytest.mark.parametrize("streams", [1, 3])
def test_scores_are_those_of_each_sentence_read_alone(streams):
    assert_close(Scorer(make_model(streams), VOCABULARY).sentences(SENTENCES), SENTENCES)


def test_the_states_are_zero_afterwards():
    model = make_model(2)
    Scorer(model, VOCABULARY).sentences(SENTENCES)
    assert not any(state.numpy().any() for state in recurrent_states(model))


@pytest.mark.parametrize("name, size", [("POSITIONS", 9), *(("WORDS", n) for n in (1, 7, 60))])
def test_scores_do_not_depend_on_the_parts_and_windows_that_are_read(name, size, monkeypatch):
    model = make_model(3)
    whole = Scorer(model, VOCABULARY).sentences(SENTENCES)
    monkeypatch.setattr(f"tfsoftmax.lm.scoring.{name}", size)
    assert_all_close(Scorer(model, VOCABULARY).sentences(SENTENCES), whole, rtol=1e-4)


def test_windows_hold_at_most_so_many_sentences_and_words():
    sentences = [["a"] * n for n in (3, 0, 2, 9, 1, 1, 1, 1)]
    found = list(windows(iter(sentences), 3, 5))
    assert [list(map(len, window)) for window in found] == [[3, 0, 2], [9], [1, 1, 1], [1]]
    assert list(windows([], 3, 5)) == []


def test_the_memory_of_a_long_sentence_does_not_grow_with_the_streams():
    scorer, lengths = Scorer(make_model(128), VOCABULARY), []

    def step(words, labels, wanted):
        lengths.append(words.shape[1])
        return types.SimpleNamespace(numpy=lambda: np.zeros(wanted.sum()))

    scorer._step = step
    tracemalloc.start()
    scorer.sentences([["the"], ["cat"] * 20_000])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(lengths) == 20_001
    assert peak < 128 * 20_001 * 4  # of one int32 for each stream and word


def test_a_stream_is_one_text_however_it_is_handed_over():
    scorer = Scorer(make_model(1), VOCABULARY)
    together = np.concatenate(scorer.stream(SENTENCES))
    scorer.restart()
    apart = np.concatenate([scorer.stream([words])[0] for words in SENTENCES])
    text = " <eos> ".join(map(" ".join, SENTENCES)).split()
    np.testing.assert_allclose(together, apart, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(together, reference(text, make_model(1)), rtol=1e-4, atol=1e-5)
    assert scorer.stream([]) == []


def test_a_stream_of_two_equal_halves_is_dealt_to_both_streams_of_the_model():
    first, second = Scorer(make_model(2), VOCABULARY).stream(SENTENCES[:1] * 2)
    np.testing.assert_allclose(first, second, rtol=1e-6)  # each from the beginning of a text


def test_texts_are_read_side_by_side_with_states_of_their_own():
    texts = [SENTENCES[:3], SENTENCES[3:4], SENTENCES[:2], SENTENCES[4:]]
    scorer, one = Scorer(make_model(2), VOCABULARY), make_model(1)
    for text, found in zip(texts, scorer.texts(texts), strict=True):
        assert [len(of) for of in found] == [len(words) + 1 for words in text]
        wanted = reference(" <eos> ".join(map(" ".join, text)).split(), one)
        np.testing.assert_allclose(np.concatenate(found), wanted, rtol=1e-4, atol=1e-5)
    refused("`sentences` must not contain <eos>", list, scorer.texts([[["cat"], ["<eos>"]]]))


def test_as_many_texts_are_read_at_once_as_there_are_streams(monkeypatch):
    monkeypatch.setattr("tfsoftmax.lm.scoring.WORDS", 6)  # which divides sentences only
    scorer, begun, rows = Scorer(make_model(3), VOCABULARY), [], []
    read = scorer._read
    monkeypatch.setattr(scorer, "_read", lambda *of: rows.append(len(of[0])) or read(*of))
    texts = scorer.texts(begun.append(text) or text for text in [SENTENCES[:4]] * 7)
    next(texts)
    assert len(begun) == 4 and rows == [3]  # no later text is held
    assert len(list(texts)) == 6 and rows == [3, 3, 1]


@pytest.mark.parametrize("streams", [2, 3, 20])
def test_several_streams_are_texts_of_similar_length_side_by_side(streams):
    scorer, one = Scorer(make_model(streams), VOCABULARY), make_model(1)
    scorer.stream(SENTENCES[::-1])
    scorer.restart()
    found = scorer.stream(SENTENCES)
    total, end, texts = sum(len(words) + 1 for words in SENTENCES), 0, [[] for _ in range(streams)]
    for words in SENTENCES:
        end += len(words) + 1
        texts[math.ceil(end * streams / total) - 1].append(words)
    wanted = [reference(" <eos> ".join(map(" ".join, text)).split(), one) for text in texts if text]
    assert streams == 20 or len(wanted) == streams
    np.testing.assert_allclose(np.concatenate(found), np.concatenate(wanted), rtol=1e-4, atol=1e-5)
    assert [len(of) for of in found] == [len(words) + 1 for words in SENTENCES]


def test_a_stream_of_a_split_has_the_evaluators_nats(tmp_path):
    corpus = small_corpus(tmp_path, sentences=96, streams=1)
    model = language_model(MODEL, corpus.vocabulary, 1)
    randomise(model)
    evaluated = exact_evaluator(model)(corpus, "test")
    following = np.concatenate([
        following.numpy()[0, : int(weights.numpy().sum())]
        for _, following, weights in batches(corpus, "test")
    ])
    words = " ".join(corpus.vocabulary.decode(following)).split("<eos>")[:-1]
    scorer = Scorer(model, corpus.vocabulary)
    totals = Totals(scorer)
    sentences = [sentence.split() for sentence in words]
    for sentence, log_probs in zip(sentences, scorer.stream(sentences), strict=True):
        totals.add(sentence, log_probs)
    assert totals.tokens == evaluated["tokens"]
    assert totals.oov_tokens == evaluated["oov_tokens"]
    assert totals.result()["nats_per_token"] == pytest.approx(evaluated["nats_per_token"], 1e-5)


def test_unknown_words_count_as_asked():
    words = ["a", "cat", "zebra"]
    model = make_model(2)
    (unk,) = Scorer(model, VOCABULARY).sentences([words])
    (skipped,) = Scorer(model, VOCABULARY, oov="skip").sentences([words])
    (spread,) = Scorer(model, VOCABULARY, oov="spread", unseen_words=50).sentences([words])
    unknown = np.array([True, False, True, False])
    np.testing.assert_array_equal(Scorer(model, VOCABULARY).unknown(words), unknown)
    np.testing.assert_allclose(skipped, np.where(unknown, 0, unk))
    np.testing.assert_allclose(spread, unk - unknown * math.log(50))


def test_totals_count_the_tokens_that_are_scored():
    scorer = Scorer(make_model(2), VOCABULARY, oov="skip")
    totals, words = Totals(scorer), ["a", "cat"]
    (log_probs,) = scorer.sentences([words])
    totals.add(words, log_probs)
    assert (result := totals.result())["oov_tokens"] == 1
    assert result["oov_rate"] == 1 / 2
    assert result["tokens"] == 3
    assert result["perplexity"] == pytest.approx(math.exp(-log_probs.sum() / 2))


@pytest.mark.parametrize(
    "head, options",
    [("nce", {}), ("negative", {}), ("self_normalised", {}),
     ("full", {"z_loss": 0.1, "soft_cap": 3.0})],
)
def test_constant_normalisation_takes_the_heads_own_scores(head, options):
    model = make_model(2, head=head, head_options=options)
    scorer = Scorer(model, VOCABULARY, "constant")
    words = ["the", "cat"]
    (log_probs,) = scorer.sentences([words])
    ids = VOCABULARY.encode(["<eos>", *words, "<eos>"])
    hidden = building.keras.Model(model.input, model.get_layer("head").input)
    expected = model.get_layer("head").self_normalised_log_prob(
        hidden(np.stack([ids[:-1]] * 2)), np.stack([ids[1:]] * 2)
    )
    np.testing.assert_allclose(log_probs, expected[0], rtol=1e-4, atol=1e-5)
    totals = Totals(scorer)
    totals.add(words, log_probs)
    assert "perplexity" not in totals.result()
    assert totals.result()["self_normalised_nats"] == pytest.approx(-log_probs.mean())


@pytest.mark.parametrize("options, message", [
    ({"normalisation": "constant"}, "must be 'exact' for a head .*with FullSoftmax"),
    ({"normalisation": "none"}, "`normalisation` must be one of exact, constant"),
    ({"oov": "drop"}, "`oov` must be one of unk, skip, spread. Received: oov='drop'"),
    ({"oov": "spread"}, "`unseen_words` must be given .*unseen_words=None"),
    ({"unseen_words": 5}, "`unseen_words` must be given with oov='spread'.*oov='unk'"),
    ({"oov": "spread", "unseen_words": 0}, "`unseen_words` must be at least 1.*=0"),
])
def test_arguments_that_do_not_fit_are_named(options, message):
    refused(message, Scorer, make_model(2), VOCABULARY, **options)


def test_models_and_sentences_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="for `time_steps`. Received: streams=2, time_steps=20"):
        Scorer(make_model(2, 20), VOCABULARY)
    refused("as many words as the model, 8", Scorer, make_model(2), Vocabulary(WORDS[1:5], [1] * 4))
    scorer = Scorer(make_model(2), VOCABULARY)
    refused("must not contain <eos>. Received: 'the <eos>'", scorer.sentences, [["the", "<eos>"]])
