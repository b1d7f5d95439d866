"""`tfsoftmax score`: sentences of files and of standard input."""

import json
import math

import numpy as np
import pytest

from runs_helper import error_of, saved_run, tool
from scoring_helper import CONFIG, SENTENCES, VOCABULARY, make_model, reference
from tfsoftmax.commands import score
from tfsoftmax.lm.sentences import oov_report


@pytest.fixture(scope="module")
def run_directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("run")
    return saved_run(directory, CONFIG, VOCABULARY, make_model(3)).directory


def test_the_tool_scores_a_file_in_its_order(run_directory, tmp_path):
    text = "".join(" ".join(words) + "\n" for words in SENTENCES)
    (tmp_path / "text").write_text(text)
    done = tool("score", f"--run={run_directory}", f"--input={tmp_path / 'text'}")
    scores, printed = zip(*(line.split("\t") for line in done.stdout.splitlines()))
    assert list(printed) == [" ".join(words) for words in SENTENCES]
    expected = [reference(words, make_model(1)).sum() for words in SENTENCES]
    np.testing.assert_allclose(np.array(scores, float), expected, rtol=1e-4)
    totals = json.loads(done.stderr.splitlines()[-1])
    assert totals["tokens"] == sum(len(words) + 1 for words in SENTENCES)
    assert (totals["sentences"], totals["oov_tokens"]) == (len(SENTENCES), 2)
    assert totals["nats_per_token"] == pytest.approx(-sum(expected) / totals["tokens"], 1e-4)


def test_the_tool_scores_words_of_a_stream_from_standard_input(run_directory):
    done = tool(
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
    done = tool("score", f"--run={run_directory}", f"--input={tmp_path / 'text'}")
    warning, totals = done.stderr.splitlines()
    assert warning.startswith(f"warning: {tmp_path / 'text'}: 3 of 3 words (100.00%) are not in")
    assert json.loads(totals)["oov_rate"] == 1
    assert done.stdout.splitlines()[1].endswith("\tSAT\x1b[2J")  # this is no terminal
    lowered = list(score.sentences(str(tmp_path / "text"), False, lowercase=True))
    assert [line for _, line in lowered] == ["the cat", "sat\x1b[2j"]


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
        assert [len(sentence.split()) for _, sentence in sentences] == [2, 400_000]


def test_the_tool_names_what_is_wrong(run_directory, tmp_path):
    done = error_of("score", f"--run={run_directory}", input="")
    assert done == "error: `input` must hold sentences. Received: input='-'\n"
    (text := tmp_path / "text").write_text("w1 unseen\n")
    done = error_of("score", f"--run={run_directory}", f"--input={text}", "--open_vocabulary")
    assert "`open_vocabulary` must be used with a run whose head reads characters" in done
    done = error_of("score", f"--run={run_directory}", "--input=/dev/null", "--workers=2")
    assert done.startswith("error: `workers` must be 1 for a stream, standard input or a pipe, ")


def test_marks_at_the_ends_of_sentences_are_no_words_to_score_or_to_continue(
    run_directory, tmp_path
):
    plain, marked = tmp_path / "plain.txt", tmp_path / "marked.txt"
    plain.write_text("w1 w2\nw3\n\n")
    marked.write_text("<s> w1 w2 </s>\n<sos/eos> w3 <eos>\n<s> </s>\n")
    run = f"--run={run_directory}"
    for flags in ((), ("--words", "--stream")):
        scores = [tool("score", run, f"--input={path}", *flags) for path in (plain, marked)]
        assert scores[0].stdout == scores[1].stdout
    assert f"note: {marked}: left out <s>, </s>, <sos/eos>, <eos> at the ends of 3 sen" in (
        scores[1].stderr)
    assert "note" not in scores[0].stderr
    for mark in ("</s>", "<eos>"):
        said = error_of("score", run, input=f"w1\nw1 {mark} w2\n")
        assert f"standard input, line 2: must not contain {mark} inside a sentence" in said
    assert "'w1 <eos> w2'" in said
    drawn = [tool("generate", run, f"--prompt={prompt}", "--greedy", "--max_words=4")
             for prompt in ("w1 w2", "<s> w1 w2")]
    assert drawn[0].stdout == drawn[1].stdout
    assert "note: prompts: left out <s> at the ends of 1 sentence," in drawn[1].stderr
    done = tool("generate", run, f"--prompts={marked}", "--prompt=", check=False)
    assert done.returncode == 0 and done.stdout.count("\n") == 3
    done = error_of("generate", run, "--prompt=w1 <eos> w2")
    assert "`prompt`: must not contain <eos> inside a sentence" in done
