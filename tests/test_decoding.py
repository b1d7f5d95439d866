"""Facts about `NextWordSampler`, `nucleus`, and `Generator.complete`, `stream` and `beam`."""

import io
import itertools
import sys

import numpy as np
import pytest

import cases
from generation_helper import VOCABULARY, WORDS, distribution, generator, make_model
from refusals import refused
from runs_helper import error_of, tool
from tfsoftmax.commands import cluster, generate, show_clusters
from tfsoftmax.corpora.tokenizers import Words
from tfsoftmax.lm.decoding import NextWordSampler, nucleus
from tfsoftmax.lm.generation import Generator
from tfsoftmax.lm.model import recurrent_states
from tfsoftmax.runs import runs
from tfsoftmax.support.vocabulary import Vocabulary

COUNT, SIZE, EXCLUDED = 20_000, 11, 4


def drawn(sampler, case, seed=0, count=COUNT):
    """Frequencies of words in `count` draws at one hidden state, and the head's distribution."""
    head = cases.built(case, SIZE)
    hidden = cases.positions(SIZE, 1, seed=seed)[0]
    words = sampler.draw(head, np.repeat(hidden, count, 0), EXCLUDED, [3, seed]).numpy()
    probabilities = np.exp(head.log_probs(hidden).numpy()[0].astype(np.float64))
    probabilities[EXCLUDED] = 0
    return np.bincount(words, minlength=SIZE) / count, probabilities


def assert_drawn_from(frequencies, probabilities):
    probabilities = probabilities / probabilities.sum()
    deviation = np.sqrt(probabilities * (1 - probabilities) / COUNT)
    assert (np.abs(frequencies - probabilities) <= 5 * deviation).all()


@pytest.mark.parametrize("case", ["full", "adaptive", "tree", "class"])
@pytest.mark.parametrize("seed", [0, 2])
def test_top_k_draws_from_the_likeliest_words_but_the_excluded(case, seed):
    frequencies, probabilities = drawn(NextWordSampler(temperature=2.0, top_k=3), case, seed)
    kept = np.where(probabilities >= np.sort(probabilities)[-3], probabilities**0.5, 0)
    assert (kept > 0).sum() == 3
    assert_drawn_from(frequencies, kept)


def test_top_k_of_all_words_draws_from_all():
    frequencies, probabilities = drawn(NextWordSampler(top_k=SIZE), "adaptive")
    assert_drawn_from(frequencies, probabilities)


@pytest.mark.parametrize("top_k", [None, 6])
@pytest.mark.parametrize("top_p", [1e-9, 0.5, 0.9, 1.0])
def test_the_nucleus_is_the_fewest_words_that_have_the_mass(top_k, top_p):
    frequencies, probabilities = drawn(NextWordSampler(top_k=top_k, top_p=top_p), "full")
    order = np.argsort(-probabilities)[:top_k]
    mass = np.cumsum(probabilities[order]) / probabilities[order].sum()
    kept = np.zeros(SIZE)
    fewest = order[: np.searchsorted(mass, top_p - 1e-12) + 1]
    kept[fewest] = probabilities[fewest]
    assert_drawn_from(frequencies, kept)


def test_a_nucleus_of_nothing_is_the_likeliest_word():
    scores = nucleus(np.log([[0.5, 0.3, 0.2], [0.4, 0.4, 0.2]]), 1e-30).numpy()
    assert np.isfinite(scores).tolist() == [[True, False, False]] * 2


@pytest.mark.parametrize("case", ["full", "adaptive", "tree"])
def test_one_candidate_is_the_likeliest_word_whatever_the_seed(case):
    for seed in range(3):
        frequencies, probabilities = drawn(NextWordSampler(top_k=1), case, seed, count=20)
        assert frequencies[probabilities.argmax()] == 1


@pytest.mark.parametrize("options,message", [
    ({"temperature": 0.0}, "`temperature` must be positive and finite. Received: temp.*=0.0"),
    ({"temperature": -1.0}, "`temperature` must be positive.*=-1.0"),
    ({"temperature": float("nan")}, "`temperature` must be positive.*=nan"),
    ({"top_k": 0}, "`top_k` must be at least 1. Received: top_k=0"),
    ({"top_p": 0.0}, r"`top_p` must lie in \(0, 1\]. Received: top_p=0.0"),
    ({"top_p": 1.5}, "top_p=1.5"),
    ({"top_k": 8}, "`top_k` must be at most 7. Received: top_k=8"),
])
def test_samplers_out_of_range_are_named(options, message):
    refused(message, lambda: generator(2).sample(sampler=NextWordSampler(**options)))


PROMPTS = [("the", "cat"), (), ("on", "the", "zebra", "sat"), ("mat",)]


def test_prompts_of_any_length_side_by_side_are_as_each_alone():
    together = generator(4).complete(PROMPTS, 5, NextWordSampler(top_k=1))
    alone = generator(1)
    for prompt, words in zip(PROMPTS, together, strict=True):
        assert alone.complete([prompt], 5, NextWordSampler(top_k=1)) == [words]
    assert len(set(map(tuple, together))) > 1


def test_a_stream_yields_each_word_when_it_is_drawn():
    four = generator(4)
    steps = list(four.stream(PROMPTS, 3))
    sentences = four.complete(PROMPTS, 3)
    for column, (prompt, words) in enumerate(zip(PROMPTS, sentences)):
        expected = [None] * len(prompt) + words
        expected += [None] * (len(steps) - len(expected))
        assert [step[column] for step in steps] == expected


def test_as_many_prompts_as_streams_are_wanted():
    refused("as many as the model has streams, 2. Received: 3", generator(2).complete, [()] * 3)


def all_sentences(prompt, max_words, seed):
    """(words, ln P, words with the end, ended) of every sentence without `<unk>`."""
    usual = [word for word in WORDS if word not in ("<unk>", "<eos>")]
    log_probs = {}
    for length in range(max_words):
        for words in itertools.product(usual, repeat=length):
            log_probs[words] = np.log(distribution([*prompt, *words], seed=seed))
    for length in range(max_words + 1):
        for words in itertools.product(usual, repeat=length):
            total = sum(
                log_probs[words[:i]][VOCABULARY.encode([word])[0]] for i, word in enumerate(words)
            )
            if length < max_words:
                end = log_probs[words][VOCABULARY.eos_id]
                yield list(words), total + end, length + 1, True
            else:
                yield list(words), total, length, False


@pytest.mark.parametrize("length_power", [0.0, 0.7, 1.0])
def test_a_beam_that_holds_all_sentences_finds_the_best(length_power):
    prompt, max_words, seed = ["cat"], 2, 4
    sentences = list(all_sentences(prompt, max_words, seed))
    expected = sorted(sentences, key=lambda s: -s[1] / s[2] ** length_power)
    found = generator(len(sentences), seed=seed).beam(prompt, max_words, length_power)
    assert [h.words for h in found] == [words for words, *_ in expected]
    assert [h.ended for h in found] == [ended for *_, ended in expected]
    np.testing.assert_allclose([h.log_prob for h in found], [s[1] for s in expected], rtol=1e-5)
    scores = [s[1] / s[2] ** length_power for s in expected]
    np.testing.assert_allclose([h.score for h in found], scores, rtol=1e-5)


def test_a_narrow_beam_states_log_probabilities_of_its_sentences():
    model = make_model(3, seed=6)
    found = Generator(model, VOCABULARY).beam(["on", "the"], 4)
    assert len(found) == 3 and len({tuple(h.words) for h in found}) == 3
    for h in found:
        words = h.words + ["<eos>"] * h.ended
        total = sum(
            np.log(distribution(["on", "the", *words[:i]], seed=6)[VOCABULARY.encode([word])[0]])
            for i, word in enumerate(words)
        )
        assert h.log_prob == pytest.approx(total, rel=1e-5)
    assert not any(state.numpy().any() for state in recurrent_states(model))


def test_a_length_power_below_zero_is_named():
    refused("`length_power` must be finite.*=-1", generator(2).beam, length_power=-1.0)


def test_the_tool_searches_and_takes_many_prompts(generating_run, tmp_path):
    (tmp_path / "prompts.txt").write_text("the cat\n\non the mat\n")
    run = f"--run={generating_run}"
    result = tool(
        "generate", run, f"--prompts={tmp_path / 'prompts.txt'}", "--greedy", "--max_words=4"
    )
    three = Generator(*runs.load(generating_run, streams=3, time_steps=1)[:2])
    prompts = [["the", "cat"], [], ["on", "the", "mat"]]
    sentences = three.complete(prompts, 4, NextWordSampler(top_k=1))
    for line, prompt, words in zip(result.stdout.splitlines(), prompts, sentences, strict=True):
        assert line.split() == prompt + words + ["…"] * (len(words) == 4)

    printed = tool("generate", run, "--prompt=the", "--beam=3", "--count=2").stdout.splitlines()
    for line, h in zip(printed[:2], three.beam(["the"])[:2], strict=True):
        assert line.split() == [f"{h.log_prob:.3f}", "the", *h.words, *["…"] * (not h.ended)]


@pytest.mark.slow
def test_the_tool_streams_a_single_sentence(generating_run):
    result = tool(
        "generate", f"--run={generating_run}", "--prompt=on the", "--count=1", "--top_p=0.8"
    )
    one = Generator(*runs.load(generating_run, streams=1, time_steps=1)[:2])
    (words,) = one.sample(["on", "the"], sampler=NextWordSampler(top_p=0.8))
    expected = " ".join(["on", "the", *words, *["…"] * (len(words) == 40)])
    assert result.stdout.splitlines()[0] == expected


@pytest.mark.parametrize("path", ["-", "{}"])
def test_prompts_are_lines_that_end_at_newlines_only(tmp_path, monkeypatch, path):
    data = "\ufeffthe\u2028cat\non\x0b\x85\n".encode()
    (tmp_path / "prompts").write_bytes(data)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    options = generate.GenerateOptions("run", prompts=path.format(tmp_path / "prompts"))
    prompts = list(Words().encode_all([line for _, line in generate.read_prompts(options)]))
    assert prompts == [["the", "cat"], ["on"]]


def test_words_cannot_steer_a_terminal():
    assert generate.table([("a\x1b[2J\x9b1mé", 0.5)]).endswith(" 50.0000%  a\\x1b[2J\\x9b1mé")
    vocabulary = Vocabulary(["\x07x", "<unk>", "<eos>"], [3, 1, 2])
    assert show_clusters.line(1, 0.5, ["\x07x"]) == "    1  50.000%  \\x07x"
    grouping = cluster.Grouping(["0"] * 3, None)
    assert list(cluster.listing(grouping, vocabulary, 3, None)) == ["0\t\\x07x <eos> <unk>"]


@pytest.mark.parametrize("flags, message", [
    (["--beam=100000"], "`beam` must be at most 1000. Received: beam=100000"),
    (["--beam=3", "--top_k=2"],
     "`top_k` must not be given with --beam. Received: top_k=2, beam=3"),
    (["--greedy", "--seed=4"],
     "`seed` must not be given with --greedy. Received: seed=4"),
    (["--greedy", "--count=2"], "`count` must be 1 with --greedy"),
    (["--beam=2", "--count=3"], "`count` must be at most `beam`, 2. Received: count=3"),
    (["--length_power=0"], "`length_power` must be given with --beam only"),
    (["--prompts=b", "--top=3"], "`top` must not be given with --prompts"),
    (["--prompt=a", "--prompts=b"], "`prompt` must not be given with --prompts. Received: prompt"),
    (["--count=0"], "`count` must be at least 1. Received: count=0"),
    (["--max_words=0"], "`max_words` must be at least 1. Received: max_words=0"),
    (["--top=0"], "`top` must be at least 1. Received: top=0"),
])
def test_the_tool_names_what_is_wrong(generating_run, flags, message):
    assert message in error_of("generate", f"--run={generating_run}", *flags)
