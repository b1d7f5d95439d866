"""A shortlist with a bigram model in training, evaluation, scoring and generation."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

import references
from runs_helper import MODEL, train
from tfsoftmax.lm.evaluation import exact_evaluator
from tfsoftmax.lm.export import export
from tfsoftmax.lm.generation import Generator
from tfsoftmax.lm.model import reset_states, split_at_head
from tfsoftmax.lm.scoring import Scorer
from tfsoftmax.ngrams.backoff import BackoffBigrams
from tfsoftmax.runs import runs

S = 20


@pytest.fixture(scope="module", params=[True, False], ids=["node", "no node"])
def run(request, corpus, tmp_path_factory):
    """A run of two steps, and the bigram model whose file it has read."""
    folder = tmp_path_factory.mktemp("shortlist")
    words, path = corpus.vocabulary.words, folder / "bigrams.arpa"
    rng = np.random.default_rng(0)
    lines = ["\\data\\", "\\1-grams:", "-99\t<s>\t-0.2"]
    named = [{"<eos>": "</s>"}.get(word, word) for word in words]
    lines += [f"{-rng.uniform(1, 3):.3f}\t{word}\t{-rng.uniform(0, 1):.3f}" for word in named]
    lines.append("\\2-grams:")
    lines += [f"{-rng.uniform(0.5, 2):.3f}\tw{i} w{2 * i % 60}" for i in range(60)]
    path.write_text("\n".join([*lines, "\\end\\", ""]))
    ngram = BackoffBigrams.read_arpa(path, words)
    options = {"shortlist": S, "ngram": str(path), "oos_node": request.param}
    model = dataclasses.replace(MODEL, head="shortlist", head_options=options)
    train(corpus, folder / "run", model, max_steps=2)
    path.unlink()  # the run has its own copy
    return runs.Run(str(folder / "run")), ngram


def log_probs_after(run, ngram, words):
    """ln P(w | h) after each word of a text, in loops, (T, V)."""
    model, vocabulary, _ = runs.load(run.directory, 1)
    head, hidden_model = split_at_head(model, vocabulary)
    reset_states(model)
    ids = vocabulary.encode(words)
    hidden = hidden_model(ids[None], training=False).numpy()[0, :, :-4]
    weights = head.get_weights()
    nodes = references.full_log_probs(hidden, *weights)
    shortlist, size = head.order.ids[:S].tolist(), len(vocabulary)
    result = np.zeros((len(ids), size))
    for t, v in enumerate(ids):
        q = np.exp(ngram.log_prob(v, np.arange(size)))
        inside = sum(q[w] for w in shortlist)
        for w in range(size):
            if w in shortlist:
                result[t, w] = nodes[t, shortlist.index(w)]
                result[t, w] += 0 if head.oos_node else np.log(inside)
            elif head.oos_node:
                result[t, w] = nodes[t, S] + np.log(q[w] / (1 - inside))
            else:
                result[t, w] = np.log(q[w])
    return result


def test_scores_likeliest_words_and_perplexity_are_those_of_the_equations(run, corpus):
    run, ngram = run
    vocabulary, sentence = corpus.vocabulary, "w1 w2 w4 w8 w9 w1".split()
    expected = log_probs_after(run, ngram, ["<eos>", *sentence])
    np.testing.assert_allclose(np.exp(expected).sum(1), 1, rtol=1e-5)
    ids = vocabulary.encode([*sentence, "<eos>"])
    scores = Scorer(*runs.load(run.directory, 2)[:2]).sentences([sentence])[0]
    np.testing.assert_allclose(scores, expected[np.arange(7), ids], rtol=1e-4, atol=1e-4)
    generator = Generator(*runs.load(run.directory, 2, 1)[:2])
    likeliest = generator.next_words(sentence, 3)
    best = np.argsort(-expected[-1])[:3]
    assert [word for word, _ in likeliest] == vocabulary.decode(best)
    np.testing.assert_allclose([p for _, p in likeliest], np.exp(expected[-1, best]), rtol=1e-4)
    found = generator.beam(sentence, max_words=2)[0]
    text = [*sentence, *found.words, "<eos>"][: len(sentence) + 2]
    after = log_probs_after(run, ngram, ["<eos>", *text])[len(sentence):]
    chosen = vocabulary.encode(text)[len(sentence):]
    assert found.log_prob == pytest.approx(sum(after[t, w] for t, w in enumerate(chosen)), rel=1e-4)


def test_evaluation_is_the_mean_over_the_split(run, corpus):
    model, vocabulary, _ = runs.load(run[0].directory, corpus.streams, corpus.time_steps)
    nats = exact_evaluator(model)(corpus, "valid")["nats_per_token"]
    logged = [m for m in run[0].metrics() if m["event"] == "valid"]
    assert nats == pytest.approx(min(m["nats_per_token"] for m in logged), rel=1e-5)


def test_an_exported_model_scores_with_the_bigrams(run, tmp_path):
    run, ngram = run
    model, vocabulary, _ = runs.load(run.directory, None, stateful=False)
    export(model, vocabulary, str(tmp_path / "served"), max_k=3)
    served = tf.saved_model.load(str(tmp_path / "served"))
    sentence = ["w1", "w2", "w5"]
    found = served.signatures["score"](words=tf.constant([sentence]))["log_probs"].numpy()[0]
    expected = log_probs_after(run, ngram, ["<eos>", *sentence])
    ids = vocabulary.encode([*sentence, "<eos>"])
    np.testing.assert_allclose(found, expected[np.arange(4), ids], rtol=1e-4, atol=1e-4)
