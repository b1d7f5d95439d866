"""Runs on pairs: what they learn, that they resume, and what they refuse."""

import dataclasses
import json
import os
import pathlib
import subprocess

import numpy as np
import pytest
import tensorflow as tf

import runs_helper
from pairs_helper import CONFIG, FLAGS, MODEL, small_pairs, train_pairs
from refusals import refused
from runs_helper import assert_same_run, command, error_of, events, kill_and_finish, tool
from tfsoftmax import ModelConfig, Seq2SeqConfig
from tfsoftmax.corpora.pipeline import batches
from tfsoftmax.pairs import texts as pair_texts
from tfsoftmax.pairs.rouge import rouge
from tfsoftmax.pairs.task import PAIRS
from tfsoftmax.partitions import classes
from tfsoftmax.runs import runs, training
from workers_helper import largest_difference


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    return small_pairs(tmp_path_factory.mktemp("pairs"))


@pytest.fixture(scope="module")
def finished(pairs, tmp_path_factory):
    directory = str(tmp_path_factory.mktemp("run") / "run")
    train_pairs(pairs, directory)
    return runs.Run(directory, PAIRS)


def test_perplexity_falls_and_is_logged(finished, pairs):
    first, last = events(finished, "valid")
    shares = pairs.vocabulary.counts / pairs.vocabulary.counts.sum()
    unigram = np.exp(-np.sum(shares * np.log(np.maximum(shares, 1e-9))))
    assert last["perplexity"] < first["perplexity"] and last["perplexity"] < 0.5 * unigram
    assert last["tokens"] == pairs.split("valid").tokens
    assert os.listdir(finished.path("tensorboard"))
    assert finished.model_config() == MODEL and finished.check_task() is None


def test_words_per_second_counts_the_words_of_targets_only(finished, pairs):
    (line,), split = events(finished, "finished"), pairs.split("train")
    assert line["step"] == 2 * split.records
    words = line["words_per_second"] * line["seconds"]
    assert words == pytest.approx(2 * split.tokens, rel=0.01)


def test_logged_validation_is_the_exact_perplexity(finished, pairs):
    """Against float64 sums over the logits of each pair by itself, without padding."""
    model, vocabulary, _ = runs.load(finished.directory, None, task=PAIRS)
    nats, tokens = 0.0, 0
    for (source, words), labels, weights in batches(pairs, "valid").as_numpy_iterator():
        for row in range(len(source)):
            length = int(weights[row].sum())
            end = int((source[row] == vocabulary.eos_id).argmax()) + 1
            given = source[row : row + 1, :end], words[row : row + 1, :length]
            if not length:
                continue
            logits = model(tuple(map(tf.constant, given))).numpy()[0].astype(np.float64)
            log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
            nats -= log_probs[np.arange(length), labels[row, :length]].sum()
            tokens += length
    assert tokens == pairs.split("valid").tokens
    best = min(m["perplexity"] for m in events(finished, "valid"))
    np.testing.assert_allclose(best, np.exp(nats / tokens), rtol=1e-5)


@pytest.mark.slow
def test_sigterm_saves_the_step_and_the_run_goes_on(finished, pairs, tmp_path):
    run = runs.Run(str(tmp_path / "run"), PAIRS)
    with runs_helper.after_step(30, runs_helper.send_sigterm):
        assert train_pairs(pairs, run.directory) is None
    assert run.checkpoints.progress()["step"] == 30
    train_pairs(pairs, run.directory)
    assert_same_run(finished, run)


@pytest.mark.slow
def test_killed_at_any_moment_it_ends_with_the_same_weights(finished, pairs, tmp_path):
    """SIGKILL, at two different steps, of the real program; then the same command again."""
    line = command("train_pairs", f"--data={pairs.directory}", f"--run={tmp_path / 'run'}", *FLAGS)
    run = runs.Run(str(tmp_path / "run"), PAIRS)
    kill_and_finish(line, run, (12, 60))
    assert_same_run(finished, run)


def test_what_does_not_fit_is_refused(finished, finished_run, pairs, corpus, tmp_path):
    out = str(tmp_path / "run")
    with pytest.raises(ValueError, match="`model_config` must be a Seq2SeqConfig .* a ModelConfig"):
        train_pairs(pairs, out, ModelConfig())
    with pytest.raises(ValueError, match="`model_config` must be a ModelConfig .* Seq2SeqConfig"):
        training.train(corpus.directory, out, Seq2SeqConfig(), CONFIG, verbose=False)
    with pytest.raises(ValueError, match="must be a corpus of sentences; .* one of pairs"):
        training.train(pairs.directory, out, ModelConfig(), CONFIG, verbose=False)
    other = dataclasses.replace(MODEL, attention="bahdanau")
    there = "attention='luong' there, 'bahdanau' now"
    refused(there, train_pairs, pairs, finished.directory, other)
    refused("a run on a corpus of sentences; .* one of pairs", runs.load, finished.directory, 2)
    message = "a run on a corpus of pairs; .* one of sentences"
    refused(message, runs.load, finished_run.directory, 2, task=PAIRS)
    assert not os.path.exists(out)
    for line, wanted in (
        (["train_pairs", f"--data={corpus.directory}", f"--run={out}"], "a corpus of pairs; "),
        (["train", f"--data={pairs.directory}", f"--run={out}"], "a corpus of sentences; "),
        (["evaluate_pairs", f"--run={finished_run.directory}"], "a run on a corpus of pairs; "),
        (["evaluate_pairs", f"--run={finished.directory}", "--summaries=0", "--beam=3"],
         "`beam` must be given with --summaries above 0 only. Received: beam"),
    ):
        assert wanted in tool(*line, check=False).stderr
    assert not os.path.exists(out)


def test_learnt_clusters_are_printed(finished, pairs, tmp_path):
    run = tmp_path / "run"
    config = dataclasses.replace(MODEL, head="self_organised")
    train_pairs(pairs, run, config)
    out, words = tmp_path / "clusters", pairs.vocabulary.words
    lines = tool("show_clusters_pairs", f"--run={run}", f"--out={out}").stdout.splitlines()
    model, _, _ = runs.load(str(run), 1, task=PAIRS)
    clusters = model.get_layer("head").clusters
    printed = {word: int(line.split()[0]) for line in lines for word in line.split()[2:]}
    assert [printed[word] for word in words] == clusters.tolist()
    read = classes.build(out, len(words), words=words)
    assert [len(set(read[clusters == c])) for c in set(clusters)] == [1] * len(set(clusters))
    done = error_of("show_clusters_pairs", f"--run={finished.directory}")
    assert "`run` must be one that was trained with --head=self_organised" in done
    done = error_of("show_clusters", f"--run={run}")
    assert "`run` must be a run on a corpus of sentences" in done


def with_a_long_target(pairs, tmp_path):
    """The folder of the same corpus with one more pair in test, whose target has 31 words."""
    folder, test = pathlib.Path(pairs.directory).parent, tmp_path / "test.tsv"
    test.write_text((folder / "test.tsv").read_text() + "w1 w2\t" + " ".join(["w2"] * 31) + "\n")
    files = [f"--train={folder}/train.tsv", f"--valid={folder}/valid.tsv", f"--test={test}"]
    out = tmp_path / "longer"
    tool("prepare_pairs", "--corpus=text", *files, f"--out={out}", "--batch_size=8",
         "--vocabulary_from=both")
    return out


def test_the_tools_train_and_evaluate_pairs(pairs, tmp_path):
    run = f"--run={tmp_path / 'run'}"
    tool("train_pairs", f"--data={pairs.directory}", run, *FLAGS, "--max_steps=3", "--head=tree")
    flags = "--beam=3", "--max_words=5"
    result = json.loads(tool("evaluate_pairs", run, *flags).stdout.splitlines()[-1])
    assert result["tokens"] == pairs.split("test").tokens
    assert result["summaries"] == pairs.split("test").sentences
    texts = list(pair_texts.texts(pairs, "test"))
    written = tool("summarise", run, *flags, input="\n".join(s for s, _ in texts)).stdout
    expected = rouge(written.splitlines(), [references for _, references in texts])
    assert result["rouge1_f1"] == pytest.approx(expected["rouge1"].value, abs=1e-3)
    low, high = result["rougeL_f1_interval"]
    assert low <= result["rougeL_f1"] <= high
    assert (result["pairs"], result["long_targets_left_out"]) == (result["summaries"], 0)
    other = json.loads(tool(
        "evaluate_pairs", run, *flags, f"--data={with_a_long_target(pairs, tmp_path)}"
    ).stdout.splitlines()[-1])
    assert (other["pairs"], other["long_targets_left_out"]) == (result["pairs"], 1)
    assert other["perplexity"] == pytest.approx(result["perplexity"], rel=1e-5)
    assert other["summaries"] == result["summaries"] + 1
    without = json.loads(tool("evaluate_pairs", run, "--summaries=0").stdout.splitlines()[-1])
    assert "rouge1_f1" not in without and without["perplexity"] == result["perplexity"]
    logged = events(runs.Run(str(tmp_path / "run")), "test")
    found = [result["perplexity"], other["perplexity"], result["perplexity"]]
    assert [m["perplexity"] for m in logged] == found


@pytest.mark.slow
def test_two_workers_share_the_pairs_of_a_batch(pairs, tmp_path):
    """They end near the weights of one, and evaluate to the same perplexity."""
    found, results = [], []
    for count in (1, 2):
        run, more = f"--run={tmp_path / str(count)}", ["--dropout=0", "--max_steps=20"]
        for line in (
            command("train_pairs", f"--data={pairs.directory}", run, *FLAGS, *more,
                    f"--workers={count}"),
            command("evaluate_pairs", run, "--summaries=0", f"--workers={count}"),
        ):
            done = subprocess.run(line, capture_output=True, text=True, timeout=300, check=False)
            assert done.returncode == 0, done.stderr
        results.append(json.loads(done.stdout.splitlines()[-1]))
        found.append(runs.Run(str(tmp_path / str(count))))
    assert largest_difference(*found) < 1e-4
    assert results[0]["tokens"] == results[1]["tokens"] == pairs.split("test").tokens
    assert results[0]["perplexity"] == pytest.approx(results[1]["perplexity"], rel=1e-4)
