"""A trained model as a SavedModel that scores sentences and names next words, strings in and out.

    tfsoftmax export --run=runs/first --out=exported

What loads it needs TensorFlow alone, neither tfsoftmax nor Keras:

    import tensorflow as tf
    model = tf.saved_model.load("exported")
    words = tf.constant([["once", "upon", "a", "time"], ["it", "was", "", ""]])
    model.score(words)["log_prob"]            # ln P of each sentence, its end included
    model.score(words)["log_probs"]           # of each word, the end behind the last
    model.next_word(words, 5)["words"]        # the five likeliest next words of each

Sentences are padded at the end with empty strings. Words that the vocabulary lacks are read and
scored as <unk>; "oov" of score counts them. Both are also signatures, for model servers:
score(words) and next_word(words, k), k a scalar int32. The vocabulary is among the assets.
"""

import os

from absl import flags

from tfsoftmax.commands.program import load_tensorflow


def define_flags():
    flags.DEFINE_string("run", None, "directory of a training run", required=True)
    flags.DEFINE_string("out", None, "directory of the SavedModel, new or empty", required=True)
    flags.DEFINE_integer("max_k", 50, "the most words that next_word may be asked for")


def main():
    load_tensorflow()
    from tfsoftmax.lm import runs
    from tfsoftmax.lm.export import export

    model, vocabulary, _ = runs.load(
        flags.FLAGS.run, streams=None, stateful=False, backend="fused"
    )
    most = flags.FLAGS.max_k
    if not flags.FLAGS["max_k"].present:
        most = min(most, len(vocabulary))
    export(model, vocabulary, flags.FLAGS.out, most)
    files = [os.path.join(f, name) for f, _, names in os.walk(flags.FLAGS.out) for name in names]
    print(
        f"{flags.FLAGS.out}: score(words) and next_word(words, k), k up to {most}, "
        f"{len(vocabulary):,} words, {sum(map(os.path.getsize, files)) / 2**20:.1f} MiB"
    )
