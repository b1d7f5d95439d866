"""Trains a language model with the head of your choice.

    tfsoftmax train --data=data/docstrings --run=runs/first --preset=demo
    tfsoftmax train --data=data/text8 --run=runs/x --preset=text8 --head=tree

You may stop it at any time: the same command continues from the last checkpoint and, on a CPU, ends
with the same weights. RUN/metrics.jsonl and `tensorboard --logdir=RUN/tensorboard` show the
progress, with memory, words per second and gradient norms. tfsoftmax evaluate, generate, score,
rescore and export use the result. The run keeps its own copy of a tree or class file.

The preset demo trains for two to three minutes; text8 and fdt follow Müller 2017; jiang, mao, shen
and shmuma follow papers by these authors; transformer trains a causal Transformer.

Several devices share the streams; their number must divide that of the streams. Without dropout the
final weights are those of one device, up to rounding. On several machines, start the same command
on each, with the cluster in TF_CONFIG, or by srun with --strategy=multiworker; all must see the
same folders. If one stops, the others save and stop too, and the same command resumes.

`tfsoftmax memory_timeline` shows the memory of the steps that --profile_batch traces, and
TensorBoard's profile plugin (pip install xprof) shows their time.
"""

import dataclasses
import sys

from tfsoftmax.commands.shared import Devices, fork_workers, started_workers
from tfsoftmax.lm.config import ModelConfig, TrainingConfig
from tfsoftmax.lm.presets import PRESETS
from tfsoftmax.sharding.local_workers import INTERRUPTED
from tfsoftmax.support.arguments import expect
from tfsoftmax.support.textio import json_line


@dataclasses.dataclass(frozen=True)
class TrainOptions:
    """Corpus and run.

    Attributes:
        data: Directory of a corpus that `tfsoftmax prepare` made.
        run: Directory of the run, a new one or one to continue.
        preset: Named hyperparameters. Other flags take precedence.
        profile_batch: First and last step to trace, such as 11,15.
    """

    PRESETS = PRESETS
    CHOICES = {"preset": tuple(PRESETS)}

    data: str
    run: str
    preset: str | None = None
    profile_batch: tuple[int, ...] = ()


def main(
    options: TrainOptions, model_config: ModelConfig, config: TrainingConfig, devices: Devices
):
    from tfsoftmax.lm.tasks import LANGUAGE_MODEL

    train(options, model_config, config, devices, LANGUAGE_MODEL)


def train(
    options: TrainOptions, model_config: ModelConfig, config: TrainingConfig, devices: Devices, task
) -> None:
    """Trains what the flags say, and prints the result.

    Args:
        options: the corpus and the run.
        model_config, config: the model and its training.
        devices: what shares the work.
        task: the `Task` of the run.
    """
    expect(len(options.profile_batch) in (0, 2) and min(options.profile_batch, default=1) >= 1,
           "profile_batch", "be two steps, such as 11,15",
           received=f"profile_batch={','.join(map(str, options.profile_batch))}")
    fork_workers(devices)
    corpus = task.corpus.load(options.data)
    workers = started_workers(devices, corpus.batch_size)
    from tfsoftmax.runs import training

    finished = training.train(
        options.data, options.run, model_config, config, workers=workers, task=task,
        profile_batch=options.profile_batch or None,
    )
    if finished is None:
        sys.exit(INTERRUPTED)
    print(json_line(finished))
