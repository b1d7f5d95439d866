"""Language models with a Transformer: their training, evaluation, scoring, export."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from cases import randomise, required
from runs_helper import CONFIG, after_step, assert_same_run, events, train
from tfsoftmax import HEADS, ModelConfig, Seq2SeqConfig, Vocabulary, encoder_decoder
from tfsoftmax.corpora.pipeline import batches
from tfsoftmax.lm.evaluation import exact_evaluator
from tfsoftmax.lm.export import export
from tfsoftmax.lm.generation import Generator
from tfsoftmax.lm.model import language_model, recurrent_states
from tfsoftmax.lm.scoring import Scorer
from tfsoftmax.runs import runs

MODEL = ModelConfig(
    cell="transformer", layers=2, embedding_units=8, hidden_units=8, attention_heads=2, context=5,
    dropout=0.1,
)
SHORT = dataclasses.replace(CONFIG, epochs=1, checkpoint_steps=3)
WORDS = ("the", "<unk>", "cat", "sat", "<eos>", "mat", "on", "dog")
VOCABULARY = Vocabulary(WORDS, [9, 8, 7, 6, 5, 4, 3, 2])
SENTENCES = [line.split() for line in (
    "the cat sat on the mat", "", "a zebra sat on the dog", "on " * 17, "the dog sat",
)]


def make_model(streams, steps=None, stateful=True, vocabulary=VOCABULARY, **options):
    config = dataclasses.replace(MODEL, **options)
    model = language_model(config, vocabulary, streams, steps, stateful)
    randomise(model)
    return model


def log_probs_at_once(words):
    """ln P (T + 1, V) after `<eos>` and each of the words, which a model reads all at once."""
    ids = VOCABULARY.encode(["<eos>", *words])[None]
    logits = make_model(None, stateful=False)(ids, training=False)[0]
    return tf.nn.log_softmax(tf.cast(logits, tf.float64)).numpy()


def scores_at_once(words):
    """ln P of each word and of `<eos>`."""
    targets = VOCABULARY.encode([*words, "<eos>"])
    return log_probs_at_once(words)[np.arange(len(targets)), targets]


@pytest.mark.parametrize("layers", [1, 2])
def test_evaluation_gives_each_token_the_stated_context_and_no_more(corpus, layers):
    """Against each token by itself, from as many words before it as all layers together reach."""
    options = {"layers": layers, "context": 4, "vocabulary": corpus.vocabulary}
    result = exact_evaluator(make_model(corpus.streams, corpus.time_steps, **options))(
        corpus, "valid"
    )
    assert result["context"] == 4 and result["tokens"] == corpus.split("valid").tokens
    words, labels, weights = (np.concatenate(x, axis=1) for x in zip(*(
        [part.numpy() for part in batch] for batch in batches(corpus, "valid")
    )))
    reach, reader = 4 * layers, make_model(None, stateful=False, **options)
    shorter = {
        cut: -sum(
            log_prob for rows, targets in windows(words, labels, weights, cut + 1)
            for log_prob in last_log_probs(reader, rows, targets)
        ) / result["tokens"]
        for cut in (reach, reach - 1)
    }
    np.testing.assert_allclose(shorter[reach], result["nats_per_token"], rtol=1e-5)
    assert abs(shorter[reach - 1] / result["nats_per_token"] - 1) > 1e-4


def windows(words, labels, weights, length):
    """Yields the words up to each place of the streams, at most `length`, and their next words."""
    for end in range(1, words.shape[1] + 1):
        counts = weights[:, end - 1] > 0
        if counts.any():
            yield words[counts, max(0, end - length) : end], labels[counts, end - 1]


def last_log_probs(model, words, labels):
    logits = model(words, training=False)[:, -1]
    return tf.gather(tf.nn.log_softmax(tf.cast(logits, tf.float64)), labels, batch_dims=1).numpy()


def test_score_generate_and_export_agree(tmp_path):
    scores = Scorer(make_model(2), VOCABULARY).sentences(SENTENCES)
    for words, found in zip(SENTENCES, scores, strict=True):
        np.testing.assert_allclose(found, scores_at_once(words), atol=2e-5)
    export(make_model(None, stateful=False), VOCABULARY, str(tmp_path / "model"), max_k=8)
    served = tf.saved_model.load(str(tmp_path / "model")).signatures
    width = max(map(len, SENTENCES))
    padded = tf.constant([[*words, *[""] * (width - len(words))] for words in SENTENCES])
    scored = served["score"](words=padded)["log_probs"].numpy()
    next_words = served["next_word"](words=padded, k=tf.constant(8))
    generator = Generator(make_model(3, 1), VOCABULARY)
    for i, (words, found) in enumerate(zip(SENTENCES, scores, strict=True)):
        np.testing.assert_allclose(scored[i, : len(found)], found, atol=2e-5)
        listed = generator.next_words(words, 8)
        assert [w for w, _ in listed] == [w.decode() for w in next_words["words"][i].numpy()]
        last = np.sort(log_probs_at_once(words)[-1])[::-1]
        np.testing.assert_allclose([np.log(p) for _, p in listed], last, atol=2e-5)
        np.testing.assert_allclose(next_words["log_probs"][i], last, atol=2e-5)


def test_a_beam_takes_the_caches_of_its_parents_along():
    generator = Generator(make_model(6, 1), VOCABULARY)
    found = generator.beam(["the", "cat"], max_words=9)
    assert len({tuple(h.words) for h in found}) > 1
    for hypothesis in found:
        log_probs = scores_at_once(["the", "cat", *hypothesis.words])[2:]
        wanted = log_probs.sum() if hypothesis.ended else log_probs[:-1].sum()
        assert hypothesis.log_prob == pytest.approx(wanted, abs=1e-4)


def test_a_stream_is_one_text_however_it_is_handed_over(monkeypatch):
    text = " <eos> ".join(map(" ".join, SENTENCES)).split()
    ids = VOCABULARY.encode(["<eos>", *text, "<eos>"])
    wanted = log_probs_at_once(text)[np.arange(len(ids) - 1), ids[1:]]
    scorer = Scorer(make_model(1), VOCABULARY)
    for positions in (8192, 7, 3):
        monkeypatch.setattr("tfsoftmax.lm.scoring.POSITIONS", positions)
        scorer.restart()
        found = np.concatenate([*scorer.stream(SENTENCES[:2]), *scorer.stream(SENTENCES[2:])])
        np.testing.assert_allclose(found, wanted, atol=2e-5)


@pytest.fixture(scope="module")
def finished(corpus, tmp_path_factory):
    """A run that was never interrupted."""
    run = runs.Run(str(tmp_path_factory.mktemp("transformer") / "run"))
    train(corpus, run.directory, MODEL, SHORT)
    return run


def test_perplexity_falls_and_says_its_context(finished):
    valid = events(finished, "valid")
    assert valid[-1]["perplexity"] < 0.95 * valid[0]["perplexity"] < 62
    assert {line["context"] for line in valid} == {5}


def test_killed_between_checkpoints_it_ends_with_the_same_weights(finished, corpus, tmp_path):
    def die(_):
        raise KeyboardInterrupt

    run = runs.Run(str(tmp_path / "run"))
    with pytest.raises(KeyboardInterrupt), after_step(5, die):
        train(corpus, run.directory, MODEL, SHORT)
    assert run.checkpoints.progress()["step"] == 3  # that of the last checkpoint
    train(corpus, run.directory, MODEL, SHORT)
    assert_same_run(finished, run)


def test_a_run_keeps_a_cache_for_each_stream(finished, corpus):
    model, _, _ = runs.load(finished.directory, corpus.streams, corpus.time_steps)
    words = next(iter(batches(corpus, "train")))[0]
    model(words)
    keys, _, real = [state.numpy() for state in recurrent_states(model)][:3]
    assert keys.shape == (corpus.streams, 5 * 8) and real.shape == (corpus.streams, 5)
    assert keys.any() and real.all()


@pytest.mark.parametrize("head", HEADS)
def test_every_head_ends_the_model(head):
    options = required(head, len(WORDS))
    model = make_model(None, stateful=False, head=head, head_options=options)
    words = tf.constant([[4, 0, 2, 3], [4, 6, 6, 6]])
    log_probs = tf.nn.log_softmax(model(words)).numpy()
    changed = tf.nn.log_softmax(model(tf.concat([words[:, :3], [[5], [5]]], axis=1))).numpy()
    np.testing.assert_allclose(changed[:, :3], log_probs[:, :3], atol=1e-5)
    assert np.abs(changed[:, 3] - log_probs[:, 3]).max() > 1e-3


def test_an_adaptive_input_tied_to_the_output_shares_its_tables_and_comes_back(through_a_file):
    tied = {"head": "adaptive", "head_options": {"cutoffs": [3], "projection_factor": 2}}
    model = make_model(2, 3, tie_embeddings=True, **tied)
    assert model.get_layer("head").tied_to is model.get_layer("embedding")
    untied = make_model(2, 3, **tied)
    assert model.count_params() < untied.count_params()
    scaled = keras.Model(model.input, model.get_layer("scaled_embedding").output)
    words = np.array([[0, 4, 7], [7, 1, 2]])
    np.testing.assert_allclose(
        scaled(words), model.get_layer("embedding")(words) * 8**0.5, rtol=1e-5
    )
    again = through_a_file(model)
    np.testing.assert_allclose(again(words), model(words), rtol=1e-5)


def test_what_does_not_fit_a_transformer_is_named():
    with pytest.raises(ValueError, match="`cell` must have embedding_units = hidden_units"):
        dataclasses.replace(MODEL, embedding_units=4)
    with pytest.raises(ValueError, match="`hidden_units` must be a multiple of twice .*, 6"):
        dataclasses.replace(MODEL, attention_heads=3)
    with pytest.raises(ValueError, match="`context` must be at least 1"):
        dataclasses.replace(MODEL, context=0)
    with pytest.raises(ValueError, match="`cell` must be one of lstm, gru, rnn for pairs"):
        encoder_decoder(Seq2SeqConfig(**dataclasses.asdict(MODEL)), VOCABULARY)
