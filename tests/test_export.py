"""Facts about `export`: what a process without tfsoftmax and Keras computes is what Keras does."""

import dataclasses
import os

import keras
import numpy as np
import pytest
import tensorflow as tf

from cases import required
from runs_helper import MODEL, saved_run, tool
from serving_helper import padded, serve
from tfsoftmax import HEADS, ModelConfig, Vocabulary, language_model
from tfsoftmax.lm.export import export
from tfsoftmax.support.replacing import alone

WORDS = ["ß", "w1", "<unk>", "naïve", *(f"w{i}" for i in range(4, 30)), "<eos>", "…"]
VOCABULARY = Vocabulary(WORDS, np.random.default_rng(3).integers(1, 50, len(WORDS)))
SENTENCES = [["naïve", "w9", "ß", "w9"], [], ["…", "zebra"], ["w1"], ["qué", "<unk>", "w29"]]
FIRST = ("full", "adaptive", "tree", "self_organised")  # others: slow
K = 3


def make_model(head, **options):
    config = ModelConfig(
        embedding_units=6, hidden_units=6, init_scale=1.0, head=head,
        head_options=required(head, len(WORDS)), **options,
    )
    keras.utils.set_random_seed(4)
    return language_model(config, VOCABULARY, None, stateful=False)


def log_probs_of(model, words):
    """(T + 1, V) float64, after `<eos>` and each of the words, as Keras computes them."""
    ids = VOCABULARY.encode(["<eos>", *words])[None]
    return tf.nn.log_softmax(tf.cast(model(ids, training=False)[0], tf.float64)).numpy()


def make_models(heads):
    models = {head: make_model(head) for head in heads}
    if "full" in heads:
        models["two layers"] = make_model("adaptive", layers=2, cell="gru")
    return models


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Models of distinct ways to compute, and what another process computes with them."""
    return exported_models(make_models(FIRST), tmp_path_factory)


@pytest.fixture(scope="module")
def exported_others(tmp_path_factory):
    """The same of all other heads."""
    return exported_models(make_models([h for h in HEADS if h not in FIRST]), tmp_path_factory)


def exported_models(models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    words, requests = padded(SENTENCES), []
    for name, model in models.items():
        directory = str(folder / name)
        export(model, VOCABULARY, directory, max_k=7)
        requests.append((directory, "score", {"words": words}))
        requests.append((directory, "next_word", {"words": words, "k": (K, "int32")}))
    answers = iter(serve(*requests))
    return {name: (model, next(answers), next(answers)) for name, model in models.items()}


@pytest.mark.parametrize("name", [*FIRST, "two layers"])
def test_what_is_computed_elsewhere_is_what_the_keras_model_does(name, exported):
    assert_same(*exported[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", [h for h in HEADS if h not in FIRST])
def test_what_is_computed_elsewhere_is_what_the_keras_model_does_for_any_head(
    name, exported_others
):
    assert_same(*exported_others[name])


def assert_same(model, score, found):
    assert_same_scores(model, score)
    assert_same_next_words(model, found)


def assert_same_scores(model, score):
    for row, words in enumerate(SENTENCES):
        log_probs, targets = log_probs_of(model, words), [*words, "<eos>"]
        expected = log_probs[range(len(targets)), VOCABULARY.encode(targets)]
        np.testing.assert_allclose(
            score["log_probs"][row][: len(targets)], expected, rtol=1e-5, atol=1e-5
        )
        assert not any(score["log_probs"][row][len(targets) :])
        assert score["log_prob"][row] == pytest.approx(expected.sum(), rel=1e-5)
    assert score["oov"] == [0, 0, 1, 0, 2]


def assert_same_next_words(model, found):
    for row, words in enumerate(SENTENCES):
        log_probs = log_probs_of(model, words)[-1]
        assert found["words"][row] == [WORDS[i] for i in np.argsort(-log_probs)[:K]]
        np.testing.assert_allclose(
            found["log_probs"][row], np.sort(log_probs)[::-1][:K], rtol=1e-5, atol=1e-5
        )


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    directory = str(tmp_path_factory.mktemp("loaded") / "model")
    export(make_model("full"), VOCABULARY, directory, max_k=4)
    return tf.saved_model.load(directory)


def test_words_after_the_first_empty_string_are_ignored(loaded):
    whole = loaded.score(tf.constant([["w1", "ß"]]))
    padded = loaded.score(tf.constant([["w1", "ß", "", "w9"]]))
    np.testing.assert_allclose(padded["log_probs"][:, :3], whole["log_probs"], rtol=1e-6)
    assert not padded["log_probs"][:, 3:].numpy().any()
    followed = loaded.next_word(tf.constant([["w1", "ß", "", "w9"]]), tf.constant(2))
    np.testing.assert_array_equal(
        followed["words"], loaded.next_word(tf.constant([["w1", "ß"]]), tf.constant(2))["words"]
    )


def test_a_batch_without_words_scores_the_end_of_empty_sentences(loaded):
    scores = loaded.score(tf.zeros([2, 0], tf.string))
    assert scores["log_probs"].shape == (2, 1)
    first, second = scores["log_probs"][:, 0].numpy()
    assert first == pytest.approx(second, rel=1e-6) and first < 0


def test_a_model_of_nan_names_no_next_words(tmp_path):
    model, directory = make_model("full"), str(tmp_path / "model")
    model.get_layer("head").bias.assign_add(tf.fill([len(VOCABULARY)], np.nan))
    export(model, VOCABULARY, directory, max_k=4)
    served = tf.saved_model.load(directory)
    found = served.next_word(tf.constant([["w1"]]), tf.constant(3))
    assert (found["words"].numpy() == b"").all() and np.isneginf(found["log_probs"]).all()


def test_next_word_searches_for_few_words_if_it_is_asked_for_few(tmp_path, monkeypatch):
    model, directory = make_model("full"), str(tmp_path / "model")

    def top_k(hidden, size):
        shape = [tf.shape(hidden)[0], size]
        return tf.zeros(shape, tf.int32), tf.fill(shape, float(size))

    monkeypatch.setattr(model.layers[-1], "top_k", top_k)
    export(model, VOCABULARY, directory, max_k=12)
    saved, asked = tf.saved_model.load(directory), (1, 8, 9, 12)
    searched = [saved.next_word(tf.constant([["w1"]]), tf.constant(k)) for k in asked]
    assert [len(found["words"][0]) for found in searched] == [1, 8, 9, 12]
    assert [found["log_probs"][0, 0].numpy() for found in searched] == [8, 8, 12, 12]
    for k in (0, 13):  # either of the two searches checks it
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"`k` must lie in \[1, 12\]"):
            saved.next_word(tf.constant([["w1"]]), tf.constant(k))


def test_models_that_do_not_fit_are_refused(tmp_path):
    directory, model = str(tmp_path / "out"), make_model("full")
    with pytest.raises(ValueError, match=r"`max_k` must lie in \[1, 32\]. Received: max_k=33"):
        export(model, VOCABULARY, directory, max_k=33)
    with pytest.raises(ValueError, match="as many words as the model, 32"):
        export(model, Vocabulary(WORDS[:-1], VOCABULARY.counts[:-1]), directory, max_k=2)
    stateful = language_model(ModelConfig(embedding_units=6, hidden_units=6), VOCABULARY, 2)
    with pytest.raises(ValueError, match="stateful=False. Received: .*stateful layers.*lstm_1"):
        export(stateful, VOCABULARY, directory, max_k=2)
    with pytest.raises(ValueError, match="`out` must be a new or empty directory"):
        export(model, VOCABULARY, str(tmp_path.parent), max_k=2)


def test_the_tool_exports_a_run(tmp_path):
    model = make_model("adaptive")
    config = dataclasses.replace(
        MODEL, embedding_units=6, hidden_units=6, head="adaptive",
        head_options=required("adaptive", len(WORDS)),
    )
    run = saved_run(tmp_path / "run", config, VOCABULARY, model)
    out = tmp_path / "out"
    printed = tool("export", f"--run={run.directory}", f"--out={out}").stdout
    assert "k up to 32, 32 words" in printed
    exported = tf.saved_model.load(str(out))
    score = exported.score(tf.constant([["w1", "ß"]]))
    log_probs = log_probs_of(model, ["w1", "ß"])
    expected = log_probs[range(3), VOCABULARY.encode(["w1", "ß", "<eos>"])].sum()
    assert float(score["log_prob"][0]) == pytest.approx(expected, rel=1e-5)


def test_an_export_is_whole_or_not_there(tmp_path, monkeypatch):
    save, out = tf.saved_model.save, tmp_path / "out"

    def save_half(served, path, *arguments):
        save(served, path, *arguments)
        assert not out.exists()
        raise OSError(28, "No space left on device")

    model = make_model("full")
    monkeypatch.setattr(tf.saved_model, "save", save_half)
    with pytest.raises(OSError, match=f"No space left on device: '{out}'"):
        export(model, VOCABULARY, str(out), max_k=2)
    assert os.listdir(tmp_path) == []
    monkeypatch.undo()
    (tmp_path / ".out.tfsoftmax.partial").mkdir()  # a killed process leaves these
    (tmp_path / ".out.tfsoftmax.lock").touch()
    (tmp_path / ".out.0123.partial").mkdir()  # which may be of someone else
    out.mkdir()
    export(model, VOCABULARY, str(out), max_k=2)
    assert sorted(os.listdir(tmp_path)) == [".out.0123.partial", "out"]
    assert sorted(os.listdir(out / "assets")) == ["vocabulary.txt"]
    assert "vocabulary.txt" not in os.listdir(out)
    (tmp_path / ".out.tfsoftmax.lock").touch()
    with pytest.raises(ValueError, match="`out` must be a new or empty directory"):
        export(model, VOCABULARY, str(out), max_k=2)
    assert not (tmp_path / ".out.tfsoftmax.lock").exists()
    with alone(str(out)), pytest.raises(ValueError, match="`out` must not be written by another"):
        export(model, VOCABULARY, str(out), max_k=2)
    exported = tf.saved_model.load(str(out))
    assert exported.score(tf.constant([["w1"]]))["log_prob"][0] < 0
    with pytest.raises(ValueError, match="`out` must name a directory. Received: out=''"):
        export(model, VOCABULARY, "", max_k=2)
