"""The likeliest words: a head's own `top_k` compared with the k best of all V log-probabilities.

    python -m experiments.benchmarks.likeliest_words
    python -m experiments.benchmarks.likeliest_words --runs=runs/adaptive,runs/tree

These are the calls of generation at each step: greedy generation has k = 2, because <unk> is left
out, a beam of 8 has k = 10, and sampling from the 40 best has k = 41. The heads are untrained:
their biases follow Zipf's law, and kernels and hidden states are drawn so that the log-probability
of a word differs between contexts by about two nats. --runs adds trained heads, at the hidden
states of sentences that they draw themselves.

Both ways take turns and must find the same words; the medians count. Writes
experiments/results/likeliest_words/README.md.
"""

import sys
from pathlib import Path

import numpy as np
import tfsoftmax_command  # noqa: F401  (imported before the package, which then skips TensorFlow)
from absl import flags

from experiments.benchmarks.measure import medians
from experiments.benchmarks.uses import SPREAD, likeliest_heads
from experiments.framework import markdown
from tfsoftmax.commands import program

RESULTS = Path("experiments/results/likeliest_words")
HEADINGS = ["", "V", "positions", "k", "top_k, ms", "all V, ms", "times as fast"]
KS = (2, 10, 41)


def trained(directory):
    """The head of a run, and hidden states (positions, D) of sentences that the run draws."""
    import keras

    from tfsoftmax.lm.generation import Generator
    from tfsoftmax.runs import runs

    model, vocabulary, _ = runs.load(directory, streams=64, time_steps=1)
    sentences = Generator(model, vocabulary).sample(max_words=20)
    flat = ["<eos>", *(word for words in sentences for word in [*words, "<eos>"])]
    reader, _, _ = runs.load(directory, streams=None, stateful=False)
    head = reader.get_layer("head")
    hidden = keras.Model(reader.input, head.input)(vocabulary.encode(flat)[None], training=False)
    return head, np.random.default_rng(0).permutation(hidden[0].numpy())


def times(head, hidden, k, repeats):
    """Median seconds of `top_k` and of all log-probabilities, which take turns."""
    import tensorflow as tf

    hidden = tf.constant(hidden)
    own = tf.function(lambda: head.top_k(hidden, k))
    full = tf.function(lambda: tf.math.top_k(head.log_probs(hidden), k)[::-1])
    (ids, values), (all_ids, all_values) = own(), full()
    np.testing.assert_allclose(values, all_values, atol=1e-3)
    if np.mean(ids.numpy() == all_ids.numpy()) <= 0.99:  # rounding may swap words of equal rank
        raise RuntimeError(f"{head.name}: `top_k` found other words than all log-probabilities.")
    functions = {"own": lambda: own()[0].numpy(), "full": lambda: full()[0].numpy()}
    return [wall for wall, _ in medians(functions, repeats).values()]


def rows_of(name, head, hidden, options):
    """The rows of one head in the table."""
    for count in map(int, options.positions):
        for k in KS:
            own, full = times(head, hidden[:count], k, options.repeats)
            row = [name, f"{head.vocab_size:,}", str(count), str(k), f"{1000 * own:,.2f}",
                   f"{1000 * full:,.2f}", f"{full / own:,.1f}"]
            print(*row, sep=" | ", flush=True)
            yield row


def main():
    program.load_tensorflow()
    from tfsoftmax.support.hardware import hardware

    options, rows = flags.FLAGS, []
    for size in map(int, options.vocab_sizes):
        shape = max(map(int, options.positions)), options.units
        hidden = np.random.default_rng(1).standard_normal(shape, np.float32)
        for name, head in likeliest_heads(size, options.units):
            rows += rows_of(name, head, hidden, options)
    for directory in options.runs:
        head, hidden = trained(directory)
        name = f"{type(head).__name__}, trained ({Path(directory).name})"
        rows += rows_of(name, head, hidden, options)
    write(rows, hardware(), options.units, options.repeats, bool(options.runs))


def write(rows, hardware, units, repeats, with_runs):
    """Writes the page of results."""
    command = "python -m experiments.benchmarks.likeliest_words" + " --runs=…" * with_runs
    markdown.write(
        RESULTS / "README.md",
        "# The likeliest words: `top_k` of a head compared with all its log-probabilities",
        f"`{command}` on {hardware}. The untrained heads have D = {units} units, biases by Zipf's "
        f"law, and log-probabilities that differ between contexts by about {SPREAD:g} nats. "
        f"Medians of {repeats} calls; both ways take turns and find the same words. Positions are "
        "sentences side by side; k is 2 for greedy generation, 10 for a beam of 8, and 41 for "
        "sampling from the 40 best. Trained heads are those of runs of `tfsoftmax train`, at the "
        "hidden states of sentences that they draw.",
        markdown.table([HEADINGS, *rows]),
    )


if __name__ == "__main__":
    flags.DEFINE_list("vocab_sizes", ["50000", "200000"], "Sizes V of the vocabulary.")
    flags.DEFINE_list("positions", ["1", "64"], "Numbers of positions in a call.")
    flags.DEFINE_integer("units", 256, "Units D of the hidden state.")
    flags.DEFINE_integer("repeats", 15, "Number of timed calls of each way.")
    flags.DEFINE_list("runs", [], "Directories of trained runs to measure as well.")
    program.run(main, __doc__, sys.argv)
