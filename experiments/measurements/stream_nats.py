"""Tells whether some streams of a split are far worse than the others.

    python -m experiments.measurements.stream_nats --run=runs/jiang/nce-seed1 --split=test

A recurrent state that leaves the range of training may not come back. The perplexity of a split
then says more of one stream than of the model. This prints the exact perplexity of the split, that
of its worst streams, and that of the split without these.
"""

import sys

import tfsoftmax_command  # noqa: F401  (imported before the package, which then skips TensorFlow)
from absl import flags

from tfsoftmax.commands import program, shared
from tfsoftmax.support.arguments import check_at_least, expect


def perplexities(nats, tokens, count):
    """Perplexities of the split, of its `count` worst streams, and of the split without these.

    Args:
        nats: (B,) float, the nats of each stream.
        tokens: (B,) their tokens.
        count: how many streams are listed.

    Returns:
        (perplexity, [(stream, its perplexity), ...] the worst first, perplexity without them).
    """
    import numpy as np

    of_each = nats / np.maximum(tokens, 1)
    worst = np.argsort(-of_each, kind="stable")[:count]
    others = np.delete(np.arange(len(nats)), worst)
    return (
        float(np.exp(nats.sum() / tokens.sum())),
        [(int(stream), float(np.exp(of_each[stream]))) for stream in worst],
        float(np.exp(nats[others].sum() / tokens[others].sum())),
    )


def main():
    """Measures the streams of a split of the run's corpus."""
    options = flags.FLAGS
    check_at_least(1, worst=options.worst)
    program.load_tensorflow()
    import numpy as np
    import tensorflow as tf

    from tfsoftmax.corpora.pipeline import batches
    from tfsoftmax.lm.model import split_at_head
    from tfsoftmax.runs import runs

    corpus = shared.corpus_of(runs.Run(options.run), options.data)
    expect(options.worst < corpus.batch_size, "worst",
           f"be less than the number of streams, {corpus.batch_size}", options.worst)
    model, vocabulary, _ = runs.load(options.run, corpus.batch_size, corpus.shape["time_steps"])
    head, hidden_model = split_at_head(model, vocabulary)

    @tf.function(autograph=False)
    def nats_of(words, labels, weights):
        log_prob = head.log_prob(hidden_model(words, training=False), labels)
        return -tf.reduce_sum(tf.where(weights > 0, log_prob, 0.0), axis=1)

    nats, tokens = np.zeros(corpus.batch_size), np.zeros(corpus.batch_size)
    for words, labels, weights in batches(corpus, options.split):
        nats += nats_of(words, labels, weights).numpy()
        tokens += (weights.numpy() > 0).sum(1)
    whole, worst, others = perplexities(nats, tokens, options.worst)
    print(f"perplexity {whole:,.2f}; of {len(nats)} streams the worst have " + ", ".join(
        f"{perplexity:,.2f} (stream {stream})" for stream, perplexity in worst
    ) + f"; without them it is {others:,.2f}")


if __name__ == "__main__":
    flags.DEFINE_string("run", None, "Directory of a training run.", required=True)
    flags.DEFINE_string("data", None, "Directory of the corpus. Default: that of the run.")
    flags.DEFINE_string("split", "test", "Split to measure.")
    flags.DEFINE_integer("worst", 1, "Number of streams to leave out.")
    program.run(main, __doc__, sys.argv)
