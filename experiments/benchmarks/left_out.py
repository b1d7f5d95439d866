"""What is left out costs nothing: padded positions of a step, and excluded items of a search.

    python -m experiments.benchmarks.left_out

First, training steps of a batch (64, 50) of which some positions are padding, label 0, which
`SoftmaxLoss(ignore_class=0)` leaves out, and steps of the other positions alone. A step is the
loss, all gradients and Adagrad's update, of the output layer alone.

Then the 20 best items of 512 queries, each without E items: `head.top_k(hidden, 20, exclude=seen)`,
which gives log-probabilities, too, and two ways in plain TensorFlow, which write -inf over the
scores, or the log-probabilities, of the excluded items by `tf.tensor_scatter_nd_update` before
`tf.math.top_k`.

What is compared takes turns, and medians count. Writes experiments/results/left_out/README.md.
"""

import sys
from pathlib import Path

import numpy as np
import tfsoftmax_command  # noqa: F401  (imported before the package, which then skips TensorFlow)
from absl import flags

from experiments.benchmarks.measure import medians
from experiments.framework import markdown
from tfsoftmax.commands import program

RESULTS = Path("experiments/results/left_out")
SHAPE, BEST, QUERIES = (64, 50), 20, 512
SHARES = (0.0, 0.5, 0.85, 0.95)
EXCLUDED = (0, 10, 100, 850, 5000)


def heads(counts):
    """{name: head} of the words with these counts."""
    from tfsoftmax import heads as h
    from tfsoftmax.samplers import InBatch

    size = len(counts)
    return {
        "FullSoftmax": h.FullSoftmax(size),
        "AdaptiveSoftmax": h.AdaptiveSoftmax(size, counts=counts),
        "SampledSoftmax": h.SampledSoftmax(size, counts=counts),
        "TreeSoftmax": h.TreeSoftmax(size, counts=counts),
        "SampledSoftmax, InBatch": h.SampledSoftmax(size, None, InBatch(size, counts)),
    }


def steps(head, units, labels, padded):
    """Functions of a step with padding, and of a step of the other positions alone."""
    from tfsoftmax.losses import SoftmaxLoss
    from tfsoftmax.optimizers import Adagrad
    from tfsoftmax.profiling.head_step import head_step

    hidden = 0.3 * np.random.default_rng(1).standard_normal((*SHAPE, units), np.float32)
    loss, kept = SoftmaxLoss(ignore_class=0), ~padded
    batches = (hidden, np.where(padded, 0, labels)), (hidden[kept], labels[kept])
    return [
        head_step(
            lambda h, y: loss(y, head(h, training=True)), head.trainable_variables, *batch,
            lambda: Adagrad(0.1),
        ) for batch in batches
    ]


def padding(options):
    """The table of steps by head and share of padding."""
    counts = 1e8 / np.arange(1, options.vocab_size + 1)
    rng = np.random.default_rng(0)
    labels = rng.choice(len(counts), SHAPE, p=counts / counts.sum())
    labels = np.maximum(labels, 1).astype(np.int32)
    rows = [["head", "padding", "padded, ms", "alone, ms", "padded to alone", "to no padding"]]
    for name, head in heads(counts).items():
        head.build((None, options.units))
        whole = None
        for share in SHARES:
            padded = rng.random(SHAPE) < share
            both = dict(enumerate(steps(head, options.units, labels, padded)))
            seconds, alone = (s for s, _ in medians(both, options.repeats).values())
            whole = whole or seconds
            rows.append([name, f"{share:.0%}", f"{1000 * seconds:,.1f}", f"{1000 * alone:,.1f}",
                         f"{seconds / alone:.2f}", f"{seconds / whole:.2f}"])
            print(*rows[-1], sep=" | ", flush=True)
    return rows


def searches(head, hidden, excluded):
    """{name: function that returns the ids of the best} of three ways."""
    import tensorflow as tf

    kernel, bias = head.kernel.value, head.bias.value
    rows = tf.repeat(tf.range(len(excluded))[:, None], excluded.shape[1], axis=1)
    places, nothing = tf.stack([rows, excluded], 2), tf.fill(excluded.shape, -float("inf"))

    def plain(of_scores):
        scores = of_scores(tf.matmul(hidden, kernel, transpose_b=True) + bias)
        return tf.math.top_k(tf.tensor_scatter_nd_update(scores, places, nothing), BEST).indices

    functions = {
        "top_k": tf.function(lambda: head.top_k(hidden, BEST, exclude=excluded)[0]),
        "scores": tf.function(lambda: plain(tf.identity)),
        "log-probabilities": tf.function(lambda: plain(tf.nn.log_softmax)),
    }
    return {name: lambda f=f: f().numpy() for name, f in functions.items()}


def excluding(options):
    """The table of searches by number of excluded items."""
    from tfsoftmax.heads import FullSoftmax

    head, rng = FullSoftmax(options.vocab_size), np.random.default_rng(0)
    head.build((None, options.units))
    hidden = rng.standard_normal((QUERIES, options.units), np.float32)
    rows = [["E", "top_k, ms", "scatter into scores, ms", "into log-probabilities, ms",
             "to scores", "to log-probabilities"]]
    for count in EXCLUDED:
        excluded = rng.integers(0, options.vocab_size, (QUERIES, count), np.int32)
        functions = searches(head, hidden, excluded)
        ids = [function() for function in functions.values()]
        if any((each != ids[0]).mean() > 0.001 for each in ids):  # scores may round to ties
            raise RuntimeError("The searches found other items.")
        own, *others = (s for s, _ in medians(functions, options.repeats).values())
        rows.append([f"{count:,}", *(f"{1000 * s:,.1f}" for s in (own, *others)),
                     *(f"{own / s:.2f}" for s in others)])
        print(*rows[-1], sep=" | ", flush=True)
    return rows


def main():
    program.load_tensorflow()
    from tfsoftmax.support.hardware import hardware

    options = flags.FLAGS
    write(padding(options), excluding(options), hardware(), options)


def write(padded, excluded, hardware, options):
    """Writes the page of results."""
    first, then = (part.replace("\n", " ") for part in __doc__.split("\n\n")[2:4])
    markdown.write(
        RESULTS / "README.md", "# What is left out: padded positions, excluded items",
        f"`python -m experiments.benchmarks.left_out` on {hardware}. V = {options.vocab_size:,}, "
        f"D = {options.units}. What is compared takes turns; medians of {options.repeats}.",
        f"{first} XLA fixes the number of positions, and computes all of them.",
        markdown.table(padded), then, markdown.table(excluded, text_columns=0),
    )


if __name__ == "__main__":
    flags.DEFINE_integer("vocab_size", 50_000, "Number V of words.", lower_bound=100)
    flags.DEFINE_integer("units", 64, "Units D of the hidden state.", lower_bound=1)
    flags.DEFINE_integer("repeats", 11, "Number of timed runs of each way.", lower_bound=1)
    program.run(main, __doc__, sys.argv)
