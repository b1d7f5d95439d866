"""Exports a trained model as a SavedModel of functions of strings.

    tfsoftmax export --run=runs/first --out=exported
    tfsoftmax export --run=runs/first --out=exported_100 --max_k=100

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
"""

import contextlib
import dataclasses
import os

from tfsoftmax.commands.options import given
from tfsoftmax.commands.program import load_tensorflow
from tfsoftmax.support.arguments import refusal
from tfsoftmax.support.replacing import alone


@dataclasses.dataclass(frozen=True)
class ExportOptions:
    """Run and result.

    Attributes:
        run: Directory of a training run.
        out: Directory of the SavedModel, new or empty.
    """

    run: str
    out: str


@dataclasses.dataclass(frozen=True)
class LanguageModelOptions(ExportOptions):
    """Run and result.

    Attributes:
        max_k: Largest k that next_word accepts.
    """

    max_k: int = 50


def main(options: LanguageModelOptions):
    begin_export(options.out)
    from tfsoftmax.lm.export import export
    from tfsoftmax.runs import runs

    model, vocabulary, _ = runs.load(options.run, streams=None, stateful=False, backend="fused")
    most = options.max_k if given("max_k") else min(options.max_k, len(vocabulary))
    export(model, vocabulary, options.out, most, runs.Run(options.run).tokenizer_path())
    report_export(options.out, f"score(words) and next_word(words, k), k up to {most}", vocabulary)


def begin_export(out: str) -> None:
    """Checks the folder to write, and imports TensorFlow."""
    with contextlib.suppress(FileNotFoundError):
        os.lstat(out)  # so that a wrong path fails at once
        with alone(os.path.realpath(out)):  # which clears up what a killed export left
            if not os.path.isdir(out) or os.listdir(out):
                raise refusal("out", "be a new or empty directory", out)
    load_tensorflow()


def report_export(out: str, functions: str, vocabulary) -> None:
    """Prints what a folder holds now."""
    files = [os.path.join(f, name) for f, _, names in os.walk(out) for name in names]
    print(
        f"{out}: {functions}, {len(vocabulary):,} words, "
        f"{sum(map(os.path.getsize, files)) / 2**20:.1f} MiB"
    )
