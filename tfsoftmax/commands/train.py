"""Trains a recurrent language model with the output layer of your choice.

    tfsoftmax train --data=data/docstrings --run=runs/first --hidden_units=256 --embedding_units=256
    tfsoftmax train --data=data/text8 --run=runs/text8 --preset=text8

Kill it whenever you like: the same command goes on from the last checkpoint and ends with the
same weights. DIR/metrics.jsonl and `tensorboard --logdir=DIR/tensorboard` show how it goes;
tfsoftmax evaluate and tfsoftmax generate use the result. Presets text8 and fdt are the thesis's
hyper-parameters (table 4.5), demo trains for three minutes; a flag given beside a preset wins.

TensorBoard also shows memory, words per second and gradient norms. --profile_batch=11,15 traces
these steps: tfsoftmax memory_timeline --run=DIR prints the memory over their time, and TensorBoard's
profile plugin (pip install 'tfsoftmax[profile]') shows everything else.
"""

import json
import sys

from absl import flags

from tfsoftmax.commands import dataclass_flags
from tfsoftmax.commands.program import load_tensorflow
from tfsoftmax.lm.config import PRESETS, ModelConfig, TrainingConfig


def define_flags():
    flags.DEFINE_string("data", None, "directory that `tfsoftmax prepare` made", required=True)
    flags.DEFINE_string("run", None, "directory of the run: new, or one to go on with", required=True)
    flags.DEFINE_enum("preset", None, list(PRESETS), "named hyper-parameters; other flags win")
    flags.DEFINE_list("profile_batch", [], "first and last step to trace, such as 11,15")
    dataclass_flags.define(ModelConfig, TrainingConfig)


def main():
    preset = PRESETS.get(flags.FLAGS.preset)
    model_config = dataclass_flags.parse(ModelConfig, preset)
    config = dataclass_flags.parse(TrainingConfig, preset)
    profile_batch = steps_to_trace(flags.FLAGS.profile_batch)
    load_tensorflow()
    from tfsoftmax.lm.training import train

    finished = train(
        flags.FLAGS.data, flags.FLAGS.run, model_config, config, profile_batch=profile_batch
    )
    if finished is None:
        sys.exit(130)  # as the shell says of a program that Ctrl-C ended
    print(json.dumps(finished))


def steps_to_trace(texts):
    """The two numbers of --profile_batch, or None without it."""
    if not texts:
        return None
    if len(texts) != 2 or not all(text.strip().isdigit() for text in texts):
        raise ValueError(
            "`profile_batch` must be two steps, such as 11,15. "
            f"Received: profile_batch={','.join(texts)}"
        )
    return int(texts[0]), int(texts[1])
