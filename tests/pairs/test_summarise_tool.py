"""The tools `summarise` and `export_pairs`."""

import dataclasses
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess

import numpy as np
import pytest
import tensorflow as tf

from cases import randomise
from pairs_helper import MODEL, small_pairs
from runs_helper import command, error_of, tool
from serving_helper import padded, serve
from tfsoftmax.lm.config import TrainingConfig
from tfsoftmax.pairs.export import export_summariser
from tfsoftmax.pairs.model import encoder_decoder
from tfsoftmax.pairs.summaries import Summariser
from tfsoftmax.pairs.task import PAIRS
from tfsoftmax.runs import runs
from tfsoftmax.runs.checkpoints import weight_variables
from tfsoftmax.runs.description import description

TEXTS = ["w1 w2 zebra w3 <eos> w4", "", "w9 w8 w7", "qué w5 w5 w5 w5 w5 w5 w5"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run with random weights, as training leaves it."""
    directory = tmp_path_factory.mktemp("summaries")
    corpus = small_pairs(directory, train=60)
    config = dataclasses.replace(MODEL, dropout=0.0)
    model = encoder_decoder(config, corpus.vocabulary)
    randomise(model, seed=1)
    bias = np.where(np.array(corpus.vocabulary.words) == "<unk>", 5.0, 0.0)  # to be written, too
    model.get_layer("head").bias.assign_add(bias)
    run = runs.Run(str(directory / "run"))
    run.start(description(corpus, config, TrainingConfig()), corpus.vocabulary)
    run.checkpoints.save(weight_variables(model), {"step": 1}, best=True)
    return run.directory


def test_the_example_of_the_page_runs(run):
    page = pathlib.Path(__file__).parents[2] / "docs" / "summaries.md"
    (block,), names = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL), {}
    exec(block.replace("runs/pairs", run), names)
    assert names["best"].words and names["best"].log_prob < 0


@functools.cache
def summariser(run):
    model, vocabulary, config = runs.load(run, None, task=PAIRS)
    return Summariser(model, vocabulary, config["corpus"]["max_source"])


def test_each_line_has_its_summary_in_order(run, tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    flags = f"--run={run}", f"--input={tmp_path / 'texts.txt'}", "--max_words=7"
    result = tool("summarise", *flags, "--beam=3")
    lines = result.stdout.split("\n")
    assert len(lines) == 5 and lines[1] == lines[4] == ""
    unknown = 0
    for text, line in zip(TEXTS, lines):
        if text:
            [[found]] = summariser(run).summarise([text.split()], 3, 7)
            assert line.split() == found.copied(text.split())
            unknown += found.words.count("<unk>")
    assert "3 of 17 words (17.65%) are not in the vocabulary; 4 texts, of which 1 were" in (
        result.stderr
    )
    kept = tool("summarise", *flags, "--beam=3", "--keep_unk").stdout
    assert kept.count("<unk>") == unknown > 0


def test_the_best_of_each_text_and_exactly_so_many_words(run):
    flags = "summarise", f"--run={run}", "--beam=4", "--nbest=2", "--exact_words=3"
    rows = [line.split("\t") for line in tool(*flags, input="\n".join(TEXTS)).stdout.splitlines()]
    assert [number for number, *_ in rows] == ["1", "1", "3", "3", "4", "4"]
    for number, log_prob, text in rows:
        assert len(text.split()) == 3
        found = summariser(run).summarise([TEXTS[int(number) - 1].split()], 4, 3, 3, nbest=2)[0]
        assert log_prob in [f"{h.log_prob:.4f}" for h in found]


@pytest.mark.slow
def test_a_pipe_is_answered_line_by_line(run):
    line = command("summarise", f"--run={run}", "--beam=1", "--max_words=3")
    process = subprocess.Popen(
        line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        for text in ("w1 w2 w3", "w4"):
            process.stdin.write(text + "\n")
            process.stdin.flush()
            assert process.stdout.readline()  # before the next line is written
        process.stdin.close()
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()


def test_a_long_text_is_drawn_in_part(run, tmp_path):
    pytest.importorskip("matplotlib")
    shutil.copytree(run, tmp_path / "run")
    config = json.loads((tmp_path / "run/config.json").read_text())
    config["corpus"]["max_source"] = 1000
    (tmp_path / "run/config.json").write_text(json.dumps(config))
    png, text = tmp_path / "attention.png", " ".join(["w1", "w2"] * 150)
    tool("summarise", f"--run={tmp_path / 'run'}", f"--attention={png}", "--exact_words=2",
         input=text)
    assert int.from_bytes(png.read_bytes()[16:20]) == 120 * (2 + 0.3 * 200)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a file that is full")
def test_a_figure_that_cannot_be_drawn_stops_no_summary(run):
    pytest.importorskip("matplotlib")
    flags = f"--run={run}", "--attention=/dev/full", "--exact_words=2"
    result = tool("summarise", *flags, input="w1 w2\nw3", check=False)
    assert result.returncode == 1 and "/dev/full" in result.stderr
    assert len(result.stdout.splitlines()) == 2


@pytest.mark.parametrize("flags, message", [
    (["--beam=0"], "`beam` must be at least 1. Received: beam=0"),
    (["--beam=1001"], "`beam` must be at most 1000. Received: beam=1001"),
    (["--nbest=6"], "`nbest` must be at most `beam`, 5. Received: nbest=6"),
    (["--max_words=3", "--exact_words=3"], "`max_words` must not be given with --exact_words"),
    (["--length_power=-1"], "`length_power` must be at least 0. Received: length_power=-1"),
    (["--input=none.txt"], "`input` cannot be used: No such file"),
    ([], "`input` must hold texts. Received: input='-'"),
])
def test_mistakes_are_one_sentence(run, flags, message):
    assert message in error_of("summarise", f"--run={run}", *flags)


def test_runs_and_texts_that_do_not_fit_are_refused(run, generating_run):
    result = tool("summarise", f"--run={generating_run}", input="the cat", check=False)
    assert "must be a run on a corpus of pairs; " in result.stderr
    for other in ("generate", "score", "tfprof"):
        result = error_of(other, f"--run={run}", input="the cat")
        assert "a run on a corpus of sentences; " in result, other


def test_the_word_eos_in_a_text_is_read_as_an_unknown_word(run):
    flags = "summarise", f"--run={run}", "--beam=1", "--keep_unk", "--nbest=1", "--max_words=4"
    said = tool(*flags, input="w1 <eos> w2 w3\nw1\nw1 qué w2 w3\nw4 w5")
    eos, short, unknown, after = said.stdout.splitlines()
    assert eos == unknown != short and after
    assert "2 of 11 words" in said.stderr
    found = summariser(run).summarise([["w1", word, "w2", "w3"] for word in ("<eos>", "qué")])
    assert found[0][0].log_prob == found[1][0].log_prob


def test_a_dead_summariser_says_so_and_writes_nothing(run, tmp_path):
    model, vocabulary, _ = runs.load(run, None, task=PAIRS)
    model.get_layer("head").bias.assign(np.full(len(vocabulary), np.nan))
    with pytest.raises(ValueError, match="`model` must give words a probability above zero"):
        Summariser(model, vocabulary).summarise([["w1"]])
    export_summariser(model, vocabulary, str(tmp_path / "exported"))
    served = tf.saved_model.load(str(tmp_path / "exported")).signatures["summarise"]
    found = served(words=tf.constant([["w1"]]), max_words=tf.constant(3))
    assert (found["words"].numpy() == b"").all() and np.isneginf(found["log_prob"])


def test_the_exported_model_summarises_as_the_tool_with_a_beam_of_one(run, tmp_path):
    out, lines = tmp_path / "exported", "\n".join(TEXTS)
    printed = tool("export_pairs", f"--run={run}", f"--out={out}").stdout
    assert printed.startswith(f"{out}: summarise(words, max_words), 32 words")
    flags = "summarise", f"--run={run}", "--beam=1", "--max_words=6", "--nbest=1"
    expected = tool(*flags, input=lines).stdout.splitlines()
    given = {"words": padded([text.split() for text in TEXTS]), "max_words": (6, "int32")}
    (served,) = serve((str(out), "summarise", given))
    assert [" ".join(filter(None, words)) for words in served["words"]] == expected
    for text, log_prob in zip(TEXTS, served["log_prob"], strict=True):
        found = summariser(run).summarise([text.split()] * bool(text), 1, 6)
        assert log_prob == pytest.approx(found[0][0].log_prob if text else 0.0, rel=1e-4)
    again = error_of("export_pairs", f"--run={run}", f"--out={out}")
    assert "`out` must be a new or empty directory" in again


@pytest.mark.parametrize("ending, begins", [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_the_attention_is_drawn_in_the_format_of_its_ending(run, tmp_path, ending, begins):
    pytest.importorskip("matplotlib")
    path = tmp_path / f"attention.{ending}"
    tool("summarise", f"--run={run}", f"--attention={path}", "--exact_words=4", input=TEXTS[3])
    assert path.read_bytes().startswith(begins)


def test_marks_at_the_ends_of_a_text_are_no_words_of_it(run):
    plain, marked = (
        tool("summarise", f"--run={run}", "--max_words=7", input=text)
        for text in ("w1 w2 <eos> w3\n", "<s> w1 w2 <eos> w3 </s>\n")
    )
    assert plain.stdout == marked.stdout and "note" not in plain.stderr
    assert "note: standard input: left out <s>, </s> at the ends of 1 sentence," in marked.stderr


def test_summaries_without_words_are_said(run, tmp_path):
    model, vocabulary, config = runs.load(run, None, task=PAIRS)
    bias = np.where(np.array(vocabulary.words) == "<eos>", 50.0, 0.0)
    model.get_layer("head").bias.assign_add(bias)
    shutil.copytree(run, tmp_path / "run")
    copy = runs.Run(str(tmp_path / "run"))
    copy.checkpoints.save(weight_variables(model), {"step": 2}, best=True)
    done = tool("summarise", f"--run={copy.directory}", input="w1 w2\n\nw3\n")
    assert done.stdout == "\n\n\n"
    warning, report = done.stderr.splitlines()
    assert warning.startswith("warning: 2 of 3 texts got a summary without words")
    assert "1 were empty" in report
    done = tool("summarise", f"--run={copy.directory}", "--exact_words=2", input="w1 w2\n")
    assert "warning: 1" not in done.stderr and len(done.stdout.split()) == 2
