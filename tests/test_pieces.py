"""Facts about runs on pieces: what they keep, and that their commands read and write text."""

import hashlib
import json
import math
import os
import pathlib
import shutil
import sys

import numpy as np
import pytest
import tensorflow as tf

from refusals import refused
from runs_helper import error_of, events, tool, train
from tfsoftmax.corpora.counting import Tally
from tfsoftmax.corpora.prepare import PrepareConfig, prepare
from tfsoftmax.corpora.records import Corpus
from tfsoftmax.corpora.splits import SentenceSplit
from tfsoftmax.corpora.tokenizers import load_tokenizer
from tfsoftmax.lm.evaluation import exact_evaluator, text_measures
from tfsoftmax.lm.generation import Generator
from tfsoftmax.lm.scoring import Scorer
from tfsoftmax.runs import runs
from tfsoftmax.support.vocabulary import UNK

LINES = ["the cat sat on the mat", "a cat  sat 😀 down", "the mat is on the cat"] * 12


def split(**changes):
    counts = {"files": (), "records": 1, "sentences": 4, "words": 20, "tokens": 34, "oov": 0,
              "text_bytes": 100, "changed_lines": 0}
    return SentenceSplit(**counts | changes)


def test_measures_of_a_text_do_not_depend_on_its_pieces():
    found = text_measures(split(), nats=48.0)
    assert found == {
        "word_perplexity": pytest.approx(math.exp(2.0)),
        "bits_per_byte": pytest.approx(48 / math.log(2) / 100),
    }
    finer = text_measures(split(tokens=90), nats=48.0)
    assert finer == found


@pytest.mark.parametrize("changes", [
    {"oov": 1}, {"changed_lines": 2}, {"text_bytes": None, "changed_lines": None},
])
def test_tokens_that_leave_bytes_open_have_no_bits_per_byte(changes):
    assert list(text_measures(split(**changes), 48.0)) == ["word_perplexity"]


def test_the_perplexity_of_words_is_not_repeated():
    assert list(text_measures(split(tokens=24), 48.0)) == ["bits_per_byte"]
    assert text_measures(Tally(sentences=1, words=2, pieces=2, oov=1), 3.0) == {}


def small_pieces(folder, kind="sentencepiece"):
    for name in ("train", "valid"):
        (folder / f"{name}.txt").write_text("\n".join(LINES[:: 1 + (name == "valid")]) + "\n")
    return prepare(
        PrepareConfig(
            "text", str(folder / "data"), train=str(folder / "train.txt"),
            valid=str(folder / "valid.txt"), tokenizer=kind, max_vocab=290, streams=3,
            time_steps=7,
        ), progress=False,
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    pytest.importorskip("sentencepiece")
    folder = tmp_path_factory.mktemp("pieces")
    corpus = small_pieces(folder)
    train(corpus, folder / "run")
    return runs.Run(str(folder / "run"))


def test_the_demo_shows_and_adds_pieces_as_text(run):
    from tfsoftmax.runs.shown_run import ShownRun

    shown = ShownRun(run.directory)
    words = shown.split("the cat")
    assert words == run.tokenizer().encode("the cat") and not shown.unknown(words)
    assert shown.added(words, ["▁", "s"]) == " s" and shown.added(words, ["s"]) == "s"
    assert shown.added([], shown.split("the mat")) == "the mat"
    (found,) = shown.continuations(words, "greedy", 5)
    text = "the cat" + shown.added(words, found.words)
    assert text == run.tokenizer().decode([*words, *found.words])


def data_of(run):
    return run.config()["corpus"]["directory"]


def test_a_run_keeps_its_tokenizer(run, tmp_path):
    with open(run.tokenizer_path(), "rb") as kept, \
            open(os.path.join(data_of(run), "tokenizer.model"), "rb") as prepared:
        assert kept.read() == prepared.read()
    assert os.path.dirname(run.tokenizer_path()) == run.path("files")
    assert run.tokenizer().decode(run.tokenizer().encode("a  😀")) == "a  😀"


def test_validations_have_bits_per_byte(run):
    size = sum(len(line.encode()) + 1 for line in LINES[::2])
    words = sum(len(line.split()) + 1 for line in LINES[::2])
    for line in events(run, "valid"):
        nats = line["nats_per_token"] * line["tokens"]
        assert line["bits_per_byte"] == pytest.approx(nats / math.log(2) / size)
        assert line["word_perplexity"] == pytest.approx(math.exp(nats / words))


def test_a_damaged_tokenizer_of_a_run_is_refused(run):
    path = run.tokenizer_path()
    with open(path, "rb") as file:
        content = file.read()
    try:
        with open(path, "ab") as file:
            file.write(b"x")
        refused("must be as it was written", run.tokenizer)
    finally:
        with open(path, "wb") as file:
            file.write(content)


def test_a_run_of_words_splits_at_blanks(finished_run, corpus):
    assert finished_run.tokenizer_path() is None
    assert finished_run.tokenizer().encode(" a  b") == ["a", "b"]
    last = events(finished_run, "valid")[-1]
    assert "word_perplexity" not in last
    assert ("bits_per_byte" in last) == corpus.split("valid").is_restorable


def test_a_run_goes_on_with_its_own_tokenizer_only(run, tmp_path):
    folder = tmp_path / "other"
    folder.mkdir()
    other = small_pieces(folder, "sentencepiece_bpe")
    refused("be new or of the same config.*tokenizer", train, other, run.directory)


def scores_of(run, sentences):
    """ln P of the pieces of sentences, from a scorer that the command has not made."""
    model, vocabulary, _ = runs.load(run.directory, streams=2)
    tokenizer = run.tokenizer()
    return Scorer(model, vocabulary).sentences([tokenizer.encode(s) for s in sentences])


SENTENCES = ["the cat sat", "", "a  😀 mat"]


def test_score_reads_and_writes_sentences(run, tmp_path):
    (tmp_path / "in").write_text("\n".join(SENTENCES) + "\n")
    done = tool("score", f"--run={run.directory}", f"--input={tmp_path / 'in'}")
    scores, printed = zip(*(line.split("\t") for line in done.stdout.splitlines()))
    assert list(printed) == SENTENCES
    expected = scores_of(run, SENTENCES)
    np.testing.assert_allclose(np.array(scores, float), [e.sum() for e in expected], rtol=1e-4)
    totals = json.loads(done.stderr.splitlines()[-1])
    nats, size = -sum(e.sum() for e in expected), (tmp_path / "in").stat().st_size
    assert (totals["words"], totals["tokens"]) == (6, sum(map(len, expected)))
    assert totals["bits_per_byte"] == pytest.approx(nats / math.log(2) / size, 1e-4)
    assert totals["word_perplexity"] == pytest.approx(math.exp(nats / (6 + 3)), 1e-4)


def test_score_gives_each_word_the_scores_of_its_pieces(run, tmp_path):
    (tmp_path / "in").write_text("\n".join(SENTENCES) + "\n")
    done = tool("score", f"--run={run.directory}", f"--input={tmp_path / 'in'}", "--words")
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert [row[1:] for row in rows] == [
        ["the"], ["cat"], ["sat"], ["<eos>"], [], ["<eos>"], [], ["a"], ["😀"], ["mat"],
        ["<eos>"], [],
    ]
    values = np.array([float(row[0]) for row in rows if row[0]])
    sums = [values[:4].sum(), values[4], values[5:].sum()]
    np.testing.assert_allclose(sums, [e.sum() for e in scores_of(run, SENTENCES)], rtol=1e-4)


def test_score_refuses_an_open_vocabulary(run, tmp_path):
    (tmp_path / "in").write_text("a\n")
    done = error_of(
        "score", f"--run={run.directory}", f"--input={tmp_path / 'in'}", "--open_vocabulary"
    )
    assert "`open_vocabulary` must be used with a run on words" in done


def test_generate_writes_text(run):
    tokenizer = run.tokenizer()
    model, vocabulary, _ = runs.load(run.directory, streams=1, time_steps=1)
    (pieces,) = Generator(model, vocabulary).complete([tokenizer.encode("the cat")], 5, seed=3)
    expected = tokenizer.decode([*tokenizer.encode("the cat"), *pieces])
    for flags in (["--prompt=the cat"], ["--prompts=-"]):
        done = tool(
            "generate", f"--run={run.directory}", "--count=1", "--seed=3", "--max_words=5", *flags,
            input="the cat\n",
        )
        line = done.stdout.splitlines()[0]
        assert line.removesuffix(" …") == expected and line.endswith(" …") == (len(pieces) == 5)
    done = tool("generate", f"--run={run.directory}", "--prompt=the", "--beam=2")
    assert all("the" in line for line in done.stdout.splitlines()[:2])
    assert "▁" not in "".join(done.stdout.splitlines()[:2])
    assert done.stderr == ""


def test_rescore_reads_words_in_pieces(run, tmp_path):
    (tmp_path / "nbest").write_text("u1 0 0 the cat sat\nu1 0 0 sat sat 😀\nu2 0 0 a mat\n")
    done = tool(
        "rescore", f"--run={run.directory}", f"--nbest={tmp_path / 'nbest'}", "--lm_weight=1",
    )
    first, second, _ = (s.sum() for s in scores_of(run, ["the cat sat", "sat sat 😀", "a mat"]))
    best = "the cat sat" if first > second else "sat sat 😀"
    assert done.stdout.splitlines() == [f"u1 {best}", "u2 a mat"]
    assert "0 of 8 words" in done.stderr


def test_evaluate_measures_the_same_as_the_validation(run):
    done = tool("evaluate", f"--run={run.directory}", "--split=valid")
    found = json.loads(done.stdout.splitlines()[-1])
    best = min(events(run, "valid"), key=lambda line: line["perplexity"])
    for name in ("perplexity", "word_perplexity", "bits_per_byte"):
        assert found[name] == pytest.approx(best[name], 1e-4)


def test_an_export_has_the_tokenizer_that_makes_its_pieces(run, tmp_path):
    tool("export", f"--run={run.directory}", f"--out={tmp_path / 'served'}")
    tokenizer = load_tokenizer(tmp_path / "served" / "assets.extra" / "tokenizer.model")
    served = tf.saved_model.load(str(tmp_path / "served"))
    pieces = tokenizer.encode("a  😀 mat")
    score = served.score(tf.constant([pieces]))
    (expected,) = scores_of(run, ["a  😀 mat"])
    np.testing.assert_allclose(score["log_probs"][0], expected, rtol=1e-4, atol=1e-5)
    assert score["oov"].numpy().tolist() == [0] and UNK not in pieces


def test_the_documented_way_to_serve_an_export_spells_pieces_as_the_vocabulary_does(
    run, tmp_path, monkeypatch
):
    tool("export", f"--run={run.directory}", f"--out={tmp_path / 'exported'}")
    monkeypatch.chdir(tmp_path)
    docs = (pathlib.Path(__file__).parent.parent / "docs" / "pieces.md").read_text()
    (code,) = [c.partition("```")[0] for c in docs.split("```python\n") if "saved_model.load" in c]
    text = "a\tb \\ ▁"
    code = code.replace('"the cat sat"', "text").replace("model.score", "found = model.score")
    names = {"text": text}
    exec(code, names)
    (expected,) = scores_of(run, [text])
    assert names["found"].numpy() == pytest.approx([expected.sum()], 1e-4)


def test_a_corpus_of_another_tokenizer_with_the_same_pieces_is_refused(run, tmp_path):
    shutil.copytree(data_of(run), tmp_path / "data")
    path, manifest = tmp_path / "data" / "tokenizer.model", tmp_path / "data" / "manifest.json"
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    path.write_bytes(path.read_bytes() + b"x")
    after = hashlib.sha256(path.read_bytes()).hexdigest()
    manifest.write_text(manifest.read_text().replace(before, after))
    done = error_of("evaluate", f"--run={run.directory}", f"--data={tmp_path / 'data'}")
    assert "`data` must have the tokenizer that the run was trained with" in done


def test_evaluation_needs_no_tokenizer(run, monkeypatch):
    """Neither training nor evaluation imports the package, which may be missing."""
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    loaded = Corpus.load(data_of(run))
    model, _, _ = runs.load(run.directory, loaded.streams, loaded.time_steps)
    assert exact_evaluator(model)(loaded, "valid")["bits_per_byte"] > 0
    refused("needs sentencepiece", run.tokenizer, error=RuntimeError)
