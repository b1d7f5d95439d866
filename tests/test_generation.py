"""Facts about `Generator`: what it draws and which words it expects next."""

import dataclasses

import numpy as np
import pytest

from generation_helper import CONFIG, VOCABULARY, WORDS, distribution, generator, make_model
from refusals import refused
from runs_helper import tool
from tfsoftmax.lm.decoding import NextWordSampler
from tfsoftmax.lm.generation import Generator
from tfsoftmax.lm.model import language_model, recurrent_states
from tfsoftmax.runs import runs
from tfsoftmax.support.vocabulary import Vocabulary


def without_unk(probabilities):
    probabilities = np.where(np.array(WORDS) == "<unk>", 0, probabilities)
    return probabilities / probabilities.sum()


def assert_frequencies(drawn, probabilities, count):
    """Each word's frequency lies within five standard deviations of its probability."""
    counts = np.array([drawn.count(word) for word in WORDS])
    deviation = np.sqrt(probabilities * (1 - probabilities) / count)
    assert (np.abs(counts / count - probabilities) <= 5 * deviation).all()


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("streams,steps", [(1, 1), (3, None)])
def test_next_words_are_those_of_the_whole_prompt_read_at_once(cell, streams, steps):
    reader = generator(streams, steps, cell)
    for prompt in ((), ("the", "cat"), ("on", "the", "zebra")):
        expected = distribution(prompt, cell=cell)
        words, probabilities = zip(*reader.next_words(prompt, len(WORDS)), strict=True)
        assert list(words) == [WORDS[index] for index in np.argsort(-expected)]
        np.testing.assert_allclose(probabilities, np.sort(expected)[::-1], rtol=1e-5)


def test_next_words_returns_the_k_likeliest():
    two = generator(2)
    everything = two.next_words(["cat"], len(WORDS))
    assert two.next_words(["cat"], 3) == everything[:3]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_first_words_follow_the_renormalised_distribution(temperature):
    count = 20_000
    sampler = NextWordSampler(temperature)
    sentences = generator(count, 1).sample(["the", "cat"], 1, sampler, seed=3)
    expected = without_unk(distribution(["the", "cat"]) ** (1 / temperature))
    drawn = [(words or ["<eos>"])[0] for words in sentences]
    assert "<unk>" not in drawn
    assert_frequencies(drawn, expected, count)


def test_second_words_follow_the_distribution_after_the_first():
    sentences = generator(20_000, 1).sample(["on"], 2)
    for first in ("the", "sat", "mat"):
        drawn = [(words + ["<eos>"])[1] for words in sentences if words[:1] == [first]]
        assert_frequencies(drawn, without_unk(distribution(["on", first])), len(drawn))


def test_sentences_end_before_eos_or_at_max_words():
    sentences = generator(200).sample(max_words=4)
    assert not {"<eos>", "<unk>"} & {word for words in sentences for word in words}
    assert {len(words) for words in sentences} == {0, 1, 2, 3, 4}


def test_the_same_seed_gives_the_same_sentences_and_another_seed_others():
    six = generator(6)
    first = six.sample(["cat"], seed=5)
    assert six.sample(["cat"], seed=5) == first
    assert generator(6, 1).sample(["cat"], seed=5) == first
    assert six.sample(["cat"], seed=6) != first


def test_sentences_differ_from_each_other():
    assert len(set(map(tuple, generator(50).sample()))) > 20


@pytest.mark.parametrize("temperature", [1e-2, 1e-30, 1e-300])
def test_low_temperature_takes_the_likeliest_word(temperature):
    words = []
    while len(words) < 6:
        best = max(range(len(WORDS)), key=without_unk(distribution(words, seed=2)).__getitem__)
        if WORDS[best] == "<eos>":
            break
        words.append(WORDS[best])
    assert words
    sampler = NextWordSampler(temperature)
    assert generator(1, 1, seed=2).sample(max_words=6, sampler=sampler) == [words]


def test_a_certain_unk_is_still_not_produced():
    model = make_model(30, 1)
    model.get_layer("head").bias.assign(np.where(np.array(WORDS) == "<unk>", 1e4, 0))
    sentences = Generator(model, VOCABULARY).sample()
    assert "<unk>" not in {word for words in sentences for word in words}
    assert any(sentences)


def test_states_are_zero_before_and_after():
    model = make_model(4)
    four = Generator(model, VOCABULARY)
    first = four.sample(["the"])
    for state in recurrent_states(model):
        assert not state.numpy().any()
        state.assign(np.ones(state.shape))
    assert four.sample(["the"]) == first
    expected = four.next_words(["the"], 2)
    model(np.zeros((4, 3), np.int32))
    assert four.next_words(["the"], 2) == expected
    assert recurrent_states(model) and not any(s.numpy().any() for s in recurrent_states(model))


def test_arguments_out_of_range_are_named():
    with pytest.raises(ValueError, match="`max_words` must be at least 1. Received: max_words=0"):
        generator(2).sample(max_words=0)
    refused(r"`k` must be an integer in \[1, 7\]. Received: k=8", generator(2).next_words, (), 8)


def test_a_prompt_that_is_one_string_is_refused():
    refused("not one string", generator(5).sample, "the cat", error=TypeError)


def test_models_that_do_not_fit_are_refused():
    refused("stateful=False", generator, 2, stateful=False)
    refused("streams=2, time_steps=20", generator, 2, 20)
    refused("streams=None", generator, None, stateful=False)
    with pytest.raises(ValueError, match="as many words as the model, 7. Received: <Vocab.* of 4"):
        Generator(make_model(2), Vocabulary(WORDS[1:5], [1, 1, 1, 1]))


@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16"])
def test_language_models_of_any_precision_generate(precision):
    config = dataclasses.replace(CONFIG, precision=precision)
    model = language_model(config, VOCABULARY, streams=40, time_steps=1)
    forty = Generator(model, VOCABULARY)
    sentences = forty.sample(["the"])
    assert {word for words in sentences for word in words} == set(WORDS) - {"<unk>", "<eos>"}
    probabilities = [p for _, p in forty.next_words(["the"], len(WORDS))]
    assert sum(probabilities) == pytest.approx(1, abs=1e-5)


def test_the_tool_prints_sentences_and_the_next_words(generating_run):
    result = tool(
        "generate", f"--run={generating_run}", "--prompt=on the zebra", "--count=4",
        "--max_words=3", "--top=6",
    )
    assert "not in the vocabulary, read as <unk>: zebra\n" in result.stderr
    four = Generator(*runs.load(generating_run, streams=4, time_steps=1)[:2])
    prompt = ["on", "the", "zebra"]
    *sentences, blank, header = (lines := result.stdout.splitlines())[:6]
    for line, words in zip(sentences, four.sample(prompt, 3), strict=True):
        assert line.split() == prompt + words + ["…"] * (len(words) == 3)
    assert (blank, header) == ("", "probability  next word")
    expected = four.next_words(prompt, 6)
    assert lines[6:] == [f"{p:>11.4%}  {word}" for word, p in expected]


def test_a_model_is_traced_once_for_all_its_sentences_and_read_anew():
    model, traces = make_model(2), []
    head = model.get_layer("head")
    top_k = type(head).top_k

    class Counting(type(head)):
        def top_k(self, *args):
            traces.append(args)
            return top_k(self, *args)

    head.__class__ = Counting
    two = Generator(model, VOCABULARY)
    first = two.beam(["the"], 5)
    before = len(traces)
    assert two.beam(["the"], 5) == first and len(traces) == before
    model.set_weights([-w for w in model.get_weights()])
    assert two.beam(["the"], 5) != first and len(traces) == before
    assert two.sample(seed=1) == two.sample(seed=1)
    other = Generator(model, Vocabulary(tuple(reversed(WORDS)), [9, 8, 7, 6, 5, 4, 3]))
    assert "<unk>" not in sum(other.sample(), [])


def test_a_stream_goes_on_after_other_calls():
    shared, alone = generator(2), generator(2)
    draws = NextWordSampler(top_k=1)
    wanted = list(alone.stream([["cat"], ["on"]], 9, draws))
    found = []
    for words in shared.stream([["cat"], ["on"]], 9, draws):
        found.append(words)
        shared.next_words(["the", "dog"], 2)
    assert found == wanted
