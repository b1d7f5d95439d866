"""Stands in for `tfsoftmax train` and `tfsoftmax evaluate`: writes what they write, learns nothing.

The name of a run says what becomes of it: `fails` fails, `cut` is cut short the first time,
`slow` waits for Ctrl-C the first time. A self-organised head logs what its clusters do.
"""

import dataclasses
import json
import os
import sys
import time
from pathlib import Path

import tfsoftmax_command  # noqa: F401 (a stand-in for commands starts as fast as they do)

from tfsoftmax.lm.config import ModelConfig, TrainingConfig
from tfsoftmax.lm.presets import PRESETS

HALF, END = 5, 10


def main(tool, *arguments):
    given = dict(argument.removeprefix("--").split("=", 1) for argument in arguments)
    data, directory = given.pop("data"), Path(given.pop("run"))
    with open(Path(data) / "calls.txt", "a") as calls:
        print(tool, directory.name, file=calls)
    {"train": train, "evaluate": evaluate}[tool](data, directory, given)


def train(data, directory, given):
    directory.mkdir(parents=True, exist_ok=True)
    config = configuration(data, given)
    start(directory / "config.json", config)
    organised = config["model"]["head"] == "self_organised"
    if directory.name == "fails":
        sys.exit(3)
    first_time = not (directory / "metrics.jsonl").exists()
    if first_time:
        valid(directory, HALF, 400, organised)
    if directory.name == "cut" and first_time:
        sys.exit("cut")
    if directory.name == "slow" and first_time:
        wait_for_interrupt(directory)
    if organised:
        for step, words, tokens in ((HALF, 0.8, 0.5), (END, 0.4, 0.25)):
            log(directory, event="reassigned", step=step, epoch=step / END, changed_words=words,
                changed_tokens=tokens, seconds=120)
    valid(directory, END, 200, organised)
    log(directory, event="finished", step=END, epoch=1.0, best_perplexity=200, best_step=END,
        words_per_second=1234.5, seconds=120, peak_memory_gib=0.75)


def evaluate(data, directory, given):
    log(directory, event="test", split=given["split"], step=END, perplexity=210.5, tokens=99)


def configuration(data, given):
    preset = PRESETS.get(given.pop("preset", None), {})
    model, training = (
        config(**{
            f.name: parsed(default(f), given[f.name]) if f.name in given
            else preset.get(f.name, default(f))
            for f in dataclasses.fields(config)
        })
        for config in (ModelConfig, TrainingConfig)
    )
    split = {"tokens": 1000, "words": 900, "oov": 9, "sentences": 100}
    return {
        "model": dataclasses.asdict(model), "training": dataclasses.asdict(training),
        "corpus": {"name": "toy", "directory": os.path.abspath(data), "vocab_size": 77,
                   "streams": 4, "time_steps": 5,
                   "splits": {name: split for name in ("train", "valid", "test")}},
        "hardware": "1 core of a toy", "versions": {"tensorflow": "2.0"},
    }


def parsed(example, text):
    return json.loads(text) if isinstance(example, dict) else type(example)(text)


def default(field):
    return field.default_factory() if field.default is dataclasses.MISSING else field.default


def start(path, config):
    if path.exists():
        old = json.loads(path.read_text())
        if old["model"] != config["model"]:
            sys.exit("error: `run` must be new or of the same configuration")
    path.write_text(json.dumps(config))


def wait_for_interrupt(directory):
    try:
        (directory / "waiting").touch()
        time.sleep(60)
    except KeyboardInterrupt:
        time.sleep(0.4)  # longer than Python's own patience with a child
        log(directory, event="train", step=HALF + 1, epoch=0.6, words_per_second=1000, seconds=61)
        sys.exit(0)


def valid(directory, step, perplexity, organised=False):
    parts = {"cluster_perplexity": perplexity / 8, "in_cluster_perplexity": 8} if organised else {}
    log(directory, event="valid", step=step, epoch=step / END, perplexity=perplexity, **parts,
        seconds=step * 12)


def log(directory, **event):
    with open(directory / "metrics.jsonl", "a") as file:
        print(json.dumps(event), file=file)


main(*sys.argv[1:])
