"""What the benchmarks measure of evaluation and use, against what others need for the same."""

import dataclasses

import numpy as np
import pytest

from experiments.benchmarks import (
    adaptive_evaluation,
    cases,
    floor,
    logits,
    programs,
    runtimes,
    suites,
    texts,
    uses,
)
from experiments.benchmarks.problem import Problem

PROBLEM = Problem(60, units=8, streams=3, steps=7)


@pytest.mark.parametrize("head, columns", [("full", 60), ("sampled", 60)])
def test_an_evaluation_is_held_against_the_scores_of_all_words(head, columns, monkeypatch):
    import tensorflow as tf

    case = dataclasses.replace(cases.case_of("x", head), measures=(cases.NATS,))
    program = programs.head(case, PROBLEM)
    assert program.products == [(21, 8, columns)] and not program.gradients
    layer, labels = programs.built_head(case, PROBLEM)[0], PROBLEM.labels()
    probabilities = layer.log_prob(PROBLEM.hidden(), labels)
    assert np.isfinite(program.functions[cases.NATS]()) and probabilities.shape == labels.shape
    computed, matmul = [], tf.matmul
    monkeypatch.setattr(tf, "matmul", lambda *a, **k: computed.append(0) or matmul(*a, **k))
    floor.matmuls(program.products, "float32", gradients=False)()
    assert len(computed) == 1


def test_adaptive_softmax_finds_frequent_words_where_tails_are_unlikely():
    case = cases.case_of("x", "adaptive", {"cutoffs": [10, 31]})
    head, _ = programs.built_head(case, PROBLEM)
    functions = adaptive_evaluation.ours(head, PROBLEM)
    assert list(functions) == list(adaptive_evaluation.EVALUATIONS)
    assert functions[adaptive_evaluation.EVALUATIONS[3]]() < 10
    assert functions[adaptive_evaluation.EVALUATIONS[0]]() < 0


@pytest.mark.parametrize("head", ["full", "adaptive"])
def test_padding_is_left_out_of_a_step(head):
    options = {"cutoffs": [10, 31]} if head == "adaptive" else {}
    padded, alone = cases.ways_of(
        "x", "padding", head, ("alone",), tuple(programs.PADDED), options)
    steps = programs.padded(padded, PROBLEM).functions
    assert list(steps) == list(programs.padded(alone, PROBLEM).functions) == [*programs.PADDED]
    assert all(np.isfinite(step()) for step in steps.values())


@pytest.mark.parametrize("suite", ["logits", "excluding", "serving"])
def test_all_ways_find_the_same(suite):
    of_suite, problem = {}, dataclasses.replace(PROBLEM, vocab_size=7000)
    for case in suites.SUITES[suite][0](problem.vocab_size):
        if case.options.get("way") in (*runtimes.RUNTIMES,) and "SavedModel" not in case.name:
            continue  # which needs other packages
        kind = {"logits": logits.logits, "excluding": uses.excluding, "serving": uses.served}[suite]
        functions = kind(case, problem).functions
        assert list(functions) == list(case.measures)
        of_suite.setdefault(case.group, []).append([f() for f in functions.values()])
    for values in of_suite.values():
        assert len(values) > 1
        np.testing.assert_allclose(values[1:], [values[0]] * (len(values) - 1), atol=1e-4)


@pytest.mark.parametrize("head", ["full", "adaptive", "tree", "nce"])
def test_all_ways_to_score_agree(head, monkeypatch):
    monkeypatch.setattr(texts, "SENTENCES", 5)
    monkeypatch.setattr(texts, "LISTS", 2)
    found = {}
    for case in texts.suite(60):
        if case.head == head:
            (score,) = texts.language(case, PROBLEM).functions.values()
            found.setdefault(case.group, []).append(score())
    assert sorted(map(len, found.values())) == [2, 2 if head == "nce" else 3]
    for values in found.values():
        assert values == pytest.approx([values[0]] * len(values), rel=1e-4)


@pytest.mark.parametrize("head, way", [
    ("full", None), ("full", uses.BARE_TOP_K), ("adaptive", None),
    ("adaptive", uses.ALL_LOG_PROBS), ("tree", None), ("tree", uses.ALL_LOG_PROBS),
])
def test_the_likeliest_words_are_those_of_the_head(head, way, monkeypatch):
    made = []
    build = uses.built_head
    monkeypatch.setattr(uses, "built_head", lambda *given: made.append(build(*given)) or made[-1])
    case = cases.Case("x", "top_k", head, {"way": way}, measures=("top_k of 64, k = 10",))
    best = uses.top_k(case, PROBLEM).functions["top_k of 64, k = 10"]()
    ((layer, _),) = made
    hidden = PROBLEM.hidden() / PROBLEM.hidden().std()
    expected = layer.log_probs(hidden[:1])[0]
    if way == uses.BARE_TOP_K:  # without biases and ln Z
        expected = hidden[0] @ layer.kernel.numpy().T
    assert best == pytest.approx(np.max(expected), rel=1e-5)
    shares = np.exp(layer.log_probs(hidden)).mean(0)
    assert np.corrcoef(shares, PROBLEM.counts())[0, 1] > 0.7  # frequent words are likely


def test_a_text_that_is_made_up_has_the_words_that_it_says(tmp_path):
    words = uses.written(tmp_path / "text", PROBLEM, 50)
    lines = (tmp_path / "text").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 50 and sum(len(line.split()) for line in lines) == words
    assert {word for line in lines for word in line.split()} <= set(PROBLEM.words())


@pytest.mark.parametrize("measure, head", [
    ("score", "full"), ("score", "adaptive"), ("rescore", "tree"), ("generate", "full"),
])
def test_texts_are_held_against_the_products_of_each_word(measure, head, monkeypatch):
    monkeypatch.setattr(texts, "SENTENCES", 5)
    monkeypatch.setattr(texts, "LISTS", 2)
    monkeypatch.setattr(texts, "WORDS", 3)
    options = {"cutoffs": [10, 30]} if head == "adaptive" else {}
    case = cases.Case("x", "texts", head, options, measures=(measure,))
    program = texts.language(case, PROBLEM)
    once = program.functions[measure]
    assert once() == once() != 0 and not program.gradients
    words = program.facts["words"]
    assert words == (64 * 3 if measure == "generate" else words) > 0
    lstm = sum(p.rows * p.units * p.words for p in program.products if p.words == 32)
    assert lstm == 2 * words * 8 * 32


def test_common_beginnings_of_hypotheses_count_once():
    found = texts.beginnings([["a", "b", "c"], ["a", "b", "d"], ["a"]])
    ends = sorted(words[-1] for words in found)
    assert ends == ["<eos>"] * 3 + ["a", "b", "c", "d"]


@pytest.mark.slow
@pytest.mark.parametrize("head", ["prepare", "tokenizers", "sentencepiece", "train", "import"])
def test_commands_run_again_and_again(head):
    case = cases.Case("x", "command", head, {"sentences": 300}, measures=(uses.COMMAND,))
    program = uses.command(case, Problem(600))
    once = program.functions[uses.COMMAND]
    assert once() == once() > 0
    assert program.facts == ({} if head in ("train", "import") else {"words": once()})
