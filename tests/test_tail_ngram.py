"""Evaluation of a shortlist whose other words follow an n-gram model of three words."""

import dataclasses
import math
import sys
import types

import numpy as np
import pytest

from runs_helper import MODEL, error_of, tool, train
from tfsoftmax.corpora.pipeline import batches
from tfsoftmax.lm.evaluation import exact_evaluator
from tfsoftmax.lm.model import reset_states, split_at_head
from tfsoftmax.lm.tail_ngram import TailNgram, evaluated_with_tail_ngram, tail_ngram_of
from tfsoftmax.runs import runs

S = 20


class Trigrams:
    """A trigram model with backoff in loops; it stands in for KenLM where that is not installed."""

    def __init__(self, path, _=None):
        self.log10, self.backoff = {}, {}
        for line in open(path, encoding="utf-8"):
            fields = line.rstrip("\n").split("\t")
            if len(fields) > 1:
                ngram = tuple(fields[1].split())
                self.log10[ngram] = float(fields[0])
                self.backoff[ngram] = float(fields[2]) if len(fields) > 2 else 0.0

    def score(self, history, word):
        """log10 P(word | history), the history a tuple of at most two words."""
        if (*history, word) in self.log10:
            return self.log10[(*history, word)]
        return self.backoff.get(history, 0.0) + self.score(history[1:], word)

    def BaseScore(self, state, word, following):
        following.words = (*state.words, word)[-2:]
        return self.score(state.words, word)

    def BeginSentenceWrite(self, state):
        state.words = ("<s>",)

    def NullContextWrite(self, state):
        state.words = ()


class State:
    words = ()

    def __eq__(self, other):
        return self.words == other.words

    def __hash__(self):
        return hash(self.words)


@pytest.fixture(scope="module")
def arpa(corpus, tmp_path_factory):
    """An ARPA file of order 3 in which some words and histories occur and others back off."""
    path, rng = tmp_path_factory.mktemp("arpa") / "trigrams.arpa", np.random.default_rng(0)
    words = [{"<eos>": "</s>"}.get(word, word) for word in corpus.vocabulary.words]
    unigrams = [f"{-rng.uniform(1, 3):.3f}\t{word}\t{-rng.uniform(0, 1):.3f}" for word in words]
    bigrams = [f"{-rng.uniform(0.5, 2):.3f}\tw{i} w{(2 * i + j) % 60}\t{-rng.uniform(0, 1):.3f}"
               for i in range(60) for j in (0, 1)]
    trigrams = [f"{-rng.uniform(0.1, 1):.3f}\tw{i} w{2 * i % 60} w{(4 * i + 1) % 60}"
                for i in range(60)]
    path.write_text("\n".join([
        "\\data\\", f"ngram 1={len(words) + 1}", "ngram 2=121", "ngram 3=60", "",
        "\\1-grams:", "-99\t<s>\t-0.2", *unigrams, "",
        "\\2-grams:", "-0.7\t<s> w3\t-0.1", *bigrams, "",
        "\\3-grams:", *trigrams, "", "\\end\\", "",
    ]))
    return path


@pytest.fixture(scope="module")
def run(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shortlist")
    model = dataclasses.replace(MODEL, head="shortlist", head_options={"shortlist": S})
    train(corpus, folder / "run", model, max_steps=2)
    return str(folder / "run")


@pytest.fixture
def kenlm(monkeypatch):
    """KenLM, or what stands in for it."""
    loads = types.SimpleNamespace(NONE=None)
    module = types.SimpleNamespace(
        Model=Trigrams, State=State, Config=types.SimpleNamespace, ARPALoadComplain=loads
    )
    monkeypatch.setitem(sys.modules, "kenlm", module)


def reference_nats(run, corpus, arpa):
    """Nats per token of the valid split, in loops, by `log_prob` with the reference's shares."""
    model, vocabulary, _ = runs.load(run, corpus.streams, corpus.time_steps)
    head, hidden_model = split_at_head(model, vocabulary)
    reset_states(model)
    ngram, tail, nats, tokens = Trigrams(arpa), head.tail.tolist(), 0.0, 0
    names = [{"<eos>": "</s>"}.get(word, word) for word in vocabulary.words]
    histories = [("<s>",)] * corpus.streams
    for words, labels, weights in batches(corpus, "valid"):
        shares = np.zeros(labels.shape, np.float32)
        for b in range(corpus.streams):
            for t in range(corpus.time_steps):
                word = int(labels[b, t])
                if word in tail and weights[b, t]:
                    mass = sum(10 ** ngram.score(histories[b], names[v]) for v in tail)
                    shares[b, t] = math.log(10 ** ngram.score(histories[b], names[word]) / mass)
                end = word == vocabulary.eos_id
                histories[b] = ("<s>",) if end else (*histories[b], names[word])[-2:]
        log_prob = head.log_prob(hidden_model(words), labels, shares).numpy()
        nats -= float((log_prob * weights.numpy()).sum())
        tokens += float(weights.numpy().sum())
    return nats / tokens


def test_perplexity_is_that_of_the_equation(run, corpus, arpa, kenlm):
    model, _, _ = runs.load(run, corpus.streams, corpus.time_steps)
    own = exact_evaluator(model)(corpus, "valid")
    ngram = tail_ngram_of(model, corpus.vocabulary, arpa)
    result = evaluated_with_tail_ngram(own, model, corpus, "valid", ngram)
    expected = reference_nats(run, corpus, arpa)
    assert result["nats_per_token"] == pytest.approx(expected, rel=1e-5)
    assert result["perplexity"] == pytest.approx(math.exp(expected), rel=1e-4)
    bits = expected * own["tokens"] / math.log(2)
    size = corpus.split("valid").text_bytes
    assert result["bits_per_byte"] == pytest.approx(bits / size, rel=1e-5)
    assert 0 < result["tail_tokens"] < result["tokens"] == own["tokens"]
    assert abs(expected - own["nats_per_token"]) > 0.01


def test_other_heads_are_refused(finished_run, corpus, arpa):
    model, _, _ = runs.load(finished_run.directory, corpus.streams, corpus.time_steps)
    with pytest.raises(ValueError, match="`tail_ngram` must be given for a run with"):
        tail_ngram_of(model, corpus.vocabulary, arpa)


def test_kenlm_reads_the_file_as_the_reference_does(corpus, arpa):
    pytest.importorskip("kenlm")
    vocabulary, reference = corpus.vocabulary, Trigrams(arpa)
    ngram = TailNgram(arpa, vocabulary, vocabulary.encode([f"w{i}" for i in range(40)]))
    for history in ([], ["w3"], ["w1", "w2"], ["w9", "w5", "w10"]):
        state = ngram.start(vocabulary.eos_id)
        for word in vocabulary.encode(history):
            state = ngram.after(state, word)
        before = ("<s>", *history)[-2:]
        scores = [reference.score(before, f"w{i}") for i in range(40)]
        mass = sum(10**score for score in scores)
        for i in (0, 4, 5, 20, 39):
            share = ngram.log_share(state, vocabulary.encode([f"w{i}"])[0])
            assert share == pytest.approx(math.log(10 ** scores[i] / mass), rel=1e-4)


def test_the_nats_of_bands_are_refused_beside_another_tail(run, arpa):
    result = error_of("evaluate", f"--run={run}", f"--tail_ngram={arpa}", "--by_frequency")
    assert "`tail_ngram` must not be given with --by_frequency" in result


def test_the_tool_needs_kenlm(run, arpa):
    result = tool("evaluate", f"--run={run}", "--split=valid", f"--tail_ngram={arpa}", check=False)
    if result.returncode:
        assert "`tail_ngram` needs kenlm: pip install kenlm" in result.stderr
    else:
        assert '"tail_tokens": ' in result.stdout
