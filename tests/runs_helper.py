"""A small corpus, runs on it, and tools run as a user runs them."""

import os
import subprocess
import sys

import numpy as np
import tensorflow as tf

from tfsoftmax.lm.config import ModelConfig, TrainingConfig
from tfsoftmax.corpora.prepare import PrepareConfig, prepare

SMALL = ["--embedding_units=9", "--hidden_units=11", "--epochs=2", "--pseudo_epochs=2", "--log_steps=1",
         "--learning_rate=0.5", "--clip_norm=5",
         "--checkpoint_steps=3", "--decay_when=5"]
MODEL = ModelConfig(embedding_units=9, hidden_units=11, dropout=0.1)
CONFIG = TrainingConfig(
    learning_rate=0.5, clip_norm=5.0, epochs=2, pseudo_epochs=2, log_steps=1, checkpoint_steps=3,
    decay_when=5.0,
)


def small_corpus(directory, seed=0, words=60, sentences=220, streams=4, steps=6):
    """Prepares sentences in which each word leans on the one before it."""
    rng = np.random.default_rng(seed)
    vocabulary = [f"w{i}" for i in range(words)]
    for name, count in (("train", sentences), ("valid", sentences // 8), ("test", sentences // 8)):
        with open(directory / f"{name}.txt", "w", encoding="utf-8") as file:
            for _ in range(count):
                word, sentence = rng.integers(words), []
                for _ in range(rng.integers(3, 9)):
                    sentence.append(vocabulary[word])
                    word = (2 * word + rng.integers(3)) % words
                file.write(" ".join(sentence) + "\n")
    texts = {s: (str(directory / f"{s}.txt"),) for s in ("train", "valid", "test")}
    return prepare(
        PrepareConfig("text", str(directory / "data"), **texts, streams=streams, time_steps=steps),
        progress=False,
    )


def tool(name, *arguments, check=True, interpreter=(), **options):
    """Runs `tfsoftmax NAME` and returns its completed process, output as text."""
    command = [sys.executable, *interpreter, "-m", "tfsoftmax_command", name, *map(str, arguments)]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    result = subprocess.run(
        command, capture_output=True, text=True, env=environment, check=False, **options
    )
    if check and result.returncode:
        raise AssertionError(f"{command} ended with {result.returncode}:\n{result.stderr}")
    return result


def final_weights(run):
    reader = tf.train.load_checkpoint(
        run.path("checkpoints", run.pointers()["last"], "variables")
    )
    names = [n for n in reader.get_variable_to_shape_map() if "OBJECT_GRAPH" not in n]
    return {name: reader.get_tensor(name) for name in names if "save_counter" not in name}


def assert_same_weights(one, other):
    one, other = final_weights(one), final_weights(other)
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])


def assert_same_run(finished, run):
    """The same weights, and the same validations at the same learning rates."""
    assert_same_weights(finished, run)
    for event, keys in (("train", ["step"]), ("valid", ["step", "perplexity", "learning_rate"])):
        assert [[m[k] for k in keys] for m in events(run, event)] == [
            [m[k] for k in keys] for m in events(finished, event)
        ]


def events(run, event):
    return [m for m in run.metrics() if m["event"] == event]
