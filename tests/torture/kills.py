"""Tools that are killed at a random moment, started again, and compared with one that was not."""

import os
import pathlib
import random
import shutil
import subprocess
import tempfile
import time

import numpy as np
import tensorflow as tf

from runs_helper import SMALL, command, final_weights, small_corpus
from tfsoftmax.runs import runs

from .cases import Case
from .damage import read_corpus

TIMES = 4  # how often each tool is killed
ENVIRONMENT = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}


def prepare_line(folder):
    texts = [f"--{name}={folder / name}.txt" for name in ("train", "valid", "test")]
    return command("prepare", "--corpus=text", *texts, f"--out={folder / 'corpus'}", "--streams=4",
                   "--time_steps=6")


def train_line(folder):
    return command("train", f"--data={folder / 'corpus'}", f"--run={folder / 'run'}", *SMALL,
                   "--max_steps=12")


def export_line(folder):
    return command("export", f"--run={folder / 'run'}", f"--out={folder / 'exported'}")


def read_weights(folder):
    weights = final_weights(runs.Run(str(folder / "run")))
    return [weights[name] for name in sorted(weights)]


def read_export(folder):
    names = sorted(p.name for p in (folder / "exported").rglob("*") if p.is_file())
    reader = tf.train.load_checkpoint(str(folder / "exported" / "variables" / "variables"))
    tensors = sorted(n for n in reader.get_variable_to_shape_map() if "OBJECT_GRAPH" not in n)
    return [names, tensors, *map(reader.get_tensor, tensors)]


TOOLS = {
    "prepare": (prepare_line, read_corpus), "train": (train_line, read_weights),
    "export": (export_line, read_export),
}


class Kills:
    """What each tool makes when nothing disturbs it, and the cases that disturb it."""

    def __init__(self, seed):
        self.seed = seed
        self._place = tempfile.TemporaryDirectory()
        self.stages, self.sound, self.seconds = {}, {}, {}
        folder = pathlib.Path(self._place.name) / "start"
        folder.mkdir()
        shutil.rmtree(small_corpus(folder).directory)
        for name, (line, read) in TOOLS.items():
            self.stages[name] = folder
            folder = pathlib.Path(shutil.copytree(folder, folder.with_name(name)))
            began = time.monotonic()
            subprocess.run(line(folder), check=True, capture_output=True, env=ENVIRONMENT)
            self.seconds[name] = time.monotonic() - began
            self.sound[name] = read(folder)

    def cases(self):
        rng = random.Random(self.seed)
        for name in TOOLS:
            for _ in range(TIMES):
                yield self._case(name, rng.uniform(0.3, 1.0))

    def _case(self, name, moment):
        line, _ = TOOLS[name]

        def run():
            with tempfile.TemporaryDirectory() as place:
                # The same path as before, as a corpus and a run remember where they are.
                folder = pathlib.Path(shutil.copytree(self.stages[name], pathlib.Path(place) / "w"))
                process = subprocess.Popen(
                    line(folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                    env=ENVIRONMENT,
                )
                try:
                    process.wait(timeout=moment * self.seconds[name])
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                    if name == "export" and (folder / "exported").exists():
                        return self._result(name, folder)  # it is there whole, or not at all
                    again = subprocess.run(
                        line(folder), capture_output=True, text=True, env=ENVIRONMENT, check=False
                    )
                    if again.returncode:
                        return f"obscure: after the kill: {again.stderr[-250:]}"
                return self._result(name, folder)

        return Case(f"{name} killed after {moment:.2f} of its time", "kill -9", run)

    def _result(self, name, folder):
        found = TOOLS[name][1](folder)
        same = all(map(np.array_equal, found, self.sound[name]))
        return None if same else "silent: another result after a kill"
