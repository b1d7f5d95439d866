"""Exports a run on pairs as a SavedModel that summarises strings.

    tfsoftmax export_pairs --run=runs/pairs --out=exported
    tfsoftmax export_pairs --run=runs/gigaword --out=served/titles/1

Loading it needs TensorFlow, but neither tfsoftmax nor Keras. It has one function and signature,
which takes the likeliest word each time, as tfsoftmax summarise does with --beam=1:

    import tensorflow as tf
    model = tf.saved_model.load("exported")
    words = tf.constant([["once", "upon", "a", "time"], ["it", "was", "", ""]])
    model.summarise(words, 30)["words"]       # the summary of each text, of at most 30 words

Texts are strings, padded at the end with empty strings. Words that the vocabulary lacks are read as
<unk>. The vocabulary is one of the assets.
"""

from tfsoftmax.commands.export import ExportOptions, begin_export, report_export


def main(options: ExportOptions):
    begin_export(options.out)
    from tfsoftmax.pairs.export import export_summariser
    from tfsoftmax.pairs.task import PAIRS
    from tfsoftmax.runs import runs

    model, vocabulary, config = runs.load(options.run, streams=None, backend="fused", task=PAIRS)
    export_summariser(model, vocabulary, options.out, config["corpus"]["max_source"])
    report_export(options.out, "summarise(words, max_words)", vocabulary)
