#!/usr/bin/env python3
"""The likeliest words of a head: its own `top_k` against the k best of all V log-probabilities.

    python -m experiments.benchmarks.likeliest_words
    python -m experiments.benchmarks.likeliest_words --runs=runs/adaptive,runs/tree

What generation asks for at each step: greedily (k = 2, <unk> being left out), of a beam of 8
(k = 10), and by top-k of 40 (k = 41). Heads without training: biases of Zipf's law, and kernels
and hidden states drawn so that a word's log-probability differs from context to context by about
two nats. With --runs also trained heads, at the hidden states of sentences that they draw.

Both ways take turns and find the same words; medians. Writes
experiments/results/likeliest_words/README.md.
"""

import pathlib
import statistics
import sys
import time

import numpy as np
from absl import app, flags

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "experiments" / "results" / "likeliest_words"
SPREAD = 2.0  # nats
KS = (2, 10, 41)

flags.DEFINE_list("vocab_sizes", ["50000", "200000"], "V, several")
flags.DEFINE_list("positions", ["1", "64"], "positions at a time, several")
flags.DEFINE_integer("units", 256, "D, units of the hidden state")
flags.DEFINE_integer("repeats", 15, "timed calls of each way")
flags.DEFINE_list("runs", [], "directories of trained runs, to be measured too")


def untrained(vocab_size):
    """{name: head} with the distribution that the module describes."""
    import tfsoftmax

    counts = 1e8 / np.arange(1, vocab_size + 1)
    cutoffs = [vocab_size // 20, vocab_size // 4]
    heads = {
        "FullSoftmax": tfsoftmax.FullSoftmax(vocab_size),
        "AdaptiveSoftmax": tfsoftmax.AdaptiveSoftmax(vocab_size, cutoffs, use_bias=True),
        "TreeSoftmax, Huffman": tfsoftmax.TreeSoftmax(vocab_size, counts=counts),
    }
    for head in heads.values():
        head.build((None, flags.FLAGS.units))
    full, adaptive, tree = heads.values()
    rng = np.random.default_rng(0)
    full.bias.assign(np.log(counts))
    _spread(full.kernel, SPREAD, rng)
    parts = np.split(counts, cutoffs)
    adaptive.biases[0].assign(np.log([*parts[0], *(part.sum() for part in parts[1:])]))
    for bias, part in zip(adaptive.biases[1:], parts[1:]):
        bias.assign(np.log(part))
    for projection in adaptive.projections:
        _spread(projection, 1.0, rng, rows=projection.shape[0])
    for kernel in adaptive.kernels:
        _spread(kernel, SPREAD, rng)
    left, right = _masses(tree.tree.children(), counts)
    tree.bias.assign(np.log(left) - np.log(right))
    _spread(tree.kernel, SPREAD / np.sqrt(np.average(tree.tree.depths, weights=counts)), rng)
    return heads


def _spread(weight, scale, rng, rows=None):
    """Normal values of which products with unit normal ones have this standard deviation."""
    width = rows or weight.shape[1]
    weight.assign(scale / np.sqrt(width) * rng.standard_normal(weight.shape, np.float32))


def _masses(children, counts):
    """Counts below the two edges of each node; nodes come before those below them."""
    masses = np.zeros(children.shape)
    for node in reversed(range(len(children))):
        for edge, child in enumerate(children[node]):
            masses[node, edge] = masses[child].sum() if child >= 0 else counts[-1 - child]
    return masses.T


def trained(directory):
    """A run's head and hidden states of sentences that it draws, (positions, D)."""
    import keras

    from tfsoftmax.lm import runs
    from tfsoftmax.lm.generation import sample

    model, vocabulary, _ = runs.load(directory, streams=64, time_steps=1)
    sentences = sample(model, vocabulary, count=64, max_words=20)
    flat = ["<eos>", *(word for words in sentences for word in [*words, "<eos>"])]
    reader, _, _ = runs.load(directory, streams=None, stateful=False)
    head = reader.get_layer("head")
    hidden = keras.Model(reader.input, head.input)(vocabulary.encode(flat)[None], training=False)
    return head, np.random.default_rng(0).permutation(hidden[0].numpy())


def times(head, hidden, k):
    """Median seconds of `top_k` and of all log-probabilities, which take turns."""
    import tensorflow as tf

    ways = [
        tf.function(lambda hidden: head.top_k(hidden, k)),
        tf.function(lambda hidden: tf.math.top_k(head.log_probs(hidden), k)[::-1]),
    ]
    hidden = tf.constant(hidden)
    (ids, values), (all_ids, all_values) = (way(hidden) for way in ways)
    np.testing.assert_allclose(values, all_values, atol=1e-3)
    assert np.mean(ids.numpy() == all_ids.numpy()) > 0.99  # but for ties by rounding
    seconds = [[], []]
    for _ in range(flags.FLAGS.repeats):
        for way, taken in zip(ways, seconds):
            start = time.perf_counter()
            way(hidden)[0].numpy()
            taken.append(time.perf_counter() - start)
    return [statistics.median(taken) for taken in seconds]


def rows_of(name, head, hidden):
    """Lines of the table of one head."""
    for count in map(int, flags.FLAGS.positions):
        for k in KS:
            own, full = times(head, hidden[:count], k)
            row = (
                f"| {name} | {head.vocab_size:,} | {count} | {k} | {1000 * own:,.2f} "
                f"| {1000 * full:,.2f} | {full / own:,.1f} |"
            )
            print(row, flush=True)
            yield row


def main(_):
    from tfsoftmax.hardware import hardware

    options, lines = flags.FLAGS, []
    for size in map(int, options.vocab_sizes):
        shape = max(map(int, options.positions)), options.units
        hidden = np.random.default_rng(1).standard_normal(shape, np.float32)
        for name, head in untrained(size).items():
            lines += rows_of(name, head, hidden)
    for directory in options.runs:
        head, hidden = trained(directory)
        lines += rows_of(
            f"{type(head).__name__}, trained ({pathlib.Path(directory).name})", head, hidden
        )
    command = "python -m experiments.benchmarks.likeliest_words"
    command += " --runs=…" * bool(options.runs)
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "README.md").write_text("\n".join([
        "# The likeliest words: `top_k` of a head against all its log-probabilities", "",
        f"`{command}` on {hardware()}; heads without "
        f"training of D = {options.units} units with Zipf's biases and log-probabilities that "
        f"differ by about {SPREAD:g} nats between contexts. Medians of {options.repeats} calls; "
        "both ways take turns and find the same words. Positions are sentences side by side; k is "
        "2 when generation is greedy, 10 for a beam of 8, 41 for top-k of 40. Trained heads are "
        "those of `tfsoftmax train`'s runs, at the hidden states of sentences that they draw.", "",
        "| | V | positions | k | top_k, ms | all V, ms | times as fast |",
        "|---|---:|---:|---:|---:|---:|---:|", *lines, "",
    ]), encoding="utf-8")


if __name__ == "__main__":
    app.run(main)
