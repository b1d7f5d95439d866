"""Exports a trained model as a SavedModel of functions of strings.

    tfsoftmax export --run=runs/first --out=exported
    tfsoftmax export --run=runs/first --out=exported_100 --max_k=100
    tfsoftmax export --run=runs/pairs --out=exported_summaries

Loading it needs TensorFlow, but neither tfsoftmax nor Keras:

    import tensorflow as tf
    model = tf.saved_model.load("exported")
    words = tf.constant([["once", "upon", "a", "time"], ["it", "was", "", ""]])
    model.score(words)["log_prob"]            # ln P of each sentence, with its end
    model.score(words)["log_probs"]           # ln P of each word, and of the end
    model.next_word(words, 5)["words"]        # the five likeliest next words of each sentence

Sentences are strings, padded at the end with empty strings. Words that the vocabulary lacks are
read and scored as <unk>; the output "oov" of score counts them. Both functions are also
signatures for model servers: score(words) and next_word(words, k), where k is a scalar int32.
The vocabulary is one of the assets. For a run on pieces (tfsoftmax prepare --tokenizer), the words
are pieces, spelt as in the vocabulary, and the tokenizer that makes them is in assets.extra.

The SavedModel of a run on pairs has one function and signature, which takes the likeliest word each
time, as tfsoftmax summarise does with --beam=1:

    model.summarise(words, 30)["words"]       # the summary of each text, of at most 30 words
"""

import contextlib
import os

from absl import flags

from tfsoftmax.commands import shared_flags
from tfsoftmax.commands.program import load_tensorflow
from tfsoftmax.corpora.config import TASKS
from tfsoftmax.support.replacing import alone


def define_flags():
    shared_flags.define_run()
    flags.DEFINE_string(
        "out", None, "Directory of the SavedModel, new or empty.", required=True
    )
    flags.DEFINE_integer("max_k", 50, "The most words that next_word may be asked for.")


def main():
    out = flags.FLAGS.out
    with contextlib.suppress(FileNotFoundError):
        os.lstat(out)  # so that a wrong path fails at once
        with alone(os.path.realpath(out)):  # which clears up what a killed export left
            if not os.path.isdir(out) or os.listdir(out):
                raise ValueError(f"`out` must be a new or empty directory. Received: out={out!r}")
    load_tensorflow()
    from tfsoftmax.lm import runs

    model, vocabulary, config = runs.load(
        flags.FLAGS.run, streams=None, stateful=False, backend="fused", tasks=TASKS
    )
    export = _export_summariser if "attention" in config["model"] else _export_language_model
    functions = export(model, vocabulary, config)
    files = [os.path.join(f, name) for f, _, names in os.walk(out) for name in names]
    print(
        f"{out}: {functions}, {len(vocabulary):,} words, "
        f"{sum(map(os.path.getsize, files)) / 2**20:.1f} MiB"
    )


def _export_language_model(model, vocabulary, _):
    from tfsoftmax.lm import runs
    from tfsoftmax.lm.export import export

    most = flags.FLAGS.max_k
    if not flags.FLAGS["max_k"].present:
        most = min(most, len(vocabulary))
    export(
        model, vocabulary, flags.FLAGS.out, most, runs.Run(flags.FLAGS.run).tokenizer_path()
    )
    return f"score(words) and next_word(words, k), k up to {most}"


def _export_summariser(model, vocabulary, config):
    from tfsoftmax.seq2seq.export import export_summariser

    shared_flags.refuse("sentences only", "max_k")
    export_summariser(model, vocabulary, flags.FLAGS.out, config["corpus"]["max_source"])
    return "summarise(words, max_words)"
