"""Logits of the whole vocabulary of adaptive softmax: three ways from the clusters to the words.

    python -m experiments.benchmarks.full_logits

`gather` joins the logits of all clusters and, unless the ids are sorted by frequency, gathers the
columns by the words' ranks: this is what `AdaptiveSoftmax` does. `scatter_nd, rows` computes the
logits with words first (V, N), puts each cluster's rows at their words by `tf.scatter_nd`, and
transposes the result. `scatter_nd, elements` names the position and the word of each logit. All
ways take turns and must agree; the medians count. Writes experiments/results/full_logits/README.md.
"""

import sys
from pathlib import Path

import numpy as np
import tfsoftmax_command  # noqa: F401  (imported before the package, which then skips TensorFlow)
from absl import flags

from experiments.benchmarks.measure import medians
from experiments.framework import markdown
from tfsoftmax.commands import program

RESULTS = Path("experiments/results/full_logits")
CUTOFFS = {44_370: [4000, 22_000], 200_606: [4000, 40_000]}  # the thesis's
WAYS = "gather", "scatter_nd, rows", "scatter_nd, elements"
HEADINGS = ["V", "ids", "positions", "", *(f"{way}, ms" for way in WAYS), "rows / gather"]


def clusters_with_words_first(hidden, clusters):
    """[(V_k, N)] logits of the words of each cluster by eq. 3.5 and 3.6."""
    import tensorflow as tf

    def logits_of(cluster):
        return tf.matmul(cluster.kernel, cluster.project(hidden), transpose_b=True)

    head = logits_of(clusters[0])
    shortlist = head.shape[0] - len(clusters) + 1
    parts = [head[:shortlist] - head[0]]
    for k, tail in enumerate(clusters[1:], start=shortlist):
        logits = logits_of(tail)
        parts.append(logits + (head[k] - head[0] - tf.reduce_logsumexp(logits, axis=0)))
    return parts


def by_rows(hidden, clusters, words):
    """Logits (N, V), whose rows were scattered with words first."""
    import tensorflow as tf

    logits = tf.concat(clusters_with_words_first(hidden, clusters), 0)
    shape = [len(words), hidden.shape[0]]
    return tf.transpose(tf.scatter_nd(words[:, None], logits, shape))


def by_elements(hidden, by_rank, words):
    """Logits (N, V), each scattered by its position and its word."""
    import tensorflow as tf

    shape = [hidden.shape[0], len(words)]
    places = tf.stack(tf.meshgrid(tf.range(shape[0]), words, indexing="ij"), axis=-1)
    return tf.scatter_nd(places, by_rank.logits(hidden), shape)


def head_of(vocab_size, units, is_sorted):
    """A built head with random weights, whose ids are sorted by frequency or not."""
    from tfsoftmax.heads import AdaptiveSoftmax

    cutoffs = CUTOFFS.get(vocab_size, [vocab_size // 10, vocab_size // 2])
    order = "ids" if is_sorted else np.random.default_rng(0).permutation(vocab_size)
    head = AdaptiveSoftmax(vocab_size, cutoffs, permutation=order)
    head.build((None, units))
    return head


def times(head, hidden, compiled, repeats):
    """Median seconds of each way, which take turns."""
    import tensorflow as tf

    words, hidden = tf.constant(head.bands.order.ids), tf.constant(hidden)
    by_rank = head.distribution().by_rank
    functions = [
        lambda: head(hidden), lambda: by_rows(hidden, by_rank.parameters, words),
        lambda: by_elements(hidden, by_rank, words),
    ]
    functions = [tf.function(f, autograph=False) if compiled else f for f in functions]
    first, *others = (function().numpy() for function in functions)
    for other in others:
        np.testing.assert_allclose(other, first, atol=1e-4)
    ways = {way: lambda f=f: f()[0, 0].numpy() for way, f in zip(WAYS, functions)}
    return [wall for wall, _ in medians(ways, repeats).values()]


def main():
    program.load_tensorflow()
    from tfsoftmax.support.hardware import hardware

    options, rows = flags.FLAGS, []
    for size in map(int, options.vocab_sizes):
        for is_sorted in (True, False):
            head = head_of(size, options.units, is_sorted)
            for count in map(int, options.positions):
                shape = count, options.units
                hidden = np.random.default_rng(1).standard_normal(shape, np.float32)
                for compiled in (False, True):
                    seconds = times(head, hidden, compiled, options.repeats)
                    rows.append([
                        f"{size:,}", "sorted" if is_sorted else "in no order", str(count),
                        "tf.function" if compiled else "eager",
                        *(f"{1000 * s:,.2f}" for s in seconds), f"{seconds[1] / seconds[0]:.2f}",
                    ])
                    print(*rows[-1], sep=" | ", flush=True)
    write(rows, hardware(), options.units, options.repeats)


def write(rows, hardware, units, repeats):
    """Writes the page of results."""
    markdown.write(
        RESULTS / "README.md",
        "# Full-vocabulary logits of adaptive softmax: gather and `scatter_nd`",
        f"`python -m experiments.benchmarks.full_logits` on {hardware}, shared with other work. "
        f"D = {units} units, tails of D / 4 and D / 16. Medians of {repeats} calls; the ways take "
        "turns and agree. They are described in experiments/benchmarks/full_logits.py. `gather` "
        "takes the kernels in blocks of words, which it copies; with few positions that counts.",
        markdown.table([HEADINGS, *rows]),
    )


if __name__ == "__main__":
    flags.DEFINE_list("vocab_sizes", [str(size) for size in CUTOFFS], "Sizes V of the vocabulary.")
    flags.DEFINE_list("positions", ["8", "128"], "Numbers of positions in a call.")
    flags.DEFINE_integer("units", 512, "Units D of the hidden state.")
    flags.DEFINE_integer("repeats", 15, "Number of timed calls of each way.")
    program.run(main, __doc__, sys.argv)
