"""A small corpus, runs on it, and tools run as a user runs them."""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

import command_server
from tfsoftmax.corpora.prepare import PrepareConfig, prepare
from tfsoftmax.lm.config import ModelConfig, TrainingConfig
from tfsoftmax.runs import training
from tfsoftmax.runs.checkpoints import weight_variables
from tfsoftmax.runs.runs import Run
from tfsoftmax.runs.trainer import Trainer

SMALL = ["--embedding_units=9", "--hidden_units=11", "--epochs=2", "--pseudo_epochs=2",
         "--log_steps=1", "--learning_rate=0.5", "--clip_norm=5", "--checkpoint_steps=20",
         "--decay_when=5", "--decay_at=validation"]
MODEL = ModelConfig(embedding_units=9, hidden_units=11, dropout=0.1)
CONFIG = TrainingConfig(
    learning_rate=0.5, clip_norm=5.0, epochs=2, pseudo_epochs=2, log_steps=1, checkpoint_steps=20,
    decay_when=5.0, decay_at="validation",
)


def small_corpus(directory, seed=0, words=60, sentences=220, streams=4, steps=6):
    """Prepares sentences in which each word depends on the one before it."""
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


def train(corpus, directory, model=MODEL, config=CONFIG, workers=None, verbose=False, **changes):
    """What `training.train` returns for a configuration with changes."""
    config = dataclasses.replace(config, **changes)
    return training.train(corpus.directory, str(directory), model, config, verbose, workers=workers)


def saved_run(directory, config, vocabulary, model):
    """A run with a checkpoint of a model, as training leaves it."""
    run = Run(str(directory))
    described = {"model": dataclasses.asdict(config), "training": {},
                 "corpus": {"task": "sentences", "vocabulary_sha256": vocabulary.sha256}}
    run.start(described, vocabulary)
    run.checkpoints.save(weight_variables(model), {"step": 1}, best=True)
    return run


def places(value, path=()):
    """The path of each value within nested JSON."""
    yield path
    if isinstance(value, (dict, list)):
        value = value.items() if isinstance(value, dict) else enumerate(value)
    else:
        return
    for key, below in value:
        yield from places(below, (*path, key))


def read_despite_damage(path, manifest, values, load):
    """What `load` reads of the folder of a manifest in which any place has another value.

    Where it reads nothing, it must name the folder, and that for more than a hundred of them.
    """
    refused = 0
    for place in list(places(manifest))[1:]:
        for value in values:
            damaged = owner = json.loads(json.dumps(manifest))
            for key in place[:-1]:
                owner = owner[key]
            owner[place[-1]] = value
            path.write_text(json.dumps(damaged))
            try:
                read = load(path.parent)
            except (ValueError, FileNotFoundError) as error:
                assert str(path.parent) in str(error)
                refused += 1
            else:
                yield read
    assert refused > 100


def command(*arguments, interpreter=()):
    """The command line of `tfsoftmax`, as a list."""
    return [sys.executable, *interpreter, "-m", "tfsoftmax_command", *map(str, arguments)]


def tool(*arguments, check=True, interpreter=(), path=None, cwd=None, input=""):
    """Runs `tfsoftmax` and returns its completed process, with its output as text.

    With options for the interpreter, or a `path` in which modules are looked for first, it runs in
    a new process, as does help, which would list TensorFlow's flags too once it is imported; else
    in a child of one that has imported TensorFlow.
    """
    if interpreter or path is not None or "--help" in arguments:
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
        if path is not None:
            environment["PYTHONPATH"] = path
        result = subprocess.run(
            command(*arguments, interpreter=interpreter), capture_output=True, encoding="utf-8",
            env=environment, check=False, cwd=cwd, input=input,
        )
    else:
        result = command_server.run(arguments, cwd, input)
    if check and result.returncode:
        raise AssertionError(f"{arguments} ended with {result.returncode}:\n{result.stderr}")
    return result


def error_of(*arguments, **options):
    """What a command says that ends with the status 1, in words that a terminal shows."""
    done = tool(*arguments, check=False, **options)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr and "\x1b" not in done.stderr
    return done.stderr


def final_weights(run):
    folder = run.checkpoints.path(run.checkpoints.name())
    reader = tf.train.load_checkpoint(f"{folder}/variables")
    names = [n for n in reader.get_variable_to_shape_map() if "OBJECT_GRAPH" not in n]
    whole = {name: reader.get_tensor(name) for name in names if "save_counter" not in name}
    return whole | rows_of_shards(folder)


def rows_of_shards(folder):
    """The variables of a checkpoint that lie in files of rows, by the names of the others."""
    if not os.path.exists(f"{folder}/rows.json"):
        return {}
    with open(f"{folder}/rows.json", encoding="utf-8") as file:
        rows = json.load(file)
    found = {}
    for key, (shape, dtype) in rows["variables"].items():
        found[f"{key}/.ATTRIBUTES/VARIABLE_VALUE"] = whole = np.full(shape, np.nan, dtype)
        for entry in rows["files"]:
            if entry["key"] == key:
                part = np.load(f"{folder}/{entry['file']}")
                whole[entry["first"] : entry["first"] + entry["rows"]] = part
    return found


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


@contextlib.contextmanager
def after_step(step, action):
    """Has `action` called with the trainer when a step is done, before it is logged."""
    log = Trainer._log_step

    def act_and_log(self, *arguments):
        if self.progress.step == step:
            action(self)
        return log(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "_log_step", act_and_log)
        yield


def stopped_at(step):
    """Interrupts training after a step, as a signal does."""
    return after_step(step, lambda trainer: setattr(trainer, "interrupted", True))


def send_sigterm(_=None):
    os.kill(os.getpid(), signal.SIGTERM)


def kill_and_finish(line, run, steps):
    """Kills a command line's process when its run has logged each of the steps; then it may end."""
    for step in steps:
        process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for_step(run, step, process)
        finally:
            process.kill()
            process.wait()
        assert not events(run, "finished")
    assert tool(*line[3:]).stdout


def wait_for_step(run, step, process, seconds=300):
    """Returns when a running process has logged a step; fails if it ends or takes too long."""
    deadline = time.monotonic() + seconds
    while max([m["step"] for m in run.metrics()], default=0) < step:
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline, f"it did not reach step {step} in {seconds} seconds"
        time.sleep(0.002)


def events(run, event):
    return [m for m in run.metrics() if m["event"] == event]
