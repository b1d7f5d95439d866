"""Trains a language model with the head of your choice.

    tfsoftmax train --data=data/docstrings --run=runs/first --preset=demo
    tfsoftmax train --data=data/text8 --run=runs/text8 --preset=text8 --head=adaptive

You may stop it at any time: the same command continues from the last checkpoint and, on a CPU, ends
with the same weights. `DIR/metrics.jsonl` and `tensorboard --logdir=DIR/tensorboard` show the
progress; so does a bar, or, where there is no terminal, a line every half minute. tfsoftmax
evaluate, generate, score, rescore and export use the result. A flag that is given together with a
preset takes precedence over it. The presets are
- demo: trains for three minutes
- text8, fdt: Müller 2017, table 4.5
- jiang: Jiang et al. 2017, a GRU, with sizes and optimisation of the authors' published code
- mao: Mao 2019, an n-ary hierarchical softmax; its training is ours
- shen: Shen et al. 2017, section 4.2
- shmuma: Shmuma 2017, an LSTM with room for GloVe's 50 dimensions; its optimisation is ours
- transformer: blocks of a causal Transformer, tied to the output layer; sizes and training are ours

The run keeps its own copy of a file of a tree or of classes, and the SHA-256 of all its files; a
file that was changed, or that is of another run, is refused.

Several devices share the streams of the corpus, whose number must be a multiple of theirs. Without
dropout (--dropout=0) they end with the weights that one would have, up to rounding; with it they
draw other masks than one does. As many GPUs of the machine are used as divide the number of
streams; --strategy=none uses one.
On several machines, start the same command on each, with the cluster in TF_CONFIG, or by srun with
--strategy=multiworker; --workers=2 tries this out with two processes here. All of them must see the
corpus and the run in the same folders. The first logs and saves. A signal to any of them ends all,
saved; if one dies, the others end too. The same command goes on, also with other machines.

TensorBoard also shows memory, words per second and gradient norms. --profile_batch=11,15 traces
these steps: tfsoftmax memory_timeline --run=DIR prints how much memory they used over time, and
TensorBoard's profile plugin (pip install 'tfsoftmax[profile]') shows everything else.
"""

import json
import sys
from collections.abc import Callable

from absl import flags

from tfsoftmax.commands import shared_flags
from tfsoftmax.lm.config import ModelConfig, TrainingConfig
from tfsoftmax.lm.local_workers import INTERRUPTED
from tfsoftmax.lm.presets import PRESETS


def define_flags():
    define_training(ModelConfig, PRESETS)


def main():
    from tfsoftmax.corpora.records import Corpus

    train(Corpus, ModelConfig, PRESETS, _task)


def _task():
    from tfsoftmax.lm.tasks import LANGUAGE_MODEL

    return LANGUAGE_MODEL


def define_training(model: type[ModelConfig], presets: dict) -> None:
    """Defines the flags of commands that train: of a class of models, with named presets."""
    shared_flags.define_data()
    flags.DEFINE_string(
        "run", None, "Directory of the run, a new one or one to continue.", required=True
    )
    flags.DEFINE_enum(
        "preset", None, list(presets), "Named hyperparameters. Other flags take precedence."
    )
    flags.DEFINE_list("profile_batch", [], "First and last step to trace, such as 11,15.")
    shared_flags.define_workers()
    shared_flags.define(model, TrainingConfig)


def train(
    corpora: type, model: type[ModelConfig], presets: dict, import_task: Callable
) -> None:
    """Trains what the flags of `define_training` say, and prints the result.

    Args:
        corpora: the class of the corpus.
        model: the class of the configuration.
        presets: {name: fields of the configurations}.
        import_task: returns the `Task`, whose import takes TensorFlow.
    """
    preset = presets.get(flags.FLAGS.preset)
    model_config = shared_flags.parse(model, preset)
    config = shared_flags.parse(TrainingConfig, preset)
    profile_batch = steps_to_trace(flags.FLAGS.profile_batch)
    shared_flags.fork_workers()
    corpus = corpora.load(flags.FLAGS.data)
    workers = shared_flags.started_workers(corpus.batch_size)
    from tfsoftmax.lm import training

    finished = training.train(
        flags.FLAGS.data, flags.FLAGS.run, model_config, config, profile_batch=profile_batch,
        workers=workers, task=import_task(),
    )
    if finished is None:
        sys.exit(INTERRUPTED)
    print(json.dumps(finished))


def steps_to_trace(texts):
    """The two numbers of --profile_batch, or None if the flag is not given."""
    if not texts:
        return None
    if len(texts) != 2 or not all(text.strip().isdigit() for text in texts):
        raise ValueError(
            "`profile_batch` must be two steps, such as 11,15. "
            f"Received: profile_batch={','.join(texts)}"
        )
    return int(texts[0]), int(texts[1])
