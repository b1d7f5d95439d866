"""Facts about `Scorer` and `tfsoftmax score`."""

import dataclasses
import json
import math
import tracemalloc
import types

import numpy as np
import pytest

import runs_helper
from cases import CASES, ONE_OF_EACH, randomise
from tfsoftmax.commands import score
from tfsoftmax.corpora.pipeline import batches
from tfsoftmax.heads import HEADS
from tfsoftmax.lm import model as building
from tfsoftmax.lm.config import ModelConfig
from tfsoftmax.lm.evaluation import exact_evaluator
from tfsoftmax.lm.model import language_model, recurrent_states
from tfsoftmax.lm.scoring import Scorer
from tfsoftmax.lm.sentences import oov_report, windows
from tfsoftmax.lm.totals import Totals
from tfsoftmax.vocabulary import Vocabulary

WORDS = ("the", "<unk>", "cat", "sat", "<eos>", "mat", "on", "dog")
VOCABULARY = Vocabulary(WORDS, [9, 8, 7, 6, 5, 4, 3, 2])
CONFIG = ModelConfig(embedding_units=5, hidden_units=6, init_scale=1.0)
SENTENCES = [line.split() for line in (
    "the cat sat on the mat", "the cat", "", "a zebra sat on the dog", "the cat sat on the mat",
    "dog", "the cat sat", "on " * 40, "the dog sat",
)]


def make_model(streams, steps=None, seed=0, **options):
    model = language_model(dataclasses.replace(CONFIG, **options), VOCABULARY, streams, steps)
    randomise(model, seed)
    return model


def reference(words, model):
    """ln P of each word and `<eos>` by the logits of a model of one stream, word by word."""
    ids = VOCABULARY.encode(["<eos>", *words, "<eos>"])
    building.reset_states(model)
    logits = model(ids[None, :-1], training=False).numpy()[0].astype(np.float64)
    log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return log_probs[np.arange(len(ids) - 1), ids[1:]]


@pytest.mark.parametrize("streams", [1, 3])
def test_scores_are_those_of_each_sentence_read_alone(streams):
    scores = Scorer(make_model(streams), VOCABULARY).sentences(SENTENCES)
    one = make_model(1)
    for words, log_probs in zip(SENTENCES, scores, strict=True):
        np.testing.assert_allclose(log_probs, reference(words, one), rtol=1e-4, atol=1e-5)


def test_the_states_are_zero_afterwards():
    model = make_model(2)
    Scorer(model, VOCABULARY).sentences(SENTENCES)
    assert not any(state.numpy().any() for state in recurrent_states(model))


def test_a_long_sentence_is_read_in_parts(monkeypatch):
    model = make_model(3)
    whole = Scorer(model, VOCABULARY).sentences(SENTENCES)
    monkeypatch.setattr("tfsoftmax.lm.scoring.POSITIONS", 9)
    in_parts = Scorer(model, VOCABULARY).sentences(SENTENCES)
    for one, other in zip(whole, in_parts, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("words", [1, 7, 60])
def test_scores_do_not_depend_on_the_windows(words, monkeypatch):
    model = make_model(3)
    whole = Scorer(model, VOCABULARY).sentences(SENTENCES)
    monkeypatch.setattr("tfsoftmax.lm.scoring.WORDS", words)
    in_windows = Scorer(model, VOCABULARY).sentences(SENTENCES)
    for one, other in zip(whole, in_windows, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


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
    with pytest.raises(ValueError, match="`sentences` must not contain <eos>"):
        list(scorer.texts([[["cat"], ["<eos>"]]]))


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
    np.testing.assert_allclose(
        np.concatenate(found), np.concatenate(wanted), rtol=1e-4, atol=1e-5
    )
    assert [len(of) for of in found] == [len(words) + 1 for words in SENTENCES]


@pytest.mark.parametrize("case", ONE_OF_EACH)
def test_every_head_scores(case, monkeypatch):
    def for_vocabulary(vocabulary, name, **_):
        head = CASES[case](len(vocabulary))
        head.name = name
        return head

    head = types.SimpleNamespace(for_vocabulary=for_vocabulary, matrix_initializers=())
    monkeypatch.setitem(HEADS, "full", head)
    scores = Scorer(make_model(3), VOCABULARY).sentences(SENTENCES[:4])
    one = make_model(1)
    for words, log_probs in zip(SENTENCES, scores):
        np.testing.assert_allclose(log_probs, reference(words, one), rtol=1e-4, atol=1e-5)


def test_a_stream_of_a_split_has_the_evaluators_nats(tmp_path):
    corpus = runs_helper.small_corpus(tmp_path, sentences=96, streams=1)
    model = language_model(runs_helper.MODEL, corpus.vocabulary, 1)
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


@pytest.mark.parametrize(
    "options, message",
    [
        ({"normalisation": "constant"}, "must be 'exact' for a head .*with FullSoftmax"),
        ({"normalisation": "none"}, "`normalisation` must be one of exact, constant"),
        ({"oov": "drop"}, "`oov` must be one of unk, skip, spread. Received: oov='drop'"),
        ({"oov": "spread"}, "`unseen_words` must be given .*unseen_words=None"),
        ({"unseen_words": 5}, "`unseen_words` must be given with oov='spread'.*oov='unk'"),
        ({"oov": "spread", "unseen_words": 0}, "`unseen_words` must be at least 1.*=0"),
    ],
)
def test_arguments_that_do_not_fit_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        Scorer(make_model(2), VOCABULARY, **options)


def test_models_and_sentences_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="for `time_steps`. Received: streams=2, time_steps=20"):
        Scorer(make_model(2, 20), VOCABULARY)
    with pytest.raises(ValueError, match="as many words as the model, 8"):
        Scorer(make_model(2), Vocabulary(WORDS[1:5], [1] * 4))
    scorer = Scorer(make_model(2), VOCABULARY)
    with pytest.raises(ValueError, match="must not contain <eos>. Received: 'the <eos>'"):
        scorer.sentences([["the", "<eos>"]])


@pytest.fixture(scope="module")
def run_directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("run")
    return runs_helper.saved_run(directory, CONFIG, VOCABULARY, make_model(3)).directory


def test_the_tool_scores_a_file_in_its_order(run_directory, tmp_path):
    text = "".join(" ".join(words) + "\n" for words in SENTENCES)
    (tmp_path / "text").write_text(text)
    done = runs_helper.tool("score", f"--run={run_directory}", f"--input={tmp_path / 'text'}")
    scores, printed = zip(*(line.split("\t") for line in done.stdout.splitlines()))
    assert list(printed) == [" ".join(words) for words in SENTENCES]
    expected = [reference(words, make_model(1)).sum() for words in SENTENCES]
    np.testing.assert_allclose(np.array(scores, float), expected, rtol=1e-4)
    totals = json.loads(done.stderr.splitlines()[-1])
    assert totals["tokens"] == sum(len(words) + 1 for words in SENTENCES)
    assert (totals["sentences"], totals["oov_tokens"]) == (len(SENTENCES), 2)
    assert totals["nats_per_token"] == pytest.approx(-sum(expected) / totals["tokens"], 1e-4)


def test_the_tool_scores_words_of_a_stream_from_standard_input(run_directory):
    done = runs_helper.tool(
        "score", f"--run={run_directory}", "--words", "--stream", "--base=10", input="the a\ncat\n",
    )
    expected = reference("the a <eos> cat".split(), make_model(1)) / math.log(10)
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert [line[1:] for line in lines] == [
        ["the"], ["a", "<unk>"], ["<eos>"], [], ["cat"], ["<eos>"], [],
    ]
    values = [float(line[0]) for line in lines if line[0]]
    np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-5)


def test_the_tool_warns_of_text_in_another_case(run_directory, tmp_path):
    (tmp_path / "text").write_bytes(b"\xef\xbb\xbfTHE CAT\nSAT\x1b[2J\n")
    done = runs_helper.tool("score", f"--run={run_directory}", f"--input={tmp_path / 'text'}")
    warning, totals = done.stderr.splitlines()
    assert warning.startswith(f"warning: {tmp_path / 'text'}: 3 of 3 words (100.00%) are not in")
    assert json.loads(totals)["oov_rate"] == 1
    assert done.stdout.splitlines()[1].endswith("\tSAT\x1b[2J")  # this is no terminal
    lowered = list(score.sentences(str(tmp_path / "text"), False, lowercase=True))
    assert lowered == ["the cat", "sat\x1b[2j"]


def test_many_unknown_words_are_a_warning_and_few_are_not():
    assert oov_report("x", 10, 2) == "x: 2 of 10 words (20.00%) are not in the vocabulary"
    assert oov_report("x", 10, 3).startswith("warning: x: 3 of 10 words (30.00%) are not in the ")
    assert oov_report("x", 0, 0) == "x: 0 of 0 words (0.00%) are not in the vocabulary"


@pytest.mark.parametrize("is_one_text, refused", [(False, True), (True, False)])
def test_a_line_is_refused_above_a_mebibyte_unless_it_is_read_as_one_text(
    tmp_path, is_one_text, refused
):
    path = tmp_path / "text"
    path.write_text("the cat\n" + "on " * 400_000 + "\n")
    sentences = score.sentences(str(path), is_one_text, False)
    if refused:
        with pytest.raises(ValueError, match="text, line 2: a line must have at most 1,048,576 b"):
            list(sentences)
    else:
        assert [len(sentence.split()) for sentence in sentences] == [2, 400_000]


def test_the_tool_names_what_is_wrong(run_directory, tmp_path):
    done = runs_helper.tool("score", f"--run={run_directory}", check=False, input="")
    assert done.stderr == "error: `input` must hold sentences. Received: input='-'\n"
