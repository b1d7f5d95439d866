"""Measures the first step of heads of up to ten million words, and the memory that saving takes.

    python -m experiments.measurements.first_steps
    python -m experiments.measurements.first_steps --heads=adaptive,tree --vocab_sizes=10000,1000000

Each head runs in a process of its own: an embedding of 1,000 hashed words, a tanh layer and the
head, trained by Adagrad. Adaptive softmax has the cutoffs 4,000 and V / 5, and the tree is a
Huffman tree; both take counts in no order, by Zipf's law. The parts of a first step are

- made: the head is made, with its order or its tree, and built, with its initial weights,
- slots: the optimiser is built,
- first: the first step, with its tracing,

and operations are those of the traced step. Memory is the most that the process held while it
trained, and the most that it held beyond that before it saved. Writes
experiments/results/first_steps/README.md.
"""

import os
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import tfsoftmax_command  # noqa: F401  (imported before the package, which then skips TensorFlow)
from absl import flags

from experiments.benchmarks.measure import in_a_process
from experiments.framework import markdown
from tfsoftmax.commands import program

HASHED = 1000
HEADS = ("full", "adaptive", "sampled", "tree")


def head_of(name, vocab_size):
    """A head by the name in the table."""
    from tfsoftmax import heads

    if name == "full":
        return heads.FullSoftmax(vocab_size)
    if name == "sampled":
        return heads.SampledSoftmax(vocab_size, 256, "log_uniform")
    counts = np.maximum(1, 10**9 // np.arange(1, vocab_size + 1))
    counts = np.random.default_rng(0).permutation(counts)
    if name == "tree":
        return heads.TreeSoftmax(vocab_size, counts=counts)
    cutoffs = sorted({min(4000, vocab_size // 50), vocab_size // 5})
    return heads.AdaptiveSoftmax(vocab_size, cutoffs, counts=counts)


def operations_of(model, batch):
    """The number of operations of the traced step of a model."""
    import tensorflow as tf

    step = tf.function(model.train_step).get_concrete_function(batch).graph.as_graph_def()
    return len(step.node) + sum(len(f.node_def) for f in step.library.function)


def measured(name, vocab_size, units=64, positions=64, folder=None):
    """What one head takes, in this process.

    Args:
        name: one of HEADS.
        vocab_size: V.
        units: D.
        positions: labels in a step.
        folder: where the model is saved for a while; None: it is not.

    Returns:
        dict: seconds of each part, operations, and bytes.
    """
    import keras
    import tensorflow as tf

    from tfsoftmax.losses import SoftmaxLoss
    from tfsoftmax.optimizers import Adagrad
    from tfsoftmax.profiling.memory import peak_resident_bytes
    from tfsoftmax.support.mends import mend_keras

    keras.utils.set_random_seed(1)
    rng = np.random.default_rng(0)
    words = rng.integers(0, HASHED, positions).astype(np.int32)
    labels = np.int32(vocab_size ** rng.random(positions)) - 1
    batch = tf.constant(words), tf.constant(labels)
    tokens = keras.Input((), dtype="int32")
    embedded = keras.layers.Embedding(HASHED, units)(tokens)
    hidden = keras.layers.Dense(units, activation="tanh")(embedded)
    found, start = {}, time.perf_counter()

    def lap(part):
        nonlocal start
        now = time.perf_counter()
        found[part], start = now - start, now

    head = head_of(name, vocab_size)
    model = keras.Model(tokens, head(hidden))
    lap("made")
    model.compile(Adagrad(0.1), SoftmaxLoss())
    model.optimizer.build(model.trainable_variables)
    lap("slots")
    model.train_on_batch(*batch)
    lap("first")
    model.train_on_batch(*batch)
    lap("second")
    found["peak"] = peak_resident_bytes()
    found["weights"] = _bytes(model.weights)
    found["written"] = found["weights"] + _bytes(model.optimizer.variables)
    if folder is not None:
        mend_keras()
        path = os.path.join(folder, "model.keras")
        found["saving"] = _memory_of(lambda: model.save(path))
        found["file"] = os.path.getsize(path)
        os.remove(path)
    found["operations"] = operations_of(model, batch)
    return found


def _bytes(variables):
    return sum(int(np.prod(v.shape)) * np.dtype(v.value.dtype.as_numpy_dtype).itemsize
               for v in variables)


def _memory_of(function):
    """The most bytes that the process holds during a call, beyond what it held before."""
    from tfsoftmax.profiling.memory import resident_bytes

    before, done = resident_bytes(), threading.Event()
    peaks = [before]

    def watch():
        while not done.wait(0.002):
            peaks.append(max(peaks.pop(), resident_bytes()))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        function()
    finally:
        done.set()
        thread.join()
    return peaks[0] - before


def page_of(results, units, positions, machine):
    """Blocks of the page.

    Args:
        results: {(name, V): what `measured` returns}.
        units, positions: D, and labels in a step.
        machine: its description.
    """
    gib = 1 << 30
    times = [["head", "V", "made, s", "slots, s", "first, s", "in all, s", "second step, s",
              "operations", "most memory, GiB"]]
    files = [["head", "V", "weights, GiB", "file over weights and slots",
              "memory beside the weights, over their bytes"]]
    for (name, vocab_size), r in results.items():
        parts = [r[part] for part in ("made", "slots", "first")]
        seconds = [f"{s:.1f}" for s in (*parts, sum(parts), r["second"])]
        size = f"{vocab_size:,}"
        times.append([name, size, *seconds, f"{r['operations']:,}", f"{r['peak'] / gib:.1f}"])
        if "file" in r:
            files.append([
                name, size, f"{r['weights'] / gib:.2f}", f"{r['file'] / r['written']:.2f}",
                f"{r['saving'] / r['weights']:.2f}",
            ])
    return [
        "# First steps of large vocabularies",
        __doc__.partition("\n\n")[2].strip("\n"),
        f"D = {units}, {positions} positions a step, float32, on {machine}:",
        markdown.table(times),
        "Saved as a `.keras` file with the optimiser's slots:" if files[1:] else "",
        markdown.table(files) if files[1:] else "",
    ]


def main():
    """Writes the page."""
    program.load_tensorflow()
    from tfsoftmax.support.hardware import hardware

    options = flags.FLAGS
    results = {}
    for vocab_size in map(int, options.vocab_sizes):
        for name in options.heads:
            with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
                results[name, vocab_size] = in_a_process(
                    measured, name, vocab_size, options.units, options.positions, folder
                )
            print(name, vocab_size, results[name, vocab_size], flush=True)
    blocks = page_of(results, options.units, options.positions, hardware())
    print(markdown.write(Path(options.results) / "README.md", *blocks))


if __name__ == "__main__":
    flags.DEFINE_list("heads", [*HEADS], "Heads, of " + ", ".join(HEADS) + ".")
    flags.DEFINE_list("vocab_sizes", ["10000", "1000000", "10000000"], "Numbers of words V.")
    flags.DEFINE_integer("units", 64, "Units D.")
    flags.DEFINE_integer("positions", 64, "Positions of a step.")
    flags.DEFINE_string("scratch", None, "Directory in which models are saved for a while.")
    flags.DEFINE_string("results", "experiments/results/first_steps", "Directory of the page.")
    program.run(main, __doc__, sys.argv)
