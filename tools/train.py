#!/usr/bin/env python3
"""Trains a recurrent language model with the output layer of your choice.

    python tools/train.py --data=data/docstrings --run=runs/first --hidden=256 --embedding=256
    python tools/train.py --data=data/text8 --run=runs/text8 --preset=text8

Kill it whenever you like: the same command goes on from the last checkpoint and ends with the
same weights. DIR/metrics.jsonl and `tensorboard --logdir=DIR/tensorboard` show how it goes;
tools/evaluate.py and tools/generate.py use the result. Presets text8 and fdt are the thesis's
hyper-parameters (table 4.5), demo trains for three minutes; a flag given beside a preset wins.
"""

import json
import sys

import dataclass_flags
from absl import flags

from tfsoftmax.config import PRESETS, ModelConfig, TrainingConfig


def main():
    preset = PRESETS.get(flags.FLAGS.preset)
    model_config = dataclass_flags.parse(ModelConfig, preset)
    config = dataclass_flags.parse(TrainingConfig, preset)
    dataclass_flags.load_tensorflow()
    from tfsoftmax.training import train

    finished = train(flags.FLAGS.data, flags.FLAGS.run, model_config, config)
    if finished is None:
        sys.exit(130)  # as the shell says of a program that Ctrl-C ended
    print(json.dumps(finished))


if __name__ == "__main__":
    flags.DEFINE_string("data", None, "directory that tools/prepare.py made", required=True)
    flags.DEFINE_string("run", None, "directory of the run: new, or one to go on with", required=True)
    flags.DEFINE_enum("preset", None, list(PRESETS), "named hyper-parameters; other flags win")
    dataclass_flags.define(ModelConfig, TrainingConfig)
    dataclass_flags.run(main)
