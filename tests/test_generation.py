"""Facts about `sample` and `next_words`."""

import dataclasses
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

from tfsoftmax.lm import runs
from tfsoftmax.lm.config import ModelConfig
from tfsoftmax.lm.generation import beam, next_words, sample
from tfsoftmax.heads import FullSoftmax
from tfsoftmax.lm.model import language_model, recurrent_states
from tfsoftmax.layers.recurrent import recurrent_layer
from tfsoftmax.vocabulary import Vocabulary

WORDS = ("the", "<unk>", "cat", "sat", "<eos>", "mat", "on")
VOCABULARY = Vocabulary(WORDS, [9, 8, 7, 6, 5, 4, 3])
CONFIG = ModelConfig(embedding_units=6, hidden_units=6, layers=2, tie_embeddings=True, init_scale=1.0)


def make_model(streams, steps=None, cell="lstm", stateful=True, scale=1.0, seed=0):
    words = keras.Input(batch_shape=(streams, steps), dtype="int32")
    hidden = keras.layers.Embedding(len(WORDS), 5)(words)
    hidden = recurrent_layer(cell, 6, return_sequences=True, stateful=stateful)(hidden)
    hidden = keras.layers.Dropout(0.5)(hidden)
    model = keras.Model(words, FullSoftmax(len(WORDS), name="head")(hidden))
    rng = np.random.default_rng(seed)
    model.set_weights([rng.normal(scale=scale, size=w.shape) for w in model.get_weights()])
    return model


def distribution(prompt, **kwargs):
    """P(next word | `<eos>`, prompt), (V,), read in one batch by a stateless model."""
    ids = VOCABULARY.encode(["<eos>", *prompt])[None]
    logits = make_model(1, ids.shape[1], stateful=False, **kwargs)(ids, training=False)
    return keras.ops.convert_to_numpy(keras.ops.softmax(logits[0, -1]))


def without_unk(probabilities):
    probabilities = np.where(np.array(WORDS) == "<unk>", 0, probabilities)
    return probabilities / probabilities.sum()


def assert_frequencies(drawn, probabilities, count):
    """Each word's frequency lies within five standard deviations of its probability."""
    counts = np.array([drawn.count(word) for word in WORDS])
    deviation = np.sqrt(probabilities * (1 - probabilities) / count)
    assert (np.abs(counts / count - probabilities) <= 5 * deviation).all()


@pytest.mark.parametrize("prompt", [(), ("the", "cat"), ("on", "the", "zebra")])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("streams,steps", [(1, 1), (3, None)])
def test_next_words_are_those_of_the_whole_prompt_read_at_once(prompt, cell, streams, steps):
    expected = distribution(prompt, cell=cell)
    words, probabilities = zip(
        *next_words(make_model(streams, steps, cell), VOCABULARY, prompt, len(WORDS))
    )
    assert list(words) == [WORDS[index] for index in np.argsort(-expected)]
    np.testing.assert_allclose(probabilities, np.sort(expected)[::-1], rtol=1e-5)
    assert sum(probabilities) == pytest.approx(1, abs=1e-6)


def test_next_words_returns_the_k_likeliest():
    model = make_model(2)
    everything = next_words(model, VOCABULARY, ["cat"], len(WORDS))
    assert next_words(model, VOCABULARY, ["cat"], 3) == everything[:3]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_first_words_follow_the_renormalised_distribution(temperature):
    count = 20_000
    sentences = sample(
        make_model(count, 1), VOCABULARY, ["the", "cat"], count, 1, temperature, seed=3
    )
    expected = without_unk(distribution(["the", "cat"]) ** (1 / temperature))
    drawn = [(words or ["<eos>"])[0] for words in sentences]
    assert "<unk>" not in drawn
    assert_frequencies(drawn, expected, count)


def test_second_words_follow_the_distribution_after_the_first():
    count = 20_000
    sentences = sample(make_model(count, 1), VOCABULARY, ["on"], count, 2)
    for first in ("the", "sat", "mat"):
        drawn = [(words + ["<eos>"])[1] for words in sentences if words[:1] == [first]]
        assert_frequencies(drawn, without_unk(distribution(["on", first])), len(drawn))


def test_sentences_end_before_eos_or_at_max_words():
    sentences = sample(make_model(200), VOCABULARY, (), 200, max_words=4)
    assert not {"<eos>", "<unk>"} & {word for words in sentences for word in words}
    assert {len(words) for words in sentences} == {0, 1, 2, 3, 4}


def test_the_same_seed_gives_the_same_sentences_and_another_seed_others():
    model = make_model(6)
    first = sample(model, VOCABULARY, ["cat"], 6, seed=5)
    assert sample(model, VOCABULARY, ["cat"], 6, seed=5) == first
    assert sample(make_model(6, 1), VOCABULARY, ["cat"], 6, seed=5) == first
    assert sample(model, VOCABULARY, ["cat"], 6, seed=6) != first


def test_sentences_differ_from_each_other():
    assert len(set(map(tuple, sample(make_model(50), VOCABULARY, (), 50)))) > 20


@pytest.mark.parametrize("temperature", [1e-2, 1e-30, 1e-300])
def test_low_temperature_takes_the_likeliest_word(temperature):
    words, model = [], make_model(1, 1, seed=2)
    while len(words) < 6:
        best = max(range(len(WORDS)), key=without_unk(distribution(words, seed=2)).__getitem__)
        if WORDS[best] == "<eos>":
            break
        words.append(WORDS[best])
    assert words
    assert sample(model, VOCABULARY, (), 1, 6, temperature) == [words]


def test_a_certain_unk_is_still_not_produced():
    model = make_model(30, 1)
    model.get_layer("head").bias.assign(np.where(np.array(WORDS) == "<unk>", 1e4, 0))
    sentences = sample(model, VOCABULARY, (), 30)
    assert "<unk>" not in {word for words in sentences for word in words}
    assert any(sentences)


def test_states_are_zero_before_and_after():
    model = make_model(4)
    first = sample(model, VOCABULARY, ["the"], 4)
    for state in recurrent_states(model):
        assert not state.numpy().any()
        state.assign(np.ones(state.shape))
    assert sample(model, VOCABULARY, ["the"], 4) == first
    expected = next_words(model, VOCABULARY, ["the"], 2)
    model(np.zeros((4, 3), np.int32))
    assert next_words(model, VOCABULARY, ["the"], 2) == expected
    assert recurrent_states(model) and not any(s.numpy().any() for s in recurrent_states(model))


@pytest.mark.parametrize(
    "options,message",
    [
        ({"temperature": 0.0}, "`temperature` must be positive and finite. Received: temp.*=0.0"),
        ({"temperature": -1.0}, "`temperature` must be positive.*=-1.0"),
        ({"temperature": float("nan")}, "`temperature` must be positive.*=nan"),
        ({"max_words": 0}, "`max_words` must be at least 1. Received: max_words=0"),
        ({"count": 0}, "`count` must be at least 1. Received: count=0"),
        ({"count": 3}, "`count` must be the number of streams of the model, 2. .*count=3"),
    ],
)
def test_arguments_out_of_range_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        sample(make_model(2), VOCABULARY, **{"count": 2, **options})


def test_a_prompt_that_is_one_string_is_refused():
    with pytest.raises(TypeError, match="not one string"):
        sample(make_model(5), VOCABULARY, "the cat")


def test_models_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="stateful=False"):
        next_words(make_model(2, stateful=False), VOCABULARY, (), 2)
    with pytest.raises(ValueError, match="streams=2, time_steps=20"):
        next_words(make_model(2, 20), VOCABULARY, (), 2)
    with pytest.raises(ValueError, match="streams=None"):
        sample(make_model(None, stateful=False), VOCABULARY)
    with pytest.raises(ValueError, match="as many words as the model, 7. Received: <Vocab.* of 4"):
        next_words(make_model(2), Vocabulary(WORDS[1:5], [1, 1, 1, 1]), (), 2)
    with pytest.raises(ValueError, match=r"`k` must lie in \[1, 7\]. Received: k=8"):
        next_words(make_model(2), VOCABULARY, (), 8)


@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16"])
def test_language_models_of_any_precision_generate(precision):
    config = dataclasses.replace(CONFIG, precision=precision)
    model = language_model(config, VOCABULARY, streams=40, time_steps=1)
    sentences = sample(model, VOCABULARY, ["the"], 40)
    assert {word for words in sentences for word in words} == set(WORDS) - {"<unk>", "<eos>"}
    probabilities = [p for _, p in next_words(model, VOCABULARY, ["the"], len(WORDS))]
    assert sum(probabilities) == pytest.approx(1, abs=1e-5)


@pytest.fixture(scope="module")
def run_directory(tmp_path_factory):
    """A run's folder with a checkpoint, as training leaves it."""
    run = runs.Run(str(tmp_path_factory.mktemp("run")))
    corpus = {"vocabulary_sha256": VOCABULARY.sha256}
    config = {"model": dataclasses.asdict(CONFIG), "training": {}, "corpus": corpus}
    run.start(config, VOCABULARY)
    model = language_model(CONFIG, VOCABULARY, streams=3, time_steps=20)
    run.save(runs.weight_variables(model), {"step": 1}, best=True)
    return run.directory


def generate(*flags):
    return subprocess.run([sys.executable, "-m", "tfsoftmax_command", "generate", *flags], capture_output=True, encoding="utf-8")


def test_the_tool_prints_sentences_and_the_next_words(run_directory):
    result = generate(
        f"--run={run_directory}", "--prompt=on the zebra", "--count=4", "--max_words=3", "--top=6"
    )
    assert result.returncode == 0, result.stderr
    assert "not in the vocabulary, read as <unk>: zebra\n" in result.stderr
    model, vocabulary, _ = runs.load(run_directory, streams=4, time_steps=1)
    prompt = ["on", "the", "zebra"]
    *sentences, blank, header = (lines := result.stdout.splitlines())[:6]
    for line, words in zip(sentences, sample(model, vocabulary, prompt, 4, 3), strict=True):
        assert line.split() == prompt + words + ["…"] * (len(words) == 3)
    assert (blank, header) == ("", "probability  next word")
    expected = next_words(model, vocabulary, prompt, 6)
    assert lines[6:] == [f"{p:>11.4%}  {word}" for word, p in expected]


def test_the_tool_names_what_is_wrong(run_directory):
    for flag in ("--count=0", "--max_words=0", "--top=0"):
        name = flag[2:-2]
        result = generate(f"--run={run_directory}", flag)
        assert result.returncode == 1
        assert result.stderr == f"error: `{name}` must be at least 1. Received: {name}=0\n"
    result = generate(f"--run={run_directory}/absent")
    assert result.returncode == 1
    assert "error: `run` must be the directory of a training run. Received" in result.stderr


def test_a_model_is_traced_once_for_all_its_sentences_and_read_anew():
    model, traces = make_model(2), []
    head = model.get_layer("head")
    top_k = type(head).top_k

    class Counting(type(head)):
        def top_k(self, *args):
            traces.append(args)
            return top_k(self, *args)

    head.__class__ = Counting
    first = beam(model, VOCABULARY, ["the"], 5)
    before = len(traces)
    assert beam(model, VOCABULARY, ["the"], 5) == first and len(traces) == before
    model.set_weights([-w for w in model.get_weights()])
    assert beam(model, VOCABULARY, ["the"], 5) != first and len(traces) == before
    assert sample(model, VOCABULARY, count=2, seed=1) == sample(model, VOCABULARY, count=2, seed=1)
    other = Vocabulary(tuple(reversed(WORDS)), [9, 8, 7, 6, 5, 4, 3])
    assert "<unk>" not in sum(sample(model, other, count=2), [])
